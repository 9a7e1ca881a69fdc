"""What DuckDB opens beside Parquet, and by which public rule bad cells go."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open
from gaussveil.errors import ParameterError, SchemaError, SourceError
from gaussveil.statistics import Moments, RowCount, Source, as_source


def total(source: Source) -> np.ndarray:
    return source.bounded("home", 6).aggregate(Moments(clip=300.0), columns=["kw", "volt"]).total.limbs


@pytest.fixture
def reference(table: pa.Table) -> np.ndarray:
    return total(as_source(table))


def test_arrow_files_folders_and_globs(table: pa.Table, reference: np.ndarray, tmp_path: Path) -> None:
    pyarrow.feather.write_feather(table, tmp_path / "readings.arrow", compression="uncompressed")
    assert np.array_equal(total(open(tmp_path / "readings.arrow")), reference)
    (tmp_path / "parts").mkdir()
    for i, start in enumerate(range(0, table.num_rows, 1000)):
        pq.write_table(table.slice(start, 1000), tmp_path / "parts" / f"part{i}.parquet")
    assert np.array_equal(total(open(tmp_path / "parts")), reference)
    assert np.array_equal(total(open(tmp_path / "parts" / "*.parquet")), reference)
    grown = open(tmp_path / "parts")
    grown.row_count()
    pq.write_table(table.slice(0, 1), tmp_path / "parts" / "part9.parquet")
    with pytest.raises(SourceError, match="changed"):
        grown.row_count()


def test_a_table_of_a_database(table: pa.Table, reference: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "meters.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("readings_view", table)
        connection.execute('CREATE TABLE "the readings" AS SELECT * FROM readings_view')
    assert np.array_equal(total(open(f"{path}#the readings")), reference)
    with pytest.raises(ParameterError, match="#table"):
        open(path)
    with pytest.raises(SourceError, match="no table 'no such table'"):
        open(f"{path}#no such table")
    with pytest.raises(SourceError, match="no table 'table'"):  # though a Python variable has that name
        open(f"{path}#table")


def sqlite_file(path: Path, columns: str, rows: list[tuple[object, ...]]) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(f'CREATE TABLE "the readings" ({columns})')
        database.executemany(f'INSERT INTO "the readings" VALUES ({", ".join("?" * len(rows[0]))})', rows)
    return path


def test_a_table_of_a_sqlite_file(table: pa.Table, tmp_path: Path) -> None:
    rows = list(zip(*(table[name].to_pylist() for name in ("home", "hour", "kw", "volt", "class"))))
    kinds = 'home TEXT, hour INTEGER, kw DOUBLE, volt REAL, "class" BIGINT'
    path = sqlite_file(tmp_path / "meters.sqlite", kinds, rows)
    source = open(f"{path}#the readings")
    assert source.schema.field("hour").type == pa.int64()
    plain = source.aggregate(Moments(clip=300.0), columns=["kw", "volt"]).total.limbs
    assert np.array_equal(plain, as_source(table).aggregate(Moments(clip=300.0), columns=["kw", "volt"]).total.limbs)
    with pytest.raises(SourceError, match="no table"):
        open(f"{path}#no such table")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute('DELETE FROM "the readings" WHERE hour = 3')
    with pytest.raises(SourceError, match="changed between two passes"):
        source.row_count()


def test_sqlite_cells_of_another_type_are_missing_and_decide_nothing(tmp_path: Path) -> None:
    rows = [("a", 1.5, "2024-01-01 00:15:00"), ("b", "oops", "yesterday"), (3, 2, None), ("d", None, "2024-01-02")]
    path = sqlite_file(tmp_path / "mixed.db", "home TEXT, kw REAL, time TIMESTAMP", rows)
    (tmp_path / "broken.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(SourceError, match="could not be read"):
        open(f"{tmp_path / 'broken.sqlite'}#readings")
    found = open(f"{path}#the readings").table(order=["kw"])
    assert found["kw"].to_pylist() == [1.5, 2.0, None, None]
    assert found["home"].to_pylist() == ["a", "3", "b", "d"]
    assert [str(time) for time in found["time"].to_pylist()[:2]] == ["2024-01-01 00:15:00", "None"]


def test_a_sqlite_file_with_a_write_ahead_log_is_read_until_it_changes(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "meters.sqlite", "home TEXT, kw REAL", [("a", 1.5), ("b", 2.5)])
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    for _ in range(2):  # reading by itself makes an empty log
        source = open(f"{path}#the readings")
        assert [source.row_count(), source.row_count()] == [2, 2]
    with contextlib.closing(sqlite3.connect(path)) as writer:
        source = open(f"{path}#the readings")
        assert source.row_count() == 2
        writer.execute("""INSERT INTO "the readings" VALUES ('c', 3.5)""")
        writer.commit()
        with pytest.raises(SourceError, match="changed between two passes"):
            source.row_count()


def test_text_that_is_none_is_missing_and_decides_nothing(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "meters.sqlite", "home TEXT, kw REAL", [("a", 1.5), ("b", 2.5)])
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("""UPDATE "the readings" SET home = CAST(x'ff41' AS TEXT) WHERE kw = 2.5""")
    assert open(f"{path}#the readings").table(order=["kw"])["home"].to_pylist() == ["a", None]


def test_csv_cells_that_do_not_parse_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("home,kw\na,1.5\nb,oops\nc,2.5\nd\ne,3,9,9\n")
    for source in (open(path), open(path, types={"kw": "DOUBLE"})):  # numbers, but for a few cells
        sums = source.aggregate(Moments(clip=10.0), columns=["kw"])
        assert sums.count.integers().tolist() == [2]
        assert sums.total.to_float().item() == 4.0
    with pytest.raises(SchemaError, match="'kw' must hold numbers"):
        open(path, types={"kw": "text"}).aggregate(RowCount(), columns=["kw"])


def test_csv_quotes_and_other_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text('home;"the ""kw"""\n"a;b";1\n"c";2\n')
    source = open(path)
    assert source.schema.names == ["home", 'the "kw"']
    assert source.aggregate(Moments(clip=10.0), columns=['the "kw"']).total.to_float().item() == 3.0
    assert [home for home, _ in source.map_groups(len, by="home")] == ["a;b", "c"]


