"""The private passes of a mixture: each reads the data once and hands out nothing but noisy sums on a public lattice.

One record lies in one class, so its squared loss in a pass is that of its class alone (derived, for balls, histograms
and refinements: docs/mechanisms/mixture.md). The passes add up the squared losses of one record and refuse to draw
beyond the mean shift they were given (`NoisySums`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.mixture.budget import RefinementScales
from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design
from gaussveil.noise import Generator
from gaussveil.postprocessing.class_guess import RefinedSums
from gaussveil.statistics import Affine, BinCounts, ExactSum, Moments, Nearest, Source
from gaussveil.statistics.block import Grouping
from gaussveil.statistics.fixed_point import PRODUCT_BITS
from gaussveil.typing import Floats


@dataclass
class PrivatePasses(NoisySums):
    """Access to the data for one fit: every method is one pass and one draw."""

    source: Source
    columns: tuple[str, ...]
    group: Grouping
    groups: int
    rows_per_unit: int
    classes_per_unit: int
    mean_shift: float
    generator: Generator | None
    log: float | None = None

    @property
    def dimension(self) -> int:
        """Number of feature columns."""
        return len(self.columns)

    def counts_and_sums(
        self,
        middle: Floats,
        radius: float,
        scales: tuple[float, float],
        linear: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Counts, and sums of x - middle (or its image under one linear map) clipped to the ball of this radius."""
        self._spend(1 / scales[0] ** 2 + (radius / scales[1]) ** 2)
        d = self.dimension
        if linear is None:
            maps = None
        else:
            maps = np.broadcast_to(linear, (self.groups, d, d))
        affine = Affine(np.broadcast_to(middle, (self.groups, d)), maps)
        statistic = Moments(clip=radius, affine=affine, second=False)
        sums = self.source.aggregate(
            statistic, columns=self.columns, group=self.group, log=self.log
        )
        return self._noisy(scales[0], sums.count), self._noisy(scales[1], sums.total)

    def sums(self, radius: float, scale: float) -> Floats:
        """Sums of x, clipped to the ball of this radius about zero."""
        self._spend((radius / scale) ** 2)
        statistic = Moments(clip=radius, second=False)
        sums = self.source.aggregate(
            statistic, columns=self.columns, group=self.group, log=self.log
        )
        return self._noisy(scale, sums.total)

    def distances(self, centres: Floats, edges: Floats, scale: float) -> Floats:
        """Histogram of |x - centre of its class|."""
        self._spend(1 / scale**2)
        statistic = BinCounts(
            edges=tuple(edges.tolist()), distance=True, affine=Affine(centres)
        )
        return self._noisy(
            scale,
            self.source.aggregate(
                statistic, columns=self.columns, group=self.group, log=self.log
            ),
        )

    def refinement(
        self, means: Floats, maps: Floats, scales: RefinementScales
    ) -> RefinedSums:
        """Moments of z = maps (x - means), clipped to the unit ball."""
        self._spend(scales.squared_loss(self.dimension))
        statistic = Moments(clip=1.0, affine=Affine(means, maps), bits=PRODUCT_BITS)
        sums = self.source.aggregate(
            statistic, columns=self.columns, group=self.group, log=self.log
        )
        assert sums.second is not None
        d = self.dimension
        limbs = sums.second.limbs
        unit = sums.second.unit
        places = np.arange(d)
        above, below = np.triu_indices(d, 1)
        total = self._noisy(scales.total, sums.total)
        shape = np.zeros((self.groups, d, d))
        if d > 1:  # an off-diagonal entry stands twice in the matrix: half the variance
            off = self._noisy(
                scales.shape / math.sqrt(2), ExactSum(limbs[:, :, above, below], unit)
            )
            shape[:, above, below] = shape[:, below, above] = off
        diagonals = ExactSum(limbs[:, :, places, places], unit)
        joint = scales.count_and_diagonal(d)
        counted = self._noisy(joint, sums.count, diagonals)
        count = counted[:, 0]
        diagonal = counted[:, 1:]
        shape[:, places, places] = diagonal - diagonal.mean(axis=1, keepdims=True)
        return RefinedSums(
            count,
            total,
            shape,
            count - diagonal.sum(axis=1),
            scales,
            means,
            maps,
            joint,
        )

    def with_nearest(self, centres: Floats) -> None:
        """From now on a record's class is the nearest of these released centres."""
        self.group, self.groups = Nearest(centres), len(centres)

    def _spend(self, squared_loss: float) -> None:
        """Add one record's squared loss; a unit of m records has at most m^2 times it."""
        self.spend(self.rows_per_unit**2 * squared_loss)

    def _noisy(self, noise_scale: float | Floats, *sums: ExactSum) -> Floats:
        """Sums side by side per class, plus noise."""
        width = sum(math.prod(part.shape[1:]) for part in sums)
        if len(sums) == 1:
            shape = sums[0].shape
        else:
            shape = (self.groups, width)
        reached = min(self.classes_per_unit, self.groups) * width
        return self.noisy(noise_design(noise_scale, shape, reached), *sums)
