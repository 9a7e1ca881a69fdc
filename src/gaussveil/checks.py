"""Ranges and choices of parameters, checked once and refused in one sentence: "{name} must be {rule}. Got {value!r}."

The sentence quotes the value, so these are for public parameters only, never for a value of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

from gaussveil.errors import ParameterError

Choice = TypeVar("Choice")
Checked = TypeVar("Checked")

LARGEST_EPSILON = 500.0  # beyond it a promise is none, and doubles no longer tell epsilons from their neighbours
SMALLEST_DELTA = 1e-100  # far below, the square of a mean shift underflows
SIZES = "[1e-40, 1e40]"  # of norms and ranges: a product of three, squared, is still a number


def real(name: str, value: object, interval: str = "(-inf, inf)") -> float:
    """A number inside an interval as it is written: "(0, 1)", "[0, inf)"; text, arrays and truth values are refused."""
    too_long = (
        isinstance(value, Integral) and int(value).bit_length() > 1023
    )  # no double holds it
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or too_long
        or not _inside(float(value), interval)
    ):
        refuse(name, _range_in_words("a finite number", interval), value)
    return float(value)


def positive(name: str, value: object) -> float:
    """A finite number above zero."""
    return real(name, value, "(0, inf)")


def size(name: str, value: object) -> float:
    """A norm whose square neither vanishes nor overflows."""
    return real(name, value, SIZES)


def span(name: str, value: Any) -> tuple[float, float]:
    """A range (low, high) of such a size, wherever it lies within such numbers."""
    try:
        low, high = value
    except (TypeError, ValueError):
        refuse(name, "a range (low, high) of two numbers", value)
    low = real(name, low)
    high = real(name, high)
    if not (low < high and max(abs(low), abs(high)) <= 1e40 and high - low >= 1e-40):
        refuse(
            name,
            "a range (low, high) with low < high, within 1e40 and at least 1e-40 wide",
            f"{low:g}, {high:g}",
        )
    return low, high


def whole(name: str, value: object, interval: str = "[1, inf)") -> int:
    """A whole number inside an interval."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral)
        or not _inside(int(value), interval)
    ):
        refuse(name, _range_in_words("a whole number", interval), value)
    return int(value)


def one_of(name: str, value: Choice, choices: Iterable[Choice]) -> Choice:
    """One of a few choices."""
    listed = tuple(choices)
    if value not in listed:
        refuse(name, f"one of {', '.join(map(repr, listed))}", value)
    return value


def epsilon(value: object) -> float:
    """The epsilon of a promise, the same range for every mechanism and account."""
    return real("epsilon", value, f"[0, {LARGEST_EPSILON:g}]")


def delta(value: object) -> float:
    """The delta of a promise."""
    return real("delta", value, f"[{SMALLEST_DELTA:g}, 1)")


def delta_or_none(value: object) -> float:
    """The same, or 0 where no noise needs one."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    return delta(value)


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """The one sentence."""
    plain = value is None or isinstance(value, str | int | float)
    raise ParameterError(
        f"{name} must be {rule}. Got {repr(value) if plain else f'a {type(value).__name__}'}."
    )


def _inside(value: float, interval: str) -> bool:
    low, low_included, high, high_included = _ends(interval)
    if low_included:
        above = low <= value
    else:
        above = low < value
    if high_included:
        below = value <= high
    else:
        below = value < high
    return above and below


@lru_cache(maxsize=256)
def _ends(interval: str) -> tuple[float, bool, float, bool]:
    low, high = (float(end) for end in interval[1:-1].split(","))
    return low, interval[0] == "[", high, interval[-1] == "]"


def _range_in_words(kind: str, interval: str) -> str:
    low, low_included, high, _ = _ends(interval)
    if not math.isinf(high):
        return f"{kind.replace('finite ', '')} in {interval}"
    if math.isinf(low):
        return kind
    return f"{kind}, {'at least' if low_included else 'above'} {interval[1:-1].split(',')[0]}"
