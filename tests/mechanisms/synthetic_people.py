"""A table of people for tests of synthetic tables, and a release of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator

Frame = Any
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
RANGES = {"income": (0, 1e6), "height": (100, 220), "born": ("1900-01-01", "2030-01-01")}
VALUES = {"town": ["Aarau", "Bern", "Chur"], "ill": ["no", "yes"]}


def people(count: int, seed: int = 0) -> pd.DataFrame:
    """Skewed, whole, dated, missing and categorical columns that depend on each other and on the label."""
    generator = np.random.default_rng(seed)
    ill = generator.random(count) < 0.4
    first, second = generator.standard_normal((2, count))
    second = 0.6 * first + 0.8 * second
    income = np.exp(10 + 0.5 * first - 0.4 * ill)
    income[generator.random(count) < 0.15] = 0.0
    table = pd.DataFrame(
        {
            "income": income,
            "height": np.rint(170 + 9 * second).astype(int),
            "born": pd.Timestamp("1970-01-01") + pd.to_timedelta(np.rint(3000 * first + 2000 * ill), "D"),
            "town": generator.choice(VALUES["town"], count, p=[0.5, 0.3, 0.2]),
            "member": generator.random(count) < 0.3 + 0.3 * ill,
            "ill": np.where(ill, "yes", "no"),
            "who": generator.integers(0, max(count // 3, 1), count),
        }
    )
    table.loc[generator.random(count) < 0.1, "income"] = np.nan
    return table


def drawn(data: Frame, **changes: Any) -> tuple[SyntheticTable, Frame]:
    table = SyntheticTable(**{**PROMISE, "generator": SeededGenerator(3), **changes})
    table.release(data)
    return table, table.sample(seed=5)
