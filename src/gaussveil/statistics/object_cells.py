"""A column of objects, as pandas holds cells of several types: it is what most of its cells are.

The others are missing, each by itself: a text among days makes no text of the days, and bytes among texts no bytes of
the texts. Arrow would refuse such a column or call it something else, for the sake of a single cell.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.containers import RAISED_BY_CELLS, cell_name, cell_number, is_missing

_EXACT = 2**53  # beyond which doubles do not tell whole numbers apart
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "text"),
    ((bool, np.bool_), "truth"),
    ((Real, Decimal), "number"),
    (datetime.datetime, "time"),
    (datetime.date, "date"),
    (datetime.time, "clock"),
    (datetime.timedelta, "span"),
    (bytes, "bytes"),
)


def object_column(cells: list[Any]) -> pa.Array:
    """The column that most of the cells make up; text, each cell by its name, where no kind is that of most.

    Args:
        cells: Whatever stands in the column; None, NaN and what is not even equal to itself are missing.

    Returns:
        Numbers, truth values, times, days, bytes or text; of no type where nothing is there.

    Example:
        >>> object_column([1, 2, "unknown", 4]).to_pylist()
        [1, 2, None, 4]
    """
    kinds = [_kind(cell) for cell in cells]
    present = Counter(kind for kind in kinds if kind != "missing")
    if not present:
        return pa.nulls(len(cells))
    ((usual, count),) = present.most_common(1)
    most = 2 * count > present.total()
    if most and usual == "number":
        return _numbers([_if_number(cell, kind) for cell, kind in zip(cells, kinds)])
    if not most or usual not in _READ:
        usual = "text"
    arrow_type, read = _READ[usual]
    return pa.array([_guarded(read, cell) for cell in cells], arrow_type)


def _if_number(cell: Any, kind: str) -> Any:
    if kind == "number":
        return cell
    return None


def _kind(cell: Any) -> str:
    if is_missing(cell):
        return "missing"
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        return "instant"
    for types, kind in _KINDS:
        if isinstance(cell, types):
            return kind
    return "odd"


def _numbers(cells: list[Any]) -> pa.Array:
    """Doubles, unless all are whole numbers, or most are such that doubles do not tell from their neighbours."""
    present = len(cells) - cells.count(None)
    whole = [_whole(cell) for cell in cells]
    beyond = sum(number is not None and abs(number) >= _EXACT for number in whole)
    small = _within(whole, -(2**63), 2**63)
    if 2 * beyond > present:
        large = _within(whole, 0, 2**64)
        if large.count(None) < small.count(None):
            return pa.array(large, pa.uint64())
        return pa.array(small, pa.int64())
    if len(small) - small.count(None) == present:
        return pa.array(small, pa.int64())
    read = [None if cell is None else cell_number(cell) for cell in cells]
    return pa.array(read, pa.float64(), from_pandas=True)


def _within(numbers: list[int | None], low: int, high: int) -> list[int | None]:
    return [n if n is not None and low <= n < high else None for n in numbers]


def _whole(cell: Any) -> int | None:
    """A cell of a type of whole numbers."""
    if isinstance(cell, Integral):
        return int(cell)
    return None


def _guarded(read: Callable[[Any], Any], cell: Any) -> Any:
    """What the cell is, or nothing: its own words and mistakes stay here."""
    try:
        return None if is_missing(cell) else read(cell)
    except RAISED_BY_CELLS:
        return None


def _truth(cell: Any) -> bool | None:
    return bool(cell) if _kind(cell) == "truth" else None


def _time(cell: Any) -> datetime.datetime | None:
    """A clock without a zone; a day is its midnight."""
    kind = _kind(cell)
    if kind == "date":
        return datetime.datetime.combine(cell, datetime.time())
    return _plain(cell) if kind == "time" else None


def _instant(cell: Any) -> datetime.datetime | None:
    return _plain(cell.astimezone(datetime.UTC)) if _kind(cell) == "instant" else None


def _plain(cell: datetime.datetime) -> datetime.datetime:
    """Without the nanoseconds of pandas."""
    ticks = (cell.hour, cell.minute, cell.second, cell.microsecond)
    return datetime.datetime(cell.year, cell.month, cell.day, *ticks, cell.tzinfo)


def _day(cell: Any) -> datetime.date | None:
    """A day, also of a clock without a zone."""
    if _kind(cell) in ("date", "time"):
        return datetime.date(cell.year, cell.month, cell.day)
    return None


def _clock(cell: Any) -> datetime.time | None:
    return cell if _kind(cell) == "clock" and cell.tzinfo is None else None


def _span(cell: Any) -> datetime.timedelta | None:
    if _kind(cell) == "span":
        return datetime.timedelta(cell.days, cell.seconds, cell.microseconds)
    return None


def _bytes(cell: Any) -> bytes | None:
    return cell if _kind(cell) == "bytes" else None


_READ: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "text": (pa.string(), cell_name),
    "truth": (pa.bool_(), _truth),
    "time": (pa.timestamp("us"), _time),
    "instant": (pa.timestamp("us", "UTC"), _instant),
    "date": (pa.date32(), _day),
    "clock": (pa.time64("us"), _clock),
    "span": (pa.duration("us"), _span),
    "bytes": (pa.binary(), _bytes),
}
