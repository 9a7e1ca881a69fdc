"""What one core does, and what a million or a hundred million meters need: measured here, extrapolated in the open.

usage: python benchmarks/bench_sizing.py --write docs/sizing.md

Rates are per CPU second, of all processes together; other load enters only by what it takes of caches and of cores
with two threads. Extrapolation is a division, with nothing taken off for networks, replication or peaks.
"""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench_stream import bytes_per_meter
from gaussveil.engines import open as open_table
from gaussveil.mechanisms.meter_stream.stream import MeterStream
from gaussveil.noise import SecureGenerator
from gaussveil.noise.filter_bank import FilterBank
from gaussveil.statistics import Moments
from gaussveil.streaming import Gateway, Message, Meter, StreamState, write_meters
from gaussveil.streaming.bundle import bundle_count
from gaussveil.streaming.replay import MeterReplay
from gaussveil.streaming.service import open_gateway
from gaussveil.streaming.spark import METERS_PER_KEY
from gaussveil.timeseries import fit_arma, mmse_forecast, simulate_households
from process_tree import cpu_seconds

METERS, SPARK_METERS, HOMES, ROWS = 10_000, 4_000, 40, 10**6
FILE_METERS = 50_000  # about as many as a file of meters may hold; each file is a query of its own on Spark
MINUTES = 15
PER_DAY = 24 * 60 // MINUTES
TOWNS = (10**6, 10**8)

BANK = "filters and secure noise alone: readings"
GATEWAY = "gateway, message by message, logged: readings"
GATEWAY_BYTES = "gateway: bytes of state a meter"
RESIDENT = "gateway: resident bytes a meter, designs and certificates included"
FILTERS = "Spark stream, our part alone: readings"
SPARK = "Spark stream, end to end, every meter in a micro-batch: readings"
SPARSE = "Spark stream, end to end, one meter of each key in a micro-batch: readings"
FIXED = "Spark stream: CPU seconds for a micro-batch, besides its readings"
SPARK_BYTES = "Spark stream: bytes of state a meter"
MOMENTS = "DuckDB, moments of 12 columns: rows"
FITS = "ARMA fit and forecast: households"


def rate(work: Callable[[], Any], size: float, seconds: float = 1.0) -> float:
    """How much of `size` one CPU second does; the best of several runs."""
    work()
    best, begin = 0.0, time.process_time()
    while time.process_time() - begin < seconds or not best:
        start = time.process_time()
        work()
        best = max(best, size / (time.process_time() - start))
    return best


def designed() -> MeterStream:
    return MeterStream.design(
        sample_period=f"{MINUTES}min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), purpose="energy", sample_limit=10**6
    )


def streams() -> dict[str, float]:
    stream, generator = designed(), SecureGenerator()
    certificate = stream.open()
    bank = FilterBank([stream.design_.filter] * METERS)
    bank.start(generator)
    steps = np.full((1, METERS), 10**6)
    found = {BANK: rate(lambda: bank.push(steps, generator), METERS)}
    meters = [Meter(f"m{k}", stream.design_, certificate) for k in range(METERS)]
    with tempfile.TemporaryDirectory() as folder:
        state = StreamState.open(folder, meters)
        gateway, sequence = Gateway(meters, state), iter(range(10**6))

        def answer() -> None:
            number = next(sequence)
            gateway.answer([Message(meter.name, number, np.array([0.5])) for meter in meters])

        found[GATEWAY] = rate(answer, METERS)
        found[GATEWAY_BYTES] = bytes_per_meter(state)
        state.close()
    found[RESIDENT] = resident(meters)
    replay, readings = MeterReplay(meters[0]), iter(range(10**9))
    stored, _ = replay.answer(bytes(32), None, [(next(readings), 0.5)])

    def micro_batch() -> None:
        nonlocal stored
        stored, _ = replay.answer(bytes(32), stored, [(next(readings), 0.5)])

    return {**found, FILTERS: rate(micro_batch, 1), SPARK_BYTES: float(len(stored))}


