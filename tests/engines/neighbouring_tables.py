"""Two tables that differ in one unit, which writes the extremes of every type, and what both are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import Count, Histogram, Mean, Quantile, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Source, date_of, discover, hour_of, value_of

HIGHEST = 2**63 - 1
YEAR_10000 = 253_402_300_800_000_000  # in microseconds, as the calendars of Python and others end
YEAR_0 = -62_135_596_800_000_001
SCHEMA = pa.schema(
    [
        ("home", pa.string()),
        ("meter", pa.int64()),
        ("zone", pa.string()),
        ("on", pa.bool_()),
        ("time", pa.timestamp("us")),
        ("read", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("kw", pa.float64()),
        ("n", pa.int64()),
        ("price", pa.decimal128(12, 3)),
    ]
)
# Cells of one unit; times and days are numbers, for Python has no such times.
EXTREMES: dict[str, list[Any]] = {
    "home": ["V" * 1_000_000, "", "\0", 'V\n"', None],
    "meter": [HIGHEST, -HIGHEST - 1, 0, -1, None],
    "zone": ["Z\u0301", "\u202e", "x" * 1_000_000, "\0", None],
    "on": [True, False, None, True, False],
    "time": [HIGHEST, -HIGHEST - 1, YEAR_10000, YEAR_0, None],
    "read": [HIGHEST, -HIGHEST - 1, YEAR_10000, YEAR_0, None],
    "day": [2**31 - 1, -(2**31), 2_932_897, -719_163, None],
    "kw": [float("nan"), float("inf"), -1e308, 5e-324, None],
    "n": [HIGHEST, -HIGHEST - 1, 0, -1, None],
    "price": [Decimal("999999999.999"), Decimal("-999999999.999"), Decimal(0), None, None],
}
STORED = {"time": pa.int64(), "read": pa.int64(), "day": pa.int32()}
REQUESTS: dict[str, dict[str, Any]] = {
    "mean": {"unit": "home", "answers": [Mean("kw", between=(0, 10))]},
    "clock": {"unit": "home", "by": {"hour": hour_of("time")}, "answers": [Count()]},
    "zoned": {"unit": "home", "by": {"hour": hour_of("read", time_zone="Europe/Zurich")}, "answers": [Count()]},
    "days": {
        "unit": "meter",
        "by": {"day": date_of("day", "2024-03-01", "2024-03-05")},
        "answers": [Mean("price", between=(0, 9))],
    },
    "found": {"unit": "home", "by": {"zone": discover("zone", per_unit=1)}, "answers": [Count()]},
    "truth": {"unit": "meter", "by": {"on": value_of("on", [True, False])}, "answers": [Histogram("n", (0, 1, 3))]},
    "named": {
        "unit": "home",
        "by": {"zone": value_of("zone", ["Bern", "Z\u00fcrich"])},
        "answers": [Quantile("kw", 0.5, between=(0, 9))],
    },
    "text by hour": {"unit": "home", "by": {"hour": hour_of("zone")}, "answers": [Count()]},
    "mean of text": {"unit": "home", "answers": [Mean("zone", between=(0, 1))]},
    "unit of no column": {"unit": "hme", "answers": [Count()]},
    "unit of times": {"unit": "time", "answers": [Count()]},
}
REFUSED = 4  # of them, whatever the table holds


def honest(count: int = 60) -> pa.Table:
    """Sixty homes, each with a row."""
    numbers = range(count)
    times = [datetime(2024, 3, 1, k % 24) for k in numbers]
    columns = [
        [f"{k:03d}" for k in numbers],
        [k + 1 for k in numbers],
        [("Bern", "Z\u00fcrich")[k % 2] for k in numbers],
        [k % 2 == 0 for k in numbers],
        times,
        times,
        [date(2024, 3, 1 + k % 5) for k in numbers],
        [k / 8 for k in numbers],
        [k % 7 for k in numbers],
        [Decimal(k) / 8 for k in numbers],
    ]
    return pa.table([pa.array(cells, field.type) for cells, field in zip(columns, SCHEMA)], schema=SCHEMA)


def attacked() -> pa.Table:
    """The same and one home more, whose cells are extremes: a few in each column, and some where it is nobody."""
    names = [None if field.name == "home" else field.name for field in SCHEMA]
    return pa.concat_tables([honest(), *map(_rows, names)])


def _rows(column: str | None) -> pa.Table:
    """Rows of the unit with extremes in one column, or in all of them."""
    cells: dict[str, list[Any]] = {name: [None] * 5 for name in SCHEMA.names} | {"home": ["V"] * 5, "meter": [999] * 5}
    cells |= EXTREMES if column is None else {column: EXTREMES[column]}
    arrays = []
    for field in SCHEMA:
        stored = STORED.get(field.name, field.type)
        arrays.append(pa.array(cells[field.name], stored).cast(field.type))
    return pa.table(arrays, schema=SCHEMA)


def told(source: Callable[[], Source], names: Sequence[str] = tuple(REQUESTS)) -> dict[str, str]:
    """That a request was answered, or its refusal, word for word."""
    words = {}
    for name in names:
        asked = REQUESTS[name]
        per_unit = 1 if "by" in asked else None
        release = TableRelease(epsilon=1.0, delta=1e-3, generator=SeededGenerator(1), groups_per_unit=per_unit, **asked)
        try:
            release.release(source())
            words[name] = "answered"
        except GaussveilError as refusal:
            words[name] = f"{type(refusal).__name__}: {refusal}"
    return words
