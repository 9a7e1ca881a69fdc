"""Engines against a bare pass with the same fixed-point work, in one run. FULL=1 for the sizes of the issues.

Peers are what one would write by hand: PyArrow batches, NumPy clipping and truncation, float64 matrix products of the
integer parts. They need not care for partitioning, bad records or 128-bit sums.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from by_hand import bare_gram, best_of, fixed_point_pass
from gaussveil.engines import open
from gaussveil.statistics import Affine, Gram, Labels, Moments, as_source

FULL = bool(os.environ.get("FULL"))
CLASSES, DIMENSION, COLUMNS = 10, 12, 50


def row(name: str, ours: float, peer: float, goal: float | None, note: str = "") -> dict[str, Any]:
    met = goal is None or ours <= goal * peer
    return {"name": name, "ours": ours, "peer": peer, "ratio": ours / peer, "goal": goal, "met": met, "note": note}


def write_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([*((f"x{j}", pa.float64()) for j in range(DIMENSION)), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, rows, 10**6):
            n = min(10**6, rows - start)
            labels = rng.integers(0, CLASSES, size=n)
            values = rng.normal(size=(DIMENSION, n)) + labels
            writer.write_table(
                pa.table([*map(pa.array, values), pa.array(labels)], schema=schema), row_group_size=2**17
            )


def bare_moments(path: Path, centres: Any, maps: Any, clip: float) -> Any:
    unit = 2.0**-39
    sums = np.zeros((CLASSES, DIMENSION), dtype=np.int64)
    products = np.zeros((CLASSES, 2 * DIMENSION, 2 * DIMENSION))
    for batch in pq.ParquetFile(path).iter_batches(2**16):
        values = np.stack([batch.column(j).to_numpy() for j in range(DIMENSION)])
        labels = batch.column(DIMENSION).to_numpy()
        for k in range(CLASSES):
            z = maps[k] @ (values[:, labels == k] - centres[k][:, None])
            z *= np.minimum(1.0, clip / np.sqrt((z * z).sum(axis=0))) / unit
            np.trunc(z, out=z)
            sums[k] += z.astype(np.int64).sum(axis=1)
            high = np.trunc(z * 2.0**-21)
            parts = np.concatenate([high, z - high * 2.0**21])
            for start in range(0, parts.shape[1], 2**11):
                part = parts[:, start : start + 2**11]
                products[k] += part @ part.T
    return sums, products


def our_moments(path: Path) -> Any:
    centres, maps = parameters()
    statistic = Moments(clip=3.0, affine=Affine(centres, maps))
    group = Labels("label", list(range(CLASSES)))
    return open(path).aggregate(statistic, columns=[f"x{j}" for j in range(DIMENSION)], group=group)


def parameters() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(CLASSES, DIMENSION))
    maps = np.linalg.inv(np.tril(rng.normal(size=(CLASSES, DIMENSION, DIMENSION)), -1) + 2 * np.eye(DIMENSION))
    return centres, np.tril(maps)


def moments() -> list[dict[str, Any]]:
    rows = 10**7 if FULL else 10**6
    name = f"moments {rows:.0e} x 12, 10 classes"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, rows)
        ours, peer = best_of(
            1 if FULL else 3, lambda: our_moments(path), lambda: bare_moments(path, *parameters(), 3.0)
        )
        alone = subprocess.run([sys.executable, __file__, str(path)], check=True, capture_output=True, text=True)
    return [
        row(f"{name}: DuckDB / PyArrow+NumPy", ours, peer, 2.0),
        row(f"{name}: peak resident GiB on DuckDB / 1 GiB", float(alone.stdout), 1.0, 1.0),
    ]


def spark() -> list[dict[str, Any]]:
    """Wall seconds of a pass on one and two cores; starting the session is shown apart.

    On "one core" all of Spark's processes share one: Java, its compiler and collector, and the Python worker. By
    ``local[1]`` alone Spark runs one task at a time but takes whatever cores there are for everything else.
    """
    rows = 10**7 if FULL else 10**6
    name = f"Spark moments {rows:.0e} x 12"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, rows)
        one, two, free = (spark_alone(path, tasks, cores) for tasks, cores in ((1, 1), (2, 2), (1, 2)))
        embedded = wall(lambda: spark_pass(open(path)))
    return [
        row(f"{name}: local[2] on two cores / local[1] on one", two["pass"], one["pass"], 1 / 1.6, "wall seconds"),
        row(f"{name}: local[2] / local[1], both on two cores", two["pass"], free["pass"], None, "wall seconds"),
        row(f"{name}: local[2] / DuckDB", two["pass"], embedded, None, "wall seconds"),
        row("Spark local[2]: start of a session / one pass", two["start"], two["pass"], None, "wall seconds"),
        row(
            "Spark local[2]: first pass, workers start / later passes", two["first"], two["pass"], None, "wall seconds"
        ),
    ]


def peak_gibibytes() -> float:
    """Most memory this program ever held. Not getrusage, which also counts what the parent held at the start."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def spark_pass(source: Any) -> Any:
    group = Labels("label", list(range(CLASSES)))
    return source.aggregate(Moments(clip=3.0), columns=[f"x{j}" for j in range(DIMENSION)], group=group)


def spark_alone(path: Path, tasks: int, cores: int) -> dict[str, float]:
    """In a process of its own, which is bound to so many cores before Java starts."""
    command = [sys.executable, __file__, "spark", str(path), str(tasks), str(cores)]
    alone = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(alone.stdout.splitlines()[-1])
    return found


def spark_here(path: Path, tasks: int, cores: int) -> dict[str, float]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from gaussveil.engines.spark_session import start_session

    start = time.perf_counter()
    session = start_session(f"local[{tasks}]")
    started = time.perf_counter() - start
    source = open(path, engine="spark", session=session)
    passes = [wall(lambda: spark_pass(source)) for _ in range(6)]
    session.stop()
    return {"start": started, "first": passes[0], "pass": min(passes[1:])}


def wall(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def gram() -> list[dict[str, Any]]:
    rows = 10**7 if FULL else 10**6
    x = np.random.default_rng(2).normal(size=(rows, COLUMNS)).astype(np.float32)

    ours, double, single, clipping = best_of(
        1 if FULL else 3,
        lambda: as_source(x).aggregate(Gram(row_norm=5.0)),
        lambda: bare_gram(x),
        lambda: bare_gram(x, np.float32),
        lambda: [None for _ in fixed_point_pass(x, 5.0)],
    )
    name = f"Gram {rows:.0e} x 50 float32: exact / NumPy product in"
    return [
        row(f"{name} float64 + fixed-point pass", ours, double + clipping, 1.5),
        row(
            f"{name} float32 + fixed-point pass",
            ours,
            single + clipping,
            None,
            "the price of exactness, for the record",
        ),
    ]


def run() -> list[dict[str, Any]]:
    return moments() + gram() + spark()


if __name__ == "__main__":
    if sys.argv[1:2] == ["spark"]:
        print(json.dumps(spark_here(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
    elif sys.argv[1:]:  # a process of its own, to see its memory
        our_moments(Path(sys.argv[1]))
        print(peak_gibibytes())
    else:
        for result in run():
            print({key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()})