def resident(meters: list[Meter]) -> float:
    """What the process grows by when it opens a file of meters, as a gateway does."""

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with tempfile.TemporaryDirectory() as folder:
        path = write_meters(meters, Path(folder) / "meter.json")
        before = pages()
        gateway = open_gateway(path)
        grown = pages() - before
        gateway.state.close()
    return grown / len(meters)


def spark_streams() -> dict[str, float]:
    """Micro-batches of one reading a meter, all of Spark's processes counted; what starts them is left out.

    Three kinds of micro-batch: a single reading; a reading of one meter under each key of state; of every meter.
    """
    from gaussveil.engines.spark_session import start_session
    from gaussveil.streaming.spark import SparkStream

    session = start_session("local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    stream = designed()
    certificate = stream.open()
    names = [f"m{k}" for k in range(SPARK_METERS)]
    bundles = bundle_count(SPARK_METERS, METERS_PER_KEY)
    alone = list({zlib.crc32(name.encode()) % bundles: name for name in names}.values())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "in").mkdir()
        write_meters([Meter(name, stream.design_, certificate) for name in names], folder / "meter.json")
        made = SparkStream(folder / "meter.json", folder / "checkpoint", session=session)
        source = session.readStream.schema("meter string, seq bigint, kw double").option("maxFilesPerTrigger", 1)
        private = made.private(source.parquet(str(folder / "in")))
        query = made.start(private, "parquet", path=str(folder / "out"))
        numbers = iter(range(10**6))

        def seconds(meters: list[str]) -> float:
            number, before = next(numbers), cpu_seconds()
            table = {"meter": meters, "seq": [number] * len(meters), "kw": [0.5] * len(meters)}
            pq.write_table(pa.table(table), folder / f"{number}.parquet")
            os.replace(folder / f"{number}.parquet", folder / "in" / f"{number}.parquet")
            query.processAllAvailable()
            return cpu_seconds() - before

        for _ in range(3):  # workers start, filters are built, Java compiles
            seconds(names)
        kinds = (names[:1], alone, names)
        fixed, sparse, dense = np.min([[seconds(meters) for meters in kinds] for _ in range(5)], axis=0).tolist()
        query.stop()
    session.stop()
    return {SPARK: len(names) / (dense - fixed), SPARSE: len(alone) / (sparse - fixed), FIXED: fixed}


def tables() -> dict[str, float]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(pa.table({f"x{j}": rng.normal(size=ROWS) for j in range(12)}), path)
        moments = rate(lambda: open_table(path).aggregate(Moments(clip=3.0)), ROWS)
    series = np.log(np.maximum(simulate_households(HOMES, 16, step_minutes=60, seed=0).values, 0.01))
    series -= series.mean(axis=1, keepdims=True)

    def fits() -> None:
        for home in series:
            mmse_forecast(fit_arma(home[None]), home[None], 24)

    return {MOMENTS: moments, FITS: rate(fits, HOMES)}


def needs(measured: dict[str, float], meters: int) -> list[tuple[str, str, str]]:
    """What a town needs: what, how much, how computed."""
    a_second = meters / (MINUTES * 60)
    rows = meters * PER_DAY / 12
    dense = f"rate of full micro-batches; {FILE_METERS:,} meters a query"
    sparse = "rate of one meter of each key; the same queries"
    return [
        ("readings a second", number(a_second), f"meters / {MINUTES * 60} s"),
        ("gateway: cores", number(a_second / measured[GATEWAY]), "readings a second / rate"),
        ("gateway: memory", gibibytes(meters * measured[RESIDENT]), "meters x resident bytes"),
        ("Spark stream, a micro-batch a period: cores", number(spark_cores(measured, meters, SPARK, 1)), dense),
        ("Spark stream, a micro-batch a minute: cores", number(spark_cores(measured, meters, SPARSE, MINUTES)), sparse),
        ("Spark stream: state", gibibytes(meters * measured[SPARK_BYTES]), "meters x bytes"),
        ("moments of a day, 12 readings a row: core-minutes", number(rows / measured[MOMENTS] / 60), "rows / rate"),
        ("a forecast for every home: core-hours", number(meters / measured[FITS] / 3600), "homes / rate"),
    ]


