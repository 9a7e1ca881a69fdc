"""`gaussveil stream spark`: private meter streams on Spark, from a folder or Kafka to a folder or Kafka."""

from __future__ import annotations

import json as json_format
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.files import read_json
from gaussveil.cli.options import Json, MetersFile, MetricsSeconds, ResetFrom
from gaussveil.cli.output import tell
from gaussveil.errors import FormatError, ParameterError, SourceError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


FileFormat = Literal["json", "csv", "parquet"]


def spark(
    meters: MetersFile,
    checkpoint: Annotated[
        str,
        typer.Option(
            help="Folder of the stream's state; a later run continues there.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="Folder into which files of readings (meter, seq, kw) are moved.",
        ),
    ] = None,
    input_format: Annotated[
        FileFormat, typer.Option("--format", help="Of the files of readings.")
    ] = "json",
    out: Annotated[
        str | None,
        typer.Option(help="Folder of private readings to write, exactly once."),
    ] = None,
    out_format: Annotated[
        FileFormat, typer.Option(help="Of the files in OUT.")
    ] = "parquet",
    kafka: Annotated[
        str | None,
        typer.Option(help="Kafka's brokers, host:port,...; needs Spark's connector."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help="Kafka topic of readings, keyed by meter, instead of --input."
        ),
    ] = None,
    private_topic: Annotated[
        str | None,
        typer.Option(help="Kafka topic of private readings, instead of --out."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Spark's own option, as kafka.security.protocol=SSL.",
        ),
    ] = None,
    options: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of Spark's options: passwords belong there, not on this line."
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master; GAUSSVEIL_SPARK_MASTER by default."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Secret key; METERS.key by default.")
    ] = None,
    reset_from: ResetFrom = None,
    once: Annotated[
        bool, typer.Option("--once", help="Answer what is there, then end.")
    ] = False,
    metrics: MetricsSeconds = 60.0,
    json: Json = False,
) -> None:
    """Answer readings on Spark by the rules of the gateway.

    A run that was stopped or killed continues from its checkpoint and says nothing twice. Options that begin with
    kafka. go to both ends, others to the source.

    Example: gaussveil stream spark meter.json --input readings --out private --checkpoint checkpoint --once
    """
    reader_options = given_options(option or [], options)
    _check_ends(
        kafka,
        {"--input": source, "--topic": topic},
        {"--out": out, "--private-topic": private_topic},
    )
    source = _absolute(source)
    out = _absolute(out)
    checkpoint = _absolute(checkpoint) or ""
    _check_folders(source, out, checkpoint)

    from gaussveil.engines.location import spoken_name
    from gaussveil.streaming.folder import check_files, folder_readings
    from gaussveil.streaming.spark import SparkStream

    if source is not None and _is_local(source):
        check_files(source, input_format, reader_options)
    stream = SparkStream(
        meters, checkpoint, master=master, key_file=key, reset_from=reset_from
    )
    with _startable():
        if source is not None:
            readings = folder_readings(
                stream.session, source, input_format, reader_options
            )
        else:
            readings = stream.kafka_readings(str(kafka), str(topic), reader_options)
        private = stream.private(readings, payloads=out is None)
        if once:
            trigger = {"availableNow": True}
        else:
            trigger = None
        if out is not None:
            place = spoken_name(out)
            query = stream.start(
                private, out_format, trigger=trigger, path=out, header=True
            )  # of CSV
        else:
            place = f"topic {private_topic}"
            target = _kafka_target(reader_options, str(kafka), str(private_topic))
            query = stream.start(private, "kafka", trigger=trigger, **target)
    _serve(query, metrics)
    answer = {
        "out": place,
        "checkpoint": spoken_name(checkpoint),
        "last_batch": _last_batch(query),
    }
    tell(
        answer,
        [f"private readings are in {place}; run it again to continue"],
        json=json,
    )


