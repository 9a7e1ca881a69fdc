"""Lengths of time as people write them: "30s", "5min", "3h", "2d"."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from gaussveil.errors import ParameterError

_MINUTES = {"s": Fraction(1, 60), "min": Fraction(1), "m": Fraction(1), "h": Fraction(60), "d": Fraction(24 * 60)}
_DURATION = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_MINUTES)})\s*", re.ASCII)


def duration_minutes(text: object) -> Fraction | None:
    """The minutes, exactly; None where this is no such text."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else Fraction(found[1]) * _MINUTES[found[2]]


def hours(name: str, value: Any) -> float:
    """A duration in hours, from a number of hours or text such as "5min", "1h", "2d"."""
    minutes = duration_minutes(value)
    if minutes is not None:
        length = float(minutes / 60)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = float(value)
    else:
        raise ParameterError(f'{name} must be hours, or text such as "5min", "1h" or "2d". Got {value!r}.')
    if not 0 < length < math.inf:
        raise ParameterError(f"{name} must be longer than nothing and finite. Got {value!r}.")
    return length