def spark_cores(measured: dict[str, float], meters: int, rate_of: str, micro_batches: int) -> float:
    """Cores for readings, and for so many micro-batches a period in each query."""
    queries = -(-meters // FILE_METERS)
    return (meters / measured[rate_of] + queries * micro_batches * measured[FIXED]) / (MINUTES * 60)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def gibibytes(count: float) -> str:
    return f"{number(count / 2**30)} GiB"


def page(measured: dict[str, float]) -> str:
    where = f"{len(os.sched_getaffinity(0))} cores of {os.uname().machine}"
    load = os.getloadavg()[2]
    share = 10**6 * 100 / (measured[GATEWAY] * MINUTES * 60)
    lines = [
        "# Sizing",
        "",
        "Written by `python benchmarks/bench_sizing.py --write docs/sizing.md`, in one run. Rates are per CPU second;",
        "other load makes them lower, since it takes caches and half of a core.",
        f"Load of the machine meanwhile: {load:.0f}.",
        "",
        f"| one core a second, on {where} | measured |",
        "|---|---|",
        *(f"| {name} | {number(value)} |" for name, value in measured.items()),
        "",
        f"A million meters that send a reading every {MINUTES} minutes keep {number(share)} % of a core busy with the",
        f"gateway's own work, and fill {gibibytes(10**6 * measured[RESIDENT])}: memory is what a gateway runs out of",
        "first. What MQTT takes for a message comes on top: see the gateway's page.",
        "",
        "## Extrapolated",
        "",
        "Divisions of the figures above and nothing else: no network, no replication, no peaks, perfect scaling. Plan",
        "twice the cores. One gateway process serves one file of meters; more meters are more files and processes.",
        "",
        *textwrap.wrap(spark_words(measured), 118),
        "",
        "| need | " + " | ".join(f"{number(town)} meters" for town in TOWNS) + " | how |",
        "|---|" + "---|" * (len(TOWNS) + 1),
    ]
    for one, *others in zip(*(needs(measured, town) for town in TOWNS)):
        lines.append("| " + " | ".join([one[0], one[1], *(other[1] for other in others), one[2]]) + " |")
    return "\n".join(lines) + "\n"


def spark_words(measured: dict[str, float]) -> str:
    return (
        f"On Spark a reading takes {1000 / measured[SPARK]:.2g} ms where every meter is in the micro-batch, of which "
        f"our filters take {1000 / measured[FILTERS]:.2g}. Spark hands each key of state to Python as a pandas frame, "
        f"some milliseconds a key, so {METERS_PER_KEY} meters share a key. Where a micro-batch holds one meter of each "
        f"key, a reading takes {1000 / measured[SPARSE]:.2g} ms, and the state of all {METERS_PER_KEY} is written for "
        "it: start such a stream with `meters_per_key=1`. Better give Spark micro-batches as long as the meters' "
        "period, or several readings of a meter in one: they are one call. Where answers must come within seconds, "
        "take the gateway. Spark's other interface for state, "
        "`transformWithState`, was not measured: it asks Java for each state over a socket, and needs protobuf and "
        "RocksDB."
    )


def measure() -> dict[str, float]:
    return {**streams(), **spark_streams(), **tables()}


def run() -> list[dict[str, Any]]:
    measured = measure()
    needed = 10**6 / (MINUTES * 60)
    memory = measured[RESIDENT] * 1e6 / 2**30
    name = f"sizing: cores for 10^6 meters, a reading in {MINUTES} minutes,"
    rows: list[tuple[str, float, float, float | None]] = [
        (f"{name} in the gateway / one core", needed / measured[GATEWAY], 1.0, 1.0),
        (f"{name} on Spark / in the gateway", spark_cores(measured, 10**6, SPARK, 1), needed / measured[GATEWAY], None),
        ("sizing: GiB of gateway memory for 10^6 meters / 16 GiB", memory, 16.0, 1.0),
    ]
    return [
        {"name": what, "ours": ours, "peer": peer, "ratio": ours / peer, "goal": goal, "met": not goal or ours <= peer}
        for what, ours, peer, goal in rows
    ]


if __name__ == "__main__":
    text = page(measure())
    if sys.argv[1:2] == ["--write"]:
        Path(sys.argv[2]).write_text(text, encoding="utf-8")
    print(text)
