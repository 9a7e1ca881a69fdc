"""One way to write a record as bytes, so that digests and signatures mean the same on every machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from gaussveil.errors import FormatError, ParameterError

DEPTH = 32  # of nested lists and objects; ours have fewer than ten
LARGEST_BITS = 1023  # of whole numbers, so that each is a float


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(record: object) -> str:
    """Sorted keys, no spaces, shortest exact floats; NaN, infinity and text that is no Unicode are refused."""
    try:
        text = _ENCODER.encode(record)
        text.encode()
        return text
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"a record must hold only finite numbers, text, booleans, lists and mappings: {error}"
        ) from error


def parse_json(body: str, what: str, *, check: bool = True) -> object:
    """Read JSON that may come from a stranger: no repeated keys, no infinities, no depth or size that breaks us.

    Without `check`, whoever reads its parts must see to all but the repeated keys.
    """
    try:
        record: object = json.loads(body, object_pairs_hook=_unrepeated)
    except RecursionError:
        raise FormatError(f"{what} must not be nested deeper than {DEPTH}") from None
    except ValueError as error:
        # Besides bad JSON: integers of thousands of digits.
        raise FormatError(f"{what} must be JSON: {error}") from error
    if check:
        return within_limits(record, what)
    return record


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise FormatError(
            "a JSON object must not repeat a key: readers would disagree on what it says"
        )
    return record


def _check_size(value: object, what: str) -> None:
    """Refuse a number that is no finite float, or is very long, and text that is none."""
    if isinstance(value, str):
        if not value.isascii() and any(map(_is_surrogate, value)):
            raise FormatError(f"{what} must hold valid Unicode. Got a lone surrogate.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise FormatError(f"{what} must hold finite numbers only. Got {value}.")
    elif isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        raise FormatError(
            f"{what} holds a whole number of {value.bit_length()} bits; at most {LARGEST_BITS} fit"
        )


def _is_surrogate(letter: str) -> bool:
    return "\ud800" <= letter <= "\udfff"


def within_limits(record: object, what: str) -> object:
    """Give the record back unless it is too deep, holds a number that is no finite float, or text that is none."""
    level: list[object] = [record]
    for _ in range(DEPTH + 1):
        below: list[object] = []
        for value in level:
            if isinstance(value, list | tuple):
                below += value
            elif isinstance(value, dict | Mapping):
                below += value
                below += value.values()
            else:
                _check_size(value, what)
        if not below:
            return record
        level = below
    raise FormatError(f"{what} must not be nested deeper than {DEPTH}")


def digest(record: object) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()


_PLAIN = {str, int, bool}


def _finite(value: float, where: str) -> float:
    """A number that JSON can hold."""
    if not math.isfinite(value):
        raise ParameterError(f"{where} must be finite to be written down. Got {value}.")
    return value


def plain(value: object, where: str) -> object:
    """Turn a public parameter into plain JSON values (NumPy scalars and arrays become numbers and lists)."""
    if type(value) in _PLAIN:  # most are
        return value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _finite(value, where)
    if isinstance(value, dict | Mapping):
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, where) for item in value]
    raise ParameterError(
        f"{where} must be a number, text, list or mapping. Got {type(value).__name__}. "
        "Private values and objects are never written into a certificate."
    )


class FrozenRecord(Mapping[str, object]):
    """A read-only mapping of plain JSON values; unlike a mapping proxy it can be pickled."""

    def __init__(self, record: Mapping[str, object]) -> None:
        self._record = {
            str(key): plain(value, str(key)) for key, value in record.items()
        }

    def __getitem__(self, key: str) -> object:
        return self._record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def __repr__(self) -> str:
        return repr(self._record)


def fields(
    record: object, what: str, required: tuple[str, ...]
) -> Mapping[str, object]:
    """Check that a parsed JSON value is an object that has the required fields."""
    if not isinstance(record, dict | Mapping):
        raise FormatError(f"{what} must be a JSON object. Got {type(record).__name__}.")
    missing = [name for name in required if name not in record]
    if missing:
        raise FormatError(
            f"{what} lacks the field {missing[0]!r}; it needs {', '.join(required)}"
        )
    return record


def number(record: Mapping[str, object], name: str, what: str) -> float:
    """Read a finite number from a parsed record."""
    value = record.get(name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
    ):
        raise FormatError(
            f"{what}: the field {name!r} must be a finite number. Got {type(value).__name__}."
        )
    return float(value)


def text(record: Mapping[str, object], name: str, what: str) -> str:
    """Read text from a parsed record."""
    value = record.get(name)
    if not isinstance(value, str):
        raise FormatError(
            f"{what}: the field {name!r} must be text. Got {type(value).__name__}."
        )
    return value


def decoded(kind: Any, value: object, what: str) -> Any:
    """A parsed value as a dataclass declares it: its fields by name, tuples, text, whole numbers and others.

    For records within the limits: nothing but types and lengths is looked at.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        return _decoded_record(kind, value, what)
    if get_origin(kind) is tuple:
        return _decoded_items(get_args(kind), value, what)
    if isinstance(value, bool) or not isinstance(
        value, int | float if kind is float else kind
    ):
        raise FormatError(
            f"{what} must be {_IN_WORDS[kind]}. Got {type(value).__name__}."
        )
    return kind(value)


@lru_cache
def _declared(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclass_fields(kind)}


_IN_WORDS = {float: "a number", int: "a whole number", str: "text"}


def _decoded_record(kind: Any, value: object, what: str) -> Any:
    declared = _declared(kind)
    record = fields(value, what, tuple(declared))
    return kind(
        **{
            name: decoded(own, record[name], f"{name!r} of {what}")
            for name, own in declared.items()
        }
    )


def _decoded_items(kinds: tuple[Any, ...], value: object, what: str) -> tuple[Any, ...]:
    """Items of one kind, as many as there are, or of a kind each."""
    of_any_length = kinds[-1] is Ellipsis
    if not isinstance(value, list | tuple) or (
        not of_any_length and len(value) != len(kinds)
    ):
        raise FormatError(f"{what} must be a list of the declared length")
    if of_any_length:
        kinds = kinds[:1] * len(value)
    return tuple(
        decoded(kind, item, f"an item of {what}") for kind, item in zip(kinds, value)
    )
