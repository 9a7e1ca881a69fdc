"""Tables that are not what they seem: names like ours, files that differ, headers that are readings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open
from gaussveil.engines.location import locate, public_name, spoken_name
from gaussveil.errors import GaussveilError, SchemaError, SourceError
from gaussveil.mechanisms import Count, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Labels, Moments, Source, as_source, hour_of

pytestmark = pytest.mark.xdist_group("spark")

Opener = Callable[..., Source]


@pytest.fixture(params=["duckdb", "spark"])
def table_of(request: pytest.FixtureRequest) -> Opener:
    """How an engine opens an address."""
    if request.param == "duckdb":
        return open
    session = request.getfixturevalue("spark")
    return lambda address, **options: open(address, engine="spark", session=session, **options)


def test_columns_named_like_ours_do_not_decide_who_is_kept(opener: Callable[[Path], Source], tmp_path: Path) -> None:
    homes = ["a"] * 10 + ["b"] * 10
    zeros = np.zeros(20, dtype=np.int64)
    columns = {"home": homes, "kw": np.arange(20.0), "GAUSSVEIL_rank": zeros, "gaussveil_hash": np.arange(20)}
    pq.write_table(pa.table({**columns, "gaussveil_own_rank": zeros}), tmp_path / "t.parquet")
    source = opener(tmp_path / "t.parquet")
    assert source.bounded("home", 2).row_count() == 4
    whole = source.sample(0.5, 3).row_count()
    assert 0 < whole < 20


def test_unsigned_integers_are_numbers_and_names_alike_on_every_engine(
    opener: Callable[[Path], Source], tmp_path: Path
) -> None:
    homes = pa.array([2**64 - 1 - k % 7 for k in range(63)] + [None], pa.uint64())
    pulses = pa.array([2**63 + 3**k for k in range(39)] + [None] * 25, pa.uint64())
    rows = pa.table({"home": homes, "pulses": pulses, "code": pulses.cast(pa.decimal128(38, 0)), "kw": np.arange(64.0)})
    pq.write_table(rows, tmp_path / "t.parquet")

    def outcome(source: Source) -> tuple[object, ...]:
        kept = source.bounded("home", 3)
        sums = kept.aggregate(Moments(clip=2.0**65), columns=["pulses", "kw"])
        meant = [(int(home), count) for home, count in kept.map_groups(len, by="home")]
        return meant, sums.total.to_float().tolist(), kept.sample(0.5, 3).row_count(), source.sample(0.5, 3).row_count()

    assert outcome(opener(tmp_path / "t.parquet")) == outcome(as_source(rows))


def test_times_are_instants_alike_on_every_engine(opener: Callable[[Path], Source], tmp_path: Path) -> None:
    seconds = pa.array([None, *range(1_700_000_000, 1_700_000_059)], pa.int64())
    columns = {
        "home": [k % 5 for k in range(60)],
        "utc": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "zurich": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("ms", "Europe/Zurich")),
        "wall": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("us")),
        "day": seconds.cast(pa.timestamp("s")).cast(pa.date32()),
        "kw": np.arange(60.0),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")

    def outcome(source: Source) -> tuple[object, ...]:
        kept, sampled = source.bounded("home", 3), source.sample(0.5, 3)
        sums = [view.aggregate(Moments(clip=99.0), columns=["kw"]).total.to_float().item() for view in (kept, sampled)]
        return sums, source.map_groups(lambda rows: rows["kw"].to_pylist(), by="home", order=["utc"])

    assert outcome(opener(tmp_path / "t.parquet")) == outcome(as_source(pa.table(columns)))


@pytest.mark.parametrize("form", ["2024-01-01 00:{:02d}:00", "2024-01-01T00:{:02d}", "2024-01-01T00:{:02d}:00+01:00"])
def test_times_in_text_are_instants_alike(spark: Any, tmp_path: Path, form: str) -> None:
    lines = [f"{k % 4},{form.format(59 - k)},{k}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["home,at,kw", *lines, ""]))
    first, second = (
        source.bounded("home", 3).map_groups(lambda rows: rows["kw"].to_pylist(), by="home", order=["at"])
        for source in (open(tmp_path / "t.csv"), open(tmp_path / "t.csv", engine="spark", session=spark))
    )
    assert first == second
    assert all(homes == sorted(homes, reverse=True) and len(homes) == 3 for _, homes in first)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_session_on_another_clock_reads_the_same_hours(spark: Any, tmp_path: Path, kind: str) -> None:
    """Wall clocks as they stand and instants in UTC, whatever time zone somebody gave their session."""
    wall = [datetime(2024, 3, 31, k % 24, 30) for k in range(60)]
    rows = {"home": [f"h{k}" for k in range(60)], "wall": wall, "instant": pa.array(wall, pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    lines = [f"h{k},{at},{at}Z" for k, at in enumerate(wall)]
    (tmp_path / "t.csv").write_text("\n".join(["home,wall,instant", *lines, ""]))
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    source = open(tmp_path / f"t.{kind}", engine="spark", session=session)
    for column in ("wall", "instant"):
        answers = []
        for table in (as_source(pa.table(rows)), source):
            asked = TableRelease(unit="home", epsilon=1.0, delta=1e-5, by={"hour": hour_of(column)}, answers=[Count()])
            asked.generator = SeededGenerator(1)
            answers.append(asked.release(table).value)
        assert answers[0].equals(answers[1]), column


def test_times_of_day_in_any_unit_are_hashed_alike(tmp_path: Path) -> None:
    rows = {"at": pa.array([*range(59), None], pa.int32()).cast(pa.time32("s")), "kw": np.arange(60.0)}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    samples = [source.sample(0.5, 3) for source in (open(tmp_path / "t.parquet"), as_source(pa.table(rows)))]
    first, second = (one.aggregate(Moments(clip=99.0), columns=["kw"]).total.to_float().item() for one in samples)
    assert first == second


@pytest.mark.parametrize(
    "kind", [pa.float16(), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.time64("us")], ids=str
)
def test_a_column_that_spark_has_no_type_for_is_named(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    odd = pa.array([1000, 2000], pa.int32() if kind == pa.time32("s") else pa.int64())
    odd = odd.cast(pa.float32()).cast(kind) if kind == pa.float16() else odd.cast(kind)
    pq.write_table(pa.table({"kw": [1.0, 2.0], "odd one": odd}), tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match=r"column 'odd one' has a type that Spark does not read"):
        open(tmp_path / "t.parquet", engine="spark", session=spark)
    elsewhere = [open(tmp_path / "t.parquet"), as_source(pq.read_table(tmp_path / "t.parquet"))]
    for source in elsewhere:
        assert [count for _, count in source.map_groups(len, by="odd one")] == [1, 1]


@pytest.mark.parametrize(
    "second", ["kw,home\n0.5,3\n", "3,0.5\n4,0.7\n", "home;kw\n3;0.5\n", "home,kw,volt\n3,0.5,1\n"]
)
def test_csv_files_of_one_table_have_the_same_first_line(table_of: Opener, tmp_path: Path, second: str) -> None:
    (tmp_path / "a.csv").write_text("home,kw\n1,0.5\n2,0.7\n")
    (tmp_path / "b.csv").write_text(second)
    with pytest.raises(SourceError, match=r"b\.csv: its first line is not that of") as caught:
        table_of(tmp_path / "*.csv")
    assert "0.5" not in str(caught.value)
    (tmp_path / "b.csv").write_text('"home","kw"\n3,0.5\n')
    assert table_of(tmp_path / "*.csv").row_count() == 3
    for name, line in (("a", "home,kw\n1,0.5"), ("b", second)):
        (tmp_path / f"{name}.csv").write_text(f"\n\n{line}\n")
    with pytest.raises(SourceError, match=r"b\.csv: its first line is not that of"):
        table_of(tmp_path / "*.csv")


def test_a_first_line_of_readings_is_neither_taken_for_names_nor_repeated(table_of: Opener, tmp_path: Path) -> None:
    for first in ("1,0.625", "home 3,-1e-3", ".5,7"):
        (tmp_path / "t.csv").write_text(f"{first}\n2,0.7\n3,0.9\n")
        with pytest.raises(SourceError, match="must name the columns") as caught:
            table_of(tmp_path / "t.csv")
        assert not any(cell in str(caught.value) for cell in first.split(","))
    (tmp_path / "t.csv").write_text("time,1001,v1.5,1e\n2024-01-01,0.5,0.5,0.5\n")  # meters' names
    assert table_of(tmp_path / "t.csv").schema.names == ["time", "1001", "v1.5", "1e"]


def test_whole_numbers_are_not_made_of_fractions(table_of: Opener, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,kw\na,1\nb,0.4\nc,1.7\nd,1e3\ne,-2\nf,x\n")
    found = table_of(tmp_path / "t.csv", types={"kw": "BIGINT"}).table(order=["home"])
    assert found["kw"].to_pylist() == [1, None, None, None, -2, None]
    with pytest.raises(SchemaError, match="types declares 'kW'"):
        table_of(tmp_path / "t.csv", types={"kW": "BIGINT"})


def test_text_of_a_typed_table_is_read_as_somebody_says(table_of: Opener, tmp_path: Path) -> None:
    """By the map of cells of CSV files, in every pass; what has a type of its own keeps it."""
    columns = {
        "home": ["100", "0100", "c"] * 10,
        "kw": [1.5, -999.0, 2.5] * 10,
        "n": [*range(30)],
        "price": ["1,5", "x", "2"] * 10,
        "time": ["02/03/2024 10:00", "30/02/2024 10:00", "13/03/2024 11:30"] * 10,
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    types = {"home": "whole", "n": "text", "price": "number", "time": "time"}
    said = {"types": types, "time_format": "%d/%m/%Y %H:%M", "decimal": ",", "missing": -999}
    source = table_of(tmp_path / "t.parquet", **said)
    assert source.found_form == ()
    kinds = ["int64", "double", "string", "double", "timestamp[us]"]
    assert [str(one.type) for one in source.schema] == kinds
    moments = [source.aggregate(Moments(clip=99.0), columns=[name]) for name in ("kw", "price")]
    assert [(one.count.integers().tolist(), one.total.to_float().tolist()) for one in moments] == [
        ([20], [[40.0]]),
        ([20], [[35.0]]),
    ]
    rows = source.table(order=["n"]).slice(0, 2).to_pylist()
    assert rows[0] == {"home": 100, "kw": 1.5, "n": "0", "price": 1.5, "time": datetime(2024, 3, 2, 10)}
    assert rows[1] == {"home": 100, "kw": None, "n": "1", "price": None, "time": None}
    assert source.bounded("home", 1).row_count() == 3  # whose rows these are is text, byte for byte
    for wrong, words in (({"kw": "text"}, "holds number"), ({"kw": "time"}, "holds number"), ({"q": "text"}, "'q'")):
        with pytest.raises(SchemaError, match=words):
            table_of(tmp_path / "t.parquet", types=wrong)


def test_cells_that_one_engine_alone_would_read_are_missing_in_each(table_of: Opener, tmp_path: Path) -> None:
    times = ["infinity", "epoch", "2024/01/01 03:00:00", "2024-01-01 00:00:00+05:00", "2024-01-01 03:00"]
    numbers = ["1_000", "1.5d", "1.5f", "0x1p3", " 1.5 ", "1e3", "+.5"]
    lines = [f"2024-01-01 0{k}:00:00,{k}.5" for k in range(9)] * 3
    lines += [f"{time},0.25" for time in times] + [f"2024-01-02 00:00:00,{number}" for number in numbers]
    lines.append("2024-01-03 00:00:00,1,5")  # left out, for it has a cell too many
    (tmp_path / "t.csv").write_text("\n".join(["time,kw", *lines]))
    found = table_of(tmp_path / "t.csv").table().to_pydict()
    assert [str(time) for time, kw in zip(found["time"], found["kw"]) if kw == 0.25 and time] == ["2024-01-01 03:00:00"]
    later = [kw for time, kw in zip(found["time"], found["kw"]) if time and str(time) > "2024-01-02"]
    assert sorted(kw for kw in later if kw is not None) == [0.5, 1.5, 1000.0]
    assert len(later) == len(numbers)


def test_days_are_read_in_the_form_that_somebody_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day,kw\n31/12/2023,1\n01/01/2024,2\n,3\n13/02/2024,4\n")
    rows = open(tmp_path / "t.csv", types={"day": "date"}, time_format="%d/%m/%Y").table(order=["day"])
    assert [str(day) for day in rows["day"].to_pylist()] == ["2023-12-31", "2024-01-01", "2024-02-13", "None"]
    assert rows["kw"].to_pylist() == [1.0, 2.0, 4.0, 3.0]


def test_names_of_folders_are_no_columns(table_of: Opener, tmp_path: Path) -> None:
    for name in ("kw=100", "year=2024"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"kw": [1.0, 2.0]}), tmp_path / name / "t.parquet")
        source = table_of(tmp_path / name)
        assert source.schema.names == ["kw"]
        assert source.table(order=["kw"])["kw"].to_pylist() == [1.0, 2.0]


def test_text_that_spark_wrote_with_a_collation_is_compared_by_its_bytes(spark: Any, tmp_path: Path) -> None:
    """Of columns that Spark takes for equal whatever their case or accents: unit, key of groups, label and order."""
    names = ["a", "A", "\u00e9", "e\u0301", "e", "ss", "\u00df", " a"]
    kinds = {"home": "UTF8_LCASE", "zone": "UNICODE_CI", "label": "UNICODE_AI", "kw": ""}
    rows = {name: [names[(k + place) % 8] for k in range(48)] for place, name in enumerate(("home", "zone", "label"))}
    given = pa.table({**rows, "kw": np.arange(48.0)})
    typed = [f"{name} COLLATE {kind} AS {name}" if kind else name for name, kind in kinds.items()]
    frame = spark.createDataFrame(given.to_pandas()).selectExpr(*typed)
    frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    assert spark.read.parquet(str(tmp_path / "t")).select("home").distinct().count() < len(names)

    def outcome(source: Source) -> dict[str, Any]:
        kept = source.bounded("home", 2)
        moments = kept.aggregate(Moments(clip=99.0), columns=["kw"], group=Labels("label", ["a", "A", "\u00df"]))
        values, units = source.units_per_value("home", "zone", 3)
        return {
            "homes": source.map_groups(lambda rows: rows["zone"].to_pylist(), by="home", order=["label", "kw"]),
            "kept": (kept.row_count(), source.sample(0.5, 3).row_count(), source.bounded("zone", 1).row_count()),
            "labels": (moments.count.integers().tolist(), moments.total.to_float().tolist()),
            "keys": sorted(zip(values.to_pylist(), units.tolist())),
        }

    expected = outcome(as_source(given))
    assert [home for home, _ in expected["homes"]] == sorted(names)
    assert expected["kept"][::2] == (16, 8)
    for source in (open(tmp_path / "t"), open(tmp_path / "t", engine="spark", session=spark)):
        assert outcome(source) == expected
    form = {"columns": {"home": "text", "zone": "text", "label": "text", "kw": "number"}, "missing": ["ss"]}
    pinned = outcome(open(tmp_path / "t", schema=form))
    assert [home for home, _ in pinned["homes"]] == sorted(set(names) - {"ss"})
    assert outcome(open(tmp_path / "t", engine="spark", session=spark, schema=form)) == pinned


@pytest.mark.parametrize("other", [{"kw": [3, 4]}, {"kw": ["3", "oops"]}, {}])
def test_columns_that_differ_between_files_are_refused_whatever_they_hold(
    table_of: Opener, tmp_path: Path, other: dict[str, Any]
) -> None:
    pq.write_table(pa.table({"home": ["a", "b"], "kw": [1.5, 2.5]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"home": pa.array(["c", "c"]).dictionary_encode(), **other}), tmp_path / "b.parquet")
    source = table_of(tmp_path)
    assert len(source.select(["home"]).map_groups(len, by="home")) == 3
    for use in (
        lambda: source.aggregate(Moments(clip=5.0), columns=["kw"]),
        lambda: source.bounded("home", 1).row_count(),
        lambda: source.table(),
        lambda: source.map_groups(len, by="home"),
    ):
        with pytest.raises(SchemaError, match="'kw' is not in every file") as caught:
            use()
        assert "oops" not in str(caught.value)


def test_folders_that_spark_wrote_count_file_by_file(table_of: Opener, tmp_path: Path) -> None:
    (tmp_path / "b.parquet").mkdir()
    pq.write_table(pa.table({"kw": [8.0]}), tmp_path / "b.parquet" / "part-0.parquet")
    pq.write_table(pa.table({"kw": [1.0]}), tmp_path / "a.parquet")
    source = table_of(tmp_path)
    assert source.aggregate(Moments(clip=9.0), columns=["kw"]).total.to_float().item() == 9.0
    pq.write_table(pa.table({"kw": [2.0]}), tmp_path / "b.parquet" / "part-0.parquet")
    with pytest.raises(SourceError, match="changed between two passes"):
        source.row_count()


def test_households_may_have_any_name_of_column(opener: Callable[[Path], Source], tmp_path: Path) -> None:
    names = ["home.id", "k w`\"'x", "höhe"]
    rows = pa.table([["a", "b", "a"], [1.0, 2.0, 3.0], [1, 2, 3]], names=names)
    pq.write_table(rows, tmp_path / "t.parquet")
    source = opener(tmp_path / "t.parquet")
    assert source.bounded("home.id", 1).row_count() == 2
    assert source.map_groups(len, by="home.id", order=[names[1]]) == [("a", 2), ("b", 1)]
    assert source.aggregate(Moments(clip=9.0), columns=[names[1]]).total.to_float().item() == 6.0


def test_a_session_that_passes_over_damaged_files_does_not_do_so_here(
    spark: Any, parquet: Path, tmp_path: Path
) -> None:
    whole = parquet.read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole)
    noise = np.random.default_rng(1).bytes(len(whole) // 2)
    (tmp_path / "b.parquet").write_bytes(whole[:100] + noise + whole[100 + len(noise) :])
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(SourceError, match="could not be read"):
            open(tmp_path, engine="spark", session=spark).bounded("home", 3).row_count()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_spark_that_cannot_start_is_told_in_one_line() -> None:
    words = "from gaussveil.engines.spark_session import start_session; start_session('local[1]')"
    done = subprocess.run(
        [sys.executable, "-c", words], env={**os.environ, "JAVA_HOME": "/nowhere"}, capture_output=True, text=True
    )
    assert "SourceError: Spark could not be started" in done.stderr.splitlines()[-1]


ADDRESSES = (
    "postgresql:/user:pa55@host/db.db#t",
    "postgresql:user:pa55@host.db#t",
    "user:pa55@host/x.csv",
    "folder/user:pa55@host.parquet",
    "host=h password=pa55.db#t",
    "postgresql://user:pa55@127.0.0.1:1/db#t",
    "postgres:/user:p@a55:pa55@h/d",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_message_repeats_a_password(address: str) -> None:
    with pytest.raises(GaussveilError) as caught:
        open(address)
    assert "pa55" not in str(caught.value)
    assert "pa55" not in spoken_name(address)


def test_other_addresses_are_repeated(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=str(tmp_path / "absent.csv")):
        locate(tmp_path / "absent.csv")
    assert spoken_name("s3://bucket/private") == "s3://bucket/private"
    assert spoken_name("s3a://key:word@bucket/private") == "private" == public_name("s3a://key:word@bucket/private")
