"""Rows of one unit bounded together beside rows bounded one by one: excess risk, and coverage of the intervals.

Twelve hours of each of 4,000 homes, the home hidden; units of rows that have nothing in common; and units of five
copies of one row, of which nothing can be gained. Both release under the same promise, spend the same on lengths and
design effects, and have the same draws; the one has no choice but f = 1. FULL=1 for 1,000 draws
of the homes, a fifth of the others.

And the largest design effect of a slope: the variance of its sampling error over that of rows all by themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from bench_regression import DELTA, EPSILONS, FIRST, ratio, risk_of
from bench_regression_coverage import BLOCK, COVERED, Slopes, coverage, judged
from gaussveil import PrivateLinearRegression
from gaussveil.mechanisms import regress
from gaussveil.mechanisms.regression import unit_sums
from regression_draws import SampleSums, quick_moments
from regression_sets import Matrix, Regression, Sample, loads_of_homes, normal
from side_by_side import side_by_side

BESIDE = 100  # draws of rows bounded one by one
COUNTED = 100
Found = list[tuple[float, float | None, Slopes]]  # by epsilon: risk of units together, of rows one by one, coverage


def sets() -> list[Regression]:
    return [loads_of_homes(), apart(), copies()]


def apart() -> Regression:
    """Rows of one unit have nothing in common."""
    one = normal("apart: 2,000 units of 10 rows, d=8", 20_000, 8, share=0.7)
    return replace(one, rows=2_000, rows_per_unit=10)


def copies() -> Regression:
    """Rows of one unit are all alike."""
    one = normal("copies: 2,000 units of 5 rows, d=5", 2_000, 5, share=0.7)

    def draw(seed: int) -> Sample:
        rows, target, best = one.draw(seed)
        return np.repeat(rows, 5, axis=0), np.repeat(target, 5), best

    return replace(one, draw=draw, rows_per_unit=5)


def run() -> list[dict[str, Any]]:
    ends = [FIRST + COVERED // (5 if place else 1) for place in range(len(sets()))]
    items = [(place, begin) for place, end in enumerate(ends) for begin in range(FIRST, end, BLOCK)]
    found = dict(zip(items, side_by_side(drawn, items)))
    rows = []
    for place, one in enumerate(sets()):
        draws = [each for item in items if item[0] == place for each in found[item]]
        for number, epsilon in enumerate(EPSILONS):
            cells = [draw[number] for draw in draws]
            both = np.asarray([cell[:2] for cell in cells if cell[1] is not None])
            name = f"{one.name}, epsilon {epsilon:g}: excess risk, unit sums bounded / rows bounded"
            mine, peer = both.mean(axis=0).tolist()
            rows.append(
                ratio(name, mine, peer, 1, f"{len(both)} draws") | ({"goal": None, "met": True} if place == 2 else {})
            )
            rows += coverage(one, epsilon, [cell[2] for cell in cells])
    return rows + known_effects(loads_of_homes())


def drawn(item: tuple[int, int]) -> list[Found]:
    """Some draws of one set."""
    place, begin = item
    one = sets()[place]
    risk = risk_of(one)
    low, high = (np.append(ends, end) for ends, end in zip((one.low, one.high), one.target))

    def at(seed: int) -> Found:
        sample = one.draw(seed)
        given = SampleSums(np.vstack((sample[0].T, sample[1])), one.rows_per_unit)

        def moments() -> list[Any]:
            models = [PrivateLinearRegression(epsilon=epsilon, delta=DELTA) for epsilon in EPSILONS]
            return [quick_moments(model, given, low, high, seed, targets=1) for model in models]

        def risks(released: list[Any]) -> list[float]:
            return [risk(regress(each).coefficients, sample) for each in released]

        together = moments()
        alone: list[Any] = [None] * len(EPSILONS)
        if seed < FIRST + BESIDE:
            with mock.patch.object(unit_sums, "FRACTIONS", (1.0,)):
                alone = risks(moments())
        return [*zip(risks(together), alone, [judged(each, sample[2][1:]) for each in together])]

    return [at(seed) for seed in range(begin, begin + BLOCK)]


def known_effects(one: Regression) -> list[dict[str, Any]]:
    """Design effects of the slopes."""
    draws = (one.draw(seed) for seed in range(FIRST, FIRST + COUNTED))
    effects = [design_effects(one, rows, np.clip(target, *one.target)) for rows, target, _ in draws]
    most, totals = np.mean(effects, axis=0).max(axis=1)
    note = f"of {one.rows_per_unit} at most; {totals:.2f} by the totals of the features of each unit"
    plain = {"peer": None, "ratio": None, "goal": None, "met": True, "note": note}
    return [plain | {"name": f"{one.name}: largest design effect of a slope", "ours": float(most)}]


def design_effects(one: Regression, rows: Matrix, target: Matrix) -> Matrix:
    """Of each slope, by the sums of its scores over units, and by those of its feature (Moulton, errors all alike)."""
    centred = np.column_stack((np.ones(len(rows)), rows - rows.mean(axis=0)))
    errors = target - centred @ np.linalg.lstsq(centred, target, rcond=None)[0]
    features = centred[:, 1:]

    def over_rows(scores: Matrix) -> Matrix:
        sums = scores.reshape(-1, one.rows_per_unit, one.size).sum(axis=1)
        return np.asarray(np.sum(sums**2, axis=0))

    alone = np.sum(features**2, axis=0)
    return np.stack((over_rows(features * errors[:, None]) / (alone * errors.var()), over_rows(features) / alone))


if __name__ == "__main__":
    for result in run():
        print(result)
