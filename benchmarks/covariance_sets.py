"""Six tables whose covariance is released, each with bounds that are taken for public.

"homes" needs the Swiss homes (GAUSSVEIL_DATA): every row is a day of one home, six means of four hours. "housing" is
the simulated twin of the regression benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from regression_sets import FUSE, Matrix, housing, swiss


@dataclass(frozen=True)
class Cloud:
    """Rows and the ends of their columns."""

    name: str
    rows: Matrix
    low: Matrix
    high: Matrix


@lru_cache(maxsize=1)
def clouds() -> list[Cloud]:
    """Six tables, drawn from one seed."""
    rng = np.random.default_rng(0)
    normal = np.clip(rng.normal(size=(2_000, 10)) @ rng.normal(size=(10, 10)) / 3, -5, 5)
    uniform = rng.uniform(-1, 1, size=(4_000, 6))
    tails = np.clip(rng.standard_t(3, size=(5_000, 6)) * [1, 1, 0.5, 0.5, 0.2, 0.1], -50, 50)
    lognormal = np.clip(rng.lognormal(0.0, 0.75, size=(5_000, 5)), 0, 40)
    districts = housing()
    readings, _ = swiss()
    days = readings.reshape(-1, 6, 4).mean(axis=2)
    return [
        cloud("normal", normal, -5, 5),
        cloud("uniform", uniform, -1, 1),
        cloud("tails", tails, -50, 50),
        cloud("lognormal", lognormal, 0, 40),
        cloud("housing", districts.draw(0)[0], districts.low, districts.high),
        cloud("homes", np.clip(days, *FUSE), *FUSE),
    ]


def cloud(name: str, rows: Matrix, low: Matrix | float, high: Matrix | float) -> Cloud:
    """The table, with ends of every column."""
    low, high = (np.broadcast_to(np.asarray(end, dtype=float), rows.shape[1:]) for end in (low, high))
    return Cloud(f"{name}: n={len(rows):,}, d={rows.shape[1]}", rows, low, high)
