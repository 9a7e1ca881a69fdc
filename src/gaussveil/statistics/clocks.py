"""The clock on which hours and days are read where nobody asks for one: the form of the table says it."""

from __future__ import annotations

from dataclasses import replace

from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.clock_keys import ClockPart, Dates, TimeOfDay
from gaussveil.statistics.key import Key


def on_clock(reader: CellReader, time_zone: str | None) -> CellReader:
    """The same reader, its hours and days on this clock where a key names none."""
    if time_zone is None:
        return reader
    return replace(reader, keys=tuple(_on_clock(key, time_zone) for key in reader.keys))


def _on_clock(key: Key, time_zone: str) -> Key:
    """A time of day whose day is another column has no zone."""
    if isinstance(key, TimeOfDay) or not isinstance(key, ClockPart | Dates):
        return key
    return replace(key, time_zone=key.time_zone or time_zone)
