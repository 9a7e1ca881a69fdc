"""What is computed from private data for the owner's eyes only.

Utility, true curves and audits are useful to the owner and ruinous to share. They travel in a `PrivateDiagnostics`,
which shows names but never values, refuses pickling and JSON, and is written only when asked, marked as private.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn, SupportsIndex

from gaussveil.accounting.canonical import plain
from gaussveil.errors import ParameterError, PrivacyError
from gaussveil.files import PRIVATE, json_values, write_whole

MARK = "contains private data, do not share"
FORMAT = "gaussveil private diagnostics"
VERSION = 1


class PrivateDiagnostics:
    """Named private values; read one with `diagnostics["name"]`, write all with `diagnostics.write(path)`.

    Args:
        values: what was measured on private records, by name.

    >>> from gaussveil import PrivateDiagnostics
    >>> seen = PrivateDiagnostics(divergence=0.25)
    >>> seen.merged(rows=100)["divergence"]
    0.25
    """

    __slots__ = ("_values",)

    def __init__(self, **values: object) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> object:
        try:
            return self._values[name]
        except KeyError:
            raise ParameterError(
                f"no diagnostic named {name!r}; there are {', '.join(self) or 'none'}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"PrivateDiagnostics({', '.join(self)}: {MARK})"

    def __format__(self, specification: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise PrivacyError(
            "PrivateDiagnostics are not pickled or copied by accident; use .write(path) to keep them"
        )

    def merged(self, **more: object) -> PrivateDiagnostics:
        """Give a new container that also holds `more`.

        Returns:
            A container of both; of a name that both have, the new value.
        """
        return PrivateDiagnostics(**{**self._values, **more})

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write to a JSON file that only the owner of the process can read and that says what it is.

        Args:
            path: the file to write.

        Returns:
            Where it was written.
        """
        record = {
            "warning": MARK,
            "format": FORMAT,
            "version": VERSION,
            "values": {
                name: plain(_opened(value), name)
                for name, value in self._values.items()
            },
        }
        return write_whole(
            path, json.dumps(record, indent=2, allow_nan=False) + "\n", PRIVATE
        )


def _opened(value: object) -> object:
    if isinstance(value, PrivateDiagnostics | Mapping):
        return {name: _opened(value[name]) for name in value}
    if isinstance(value, list | tuple):
        return [_opened(item) for item in value]
    return json_values(value)


def refuse_private(value: object, where: str) -> None:
    """Raise if `value` is, or directly holds, private diagnostics."""
    holds_private = isinstance(value, PrivateDiagnostics)
    if isinstance(value, Mapping):
        holds_private = any(
            isinstance(item, PrivateDiagnostics) for item in value.values()
        )
    elif isinstance(value, list | tuple):
        holds_private = any(isinstance(item, PrivateDiagnostics) for item in value)
    if holds_private:
        raise PrivacyError(
            f"{where} must hold released or public values only. Got PrivateDiagnostics."
        )
