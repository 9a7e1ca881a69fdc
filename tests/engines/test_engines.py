"""One body for the in-memory Source, DuckDB and Spark: the same numbers to the bit, the same refusals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.errors import FormatError, SchemaError, SourceError
from gaussveil.statistics import Affine, BinCounts, Gram, Labels, MemorySource, Moments, Nearest, Source, as_source

pytestmark = pytest.mark.xdist_group("spark")  # one worker, so that there is one Spark session

Opener = Callable[[Path], Source]
COLUMNS = ["kw", "volt", "hour"]
CLASSES = Labels("class", [0, 1, 2])
AFFINE = Affine([[5.0, 230.0, 12.0]] * 3, np.tril(np.random.default_rng(1).normal(size=(3, 3, 3))))


def views(source: Source) -> list[Source]:
    return [source, source.bounded("home", 7).sample(0.5, 3), source.sample(0.3, 4)]


def sums(source: Source) -> list[Any]:
    moments = source.aggregate(Moments(clip=2.0, affine=AFFINE), columns=COLUMNS, group=CLASSES)
    return [moments.count.limbs, moments.total.limbs, moments.second.limbs if moments.second else None]


def test_results_agree_to_the_bit(opener: Opener, parquet: Path, table: pa.Table) -> None:
    for source, reference in zip(views(opener(parquet)), views(as_source(table))):
        assert all(np.array_equal(a, b) for a, b in zip(sums(source), sums(reference)))


def test_other_statistics_agree_to_the_bit(opener: Opener, parquet: Path, table: pa.Table) -> None:
    source, reference = opener(parquet), as_source(table)
    for statistic, group in [
        (Gram(row_norm=250.0), None),
        (BinCounts(edges=[0, 1, 2, 4], distance=True, affine=AFFINE), Nearest([[5, 230, 6], [5, 230, 18], [0, 0, 0]])),
    ]:
        got = source.aggregate(statistic, columns=COLUMNS, group=group)
        assert np.array_equal(got.limbs, reference.aggregate(statistic, columns=COLUMNS, group=group).limbs)
    assert source.row_count() == table.num_rows


def daily_sum(rows: pa.Table) -> tuple[int, list[int]]:
    return rows.num_rows, rows["hour"].to_pylist()


def test_households_are_mapped_and_windowed_alike(opener: Opener, parquet: Path, table: pa.Table) -> None:
    source, reference = opener(parquet).bounded("home", 9), as_source(table).bounded("home", 9)
    mapped = source.map_groups(daily_sum, by="home", order=["hour"])
    assert mapped == reference.map_groups(daily_sum, by="home", order=["hour"])
    assert len(mapped) == 80
    windows = [(home, window.to_pydict()) for home, window in source.windows(by="home", order="hour", length=4)]
    expected = [(home, window.to_pydict()) for home, window in reference.windows(by="home", order="hour", length=4)]
    assert repr(windows) == repr(expected)  # repr, for NaN equals NaN there


def test_windows_reach_the_driver_one_partition_at_a_time(spark: Any, parquet: Path) -> None:
    from gaussveil.engines import open

    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
        windows = open(parquet, engine="spark", session=spark).windows(by="home", order="hour", length=4)
        next(windows)
        begun = len(jobs())
        assert sum(1 for _ in windows) > 100
        assert len(jobs()) > begun + 2
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")


def test_whole_tables_sorted_and_by_arrows_protocol(opener: Opener, parquet: Path, table: pa.Table) -> None:
    source = opener(parquet).select(["hour", "class"])
    rows = source.table(["class"], order=["hour"])
    expected = table.sort_by([("hour", "ascending"), ("class", "ascending")])
    assert rows.column_names == ["class"]
    assert rows["class"].to_pylist() == expected["class"].to_pylist()
    assert pa.table(source)["hour"].to_pylist() == expected["hour"].to_pylist()
    with pytest.raises(SchemaError, match="'kwh' is missing"):
        source.table(["kwh"])


def test_workers_draw_from_generators_of_their_own(opener: Opener, parquet: Path) -> None:
    def draw(_rows: pa.Table) -> bytes:
        from gaussveil.noise import default_generator

        return default_generator().random_bytes(16)

    drawn = opener(parquet).map_groups(draw, by="home", jobs=2)
    assert len({draw for _, draw in drawn}) == 80


def test_schema_mistakes_are_refused_without_reading(opener: Opener, parquet: Path) -> None:
    source = opener(parquet)
    with pytest.raises(SchemaError, match="'kwh' is missing"):
        source.aggregate(Gram(row_norm=1.0), columns=["kwh"])
    with pytest.raises(SchemaError, match="must hold numbers"):
        source.aggregate(Gram(row_norm=1.0), columns=["home"])
    if isinstance(source, MemorySource):  # where one missing name makes floats of whole numbers: others are nobody's
        assert source.bounded("kw", 2).row_count() == 0
    else:
        with pytest.raises(SchemaError, match="text or integers"):
            source.bounded("kw", 2)
    with pytest.raises(SchemaError, match="declared labels"):
        source.aggregate(Moments(clip=1.0), columns=["kw"], group=Labels("class", ["family"]))


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "duckdb":
        return {"engine": "duckdb"}
    return {"engine": "spark", "session": request.getfixturevalue("spark")}


def test_a_file_that_changes_between_two_passes_is_refused(
    engine: dict[str, Any], table: pa.Table, tmp_path: Path
) -> None:
    from gaussveil.engines import open

    path = tmp_path / "readings.parquet"
    pq.write_table(table, path)
    source = open(path, **engine)
    bounded = source.bounded("home", 2)
    source.aggregate(Gram(row_norm=1.0), columns=["volt"])
    pq.write_table(table.slice(1), path)
    with pytest.raises(SourceError, match="changed between two passes"):
        bounded.row_count()


def test_a_corrupt_file_is_refused_without_quoting_it(engine: dict[str, Any], parquet: Path, tmp_path: Path) -> None:
    from gaussveil.engines import open

    whole = parquet.read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="damaged"):
        open(cut, **engine)
    holed = tmp_path / "holed.parquet"
    noise = np.random.default_rng(1).bytes(len(whole) // 2)
    holed.write_bytes(whole[:100] + noise + whole[100 + len(noise) :])
    source = open(holed, **engine)
    with pytest.raises(SourceError, match="could not be read") as caught:
        source.aggregate(Gram(row_norm=1.0), columns=COLUMNS)
    assert caught.value.__cause__ is None
    with pytest.raises(SourceError, match="no file matches"):
        open(tmp_path / "absent.parquet", **engine)


@pytest.fixture
def one_task(spark: Any) -> Iterator[Any]:
    """A session that runs all households as one task: what dies is started again as rarely as possible."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", "8")


def test_a_lost_worker_and_a_failing_function_are_told_without_their_words(one_task: Any, parquet: Path) -> None:
    from gaussveil.engines import open

    source = open(parquet, engine="spark", session=one_task)

    def dies(_rows: pa.Table) -> None:
        os._exit(1)

    def quotes(rows: pa.Table) -> None:
        raise ValueError(f"bad value {rows['kw'][0]} of home 3")

    for function in (dies, quotes):
        with pytest.raises(SourceError, match="a task failed on a worker") as caught:
            source.map_groups(function, by="home")
        assert "home 3" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_worker_that_dies_after_its_work_changes_nothing(one_task: Any, parquet: Path, tmp_path: Path) -> None:
    from gaussveil.engines import open

    mark = tmp_path / "died"

    def dies_once(rows: pa.Table) -> int:
        if rows["home"][0].as_py() == "home 3" and not mark.exists():
            mark.touch()
            os._exit(1)
        return int(rows.num_rows)

    source = open(parquet, engine="spark", session=one_task).bounded("home", 5)
    counts = source.map_groups(dies_once, by="home")
    assert mark.exists()
    assert counts == [(home, 5) for home in sorted(f"home {h}" for h in range(80))]
