"""Releases of moments drawn quickly: the mechanism's own code, with sums and normal noise in float64.

What a fit would release has the same law up to rounding (2^-40 of a row, and the sampler's 1e-30): only the fixed point
of the sums and the sampler are replaced. For coverage, which needs many thousands of draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from gaussveil.accounting import Release
from gaussveil.mechanisms.regression.bounded import Draws, centre_and_scale
from gaussveil.mechanisms.regression.lengths import ShellCounts
from gaussveil.mechanisms.regression.moments import MomentsMechanism, NoisyMoments
from gaussveil.mechanisms.regression.rows import GivenTable
from gaussveil.statistics import Block, ExactSum
from gaussveil.statistics.fixed_point import scaled
from gaussveil.statistics.source import View
from gaussveil.statistics.unit_cells import UnitCells
from regression_sets import Matrix

UNIT = 2.0**-24
BLOCK = 4096  # rows at a time, to stay in the cache


@dataclass
class SampleSums:
    """A Source of one sample, columns first, whose sums are kept: every epsilon takes the same first look."""

    values: Matrix
    rows_per_unit: int = 1
    sums: dict[Any, ExactSum] = field(default_factory=dict)
    cells: dict[Any, UnitCells] = field(default_factory=dict)
    view: ClassVar[View] = View((), "unit")

    def aggregate(self, statistic: Any, columns: Any, group: Any = None) -> ExactSum:
        if isinstance(statistic, ShellCounts):
            return statistic.finish(statistic.partial(Block(self.values[: len(columns)].copy())))
        if statistic not in self.sums:
            values = self.values[: len(columns)]
            blocks = (statistic.weighted(values[:, at : at + BLOCK]) for at in range(0, values.shape[1], BLOCK))
            gram = sum(rows @ rows.T for rows in blocks)
            self.sums[statistic] = ExactSum(scaled(np.rint(gram / UNIT).astype(np.int64), 0), UNIT)
        return self.sums[statistic]

    def fold_units(self, reader: Any, totals: Any, kept: Any) -> Any:
        """Units are consecutive rows."""
        if reader not in self.cells:
            each = reader.integers(dict(zip(reader.present, self.values)))
            features = np.asarray([one.reshape(-1, self.rows_per_unit).sum(axis=1) for one in each])[:, :, None]
            rows = np.full(features.shape[1:], self.rows_per_unit)
            self.cells = {reader: UnitCells(pa.nulls(len(rows)), rows, features, ())}
        return totals.fold([self.cells[reader]])


class Quick(Draws):
    """Draws with normal noise from a seed."""

    def noisy(self, noise: Any, *sums: ExactSum) -> Matrix:
        rng: np.random.Generator = self.generator  # type: ignore[assignment]
        (one,) = sums
        exact = (one.limbs[1] << 32 | one.limbs[0]) * one.unit  # below 2^63 units
        return np.asarray(exact + np.sqrt(noise.covariance) * rng.normal(size=noise.shape))


def quick_moments(
    model: MomentsMechanism, sample: SampleSums, low: Matrix, high: Matrix, seed: int, targets: int = 0
) -> NoisyMoments:
    """What a fit of the model to this sample would release; ends of all columns, targets last."""
    size = len(low) - targets
    given = model.epsilon, model.delta, size, targets, sample.rows_per_unit
    shift, left = row_mean_shift(type(model), *given)

    def published(table: GivenTable, draw: Any, **_: Any) -> Release[NoisyMoments]:
        draws = Quick(table, shift, np.random.default_rng([seed, 10]))  # type: ignore[arg-type]
        value = draw(draws, centre_and_scale(np.stack((low, high), axis=1)), left)
        return Release(value, None)  # type: ignore[arg-type]

    names = tuple(f"x{k}" for k in range(size)), tuple(f"y{k}" for k in range(targets))
    model._publish_sums = published  # type: ignore[assignment]
    return model._released(GivenTable(sample, *names, *names, "row")).value  # type: ignore[arg-type]


@lru_cache
def row_mean_shift(kind: Any, epsilon: float, delta: float, size: int, targets: int, rows: int) -> tuple[float, float]:
    """Mean shifts of a unit and of a row, from the certificate of a fit to no rows."""
    unit = {"unit": np.empty(0, dtype=np.int64), "rows_per_unit": rows} if rows > 1 else {}
    bounds = {"bounds": (-1.0, 1.0)} | ({"target_bounds": (-1.0, 1.0)} if targets else {})
    model = kind(epsilon=epsilon, delta=delta, **bounds, **unit).fit(np.empty((0, size)), np.empty((0, targets)))
    told = model.certificate_.parameters
    return told["mean_shift"], told["row_mean_shift"]
