"""Meter streams on Spark: micro-batches that are run again say the same bytes, and nothing is drawn afresh."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.errors import AssumptionError, FormatError, MissingDependencyError, ParameterError, SchemaError
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.messages import encode_readings
from gaussveil.streaming.replay import MeterReplay
from gaussveil.streaming.spark import SparkStream

pytestmark = pytest.mark.xdist_group("spark")

Meters = tuple[Meter, ...]
Readings = list[tuple[str, int, float]]
SCHEMA = "meter string, seq bigint, kw double"


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """The session, with as few state partitions as cores."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", "8")


@pytest.fixture
def folder(tmp_path: Path, meters: Meters) -> Path:
    write_meters(meters, tmp_path / "meter.json")
    (tmp_path / "in").mkdir()
    return tmp_path


def drop(folder: Path, number: int, readings: Readings) -> None:
    """One more file for the file source; complete at once, and later than the files before."""
    lines = [json.dumps({"meter": m, "seq": s, "kw": None if math.isnan(v) else v}) for m, s, v in readings]
    path = folder / "in" / f"{number}.json"
    (folder / "part").write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(folder / "part", (1_700_000_000 + number, 1_700_000_000 + number))
    os.replace(folder / "part", path)


def opened(session: Any, folder: Path, checkpoint: str = "checkpoint", **options: Any) -> SparkStream:
    return SparkStream(folder / "meter.json", folder / checkpoint, session=session, **options)


def run(session: Any, folder: Path, seen: list[tuple[int, list[tuple[Any, ...]]]], **options: Any) -> None:
    """All files that are there, each a micro-batch; what the sink is given is noted, also if it is given twice."""
    stream = opened(session, folder, **options)
    source = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))

    def sink(frame: Any, batch: int) -> None:
        seen.append((batch, sorted(map(tuple, frame.collect()), key=repr)))

    writer = stream.private(source).writeStream.foreachBatch(sink).trigger(availableNow=True)
    query = writer.option("checkpointLocation", stream.checkpoint).start()
    assert query.awaitTermination(300)
    assert query.exception() is None


def expected(meters: Meters, secret: bytes, batches: list[Readings]) -> list[list[tuple[Any, ...]]]:
    """The same from the filter objects themselves, without Spark."""
    states: dict[str, bytes] = {}
    found = []
    for readings in batches:
        rows: list[tuple[Any, ...]] = []
        for meter in meters:
            own = [(s, v) for m, s, v in readings if m == meter.name]
            if own:
                kept, answers = MeterReplay(meter).answer(secret, states.get(meter.name), own)
                states[meter.name] = kept
                for answer in answers:
                    for first, values in answer.runs:
                        rows += [(meter.name, first + k, v, None, None, None) for k, v in enumerate(values.tolist())]
                    rows += [(meter.name, e.first, None, e.name, e.samples, e.kwh) for e in answer.energies]
        found.append(sorted(rows, key=repr))
    return found


