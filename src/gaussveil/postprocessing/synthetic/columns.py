"""What is public of a column of a synthetic table, and how drawn numbers become cells of its type again."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.errors import SchemaError
from gaussveil.typing import Floats, Integers

OTHER = "other"  # what a found column of texts calls all that few share
DAY_SECONDS = 86_400
LARGEST_WHOLE = 2.0**52
NUMBER = "number"
WHOLE = "whole number"
DATE = "date"
MOMENT = "moment"
CLOCK = "time of day"
CATEGORY = "category"
MEASURED = (NUMBER, WHOLE, DATE, MOMENT, CLOCK)
MINUTE = 60.0
CLOCK_TEXT = (
    r"^ *(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))? *$"
)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Column:
    """Name, type and kind of a column; its public range or values, None where they are learnt."""

    name: str
    type: pa.DataType = field(repr=False)
    kind: str
    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] | None = None
    grain: float | None = None
    """Numbers are multiples of it, or times of so many seconds."""
    others: bool = False
    """Whether the last value stands for all that are not listed."""

    @property
    def is_category(self) -> bool:
        """Whether cells are values of a list."""
        return self.kind == CATEGORY

    @property
    def is_whole(self) -> bool:
        """Whether cells are whole numbers: counts, days, seconds."""
        return self.kind in (WHOLE, DATE, MOMENT, CLOCK)

    @property
    def grains(self) -> tuple[float, ...]:
        """Steps in which such columns are often written: whole ones, tenths, hundredths; days, minutes."""
        return {NUMBER: (1.0, 0.1, 0.01), MOMENT: (86_400.0, 60.0)}.get(self.kind, ())

    def coarsest(self, numbers: Floats) -> Integers:
        """Place among `grains` of the first that every number is a multiple of, their number where none is."""
        found = np.full(len(numbers), len(self.grains), dtype=np.int64)
        for place, grain in reversed(list(enumerate(self.grains))):
            if grain < 1:
                steps = 1 / grain
            else:
                steps = grain
            if grain < 1:
                near = np.rint(numbers * steps) / steps
            else:
                near = np.rint(numbers / steps) * steps
            found = np.where(near == numbers, place, found)
        return found

    def with_grain(self, grain: float) -> Column:
        """The column where its cells are known to be multiples; of 1, whole numbers."""
        if self.kind != NUMBER or grain != 1.0:
            return replace(self, grain=grain)
        ends = (self.low, self.high)
        low, high = (
            None if end is None else rule(end)
            for end, rule in zip(ends, (math.ceil, math.floor))
        )
        if low is not None and high is not None and low >= high:
            return self
        return replace(self, kind=WHOLE, low=low, high=high)

    def within(self, numbers: Floats) -> Floats:
        """Drawn numbers as multiples of the grain, within the range."""
        if self.is_whole:
            numbers = np.rint(numbers)
        if self.grain is not None and self.grain < 1:
            numbers = np.round(numbers, round(-math.log10(self.grain)))
        elif self.grain is not None:
            numbers = np.rint(numbers / self.grain) * self.grain
        return np.asarray(np.clip(numbers, self.low, self.high))

    def numbers(self, cells: pa.Array) -> Floats:
        """Cells as numbers: days since 1970, seconds since then or since midnight; NaN where missing."""
        if self.kind == DATE:
            days = cells.cast(pa.date32(), safe=False).cast(pa.int32())
            return _floats(days)
        if self.is_spelled_clock:
            return _seconds_of_text(cells)
        if self.kind in (MOMENT, CLOCK):
            unit = cells.type.unit
            ticks = cells.cast(
                pa.int32() if pa.types.is_time32(cells.type) else pa.int64()
            )
            return np.asarray(np.floor(_floats(ticks) / _TICKS[unit]))
        return _floats(cells)

    def written(self, numbers: Floats) -> str:
        """One number of the column as people write it."""
        number = float(numbers)
        if self.kind == DATE:
            return str(
                datetime.date(1970, 1, 1) + datetime.timedelta(days=round(number))
            )
        if self.kind == MOMENT:
            return str(
                datetime.datetime(1970, 1, 1)
                + datetime.timedelta(seconds=round(number))
            )
        if self.kind == CLOCK:
            return str(datetime.timedelta(seconds=round(number)))
        return f"{number:g}"

    def cells(self, numbers: Floats, missing: NDArray[np.bool_]) -> pa.Array:
        """Numbers as cells of the column's own type, within its range; none where missing."""
        if not self.is_whole:
            return self._cast(pa.array(np.where(missing, 0.0, numbers), mask=missing))
        whole = np.where(missing, 0.0, np.rint(numbers)).astype(np.int64)
        if self.kind == DATE:
            return self._cast(
                pa.array(whole.astype(np.int32), mask=missing).cast(pa.date32())
            )
        if self.is_spelled_clock:
            return self._spelled(whole, missing)
        if self.kind in (MOMENT, CLOCK):
            ticks = pa.array(whole * _TICKS[self.type.unit], mask=missing)
            if pa.types.is_time32(self.type):
                kind = pa.int32()
            else:
                kind = pa.int64()
            return ticks.cast(kind).cast(self.type)
        return self._cast(pa.array(whole, mask=missing))

    @property
    def is_spelled_clock(self) -> bool:
        """Whether cells are text that is a time of day, such as 08:15."""
        return self.kind == CLOCK and is_text(self._plain)

    def _spelled(self, seconds: Integers, missing: NDArray[np.bool_]) -> pa.Array:
        """Times of day as text, with seconds where the range was given with them."""
        form = "%H:%M" if self.grain == MINUTE else "%H:%M:%S"
        times = pa.array(seconds.astype(np.int64), mask=missing)
        return self._cast(pc.strftime(times.cast(pa.timestamp("s")), form))

    def named(self, codes: Integers, values: Sequence[Any]) -> pa.Array:
        """Values by their places, none where the place is negative."""
        if not len(values):
            return pa.nulls(len(codes), self._plain)
        listed = pa.array(list(values))
        return self._cast(listed.take(pa.array(np.maximum(codes, 0), mask=codes < 0)))

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest number that the type holds; whole numbers as far as doubles count."""
        if pa.types.is_dictionary(self.type):
            kind = self.type.value_type
        else:
            kind = self.type
        if pa.types.is_integer(kind):
            info = np.iinfo(kind.to_pandas_dtype())
            return max(float(info.min), -LARGEST_WHOLE), min(
                float(info.max), LARGEST_WHOLE
            )
        if pa.types.is_decimal(kind):
            largest = (
                10.0 ** (kind.precision - kind.scale) * (1 - 2.0**-40)
                - 10.0**-kind.scale
            )
            return -largest, largest
        return -math.inf, math.inf

    def with_found(self, values: Sequence[Any], others: bool) -> Column:
        """The column with values that were found; of texts one more stands for all others, if wanted."""
        kind = self._plain
        text = others and is_text(kind)
        listed = tuple(value for value in values if not text or value != OTHER)
        return replace(self, values=(*listed, OTHER) if text else listed, others=text)

    def _cast(self, cells: pa.Array) -> pa.Array:
        return cells.cast(self._plain, safe=False)

    @property
    def _plain(self) -> pa.DataType:
        """The type of the values of a column."""
        if pa.types.is_dictionary(self.type):
            return self.type.value_type
        return self.type


_HELD = (  # what columns of a type hold
    (pa.types.is_string, CATEGORY),
    (pa.types.is_large_string, CATEGORY),
    (pa.types.is_integer, WHOLE),
    (pa.types.is_floating, NUMBER),
    (pa.types.is_decimal, NUMBER),
    (pa.types.is_date, DATE),
    (pa.types.is_timestamp, MOMENT),
)


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def spelled_clock(column: Column, ends: Sequence[Any]) -> Column:
    """A column of texts whose range is two times of day, as such; the column itself where it is another one.

    That its texts are times of day is a public statement: what is none of them is a missing cell.
    """
    if not column.is_category or not is_text(column._plain):
        return column
    spelled = [re.match(CLOCK_TEXT, str(end)) for end in ends]
    if not all(spelled):
        return column
    with_seconds = any(one is not None and one["second"] for one in spelled)
    grain = None if with_seconds else MINUTE
    return replace(column, kind=CLOCK, values=None, grain=grain)


def column_of(name: str, kind: pa.DataType) -> Column:
    """What the type alone says of a column; refuses types that no cell can be drawn of."""
    types = pa.types
    is_listed = types.is_dictionary(kind)
    plain = kind.value_type if is_listed else kind
    if types.is_boolean(plain):
        return Column(name, kind, CATEGORY, values=(False, True))
    if is_listed:
        return Column(name, kind, CATEGORY)
    for is_of, held in _HELD:
        if is_of(plain):
            return Column(name, kind, held)
    if types.is_time(plain):
        return Column(name, kind, CLOCK, low=0.0, high=float(DAY_SECONDS - 1))
    if types.is_null(plain):
        return Column(name, kind, CATEGORY, values=())
    raise SchemaError(
        f"column {name!r} holds {kind}, of which no cells can be drawn: leave it out (columns, --columns)."
    )


def number_of(column: Column, end: Any) -> float:
    """One end of a range as the column counts: of dates and times, text such as 2024-03-31 is read."""
    wanted = f"the range of {column.name!r} must be two"
    if column.kind in (DATE, MOMENT):
        moment = _moment_of(end, wanted)
        days = (moment.date() - datetime.date(1970, 1, 1)).days
        if column.kind == DATE:
            return float(days)
        return float(days * DAY_SECONDS + _seconds(moment.time()))
    if column.kind == CLOCK:
        return float(_seconds(_clock_of(end, wanted)))
    try:
        number = float(end)
    except (TypeError, ValueError):
        raise SchemaError(f"{wanted} numbers. Got {end!r}.") from None
    if not math.isfinite(number) or abs(number) > 1e300:
        raise SchemaError(f"{wanted} finite numbers. Got {end!r}.")
    return number


def _seconds_of_text(cells: pa.Array) -> Floats:
    """Seconds since midnight of texts such as 08:15; NaN of what is no time of day."""
    parts = pc.extract_regex(cells.cast(pa.string()), CLOCK_TEXT)
    seconds = np.zeros(len(cells))
    for name, length in (("hour", 3600.0), ("minute", MINUTE), ("second", 1.0)):
        part = pc.struct_field(parts, name)
        told = pc.if_else(pc.equal(part, ""), None, part).cast(pa.float64())
        if name == "second":
            told = told.fill_null(0.0)
        seconds = seconds + length * told.to_numpy(zero_copy_only=False)
    return np.where(pc.is_null(parts).to_numpy(zero_copy_only=False), np.nan, seconds)


def _floats(cells: pa.Array) -> Floats:
    if not (pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type)):
        cells = cells.cast(pa.float64())
    found = np.asarray(cells.to_numpy(zero_copy_only=False), dtype=np.float64)
    missing = np.asarray(pc.is_null(cells).to_numpy(zero_copy_only=False))
    return np.where(missing | ~np.isfinite(found), np.nan, found)


def _moment_of(end: Any, wanted: str) -> datetime.datetime:
    """A day, or a time on it, by the clock that it is written in."""
    try:
        if not isinstance(end, datetime.date):
            end = datetime.datetime.fromisoformat(str(end))
    except ValueError:
        raise SchemaError(
            f"{wanted} days or times such as 2024-03-31. Got {end!r}."
        ) from None
    if isinstance(end, datetime.datetime):
        return end
    return datetime.datetime.combine(end, datetime.time())


def _clock_of(end: Any, wanted: str) -> datetime.time:
    if isinstance(end, datetime.time):
        return end
    try:
        return datetime.time.fromisoformat(str(end))
    except ValueError:
        raise SchemaError(
            f"{wanted} times of day such as 07:30. Got {end!r}."
        ) from None


def _seconds(clock: datetime.time) -> int:
    return clock.hour * 3600 + clock.minute * 60 + clock.second
