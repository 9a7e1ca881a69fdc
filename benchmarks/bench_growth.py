"""How cost grows: processor time against pairs, dimensions, compositions, rows, units, meters, accounts and releases.

Each row gives the time at the largest size, beside the limit: the floating-point operations or the bytes that the job
cannot do without, over what this machine does of them in a second (a matrix product, a copy, measured in the same run).
The goal is the slope in doubly logarithmic scales over the last three sizes; a tenth and a half is left for noise.
`docs/benchmarks/growth-<architecture>.svg` shows the series.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gaussveil import Count, GaussianPair, Ledger, Mean, PrivacyLoss, TableRelease, compose
from gaussveil.accounting import Account, Adjacency, CertificateDraft, Charge, transaction
from gaussveil.figure_style import SERIES, drawing
from gaussveil.mechanisms import MeterStream
from gaussveil.noise import SeededGenerator
from gaussveil.streaming.gateway import Gateway
from gaussveil.streaming.held_state import StreamMemory
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.readings import Message
from limits import NODE_FLOPS, NODES, REDUCTION_FLOPS, best, seconds_of

PICTURES = Path(__file__).parent.parent / "docs" / "benchmarks"
FULL = os.environ.get("FULL") == "1"
DIMENSION = 12
NOISE = 0.15
DRAFT = CertificateDraft(released="x", mechanism="m", adjacency=Adjacency.add_remove(), epsilon=1.0, delta=0.1)


class Series(NamedTuple):
    """Seconds by size, the slope that the work itself has, and the operations and bytes of a size."""

    name: str
    sizes: list[int]
    seconds: list[float]
    slope: float
    flops: Callable[[int], float]
    moved: Callable[[int], float]


def pairs(count: int, dimension: int = DIMENSION) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng((count, dimension))
    roots = rng.normal(size=(2, count, dimension, dimension + 8)) / np.sqrt(dimension + 8)
    means = rng.normal(size=(2, count, dimension)) / np.sqrt(dimension)
    cov_x, cov_y = roots @ roots.swapaxes(-1, -2)
    return means[0], cov_x, means[1], cov_y


def delta_of(*arrays: np.ndarray) -> object:
    return GaussianPair(*arrays).delta(1.0)


def by_pairs(sizes: Iterable[int]) -> list[float]:
    return [best(partial(delta_of, *pairs(size))) for size in sizes]


def by_dimension(sizes: Iterable[int]) -> list[float]:
    return [best(partial(delta_of, *pairs(32, size))) for size in sizes]


def by_composition(sizes: Iterable[int]) -> list[float]:
    """Different pairs a little off each other, composed; one epsilon."""
    found = []
    for size in sizes:
        rng = np.random.default_rng(size)
        gaps = rng.normal(size=(size, DIMENSION)) / (10 * np.sqrt(size))
        losses = [PrivacyLoss.from_terms(row, np.ones(DIMENSION), np.full(DIMENSION, 0.01 / size)) for row in gaps]
        found.append(best(partial(compose(*losses).epsilon, 1e-5)))
    return found


def table(rows: int, units: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    start = np.datetime64("2026-01-01", "us")
    times = start + (rng.integers(0, 24 * 60, rows) * 60_000_000).astype("timedelta64[us]")
    return pd.DataFrame({"unit": rng.integers(0, units, rows), "time": times, "kw": rng.random(rows)})


def released(frame: pd.DataFrame) -> float:
    answers = [Mean("kw", between=(0, 1)), Count()]
    mechanism = TableRelease(unit="unit", epsilon=1, delta=1e-6, answers=answers, generator=SeededGenerator(1))
    return best(lambda: mechanism.release(frame), 2)


def by_meters(sizes: Iterable[int]) -> list[float]:
    stream = MeterStream.design(sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), purpose="shape")
    found = []
    for size in sizes:
        meters = [Meter(f"m{number}", stream.design_, stream.open()) for number in range(size)]
        gateway = Gateway(meters, StreamMemory(meters), generator=SeededGenerator(1))

        def said(at: int, size: int = size, gateway: Gateway = gateway) -> None:
            gateway.answer([Message(f"m{number}", at, np.array([1.5])) for number in range(size)])

        said(0)
        start = time.process_time()
        for at in range(1, 4):
            said(at)
        found.append((time.process_time() - start) / 3)
    return found


def debited(account: Account, releases: int) -> float:
    """Seconds of one release."""
    charge = Charge(GaussianPair.mean_shift(1e-4))
    start = time.process_time()
    for _ in range(releases):
        with transaction(account, charge, DRAFT) as debit:
            debit.draw(lambda: None)
    return (time.process_time() - start) / releases


def by_ledger(sizes: Iterable[int], *, accounts: bool) -> list[float]:
    """One release on an account of a ledger with so many accounts, or after so many releases."""
    found, made = [], 0
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "growth.ledger")
        account = ledger.open_account("first", epsilon=50.0, delta=0.1)
        debited(account, 5)
        for size in sizes:
            while accounts and made < size:
                ledger.open_account(f"other {made}", epsilon=3.0, delta=1e-5)
                made += 1
            if not accounts:
                debited(account, size - made)
                made = size
            found.append(debited(account, 40))
            made += 0 if accounts else 40
    return found


def measured() -> list[Series]:
    few, many = (1000, 10_000, 100_000), [1000, 10_000, 100_000, 1_000_000] if FULL else [1000, 10_000, 100_000]
    sizes, wide = [100, *few], [4, 16, 32, 64, 128]
    rows = 3 * 10**5
    work = NODES * NODE_FLOPS

    def free(_: int) -> float:
        return 0.0

    return [
        Series("pairs, d = 12", sizes, by_pairs(sizes), 1.0, lambda n: n * (REDUCTION_FLOPS * 12**3 + 12 * work), free),
        Series(
            "dimension of 32 pairs",
            wide,
            by_dimension(wide),
            3.0,
            lambda d: 32 * (REDUCTION_FLOPS * d**3 + d * work),
            free,
        ),
        Series(
            "different pairs composed, one epsilon",
            [10, 100, 1000],
            by_composition([10, 100, 1000]),
            1.0,
            lambda n: 3 * n * DIMENSION * work,
            free,
        ),
        Series(
            "rows of a table, mean and count",
            many,
            [released(table(n, 1000)) for n in many],
            1.0,
            free,
            lambda n: 24.0 * n,
        ),
        Series(
            "units of 300,000 rows",
            list(few),
            [released(table(rows, n)) for n in few],
            1.0,
            free,
            lambda n: 24.0 * rows,
        ),
        Series(
            "meters, a reading of each",
            [100, 1000, 10_000],
            by_meters([100, 1000, 10_000]),
            1.0,
            free,
            lambda n: 64.0 * n,
        ),
        Series(
            "accounts of a ledger, one release",
            [10, 100, 1000],
            by_ledger([10, 100, 1000], accounts=True),
            0.0,
            free,
            free,
        ),
        Series(
            "releases before, one release", [10, 100, 1000], by_ledger([10, 100, 1000], accounts=False), 0.0, free, free
        ),
    ]


def slope(series: Series) -> float:
    last = slice(-3, None)
    return float(np.polyfit(np.log(series.sizes[last]), np.log(series.seconds[last]), 1)[0])


def run() -> list[dict[str, Any]]:
    speed, bandwidth = 1 / seconds_of("flops"), 1 / seconds_of("bytes")
    everything = measured()
    draw(everything)
    rows = []
    for series in everything:
        largest, ours, found = series.sizes[-1], series.seconds[-1], slope(series)
        limit = max(series.flops(largest) / speed, series.moved(largest) / bandwidth) or None
        shown = ", ".join(f"{size:g}: {1e3 * taken:.3g} ms" for size, taken in zip(series.sizes, series.seconds))
        rows.append(
            {
                "name": f"{series.name}: seconds at {largest:g}, peer the limit of this machine",
                "ours": ours,
                "peer": limit,
                "ratio": None if limit is None else limit / ours,
                "goal": series.slope,
                "met": found <= series.slope + NOISE,
                "note": f"slope {found:.2f} (goal: at most that of the work); {shown}",
            }
        )
    note = f"one core: {speed / 1e9:.3g} billion operations, {bandwidth / 1e9:.3g} billion bytes a second"
    return [
        *rows,
        {"name": "this machine", "ours": None, "peer": None, "ratio": None, "goal": None, "met": True, "note": note},
    ]


def draw(everything: list[Series]) -> None:
    with drawing(7.2, 9.0, 4, 2) as (figure, panels):
        for series, axes in zip(everything, panels.flat):
            axes.loglog(series.sizes, series.seconds, marker="o", markersize=4, color=SERIES[0])
            guide = [series.seconds[-1] * (size / series.sizes[-1]) ** series.slope for size in series.sizes]
            axes.loglog(series.sizes, guide, linestyle=":", linewidth=1.0, color=SERIES[1])
            axes.set_title(f"{series.name}: slope {slope(series):.2f}", fontsize=8)
            axes.set_ylabel("CPU seconds")
        picture = PICTURES / f"growth-{platform.machine()}.svg"
        figure.savefig(picture, metadata={"Date": None})
    subprocess.run([sys.executable, str(PICTURES.parent / "draw_pictures.py"), str(picture)], check=True)


if __name__ == "__main__":
    for found in run():
        print(found)
