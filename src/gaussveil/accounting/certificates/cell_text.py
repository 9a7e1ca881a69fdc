"""One cell of a table as text that every file format and every library leaves as it is."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np

BITS = 44
DIGITS = 13
LONGEST = 300  # digits and sign of a whole number that surely is a double
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")  # of more Python makes no number
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?(?:\s*(Z|[+-]\d\d:?\d\d))?)?"
)
_MISSING = frozenset(
    {"", "nan", "-nan", "null", "none", "na", "n/a", "<na>", "nat", "#n/a"}
)
_INFINITE = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
}


def cell_text(value: Any) -> str:
    """One cell in the form that every file and library leaves as it is."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        if value:
            return "true"
        return "false"
    if isinstance(value, int | np.integer):
        return _whole_text(int(value))
    if isinstance(value, float | np.number | Decimal):
        return _number_text(value)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return ""
        return _word(str(value))
    if isinstance(value, datetime.date):
        return _word("" if str(value) == "NaT" else value.isoformat())
    return _word(str(value))


def _word(text: str) -> str:
    """A text that reads as a number, a time, a truth value or nothing is that, whoever wrote it."""
    text = unicodedata.normalize("NFC", text.strip())
    if text.startswith(
        "/"
    ):  # nothing of what follows begins so, but every place in a document
        return text
    lowered = text.lower()
    if lowered in _MISSING:
        return ""
    if lowered in _INFINITE:
        return _INFINITE[lowered]
    if lowered in ("true", "false"):
        return lowered
    if _WHOLE.fullmatch(text):
        return _whole_text(int(text))
    if _NUMBER.fullmatch(text):
        return _number_text(float(text))
    if _TIME.fullmatch(text):
        return _time_text(text)
    return text


def _whole_text(number: int) -> str:
    """A released number as it is; identifiers, of more bits and digits than those have, keep all their digits."""
    digits = str(number)
    if len(digits.lstrip("-").rstrip("0")) <= DIGITS:
        if len(digits) < LONGEST:
            return _number_text(number)
        return digits
    if len(digits) < LONGEST:
        near = float(nearest(float(number)))
    else:
        near = math.inf
    same = abs(near) < math.inf and number in (
        int(near),
        int(Decimal(repr(near))),
    )  # as programs write a double
    if same:
        return near.hex()
    return digits


def _number_text(number: Any) -> str:
    value = float(number)
    if value != value:
        return ""
    return float(nearest(value)).hex()


def _time_text(text: str) -> str:
    """A time without zeros at its end, on the clock of UTC where it names its zone; midnight is the day alone."""
    time = _TIME.fullmatch(text)
    assert time is not None
    day, clock, fraction, zone = time.groups()
    if clock is None:
        return day
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}")
        if zone and zone != "Z":
            if zone[0] == "+":
                sign = -1
            else:
                sign = 1
            moment += sign * datetime.timedelta(
                hours=int(zone[1:3]), minutes=int(zone[-2:])
            )
    except (ValueError, OverflowError):
        return text
    rest = (fraction or "").rstrip("0").rstrip(".") + ("Z" if zone else "")
    plain = moment.isoformat()
    if not rest:
        return plain.removesuffix("T00:00:00")
    return plain + rest


def nearest(numbers: Any) -> Any:
    """The nearest numbers of 44 significant bits."""
    mantissa, exponent = np.frexp(numbers)
    with np.errstate(over="ignore"):
        return np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS) + 0.0
