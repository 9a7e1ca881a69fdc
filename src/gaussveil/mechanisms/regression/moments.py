"""Noisy second moments of a table: one Gaussian release, from which any number of regressions follow.

Released: sum of z z' over the rows, z = w (1, x, y) (`rows.WeightedRows`), each entry of the upper triangle with
independent noise whose variance depends on its block alone.

Theorem (derived: docs/mechanisms/regression.md). With |x-part| <= r, |y_j| <= 1 and k targets a row moves the blocks
(1, x, y, xx, xy, yy) by squared lengths of at most b = (1, r^2, k, r^4/2, r^2 k, k^2/2), where in xx and yy the
diagonal has twice the variance of the rest. A unit of m rows then has N(t, 1) against N(0, 1) as dominating pair, t^2 =
m^2 sum b_i/s_i^2. For weights w_i of the blocks' errors, s_i^2 = sqrt(b_i/w_i) sum_j sqrt(b_j w_j) m^2/t^2 is least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gaussveil.accounting import Release
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import BoundedMechanism, Draws
from gaussveil.mechanisms.regression.rows import Table, WeightedRows
from gaussveil.statistics import ExactSum
from gaussveil.typing import Floats

BLOCKS = ("1", "x", "y", "xx", "xy", "yy")


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What was released: the noisy matrix of (1, features, targets) in public units, and the variance of its noise."""

    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    matrix: Floats
    variance: Floats
    centre: Floats
    scale: Floats

    @property
    def count(self) -> float:
        """Weighted number of rows, at least what its own noise leaves visible."""
        return max(float(self.matrix[0, 0]), math.sqrt(float(self.variance[0, 0])), 1.0)

    @property
    def means(self) -> Floats:
        """Weighted means of features and targets, in public units: within [-1, 1] for targets."""
        return np.asarray(self.matrix[0, 1:] / self.count)

    def centred(self) -> tuple[Floats, Floats]:
        """Sums of products about the means, and the variance of the noise in each entry."""
        mean, noise = self.means, self.variance
        square = mean**2
        sums = self.matrix[1:, 1:] - self.count * np.outer(mean, mean)
        spread = noise[1:, 1:] + np.outer(square, square) * noise[0, 0]
        across = np.outer(noise[0, 1:], square)
        return sums, spread + across + across.T + 2 * np.diag(np.diag(across))


@dataclass(kw_only=True, eq=False, repr=False)
class MomentsMechanism(BoundedMechanism):
    """Base of the estimators that release `NoisyMoments`; what each minds most are its `weights` of the blocks."""

    weights: ClassVar[dict[str, float]]

    def _released(self, table: Table, target_bounds: Any = "auto") -> Release[NoisyMoments]:
        """Debit, draw, certify."""
        size, targets = len(table.features), len(table.targets)
        norm = self._norm(size)
        entries = {"1": 1, "x": size, "y": targets, "xx": size * (size + 1) / 2, "xy": size * targets, "yy": targets}
        weights = {block: self.weights[block] * entries[block] for block in BLOCKS if entries[block] > 0}

        def scales(left: float) -> dict[str, float]:
            return block_scales(weights, block_energies(norm, targets), left)

        def draw(draws: Draws, units: Floats, left: float) -> NoisyMoments:
            matrix, variance = draw_moments(draws, units, norm, scales(left))
            return NoisyMoments(table.feature_names, table.target_names, matrix, variance, units[:, 0], units[:, 1])

        return self._publish_sums(
            table,
            draw,
            released=f"second moments of {size} features and {targets} targets",
            coordinates=(1 + size + targets) ** 2,
            parameters=lambda left: {"row_norm": norm, "noise_deviations": scales(left)},
            target_bounds=target_bounds,
        )


def block_energies(norm: float, targets: int) -> dict[str, float]:
    """The largest squared length by which one row moves each block, the diagonal halved (see the module)."""
    return {
        "1": 1.0,
        "x": norm**2,
        "y": float(targets),
        "xx": norm**4 / 2,
        "xy": norm**2 * targets,
        "yy": targets**2 / 2,
    }


def block_scales(weights: dict[str, float], energies: dict[str, float], mean_shift: float) -> dict[str, float]:
    """Noise deviations of the blocks that cost one row this mean shift and have the least weighted variance."""
    total = sum(math.sqrt(energies[block] * weight) for block, weight in weights.items())
    return {
        block: math.sqrt(math.sqrt(energies[block] / weight) * total) / mean_shift for block, weight in weights.items()
    }


def draw_moments(draws: Draws, units: Floats, norm: float, scales: dict[str, float]) -> tuple[Floats, Floats]:
    """The noisy matrix and the variances of its entries."""
    targets, size = len(draws.table.targets), len(draws.table.features)
    statistic = WeightedRows(
        centre=tuple(units[:, 0].tolist()), scale=tuple(units[:, 1].tolist()), row_norm=norm, targets=targets
    )
    sums = draws.table.source.aggregate(statistic, columns=draws.table.columns)
    kind = np.asarray(["1"] + ["x"] * size + ["y"] * targets)
    above, below = np.triu_indices(1 + size + targets)
    block = np.where(kind[above] == "1", kind[below], np.char.add(kind[above], kind[below]))
    matrix, variance = np.zeros((2, len(kind), len(kind)))
    energies = block_energies(norm, targets)
    draws.spend_row(sum(energies[name] / each**2 for name, each in scales.items()))
    doubled = (above == below) & (block != "1")
    for name, each in scales.items():
        for twice in (False, True):
            i, j = (side[(block == name) & (doubled == twice)] for side in (above, below))
            if len(i):
                noise = noise_design(each * math.sqrt(1 + twice), (len(i),), len(i))
                matrix[i, j] = draws.noisy(noise, ExactSum(sums.limbs[:, i, j], sums.unit))
                variance[i, j] = noise.covariance
    lower = np.tril_indices(len(kind), -1)
    matrix[lower], variance[lower] = matrix.T[lower], variance.T[lower]
    return matrix, variance
