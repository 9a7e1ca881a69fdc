"""Keys on a clock: hours, weekdays, months and days of a column of times.

Clocks of columns with a time zone are read in UTC unless `time_zone` names another; clocks without one are taken as
they are, and a `time_zone` says which wall clock that is.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.statistics.block import (
    plain,
    require_columns,
)
from gaussveil.statistics.column_types import holds
from gaussveil.statistics.key import Key, places_of
from gaussveil.typing import Integers

CLOCK = re.compile("uhr|zeit|clock|hour|heure|time|ora|hora", re.IGNORECASE)
"""What columns of clocks are called."""
_PARTS = {"hour": range(24), "weekday": range(7), "month": range(1, 13)}


@dataclass(frozen=True)
class _OnClock(Key):
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if (
            self.time_zone is not None
            and self.time_zone not in zoneinfo.available_timezones()
        ):
            raise ParameterError(
                f"time_zone must be a name such as 'Europe/Zurich'. Got {self.time_zone!r}."
            )

    def check(self, schema: pa.Schema) -> None:
        """Refuse a column without dates."""
        require_columns(schema, [self.column])
        kind = schema.field(self.column).type
        if not (
            pa.types.is_timestamp(kind)
            or (pa.types.is_date(kind) and not self._needs_time)
        ):
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            advice = (
                "say how they are written (time_format, --time-format), or convert it."
            )
            if number:
                advice = (
                    "write them as 2024-03-31 12:00; seconds since a day are not read."
                )
            apart = day_and_clock(schema)
            if apart and self._needs_time:
                advice = f"this table has a day and a clock in two columns, {apart}: write hour({apart})."
            raise SchemaError(
                f"column {self.column!r} must hold dates with times. Got {holds(kind)}: {advice}"
            )

    @property
    def _needs_time(self) -> bool:
        return False

    def _local(self, cells: pa.Array) -> pa.Array:
        zone = getattr(cells.type, "tz", None)
        if zone is None:
            return cells
        return cells.cast(pa.timestamp(cells.type.unit, self.time_zone or "UTC"))


def day_and_clock(schema: pa.Schema) -> str:
    """DAY+CLOCK, where the form alone shows one column of days and one that is called or typed a clock; else nothing.

    Args:
        schema: the columns and their types.
    """
    days = [field.name for field in schema if pa.types.is_date(field.type)]
    clocks = [
        field.name
        for field in schema
        if pa.types.is_time(field.type)
        or (holds(field.type) == "text" and CLOCK.search(field.name))
    ]
    if len(days) != 1 or len(clocks) != 1:
        return ""
    return f"{days[0]}+{clocks[0]}"


@dataclass(frozen=True)
class ClockPart(_OnClock):
    """Hour of the day (0 to 23), day of the week (Monday is 0) or month (1 to 12) of a column of times."""

    part: str = "hour"

    @property
    def values(self) -> Sequence[Any]:
        """The numbers on the clock."""
        return _PARTS[self.part]

    @property
    def cycle(self) -> bool:
        """Clocks go round."""
        return True

    @property
    def _needs_time(self) -> bool:
        return self.part == "hour"

    def codes(self, cells: pa.Array) -> Integers:
        """What the clock says."""
        function = {"hour": pc.hour, "weekday": pc.day_of_week, "month": pc.month}[
            self.part
        ]
        places = places_of(function(self._local(cells)), first=_PARTS[self.part][0])
        return np.where(
            places < len(self.values), places, -1
        )  # times beyond all calendars give hours beyond the day


@dataclass(frozen=True)
class TimeOfDay(ClockPart):
    """Hour of a column of times of day, or of text such as 7:30, which stands beside a column of dates."""

    def check(self, schema: pa.Schema) -> None:
        """Refuse a column that holds neither, and a time zone: where the day is another column none is applied."""
        require_columns(schema, [self.column])
        kind = schema.field(self.column).type
        if self.time_zone is not None or not str(kind).startswith(
            ("time32", "time64", "string", "large_string")
        ):
            raise SchemaError(
                f"column {self.column!r} must hold times of day, and time_zone be left out. Got {holds(kind)}."
            )

    def codes(self, cells: pa.Array) -> Integers:
        """What the clock says; text that is no time of day belongs to no group."""
        clock = pc.extract_regex(
            plain(cells).cast(pa.string()),
            r"^\s*(?P<hour>[01]?[0-9]|2[0-3]):[0-5][0-9]",
        )
        return places_of(pc.struct_field(clock, [0]))


@dataclass(frozen=True)
class Dates(_OnClock):
    """The days from `first` to `last`, both included."""

    first: datetime.date = datetime.date.min
    last: datetime.date = datetime.date.max

    @property
    def values(self) -> Sequence[Any]:
        """The days."""
        return [
            self.first + datetime.timedelta(days)
            for days in range((self.last - self.first).days + 1)
        ]

    def codes(self, cells: pa.Array) -> Integers:
        """Days after the first."""
        local = self._local(cells)
        if getattr(local.type, "tz", None) is not None:
            local = pc.local_timestamp(local)
        day = np.datetime64(self.first, "D").astype(np.int64)
        places = places_of(
            local.cast(pa.date32(), safe=False).cast(pa.int32()), first=int(day)
        )
        return np.where(places < len(self.values), places, -1)
