"""Public keys: how a row of a table finds its group, by lists and functions that are known without the data.

A row whose cell is missing, or whose value is not among the public ones, belongs to no group and is left out. Clocks
of columns with a time zone are read in UTC unless `time_zone` names another; clocks without one are taken as they are,
and a `time_zone` says which wall clock that is.
DAY+CLOCK names a column of dates and one of times of day.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.statistics.block import (
    Labels,
    numbers,
    plain,
    require_columns,
    require_numbers,
)
from gaussveil.statistics.clock_keys import ClockPart, Dates, TimeOfDay
from gaussveil.statistics.key import Key, places_of
from gaussveil.typing import Floats, Integers

OTHER = "other"


@dataclass(frozen=True)
class Listed(Key):
    """The values of a column, from a public list; with `other` all further ones are a group of that name."""

    listed: tuple[Any, ...]
    other: bool = False

    def __post_init__(self) -> None:
        _labels(self)
        if self.other and OTHER in map(str, self.listed):
            raise ParameterError(
                f"values must not hold {OTHER!r} where other=True: the group of all others has it."
            )

    @property
    def values(self) -> Sequence[Any]:
        """The list; as texts where others follow."""
        if self.other:
            return (*map(str, self.listed), OTHER)
        return self.listed

    @property
    def doubts(self) -> list[str]:
        """What in the list looks mistyped, in sentences: by the list alone, no row is looked at."""
        texts = [value for value in self.listed if isinstance(value, str)]
        told = [
            f"{text!r} of {self.column} begins or ends with a blank"
            for text in texts
            if text != text.strip()
        ]
        first: dict[str, str] = {}
        for text in texts:
            before = first.setdefault("".join(text.split()).casefold(), text)
            if before != text:
                told.append(
                    f"{before!r} and {text!r} of {self.column} differ in case or blanks alone"
                )
        return told

    def check(self, schema: pa.Schema) -> None:
        """Refuse a column that cannot hold the list."""
        require_columns(schema, [self.column])
        _labels(self).value_set(schema.field(self.column).type)

    def codes(self, cells: pa.Array) -> Integers:
        """Place in the list."""
        cells = plain(cells)
        if pa.types.is_floating(cells.type):  # -0.0 is 0.0, as everywhere else
            cells = pc.add(cells, pa.scalar(0.0, cells.type))
        public = _labels(self).value_set(cells.type)
        places = places_of(pc.index_in(cells, value_set=public, skip_nulls=True))
        if not self.other:
            return places
        present = cells.is_valid().to_numpy(zero_copy_only=False)
        return np.where((places < 0) & present, len(self.listed), places)


@dataclass(frozen=True)
class Bins(Key):
    """Ranges of a column of numbers between public edges: each holds its lower edge, the last both."""

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if (
            len(self.edges) < 2
            or not np.all(np.isfinite(self.edges))
            or not np.all(np.diff(self.edges) > 0)
        ):
            raise ParameterError(
                "edges must be at least two finite numbers in increasing order."
            )

    @property
    def values(self) -> Sequence[Any]:
        """The ranges as they are written."""
        texts = [f"{edge:g}" for edge in self.edges]
        ends = [")"] * (len(texts) - 2) + ["]"]
        return [
            f"[{low}, {high}{end}" for low, high, end in zip(texts, texts[1:], ends)
        ]

    def check(self, schema: pa.Schema) -> None:
        """Refuse a column without numbers."""
        require_numbers(schema, [self.column], asked=True)

    def codes(self, cells: pa.Array) -> Integers:
        """Bin of every cell."""
        return self.places(numbers(cells).astype(np.float64))

    @property
    def size(self) -> int:
        """Number of ranges."""
        return len(self.edges) - 1

    def places(self, values: Floats, group: Integers | None = None) -> Integers:
        """Bin of every number, -1 outside; every group has the same."""
        edges = np.asarray(self.edges, dtype=np.float64)
        places = np.searchsorted(edges, values, side="right") - 1
        places = np.where(values == edges[-1], len(edges) - 2, places)
        return np.where(
            (places >= 0) & (places < len(edges) - 1) & ~np.isnan(values), places, -1
        ).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Ranges of a column between rising limits, which each group has of its own (G, m), or all the same (1, m).

    A number that equals a limit lies below it.
    """

    column: str
    limits: Floats

    @property
    def size(self) -> int:
        """Number of ranges."""
        return int(self.limits.shape[1]) + 1

    def places(self, values: Floats, group: Integers) -> Integers:
        """How many of its group's limits a number exceeds."""
        if len(self.limits) == 1:
            return np.searchsorted(self.limits[0], values, side="left").astype(np.int64)
        places = np.zeros(len(values), dtype=np.int64)
        for limit in self.limits.T:
            places += values > limit[group]
        return places


