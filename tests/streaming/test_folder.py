"""Folders of readings: the wrong files are refused by name, and no line of them reaches Spark's logs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gaussveil.cli.main import app
from gaussveil.errors import GaussveilError, SourceError
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.folder import COLUMNS, _after_headers, check_files, folder_readings
from gaussveil.streaming.spark import SparkStream

Meters = tuple[Meter, ...]
READING = {"meter": "white", "seq": 0, "kw": 0.625}


def parquet(folder: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), folder / "0.parquet")


def test_parquet_files_need_the_three_columns(tmp_path: Path) -> None:
    parquet(tmp_path, meter=["m"], SEQ=[0], kW=[0.5], other=[1])  # Spark does not mind the case
    check_files(str(tmp_path), "parquet", {})
    parquet(tmp_path, meter=["m"], seq=[0], power=[0.5])
    with pytest.raises(SourceError, match=r"0\.parquet: has no column kw"):
        check_files(str(tmp_path), "parquet", {})
    (tmp_path / "0.parquet").write_text(json.dumps(READING))
    with pytest.raises(SourceError, match=r"0\.parquet: is no whole Parquet file") as caught:
        check_files(str(tmp_path), "parquet", {})
    assert "0.625" not in str(caught.value)
    (tmp_path / "0.parquet").rename(tmp_path / "_0.parquet")  # Spark passes over it
    check_files(str(tmp_path), "parquet", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("meter,seq,kw\nwhite,0,0.625\n", "no JSON line"),
        (json.dumps([READING], indent=1), "no JSON line"),
        (json.dumps({"meter": "white", "seq": 0, "kW": 0.625}) + "\n", "has a kw"),
        (json.dumps({"name": "white", "seq": 0, "kw": 0.625}) + "\n", "no JSON line"),
    ],
)
def test_json_lines_need_meter_and_seq_and_not_all_may_lack_kw(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "0.json").write_text(text)
    with pytest.raises(SourceError, match=words) as caught:
        check_files(str(tmp_path), "json", {})
    assert "0.625" not in str(caught.value)
    check_files(str(tmp_path), "json", {"multiLine": "true"})  # text that only Spark knows how to read
    (tmp_path / "0.json").write_text("")
    with gzip.open(tmp_path / "1.json.gz", "wt") as stream:
        stream.write('no reading\n{"meter": "white", "seq": 0}\n' + json.dumps(READING))
    check_files(str(tmp_path), "json", {})


def test_csv_files_begin_with_the_names(tmp_path: Path) -> None:
    file = tmp_path / "0.csv"
    for good, options in (
        ("Meter,seq,kw\n", {}),
        ('"meter";"seq";"kw"\nwhite;0;1', {"sep": ";"}),
        ("\ufeffmeter\tseq\tkw\n", {"SEP": "\\t"}),
        ("", {}),
    ):
        file.write_text(good, encoding="utf-8")
        check_files(str(tmp_path), "csv", options)
    for bad in ("white,0,0.625\n", "meter,kw,seq\nwhite,0.625,0\n", "meter,seq,kw,volt\n", "meter;seq;kw\n"):
        file.write_text(bad)
        with pytest.raises(SourceError, match="must begin with a line that names meter, seq, kw") as caught:
            check_files(str(tmp_path), "csv", {})
        assert "0.625" not in str(caught.value)


def started(stream: SparkStream, readings: Any, out: Path) -> Any:
    return stream.start(stream.private(readings), "parquet", trigger={"availableNow": True}, path=str(out))


@pytest.fixture
def log(spark: Any) -> Iterator[Any]:
    """All that Spark's driver and its tasks log, errors with their whole stack."""
    log4j = spark._jvm.org.apache.logging.log4j
    written = spark._jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "test", False, True)
    appender.start()
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    root.addAppender(appender, None, None)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield written
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    root.removeAppender("test")


Rows = list[tuple[str, int, list[str | None]]]
NAMES = ["meter", "seq", "kw", None]


def batch(rows: Rows) -> pa.RecordBatch:
    """Rows of files as a worker gets them: file, where the part of it begins, cells."""
    files, starts, cells = zip(*rows)
    columns = dict(zip((*COLUMNS, "more"), (pa.array(column, pa.string()) for column in zip(*cells))))
    return pa.record_batch({**columns, "file": pa.array(files), "start": pa.array(starts)})


