"""Meter streams on Spark Structured Streaming: the gateway's filters, with each meter's state in Spark's state store.

Output is exactly-once where the sink is (files); on sinks that may repeat a row (Kafka) the repeated row is the very
same bytes. See docs/sources.md, "Streams on Spark".
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil import checks
from gaussveil.errors import (
    AssumptionError,
    FormatError,
    MissingDependencyError,
    ParameterError,
    SchemaError,
)
from gaussveil.files import PRIVATE, write_whole
from gaussveil.noise.keyed import KEY_BYTES
from gaussveil.streaming.bundle import answer_bundle, bundle_count, bundle_key
from gaussveil.streaming.messages import encode_energy, encode_readings
from gaussveil.streaming.meters import Meter, digest_of, read_meters
from gaussveil.streaming.replay import Reading, readings_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from gaussveil.streaming.readings import Answer

COLUMNS = (
    "meter string, seq bigint, kw double, register string, samples bigint, kwh double"
)
PAYLOADS = "key string, value binary"
STATE = "state binary"
METERS_PER_KEY = 16
_ANEW = "reset from a sequence number that was never answered, on a new checkpoint."


class SparkStream:
    """Private streams of the meters in a file, continued from a checkpoint and a secret key.

    The key lies beside the file of meters (``meter.json.key``, or ``key_file``), readable by its owner only. Key and
    checkpoint belong together: if one is gone, what was answered before is not known any more, and ``reset_from`` must
    name a sequence number that was never answered. Filters and noise then start anew together, under a new key.

    ``meters_per_key`` meters share a key of Spark's state, and where one of them sends, the state of all is written. It
    is decided when the stream is first started. Take 1 where a micro-batch holds readings of few meters only.
    """

    def __init__(
        self,
        meters_file: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        *,
        session: SparkSession | None = None,
        master: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
        reset_from: int | None = None,
        meters_per_key: int = METERS_PER_KEY,
    ) -> None:
        from gaussveil.engines.spark_session import start_session

        self.meters = {meter.name: meter for meter in read_meters(meters_file)}
        self.checkpoint = os.fspath(checkpoint)
        self.session = session or start_session(master)
        if key_file is not None:
            key_path = Path(key_file)
        else:
            key_path = Path(f"{os.fspath(meters_file)}.key")
        checks.whole("meters_per_key", meters_per_key)
        bundles = bundle_count(len(self.meters), meters_per_key)
        self._secret, self.first_sequence, self._bundles = self._agreed(
            key_path, reset_from, bundles
        )

    def private(self, readings: DataFrame, *, payloads: bool = False) -> DataFrame:
        """Private readings of a streaming frame with columns ``meter`` and either ``seq`` and ``kw``, or ``payload``.

        ``payload`` holds the gateway's messages (JSON or binary batch). The result has one row per private reading and
        per closed register; with ``payloads`` the columns ``key`` (the meter) and ``value`` (JSON), as for Kafka.
        """
        from pyspark.sql.streaming.state import GroupStateTimeout

        form = (
            ("meter", "payload")
            if "payload" in readings.columns
            else ("meter", "seq", "kw")
        )
        if missing := [name for name in form if name not in readings.columns]:
            raise SchemaError(
                f"the readings lack the columns {', '.join(missing)}; they have {readings.columns}."
            )
        meters = self.session.sparkContext.broadcast(self.meters)
        secret = self._secret
        first_sequence = self.first_sequence

        def answered(
            _key: tuple[Any, ...], frames: Iterator[Any], state: Any
        ) -> Iterator[Any]:
            yield _micro_batch(
                meters.value, secret, first_sequence, frames, state, payloads
            )

        kinds = {
            "meter": "STRING",
            "seq": "BIGINT",
            "kw": "DOUBLE",
            "payload": "BINARY",
        }
        named = readings.selectExpr(
            *(f"try_cast({name} AS {kinds[name]}) AS {name}" for name in form)
        )
        usable = named.where(f"meter IS NOT NULL AND {form[1]} IS NOT NULL")
        grouped = usable.selectExpr(
            f"{bundle_key('meter', self._bundles)} AS bundle", *form
        ).groupBy("bundle")
        return grouped.applyInPandasWithState(
            answered,
            PAYLOADS if payloads else COLUMNS,
            STATE,
            "append",
            GroupStateTimeout.NoTimeout,
        )

    def kafka_readings(
        self, servers: str, topic: str, options: Mapping[str, str] | None = None
    ) -> DataFrame:
        """A Kafka topic whose keys are meters and whose values are the gateway's messages; options go to Spark."""
        reader = self.session.readStream.format("kafka").options(**(options or {}))
        reader = reader.option("kafka.bootstrap.servers", servers).option(
            "subscribe", topic
        )
        with _connector(self.session.version):
            return reader.load().selectExpr(
                "CAST(key AS STRING) AS meter", "value AS payload"
            )

    def start(
        self,
        private: DataFrame,
        sink: str,
        *,
        trigger: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StreamingQuery:
        """Start the query on the checkpoint; ``trigger`` and ``options`` are Spark's own."""
        if "checkpointLocation" in options:
            raise ParameterError(
                "the checkpoint belongs to the stream's key: name it when you make the SparkStream."
            )
        writer = (
            private.writeStream.format(sink).outputMode("append").options(**options)
        )
        if trigger:
            writer = writer.trigger(**trigger)
        with _connector(self.session.version):
            return writer.option("checkpointLocation", self.checkpoint).start()

    def _agreed(
        self, key_path: Path, reset_from: int | None, bundles: int
    ) -> tuple[bytes, int, int]:
        """Key, first sequence number and keys of state, after making sure that key and checkpoint belong together."""
        if reset_from is not None:
            checks.whole("reset_from", reset_from, "[0, inf)")
        digest = digest_of(tuple(self.meters.values()))
        files, path = self._place("gaussveil-key-*")
        started = [
            status.getPath().getName() for status in files.globStatus(path) or ()
        ]
        _check_start(bool(started), key_path.exists(), reset_from)
        if reset_from is not None or not started:
            _write_key(key_path, digest, reset_from or 0, bundles)
        secret, first_sequence, bundles = _read_key(key_path, digest)
        mark = f"gaussveil-key-{hashlib.sha256(secret).hexdigest()[:16]}"
        if started and started != [mark]:
            raise AssumptionError(
                "the checkpoint belongs to another key. Use the key that it was started with."
            )
        if not started:
            self._leave_mark(mark)
        return secret, first_sequence, bundles

    def _leave_mark(self, mark: str) -> None:
        """Note in the checkpoint which key it belongs to."""
        if "://" not in self.checkpoint:
            # it will hold readings and noise
            Path(self.checkpoint).mkdir(mode=0o700, parents=True, exist_ok=True)
        files, path = self._place(mark)
        files.createNewFile(path)

    def _place(self, name: str) -> tuple[Any, Any]:
        """Spark's own file systems, so that a checkpoint may lie wherever Spark can write."""
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{self.checkpoint}/{name}")
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path


def _check_start(started: bool, has_key: bool, reset_from: int | None) -> None:
    """Refuse a checkpoint without its key, a key without its checkpoint, and a reset on an old checkpoint."""
    if reset_from is not None:
        if started:
            raise ParameterError(
                "a reset needs a new checkpoint: the old one holds the state that shall be forgotten."
            )
    elif started != has_key:
        gone = "key" if started else "checkpoint"
        raise AssumptionError(
            f"these meters were started before, but their {gone} is gone. Reset from a sequence number that was "
            "never answered, on a new checkpoint: filters and noise then start anew together."
        )


def _micro_batch(
    meters: Mapping[str, Meter],
    secret: bytes,
    first_sequence: int,
    frames: Iterator[Any],
    state: Any,
    payloads: bool,
) -> Any:
    """All new readings of the meters under one key: state in, state and private rows out."""
    import pandas as pd

    readings = _new_readings(frames)
    rows: list[tuple[Any, ...]] = []
    if not meters.keys().isdisjoint(readings):
        stored = bytes(state.get[0]) if state.exists else None
        kept, answers = answer_bundle(meters, secret, first_sequence, stored, readings)
        state.update((kept,))
        rows_of = _payload_rows if payloads else _plain_rows
        for name, answer in answers:
            rows += rows_of(name, answer)
    form = PAYLOADS if payloads else COLUMNS
    columns = [part.split()[0] for part in form.split(", ")]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _new_readings(frames: Iterator[Any]) -> dict[str, list[Reading]]:
    readings: dict[str, list[Reading]] = {}
    for frame in frames:
        names = frame["meter"].tolist()
        if "payload" in frame:
            for name, payload in zip(names, frame["payload"].tolist()):
                readings.setdefault(name, []).extend(readings_of(name, [payload]))
            continue
        for name, sequence, value in zip(
            names, frame["seq"].tolist(), frame["kw"].tolist()
        ):
            kw = math.nan if value is None else value
            readings.setdefault(name, []).append((sequence, kw))
    return readings


def _payload_rows(name: str, answer: Answer) -> Iterator[tuple[Any, ...]]:
    for first, values in answer.runs:
        for payload in encode_readings(first, values):
            yield name, payload
    for energy in answer.energies:
        yield name, encode_energy(energy)


def _plain_rows(name: str, answer: Answer) -> Iterator[tuple[Any, ...]]:
    for first, values in answer.runs:
        for place, value in enumerate(values.tolist()):
            yield name, first + place, value, None, None, None
    for energy in answer.energies:
        yield name, energy.first, None, energy.name, energy.samples, energy.kwh


def _write_key(path: Path, digest: str, first_sequence: int, bundles: int) -> None:
    """A new secret key, on the disk before anything is drawn from it."""
    secret = os.urandom(KEY_BYTES).hex()
    record = {
        "format": 2,
        "secret": secret,
        "meters": digest,
        "from": first_sequence,
        "bundles": bundles,
    }
    write_whole(path, json.dumps(record), PRIVATE)


def _read_key(path: Path, digest: str) -> tuple[bytes, int, int]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        secret = bytes.fromhex(record["secret"])
        meters = record["meters"]
        first_sequence = int(record["from"])
        bundles = int(record["bundles"])
    except (OSError, ValueError, KeyError, TypeError):
        raise FormatError(
            f"{path}: not a key of a stream, or of another version: {_ANEW}"
        ) from None
    if len(secret) != KEY_BYTES or meters != digest or bundles < 1:
        raise FormatError(
            f"{path}: belongs to other meters or another version: name their own key, or {_ANEW}"
        )
    return secret, first_sequence, bundles


class _connector:
    """Say which jar is missing where Spark knows no Kafka."""

    def __init__(self, version: str) -> None:
        self._version = version

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        from pyspark.errors import AnalysisException

        if isinstance(error, AnalysisException) and "kafka" in str(error).lower():
            raise MissingDependencyError(
                "Spark's Kafka connector is not on its class path. Start Spark with --packages "
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self._version}."
            ) from None