@dataclass(frozen=True)
class Discovered:
    """Values that nobody listed: one shows only if a noisy number of units that have it passes a threshold."""

    column: str
    per_unit: int = 1

    def __post_init__(self) -> None:
        checks.whole("per_unit", self.per_unit)


def hour_of(column: str, *, time_zone: str | None = None) -> Key:
    """Hour of the day, 0 to 23; of two columns, DAY+CLOCK, the second one's.

    Args:
        column: name of the column of times.
        time_zone: clock that hours are read on.

    Returns:
        A key for `TableRelease(by=...)`: a group for each hour.

    >>> import gaussveil
    >>> len(gaussveil.hour_of("time").values)
    24
    """
    _, two, clock = column.partition("+")
    if two:
        return TimeOfDay(clock.strip(), time_zone, "hour")
    return ClockPart(column, time_zone, "hour")


def weekday_of(column: str, *, time_zone: str | None = None) -> Key:
    """Day of the week; Monday is 0.

    Args:
        column: name of the column of times.
        time_zone: clock that days are read on.

    Returns:
        A key for `TableRelease(by=...)`: a group for each day of the week.

    >>> import gaussveil
    >>> list(gaussveil.weekday_of("time").values)
    [0, 1, 2, 3, 4, 5, 6]
    """
    return ClockPart(_day(column), time_zone, "weekday")


def month_of(column: str, *, time_zone: str | None = None) -> Key:
    """Month, 1 to 12.

    Args:
        column: name of the column of times.
        time_zone: clock that months are read on.

    Returns:
        A key for `TableRelease(by=...)`: a group for each month.

    >>> import gaussveil
    >>> list(gaussveil.month_of("time").values) == list(range(1, 13))
    True
    """
    return ClockPart(_day(column), time_zone, "month")


def date_of(
    column: str,
    first: str | datetime.date,
    last: str | datetime.date,
    *,
    time_zone: str | None = None,
) -> Key:
    """Day between two public days, both included.

    Args:
        column: name of the column of times.
        first, last: public days, as dates or text.
        time_zone: clock that days are read on.

    Returns:
        A key for `TableRelease(by=...)`: a group for each day.

    Raises:
        ParameterError: a day is none, or the last is before the first.

    >>> import gaussveil
    >>> len(gaussveil.date_of("time", "2026-01-01", "2026-01-31").values)
    31
    """
    try:
        ends = [datetime.date.fromisoformat(str(day)[:10]) for day in (first, last)]
    except ValueError:
        raise ParameterError(
            f"first and last must be days such as 2024-03-31. Got {first!r} and {last!r}."
        ) from None
    if ends[0] > ends[1] or (ends[1] - ends[0]).days > 36_600:
        raise ParameterError(
            f"last must be a day within 100 years after first. Got {first!r} and {last!r}."
        )
    return Dates(_day(column), time_zone, *ends)


def bin_of(column: str, edges: Iterable[float]) -> Key:
    """Range of numbers between public edges.

    Args:
        column: name of the column.
        edges: public numbers that rise.

    Returns:
        A key for `TableRelease(by=...)`: a group for each range, which holds its lower edge.

    >>> import gaussveil
    >>> len(gaussveil.bin_of("age", [0, 18, 65, 120]).values)
    3
    """
    return Bins(column, tuple(float(edge) for edge in edges))


def value_of(column: str, values: Iterable[Any], *, other: bool = False) -> Key:
    """The values themselves, from a public list; with `other` one more group, "other", of all that are not listed.

    A missing value belongs to no group all the same.

    Args:
        column: name of the column.
        values: the public list.
        other: whether all others make a group.

    Returns:
        A key for `TableRelease(by=...)`: a group for each value.

    Raises:
        ParameterError: the list is empty, holds a value twice, or one that cannot be compared.

    >>> import gaussveil
    >>> list(gaussveil.value_of("ward", ["north", "south"], other=True).values)
    ['north', 'south', 'other']
    """
    return Listed(column, tuple(values), other)


def discover(column: str, *, per_unit: int = 1) -> Discovered:
    """Values unknown beforehand, at most `per_unit` of each unit; those that few units share stay hidden.

    Args:
        column: name of the column.
        per_unit: how many values a unit may bring.

    Returns:
        A key for `TableRelease(by=...)`, whose groups are found in the data within the budget.

    >>> import gaussveil
    >>> gaussveil.discover("ward", per_unit=2).per_unit
    2
    """
    return Discovered(column, per_unit)


def _day(column: str) -> str:
    if "+" in column:
        return column.partition("+")[0].strip()
    return column


def _labels(key: Listed) -> Labels:
    return Labels(key.column, key.listed)
