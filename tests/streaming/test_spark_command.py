"""`gaussveil stream spark`: what the command line makes of a stream; the stream itself is tested beside this."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from gaussveil.cli.main import app
from gaussveil.cli.stream_spark import spark as command
from gaussveil.errors import AssumptionError, GaussveilError, MissingDependencyError, SourceError
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.replay import MeterReplay

pytestmark = pytest.mark.xdist_group("spark")

Meters = tuple[Meter, ...]
EXAMPLE = " ".join((command.__doc__ or "").partition("Example: ")[2].split())


@pytest.fixture
def folder(spark: Any, tmp_path: Path, meters: Meters, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that the example names, where it is run."""
    write_meters(meters[:1], tmp_path / "meter.json")
    (tmp_path / "readings").mkdir()
    monkeypatch.chdir(tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield tmp_path
    spark.conf.set("spark.sql.shuffle.partitions", "8")


def invoke(*words: str) -> Result:
    done = CliRunner().invoke(app, ["stream", "spark", "meter.json", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def drop(folder: Path, name: str, text: str) -> None:
    """One more file of readings, complete at once."""
    (folder / "part").write_text(text, encoding="utf-8")
    os.replace(folder / "part", folder / "readings" / name)


def lines(first: int, count: int) -> str:
    return "".join(json.dumps({"meter": "white", "seq": first + k, "kw": 0.5 + k}) + "\n" for k in range(count))


def answered(session: Any, folder: Path) -> list[tuple[int, float]]:
    rows = session.read.parquet(str(folder / "private")).where("register IS NULL").collect()
    return sorted((row["seq"], row["kw"]) for row in rows)


def expected(meters: Meters, folder: Path, batches: list[int]) -> list[tuple[int, float]]:
    """The filter's own answers to batches of so many readings each."""
    secret = bytes.fromhex(json.loads((folder / "meter.json.key").read_text())["secret"])
    state, first, found = None, 0, []
    for count in batches:
        readings = [(first + k, 0.5 + k) for k in range(count)]
        state, answers = MeterReplay(meters[0]).answer(secret, state, readings)
        found += [(start + k, v) for a in answers for start, run in a.runs for k, v in enumerate(run.tolist())]
        first += count
    return found


def test_the_example_runs_and_a_second_run_continues(spark: Any, folder: Path, meters: Meters) -> None:
    words = shlex.split(EXAMPLE)[4:]
    assert shlex.split(EXAMPLE)[:4] == ["gaussveil", "stream", "spark", "meter.json"]
    drop(folder, "0.json", lines(0, 24) + "no reading\n" + json.dumps({"meter": "stranger", "seq": 0, "kw": 1.0}))
    assert str(folder / "private") in invoke(*words).stdout.replace("\n", "")
    assert answered(spark, folder) == expected(meters, folder, [24])
    again = json.loads(invoke(*words, "--json").stdout)  # there is nothing new, and nothing is said twice
    assert again["checkpoint"] == str(folder / "checkpoint")
    assert len(answered(spark, folder)) == 24
    drop(folder, "1.json", lines(24, 6))
    invoke(*words, "--option", "maxFilesPerTrigger=1", "--json")
    assert answered(spark, folder) == expected(meters, folder, [24, 6])


def test_it_serves_until_it_is_stopped(spark: Any, folder: Path, meters: Meters) -> None:
    def stop() -> None:
        for _ in range(600):
            if list((folder / "private").glob("*.json")) and list((folder / "checkpoint" / "commits").glob("0")):
                break
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)  # the command's own handler is there since before the first batch

    before = signal.getsignal(signal.SIGTERM)
    drop(folder, "0.csv", "meter,seq,kw\n" + "".join(f"white,{k},0.5\n" for k in range(3)))
    threading.Thread(target=stop, daemon=True).start()
    ends = ("--input", "readings", "--format", "csv", "--out", "private", "--out-format", "json")
    done = invoke(*ends, "--checkpoint", "checkpoint", "--metrics", "0.1", "--json")
    assert json.loads(done.stdout)["last_batch"] == 0
    assert signal.getsignal(signal.SIGTERM) == before
    rows = spark.read.json(str(folder / "private")).where("kw IS NOT NULL").collect()
    assert sorted(row["seq"] for row in rows) == [0, 1, 2]


ENDS = ("--input", "readings", "--out", "private")
STATE = ("--checkpoint", "checkpoint")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "private", *STATE), "exactly one of --input and --topic"),
        (("--input", "readings", *STATE), "exactly one of --out and --private-topic"),
        (("--topic", "meters", "--out", "private", *STATE), "--kafka names the brokers"),
        ((*ENDS, "--kafka", "localhost:9", *STATE), "--kafka names the brokers"),
        (("--input", "nowhere", "--out", "private", *STATE), "nowhere: is no folder"),
        (("--input", "readings", "--out", "readings/out", *STATE), "folders of their own"),
        ((*ENDS, "--checkpoint", "private"), "folders of their own"),
        ((*ENDS, *STATE, "--option", "words"), "NAME=VALUE"),
        ((*ENDS, *STATE, "--options", "meter.json"), "one JSON object of texts"),
    ],
)
def test_mistakes_are_named_before_anything_is_made(folder: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(GaussveilError, match=message):
        invoke(*words)
    assert sorted(path.name for path in folder.iterdir()) == ["meter.json", "readings"]


def test_kafka_options_pass_through_and_a_broken_state_is_told(spark: Any, folder: Path) -> None:
    (folder / "options.json").write_text('{"kafka.sasl.jaas.config": "not-for-anybody"}', encoding="utf-8")
    brokers = ("--kafka", "127.0.0.1:9", "--topic", "meters", "--private-topic", "private")
    with pytest.raises(MissingDependencyError, match="spark-sql-kafka") as caught:  # Spark's own connector, a jar
        invoke(*brokers, *STATE, "--options", "options.json")
    assert "not-for-anybody" not in str(caught.value)
    (folder / "meter.json.key").unlink()
    with pytest.raises(AssumptionError, match="key is gone"):
        invoke(*ENDS, *STATE)


def test_a_stream_that_fails_says_so_without_sparks_words(spark: Any, folder: Path) -> None:
    words = pa.table({"meter": ["white"], "seq": [0], "kw": ["home 3"]})
    pq.write_table(words, folder / "readings" / "0.parquet")
    with pytest.raises(SourceError, match="continues from its checkpoint") as caught:
        invoke(*ENDS, *STATE, "--format", "parquet", "--once")
    assert "home 3" not in str(caught.value)


def test_a_reading_in_the_place_of_a_number_is_never_published(spark: Any, folder: Path) -> None:
    drop(folder, "0.csv", "meter,kw,seq\nwhite,5,0\nwhite,7,1\n")
    ends = ("--input", "readings", "--format", "csv", "--out", "private", "--out-format", "csv", *STATE, "--once")
    with pytest.raises(SourceError, match="names meter, seq, kw"):
        invoke(*ends)
    assert not list((folder / "private").glob("*.csv"))
    drop(folder, "0.csv", "meter,seq,kw\nwhite,0,5\nwhite,1,7\n")
    invoke(*ends)
    rows = spark.read.csv(str(folder / "private"), header=True).collect()
    assert [row["seq"] for row in rows] == ["0", "1"]
