"""One table of awkward content in every place, and what must be the same of it everywhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gaussveil.engines import open
from gaussveil.mechanisms import Count, Mean, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Moments, Source, as_source, date_of, hour_of, value_of

from .test_written_files import cells, sheet

# Names that collations, types and spellings would merge.
NAMES = ["a", "A", "é", "e\u0301", "0100", "100", str(2**53 + 1), str(2**53), str(10**18 + 1), str(10**18), " a", "ﬁ"]
METERS = [2**53, 2**53 + 1, 10**18, 10**18 + 1, 7, 100]
NUMBERS = [float("nan"), float("inf"), float("-inf"), None, -0.0, 1e300, 5e-324, 0.1]
FIRST = datetime(2024, 3, 31, 1, 30)  # an hour before spring skips one in Zurich
AUTUMN = datetime(2024, 10, 26, 23, 30, tzinfo=UTC)  # half an hour before it repeats one
KINDS = {
    "home": "VARCHAR",
    "meter": "BIGINT",
    "kw": "DOUBLE",
    "n": "BIGINT",
    "price": "DECIMAL(12, 3)",
    "on": "BOOLEAN",
    "day": "DATE",
    "time": "TIMESTAMP",
    "read": "TIMESTAMPTZ",
}


def awkward(count: int = 20 * len(NAMES)) -> pa.Table:
    """Names that collations would merge, numbers of every kind, days, wall clocks, instants, and missing cells."""
    rng = np.random.default_rng(11)
    kw = [NUMBERS[k % 23] if k % 23 < len(NUMBERS) else float(x) for k, x in enumerate(rng.normal(size=count))]
    return pa.table(
        {
            "home": [NAMES[k % len(NAMES)] for k in range(count)],
            "meter": pa.array([METERS[k % len(METERS)] for k in range(count)], pa.int64()),
            "kw": pa.array(kw, pa.float64(), from_pandas=False),
            "n": pa.array(rng.integers(-50, 50, size=count), mask=np.arange(count) % 19 == 0),
            "price": pa.array([Decimal(n) / 1000 for n in rng.integers(-9999, 9999, size=count).tolist()]).cast(
                pa.decimal128(12, 3)
            ),
            "on": pa.array(rng.integers(0, 2, size=count).astype(bool)),
            "day": pa.array([None if k % 29 == 3 else date(2024, 2, 28) + timedelta(days=k % 4) for k in range(count)]),
            "time": pa.array([FIRST + timedelta(hours=k % 30) for k in range(count)], pa.timestamp("us")),
            "read": pa.array([AUTUMN + timedelta(hours=k % 5) for k in range(count)], pa.timestamp("us", "UTC")),
        }
    )


def everywhere(table: pa.Table, folder: Path) -> dict[str, Callable[[], Source]]:
    """The same table in memory, in files, in databases and in a sheet."""
    pq.write_table(table, folder / "t.parquet")
    coded = table.set_column(0, "home", table["home"].combine_chunks().dictionary_encode())
    pq.write_table(coded, folder / "coded.parquet")
    text = [",".join(map(as_text, row.values())) for row in table.to_pylist()]
    (folder / "t.csv").write_text("\n".join([",".join(table.column_names), *text, ""]), encoding="utf-8")
    _in_duckdb(table, folder / "t.duckdb")
    _in_sqlite(table, folder / "t.sqlite")
    rows = [cells(*map(_in_a_sheet, row.values())) for row in table.to_pylist()]
    sheet(folder / "t.xlsx", cells(*table.column_names) + "".join(rows))
    names = ("t.parquet", "coded.parquet", "t.csv", "t.duckdb#t", "t.duckdb#u", "t.sqlite#t", "t.xlsx")
    return {"memory": lambda: as_source(table), **{name: lambda name=name: open(folder / name) for name in names}}


def _in_duckdb(table: pa.Table, file: Path) -> None:
    with closing(duckdb.connect(str(file))) as database:
        database.register("given", table)
        for name, collation in (("t", "NOCASE"), ("u", "NFC")):
            kinds = ", ".join(f'"{column}" {kind}' for column, kind in KINDS.items() if column != "home")
            database.execute(f"CREATE TABLE {name} (home VARCHAR COLLATE {collation}, {kinds})")
            database.execute(f"INSERT INTO {name} SELECT * FROM given")


def _in_sqlite(table: pa.Table, file: Path) -> None:
    """SQLite has no NaN, and neither days nor instants: they are text there."""
    kinds = {"home": "TEXT COLLATE NOCASE", "meter": "INTEGER", "n": "INTEGER", "kw": "REAL", "price": "NUMERIC"}
    rows = [
        [str(cell) if isinstance(cell, date) else float(cell) if isinstance(cell, Decimal) else cell for cell in row]
        for row in (list(row.values()) for row in table.to_pylist())
    ]
    with closing(sqlite3.connect(file)) as database, database:
        named = ", ".join(f'"{name}" {kinds.get(name, kind)}' for name, kind in KINDS.items())
        database.execute(f"CREATE TABLE t ({named})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(KINDS))})", rows)


def as_text(cell: object) -> str:
    """A cell of a CSV file."""
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _in_a_sheet(cell: Any) -> Any:
    """A cell of a sheet, which holds neither infinities, nor instants, nor all digits of a whole number."""
    text = isinstance(cell, float) and not np.isfinite(cell)
    beyond = isinstance(cell, int) and abs(cell) >= 2**53
    zoned = isinstance(cell, datetime) and cell.tzinfo is not None
    return str(cell) if text or beyond or zoned else cell


def outcome(source: Source) -> dict[str, Any]:
    """Exact sums by unit, by group and of a sample, which depend on what a unit is, on every hash and every clock."""
    kept = source.bounded("home", 3)
    sums = kept.aggregate(Moments(clip=60.0), columns=["kw", "n", "price"])
    sample = source.bounded("home", 5).sample(0.5, 3)
    keys = {
        "on": value_of("on", [False, True]),
        "day": date_of("day", "2024-02-28", "2024-03-02"),
        "wall": hour_of("time"),
    }
    return few(source) | {
        "kept": sums.total.limbs.tolist(),
        "rows": [kept.row_count(), source.bounded("meter", 2).row_count(), sample.row_count()],
        **{name: answers(source, "home", name, key) for name, key in keys.items()},
        "by meter": answers(source, "meter", "on", keys["on"]),
    }


def few(source: Source) -> dict[str, Any]:
    """The part of it that takes few passes, for Spark: rows by whom, and an answer on a clock that is turned back."""
    homes = source.map_groups(lambda rows: rows.num_rows, by="home")
    hours = hour_of("read", time_zone="Europe/Zurich")
    return {"homes": sorted(homes), "summer time": answers(source.select(SHORT), "home", "hour", hours)}


SHORT = ["home", "kw", "read"]


def answers(source: Source, unit: str, name: str, key: Any) -> dict[str, list[float]]:
    """Counts and means of groups, of a seed: the same where the sums are."""
    release = TableRelease(
        epsilon=1.0,
        delta=1e-6,
        unit=unit,
        answers=[Count(), Mean("kw", between=(-2, 2))],
        groups_per_unit=2,
        generator=SeededGenerator(2),
        by={name: key},
        law="gaussian",
    ).release(source)
    columns: dict[str, list[float]] = release.value.select(["count", "mean_kw"]).to_pydict()
    return columns
