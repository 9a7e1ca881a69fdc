"""Coverage of the 95 % intervals of private slopes, where there are 50 units per feature; data and noise drawn anew.

The slopes asked for are those of the population, its targets clipped to their public bounds. FULL=1 for 1,000 draws.
Where units have several rows: bench_unit_sums.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_regression import DELTA, EPSILONS, FIRST
from gaussveil import PrivateLinearRegression
from gaussveil.mechanisms import regress
from gaussveil.mechanisms.regression.moments import NoisyMoments
from regression_draws import SampleSums, quick_moments
from regression_sets import Matrix, Regression, regressions
from side_by_side import side_by_side

COVERED = 1000 if os.environ.get("FULL") else 200
ENOUGH = 50  # units per feature from which on coverage is judged
BLOCK = 25  # draws of one set, in one process
DOUBTED = 0.05  # of all intervals: if fewer are trusted there is nothing to judge
Row = dict[str, Any]
Slopes = NDArray[np.bool_]  # trusted, held


def run() -> list[Row]:
    sets = [one for one in regressions() if one.rows >= ENOUGH * one.size]
    blocks = [
        (one.name, tuple(range(begin, begin + BLOCK))) for one in sets for begin in range(FIRST, FIRST + COVERED, BLOCK)
    ]
    found: dict[tuple[str, float], list[Slopes]] = {}
    for (name, _), block in zip(blocks, side_by_side(released, blocks)):
        for best, moments in block:
            for epsilon, each in zip(EPSILONS, moments):
                found.setdefault((name, epsilon), []).append(judged(each, best))
    return [row for one in sets for epsilon in EPSILONS for row in coverage(one, epsilon, found[one.name, epsilon])]


def released(block: tuple[str, tuple[int, ...]]) -> list[tuple[Matrix, list[NoisyMoments]]]:
    """The population's slopes and what is released of one draw of the data at every epsilon; noise drawn anew too.

    With RESUME it is kept: intervals are computed from it anew.
    """
    name, seeds = block
    one = next(one for one in regressions() if one.name == name)
    low, high = (np.append(ends, end) for ends, end in zip((one.low, one.high), one.target))
    found = []
    for seed in seeds:
        rows, target, best = one.draw(seed)
        sample = SampleSums(np.vstack((rows.T, target)), one.rows_per_unit)
        models = [PrivateLinearRegression(epsilon=each, delta=DELTA) for each in EPSILONS]
        found.append((best[1:], [quick_moments(model, sample, low, high, seed, targets=1) for model in models]))
    return found


def judged(moments: NoisyMoments, best: Matrix) -> Slopes:
    """Of every slope whether its interval is trusted, and whether it holds."""
    fit = regress(moments)
    low, high = fit.interval[1:].T
    return np.stack((np.asarray(fit.informed[1:]), (low <= best) & (best <= high)))


def coverage(one: Regression, epsilon: float, found: list[Slopes]) -> list[Row]:
    """Share of the trusted intervals that hold, of all columns and of the worst: averages hide faults."""
    draws = len(found)
    trusted, held = np.sum([(each[0], each[0] & each[1]) for each in found], axis=0)
    judged = float(np.sum(trusted)) / (draws * one.size)
    note = f"{draws} draws; {1 - judged:.1%} of the intervals are marked as not to be trusted and left out"
    share = float(np.sum(held) / np.sum(trusted)) if judged > DOUBTED else None
    row = {"name": f"{one.name}, epsilon {epsilon:g}: coverage of 95 % intervals", "ours": share, "peer": 0.95}
    met = share is None or 0.93 <= share <= 0.97
    rows = [row | {"ratio": None if share is None else share / 0.95, "goal": 1.0, "met": met, "note": note}]
    if judged > DOUBTED:
        # two and a half deviations of chance, for the column that has least to spare
        spare = [(h / t - 0.93) / np.sqrt(0.93 * 0.07 / t) if t else np.inf for t, h in zip(trusted, held)]
        worst = int(np.argmin(spare))
        least = float(held[worst] / trusted[worst])
        name = f"{one.name}, epsilon {epsilon:g}: coverage of the worst column's trusted intervals"
        note = f"column {worst + 1}, trusted in {trusted[worst] / draws:.1%} of the draws; .93 less 2.5 deviations"
        row = {"name": name, "ours": least, "peer": 0.95, "ratio": least / 0.95, "goal": 1.0}
        rows.append(row | {"met": bool(spare[worst] >= -2.5), "note": note})
    return rows


if __name__ == "__main__":
    for result in run():
        print(result)