def _kafka_target(given: dict[str, str], brokers: str, topic: str) -> dict[str, str]:
    """Spark's options for answers that go to Kafka: those that secure it, the brokers and the topic."""
    secured = {
        name: value for name, value in given.items() if name.startswith("kafka.")
    }
    return {**secured, "kafka.bootstrap.servers": brokers, "topic": topic}


def _last_batch(query: Any) -> int | None:
    """The number of the last batch that was answered; None before the first."""
    latest = query.lastProgress
    if latest is None:
        return None
    number: int = latest["batchId"]
    return number


@contextmanager
def _startable() -> Iterator[None]:
    """Say that Spark refused a stream without its words, which may quote an option."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise SourceError(
            f"Spark refused to start the stream ({type(error).__name__}): check the options and their values, and that "
            "input, output and checkpoint can be reached"
        ) from None


def _serve(query: StreamingQuery, metrics: float) -> None:
    """Wait until the query ends or somebody ends this process."""
    from pyspark.errors import PySparkException

    stopped = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    spoken = time.monotonic()
    try:
        while not query.awaitTermination(1):
            if stopped.is_set():
                query.stop()
            elif 0 < metrics <= time.monotonic() - spoken:
                spoken = time.monotonic()
                if (latest := query.lastProgress) is not None:
                    told = {
                        "batch": latest["batchId"],
                        "readings_per_second": latest["processedRowsPerSecond"],
                    }
                    print(json_format.dumps(told), file=sys.stderr, flush=True)
    except PySparkException as error:
        # Spark's own words may quote a reading.
        raise SourceError(
            f"the stream stopped ({type(error).__name__}): check that every file of readings is whole and has the "
            "columns meter, seq, kw (a CSV file in this order, with a header), and that input, output and checkpoint "
            "can be read and written. Then start it again; it continues from its checkpoint."
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def given_options(pairs: list[str], file: Path | None) -> dict[str, str]:
    """Of a JSON file and of NAME=VALUE pairs; the latter win."""
    options: dict[str, str] = {}
    if file is not None:
        content = read_json(file)
        if not isinstance(content, dict) or not all(
            isinstance(value, str) for value in content.values()
        ):
            raise FormatError(f"{file}: options are one JSON object of texts")
        options = dict(content)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ParameterError(
                "--option must be NAME=VALUE, as in --option maxFilesPerTrigger=1"
            )
        options[name] = value
    return options


def _check_ends(
    kafka: str | None,
    sources: Mapping[str, str | None],
    targets: Mapping[str, str | None],
) -> None:
    """One source, one target, and brokers exactly where a topic is named."""
    for ends in (sources, targets):
        if sum(value is not None for value in ends.values()) != 1:
            raise ParameterError(
                f"give exactly one of {' and '.join(ends)}: a folder, or a topic of Kafka"
            )
    topics = sources["--topic"] is not None or targets["--private-topic"] is not None
    if topics != (kafka is not None):
        raise ParameterError(
            "--kafka names the brokers of --topic and --private-topic: give them together"
        )


def _check_folders(source: str | None, out: str | None, checkpoint: str) -> None:
    from gaussveil.engines.location import refuse_wildcards

    if source is not None and _is_local(source) and not os.path.isdir(source):
        raise SourceError(
            f"{source}: is no folder; --input names the folder into which files of readings are moved"
        )
    # Spark takes these for patterns: it would read other folders, or none.
    refuse_wildcards(
        [place for place in (source, checkpoint) if place and _is_local(place)],
        "*?[]{}\\",
    )
    places = [place for place in (source, out, checkpoint) if place is not None]
    for inner, outer in permutations(places, 2):
        if f"{inner}/".startswith(f"{outer}/"):
            raise ParameterError(
                "--input, --out and --checkpoint must be folders of their own, none inside another"
            )


def _is_local(place: str) -> bool:
    """Whether a folder is named by its path, as opposed to an address."""
    return "://" not in place


def _absolute(place: str | None) -> str | None:
    """Java keeps the folder it was started in, whatever this process does later."""
    if place is None or not _is_local(place):
        return place
    return os.path.abspath(place)
