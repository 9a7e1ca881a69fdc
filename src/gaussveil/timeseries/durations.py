"""Lengths of time as people write them: "30s", "5min", "3h", "2d"."""

from __future__ import annotations

import re
from fractions import Fraction

_MINUTES = {"s": Fraction(1, 60), "min": Fraction(1), "m": Fraction(1), "h": Fraction(60), "d": Fraction(24 * 60)}
_DURATION = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_MINUTES)})\s*", re.ASCII)


def duration_minutes(text: object) -> Fraction | None:
    """The minutes, exactly; None where this is no such text."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else Fraction(found[1]) * _MINUTES[found[2]]
