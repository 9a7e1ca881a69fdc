"""What bounding the sum of a unit's rows would gain over bounding each row: excess risk on loads by home.

Twelve hours of each of 4,000 homes, the home hidden. "Ours" bounds rows one by one and charges all of a unit as if they
were alike. The other weighs a unit's rows X, each bounded as ours, by min(1, f m/|X'X|) in the Frobenius norm, and has
the noise of docs/mechanisms/regression.md; the best f of three is taken, without paying for the search. Same draws.

And the largest design effect of a slope: the variance of its sampling error over that of rows all by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from bench_regression import DELTA, EPSILONS, FIRST, ratio, risk_of
from gaussveil import PrivateLinearRegression
from gaussveil.mechanisms import regress
from gaussveil.mechanisms.regression import linear, moments
from gaussveil.statistics import ExactSum
from gaussveil.statistics.fixed_point import scaled
from regression_draws import UNIT, SampleSums, quick_moments
from regression_sets import Matrix, Regression, loads_of_homes

DRAWS = 60
COUNTED = 100
FRACTIONS = (1.0, 0.7, 0.5, 0.35)  # 1: rows one by one


@dataclass
class UnitSums(SampleSums):
    """Sums of rows whose units are weighted down to `fraction` of the most that their rows could be."""

    fraction: float = 1.0

    def aggregate(self, statistic: Any, columns: Any, group: Any = None) -> ExactSum:
        if statistic.targets == 0 or self.fraction == 1:
            return super().aggregate(statistic, columns, group)
        rows = statistic.weighted(self.values)
        units = rows[1:-2].T.reshape(-1, self.rows_per_unit, len(rows) - 3)
        length = np.linalg.norm(np.einsum("umi,umj->uij", units, units), axis=(1, 2))
        weight = np.minimum(1.0, self.fraction * self.rows_per_unit / np.maximum(length, 1e-300))
        gram = (rows * np.repeat(weight, self.rows_per_unit)) @ rows.T
        return ExactSum(scaled(np.rint(gram / UNIT).astype(np.int64), 0), UNIT)


def run() -> list[dict[str, Any]]:
    one = loads_of_homes()
    risk, found = risk_of(one), np.zeros((len(FRACTIONS), len(EPSILONS), DRAWS))
    low, high = (np.append(ends, end) for ends, end in zip((one.low, one.high), one.target))
    for place, seed in enumerate(range(FIRST, FIRST + DRAWS)):
        sample = one.draw(seed)
        values = np.vstack((sample[0].T, sample[1]))
        for f, fraction in enumerate(FRACTIONS):
            given = UnitSums(values, one.rows_per_unit, fraction=fraction)
            powers = {"1": 0, "x": 1, "y": 0, "xx": 2, "xy": 1, "yy": 0}
            energies = {name: each * fraction ** powers[name] for name, each in moments.block_energies(1).items()}
            with (
                mock.patch.object(moments, "block_energies", return_value=energies),
                mock.patch.object(linear, "block_energies", return_value=energies),
            ):
                for e, epsilon in enumerate(EPSILONS):
                    model = PrivateLinearRegression(epsilon=epsilon, delta=DELTA)
                    fit = regress(quick_moments(model, given, low, high, seed, targets=1))
                    found[f, e, place] = risk(fit.coefficients, sample)
    rows = []
    for epsilon, risks in zip(EPSILONS, found.mean(axis=2).T):
        best = 1 + int(np.argmin(risks[1:]))
        name = f"{one.name}, epsilon {epsilon:g}: excess risk, unit sums bounded / rows bounded"
        note = f"{DRAWS} draws; f = {FRACTIONS[best]:g}, the best of {', '.join(map(str, FRACTIONS[1:]))}"
        rows.append(ratio(name, float(risks[best]), float(risks[0]), 1, note) | {"goal": None, "met": True})
    return rows + known_effects(one)


def known_effects(one: Regression) -> list[dict[str, Any]]:
    """Design effects of the slopes."""
    drawn = (one.draw(seed) for seed in range(FIRST, FIRST + COUNTED))
    effects = [design_effects(one, rows, np.clip(target, *one.target)) for rows, target, _ in drawn]
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
