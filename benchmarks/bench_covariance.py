"""The radius that covariances take by default beside public ones within a factor of two: six tables, five epsilons.

Errors are of the covariance of the table, in the Frobenius norm over its own, means over the draws; noise is normal
(`regression_draws`), everything else the mechanism's own code. The default is held against the best of eight radii,
those that it took at the median draw times factors from .5 to 2. DRAWS=20 for a quick look, ONLY=homes for tables whose
name holds that.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from covariance_sets import Cloud, clouds
from gaussveil import PrivateCovariance
from regression_draws import SampleSums, quick_moments
from side_by_side import side_by_side

DRAWS = int(os.environ.get("DRAWS", "100"))
ONLY = os.environ.get("ONLY", "")
DELTA = 1e-6
EPSILONS = (0.3, 0.5, 1.0, 2.0, 4.0)
FACTORS = (0.5, 0.6, 0.71, 0.84, 1.19, 1.41, 1.68, 2.0)
GOAL = 1.15
SEEDS = range(2_000, 2_000 + DRAWS)
Row = dict[str, Any]


def run() -> list[Row]:
    places = [place for place, each in enumerate(clouds()) if ONLY in each.name]
    return side_by_side(radii, [(place, epsilon) for place in places for epsilon in EPSILONS])


def radii(item: tuple[int, float]) -> Row:
    """The default of a table at an epsilon beside the best public radius near it."""
    place, epsilon = item
    table = clouds()[place]
    half = (table.high - table.low) / 2
    units = (table.rows - table.low) / half - 1
    sample = SampleSums(units.T.copy())
    truth = np.cov(units.T)
    drawn = [one(table, sample, truth, epsilon, seed, None) for seed in SEEDS]
    own, taken = np.mean(drawn, axis=0)
    middle = float(np.median([radius for _, radius in drawn]))
    others = {}
    for factor in FACTORS:
        errors = [one(table, sample, truth, epsilon, seed, middle * factor)[0] for seed in SEEDS]
        others[factor] = float(np.mean(errors))
    best = min(others, key=lambda factor: others[factor])
    radius = f"radius {taken / spread(units):.2f} of the root mean square"
    return {
        "name": f"{table.name}, epsilon {epsilon:g}: error of the default / best public radius",
        "ours": float(own),
        "peer": others[best],
        "ratio": float(own) / others[best],
        "goal": GOAL,
        "met": bool(own <= GOAL * others[best]),
        "note": f"{DRAWS} draws; {radius}, best {best:g} times that",
    }


def spread(units: Any) -> float:
    """Root mean square length of the rows about their mean."""
    return float(np.sqrt(np.var(units, axis=0).sum()))


def one(
    table: Cloud, sample: SampleSums, truth: Any, epsilon: float, seed: int, norm: float | None
) -> tuple[float, float]:
    """Error and radius of one release."""
    model = PrivateCovariance(epsilon=epsilon, delta=DELTA, row_norm=norm)
    reach = np.ones(len(table.low))
    moments = quick_moments(model, sample, -reach, reach, seed)
    found = model._estimate(moments).covariance_
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth)), float(moments.scale[0])


if __name__ == "__main__":
    for result in run():
        print(result)