def test_first_lines_are_taken_off_wherever_tasks_and_batches_end() -> None:
    def row(k: int) -> list[str | None]:
        return ["white", str(k), "0.5", None]

    batches = [
        batch([("a", 0, [*NAMES]), ("a", 0, row(0)), ("b", 64, row(1)), ("b", 64, [*NAMES])]),
        batch([("c", 0, ["METER", " seq", '"kw"', None])]),
        batch([("c", 0, row(2)), ("d", 0, [*NAMES]), ("b", 0, [*NAMES]), ("b", 0, row(3))]),
    ]
    kept = pa.Table.from_batches(_after_headers(iter(batches)))
    assert kept["seq"].to_pylist() == ["0", "1", "seq", "2", "3"]
    for first in (row(0), ["meter", "kw", "seq", None], [*NAMES[:3], "volt"], ["meter", None, None, None]):
        with pytest.raises(SourceError, match="must begin with a line") as caught:
            list(_after_headers(iter([batch([("a", 0, [*NAMES]), ("e", 0, first), ("e", 0, row(1))])])))
        assert "0.5" not in str(caught.value)


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("kind", "text"), [("csv", "white,17,0.625\n"), ("parquet", "white,17,0.625\n")])
def test_files_that_come_later_stop_the_stream_and_are_not_logged(
    spark: Any, log: Any, tmp_path: Path, meters: Meters, kind: str, text: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0").write_text(text)
    stream = SparkStream(write_meters(meters, tmp_path / "m.json"), tmp_path / "checkpoint", session=spark)
    readings = folder_readings(spark, str(tmp_path / "in"), kind, {"mode": "FAILFAST", "header": "true"})
    query = started(stream, readings, tmp_path / "out")
    with pytest.raises(Exception, match=r".") as caught:
        query.awaitTermination(300)
    if kind == "csv":
        assert "must begin with a line that names meter, seq, kw" in str(caught.value)
    assert "Query" in log.toString()
    for told in (log.toString(), str(caught.value)):
        assert "0.625" not in told
        assert "white" not in told
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.xdist_group("spark")
def test_good_csv_and_json_files_are_answered_and_bad_lines_are_not_logged(
    spark: Any, log: Any, tmp_path: Path, meters: Meters
) -> None:
    (tmp_path / "in").mkdir()
    for k in range(3):  # some in one task
        rows = "".join(f"white,{seq}, 0.5\n" for seq in range(4 * k, 4 * k + 4))
        (tmp_path / "in" / f"{k}.csv").write_text(f"meter,seq,kw\n\n{rows}white,one,0.5\nmeter,seq,kw\nwhite\n")
    stream = SparkStream(write_meters(meters, tmp_path / "m.json"), tmp_path / "checkpoint", session=spark)
    readings = folder_readings(spark, str(tmp_path / "in"), "csv", {})
    query = started(stream, readings, tmp_path / "out")
    assert query.awaitTermination(300)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["seq"] for row in rows) == list(range(12))
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "0.json").write_text(json.dumps({**READING, "seq": 12}) + '\n{"meter": "white", "kw": 0.625')
    again = folder_readings(spark, str(tmp_path / "json"), "json", {"mode": "FAILFAST"})
    seen = again.writeStream.format("memory").queryName("lines").trigger(availableNow=True).start()
    assert seen.awaitTermination(300)
    assert [row["seq"] for row in spark.sql("SELECT * FROM lines WHERE seq IS NOT NULL").collect()] == [12]
    assert "0.625" not in log.toString()


@pytest.mark.xdist_group("spark")
def test_the_command_refuses_before_anything_is_made(
    spark: Any, tmp_path: Path, meters: Meters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_meters(meters[:1], tmp_path / "meter.json")
    for name in ("readings", "a[b]"):
        (tmp_path / name).mkdir()
    parquet(tmp_path / "readings", meter=["white"], seq=[0], power=[0.625])
    for words, message in (
        (("--input", "readings", "--format", "parquet", "--checkpoint", "c"), "has no column kw"),
        (("--input", "readings", "--checkpoint", "c"), "no JSON line"),
        (("--input", "a[b]", "--checkpoint", "c"), "rename it"),
        (("--input", "readings", "--checkpoint", "c{d}"), "rename it"),
    ):
        done = CliRunner().invoke(app, ["stream", "spark", "meter.json", "--out", "private", *words])
        assert isinstance(done.exception, GaussveilError)
        assert message in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a[b]", "meter.json", "readings"]
    (tmp_path / "readings" / "0.parquet").unlink()
    ends = ("--input", "readings", "--out", "private", "--checkpoint", "c", "--option", "maxFilesPerTrigger=pa55")
    done = CliRunner().invoke(app, ["stream", "spark", "meter.json", *ends])
    assert isinstance(done.exception, SourceError)
    assert "pa55" not in str(done.exception)
