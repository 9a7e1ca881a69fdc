"""What the cells of a column are, where nobody said: numbers, times of one form, truth values, or text.

What most cells are decides, and the others are missing. By no cell is it decided whether a day may be a month.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence

from gaussveil.engines.dialect import NOTHING

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "-"))
NUMBER = re.compile(
    r"[+-]?((\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?|inf(inity)?)", re.IGNORECASE
)
COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_DAY_LETTERS = len("2024-03-31")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?"
)
_OTHER_TIME = re.compile(
    r"(?P<first>\d{1,2}|\d{4})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{1,2})"
    r"((?P<gap>,? |T)(?P<clock>\d{1,2}:\d\d(?P<seconds>:\d\d)?(?P<half> ?[AP]M)?))?",
    re.IGNORECASE,
)


def is_missing(cell: str, marks: Sequence[str]) -> bool:
    """Whether a cell says by a public word that nothing is there."""
    return cell.lower() in _MISSING or cell in marks


def column_kind(
    cells: Mapping[str, int], decimal: str, time_format: str | None
) -> tuple[str, str | None]:
    """SQL type of what most cells are, and the form of their times; text with a form where that is one of two."""
    total = sum(cells.values())
    if not total:
        return NOTHING, None
    if time_format and 2 * _number_fitting(cells, time_format) > total:
        return _kind_of_format(time_format), time_format
    alike: dict[object, dict[str, int]] = {}
    for cell, count in cells.items():
        alike.setdefault(_likeness(cell, decimal), {})[cell] = count
    likeness, most = max(alike.items(), key=lambda pair: sum(pair[1].values()))
    if likeness is None or 2 * sum(most.values()) <= total:
        return "VARCHAR", None
    return _kind_of_likeness(likeness, most)


def _number_fitting(cells: Mapping[str, int], time_format: str) -> int:
    return sum(count for cell, count in cells.items() if _fits(cell, time_format))


def _kind_of_likeness(
    likeness: object, most: Mapping[str, int]
) -> tuple[str, str | None]:
    """SQL type of cells that are alike, and the form of their times."""
    if likeness == "number":
        whole = all(map(_WHOLE.fullmatch, most))
        return ("BIGINT" if whole else "DOUBLE"), None
    if likeness == "truth":
        return "BOOLEAN", None
    if isinstance(likeness, bool):
        return _kind_of_iso(most, zoned=likeness), None
    assert isinstance(likeness, tuple)
    return _other_time(likeness)


def _kind_of_format(time_format: str) -> str:
    if "%z" in time_format:
        return "TIMESTAMPTZ"
    if re.search("%[HIMSpfTRXc]", time_format):
        return "TIMESTAMP"
    return "DATE"


def _kind_of_iso(cells: Mapping[str, int], *, zoned: bool) -> str:
    """Days where most are; one clock among them makes no times of the days."""
    days = sum(count for cell, count in cells.items() if len(cell) == _DAY_LETTERS)
    if zoned:
        return "TIMESTAMPTZ"
    if 2 * days > sum(cells.values()):
        return "DATE"
    return "TIMESTAMP"


def _is_name(cell: str) -> bool:
    """Whether digits are a name, which keeps its zeros and its length."""
    if not cell.isdecimal():
        return False
    return len(cell) > 18 or (cell[0] == "0" and len(cell) > 1)


def _likeness(cell: str, decimal: str) -> object:
    """What cells of one column have in common: numbers, truth values, times with or without a zone or of a shape."""
    if _is_name(cell):
        return None
    number = NUMBER if decimal == "." else COMMA_NUMBER
    if _WHOLE.fullmatch(cell) or number.fullmatch(cell):
        return "number"
    if cell.lower() in ("true", "false"):
        return "truth"
    if match := _ISO.fullmatch(cell):
        return match["zone"] is not None
    if match := _OTHER_TIME.fullmatch(cell):
        return _shape(match)
    return None


def _other_time(shape: tuple[str, bool, bool, str]) -> tuple[str, str | None]:
    """The form of times of a shape; by no cell of theirs, but by the shape alone: 13/01/2024 speaks for itself only."""
    mark, year_first, year_last, clock = shape
    if year_first and year_last:
        return "VARCHAR", None
    if year_last:
        year = "%Y"
    else:
        year = "%y"
    # points: day first
    if year_first:
        form = "%Y{0}%m{0}%d"
    else:
        form = "%d{0}%m{0}" + year
    if clock:
        kind = "TIMESTAMP"
    else:
        kind = "DATE"
    return ("VARCHAR" if mark != "." and not year_first else kind), form.format(
        mark
    ) + clock


def _shape(match: re.Match[str]) -> tuple[str, bool, bool, str]:
    return (
        match["mark"],
        len(match["first"]) == 4,
        len(match["last"]) == 4,
        _clock(match),
    )


def _clock(match: re.Match[str]) -> str:
    if match["clock"] is None:
        return ""
    if match["half"]:
        hours = "%I:%M"
    else:
        hours = "%H:%M"
    half = re.sub("[AP]M", "%p", (match["half"] or "").upper())
    return match["gap"] + hours + (":%S" if match["seconds"] else "") + half


def _fits(cell: str, form: str) -> bool:
    try:
        datetime.datetime.strptime(cell, form)
    except ValueError:
        return False
    return True