def test_a_batch_that_is_run_again_says_the_same_bytes(session: Any, folder: Path, meters: Meters) -> None:
    day = [(meter.name, k, math.sin(k)) for meter in meters for k in range(24)]
    tricky: Readings = [
        ("white", 23, math.sin(23)),
        ("white", 22, 9.0),
        ("white", 26, 1.0),
        ("coloured", 24, math.nan),
        ("stranger", 0, 1.0),
        ("billing", 24, 0.5),
    ]
    last: Readings = [("white", 27, 2.0), ("coloured", 25, 3.0), ("white", 24, 5.0)]
    seen: list[tuple[int, list[tuple[Any, ...]]]] = []
    drop(folder, 0, day)
    drop(folder, 1, tricky)
    run(session, folder, seen, meters_per_key=2)
    # a crash after the sink was given the rows and before Spark noted that it was
    for name in ("1", ".1.crc"):
        (folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    drop(folder, 2, last)
    run(session, folder, seen)  # how meters lie together was decided at the first start
    assert [batch for batch, _ in seen] == [0, 1, 1, 2]
    assert seen[2] == seen[1]
    secret = bytes.fromhex(json.loads((folder / "meter.json.key").read_text())["secret"])
    wanted = expected(meters, secret, [day, tricky, last])
    assert [seen[0][1], seen[1][1], seen[3][1]] == wanted
    assert [(row[0], row[1]) for row in wanted[2]] == [("coloured", 25), ("white", 27)]  # white 24 was substituted
    assert ("billing", 0, None, "day", 24) in {row[:5] for row in wanted[0]}
    assert (folder / "meter.json.key").stat().st_mode & 0o077 == 0
    assert (folder / "checkpoint").stat().st_mode & 0o077 == 0
    # the state is lost: nothing is answered before somebody says from where on
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(AssumptionError, match="checkpoint is gone"):
        opened(session, folder)
    anew = opened(session, folder, "second", reset_from=1000)
    assert anew.first_sequence == 1000
    assert json.loads((folder / "meter.json.key").read_text())["secret"] != secret.hex()


def test_payloads_through_an_exactly_once_file_sink(session: Any, folder: Path, meters: Meters) -> None:
    payloads = list(encode_readings(0, np.array([0.25, 0.5, 0.75])))
    table = pa.table({"meter": ["white"] * 4 + ["billing"], "payload": [*payloads, b"no reading", payloads[0]]})
    pq.write_table(table, folder / "in" / "0.parquet")
    for _ in range(2):  # the second time there is nothing new, and nothing is written
        stream = opened(session, folder)
        source = session.readStream.schema("meter string, payload binary").parquet(str(folder / "in"))
        private = stream.private(source, payloads=True)
        query = stream.start(private, "parquet", trigger={"availableNow": True}, path=str(folder / "out"))
        assert query.awaitTermination(300)
        rows = session.read.parquet(str(folder / "out")).collect()
    found = sorted((row["key"], json.loads(bytes(row["value"]))["seq"]) for row in rows)
    assert found == [("billing", 0), ("white", 0), ("white", 1), ("white", 2)]


def broken_key(folder: Path) -> None:
    (folder / "meter.json.key").write_text("{}", encoding="utf-8")


def lost_key(folder: Path) -> None:
    (folder / "meter.json.key").unlink()


def other_key(folder: Path) -> None:
    record = json.loads((folder / "meter.json.key").read_text(encoding="utf-8"))
    (folder / "meter.json.key").write_text(json.dumps({**record, "secret": "00" * 32}), encoding="utf-8")


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (broken_key, FormatError, "not a key"),
        (lost_key, AssumptionError, "key is gone"),
        (other_key, AssumptionError, "another key"),
    ],
)
def test_key_and_checkpoint_belong_together(
    session: Any, folder: Path, meters: Meters, harm: Callable[[Path], None], kind: type[Exception], words: str
) -> None:
    opened(session, folder)
    opened(session, folder)
    harm(folder)
    with pytest.raises(kind, match=words):
        opened(session, folder)


def test_mistakes_are_refused(session: Any, folder: Path, meters: Meters) -> None:
    stream = opened(session, folder)
    source = session.readStream.schema("meter string, kw double").json(str(folder / "in"))
    with pytest.raises(SchemaError, match="lack the columns seq"):
        stream.private(source)
    with pytest.raises(ParameterError, match="meters_per_key"):
        opened(session, folder, meters_per_key=0)
    with pytest.raises(ParameterError, match="reset_from must be a whole number, at least 0"):
        opened(session, folder, "second", reset_from=-1)
    with pytest.raises(ParameterError, match="checkpoint belongs"):
        stream.start(source, "noop", checkpointLocation="elsewhere")
    with pytest.raises(ParameterError, match="new checkpoint"):
        opened(session, folder, reset_from=5)
    write_meters(meters[:1], folder / "meter.json")
    with pytest.raises(FormatError, match="other meters"):
        opened(session, folder)


def test_numbers_of_other_types_are_the_same_readings(session: Any, folder: Path, meters: Meters) -> None:
    readings: Readings = [("white", 0, 0.5), ("white", 1, 0.75), ("coloured", 0, 1.25)]
    drop(folder, 0, readings)
    stream = opened(session, folder)
    source = session.readStream.schema("meter string, seq double, kw decimal(9, 3)").json(str(folder / "in"))
    query = stream.start(stream.private(source), "parquet", trigger={"availableNow": True}, path=str(folder / "out"))
    assert query.awaitTermination(300)
    secret = bytes.fromhex(json.loads((folder / "meter.json.key").read_text())["secret"])
    found = sorted(map(tuple, session.read.parquet(str(folder / "out")).collect()), key=repr)
    assert found == expected(meters, secret, [readings])[0]


def test_kafka_needs_sparks_connector_and_says_which(session: Any, folder: Path) -> None:
    stream = opened(session, folder)
    with pytest.raises(MissingDependencyError, match=r"spark-sql-kafka-0-10_2.13:4"):
        stream.kafka_readings("127.0.0.1:9", "meters", {"startingOffsets": "earliest"})