def test_passes_may_overlap(parquet: Path) -> None:
    source = open(parquet)
    windows = source.windows(by="home", order="hour", length=2)
    first, _ = next(windows)
    rows = source.row_count()
    assert first == "home 0"
    assert sum(1 for _ in windows) > rows // 4


def test_addresses_are_checked() -> None:
    with pytest.raises(ParameterError, match="must end in"):
        open("readings.ods")
    with pytest.raises(SourceError, match="no file matches"):
        open("nowhere.csv")
    with pytest.raises(ParameterError, match="engine"):
        open("readings.csv", engine="ray")


def test_names_that_engines_take_for_patterns_are_refused_and_no_row_is_read_twice(tmp_path: Path) -> None:
    for name in ("xa.parquet", "x[a].parquet"):  # the second, as a pattern, means the first
        pq.write_table(pa.table({"kw": [1.0]}), tmp_path / name)
    for address in (tmp_path, tmp_path / "x[a].parquet"):
        with pytest.raises(SourceError, match="rename it"):
            open(address)
    (tmp_path / "x[a].parquet").unlink()
    assert open(tmp_path / "x[a].parquet").row_count() == 1  # a pattern again
    pq.write_table(pa.table({"kw": [2.0]}), tmp_path / "_unfinished.parquet")
    assert open(tmp_path).row_count() == open(tmp_path / "*.parquet").row_count() == 1


def test_rows_are_bounded_in_less_memory_than_the_table(tmp_path: Path, full: bool) -> None:
    n = 4_000_000 if full else 200_000
    rng = np.random.default_rng(0)
    path = tmp_path / "large.parquet"
    pq.write_table(
        pa.table({"home": rng.integers(0, 1000, size=n), "kw": rng.normal(size=n), "v": rng.normal(size=n)}), path
    )
    limited = open(path, memory_limit="256MB" if full else "32MB").bounded("home", 10)
    assert limited.row_count() == 10_000
