"""Noisy second moments of a table, from which any number of regressions follow.

A first look, with `LOOK_SHARE` of the budget, tells the number of rows, the mean and the mean square of the features.
From it follow, by public rules, the centre and radius to which rows are bounded and how the rest is shared out. Then
the matrix: sum of z z' over the rows, z = w (1, x, y) (`rows.WeightedRows`), x in units of the radius, each entry of
the upper triangle with independent noise whose variance depends on its block alone; and what the weights w^2 lack, the
sum of 1 - w^2, with the noise of the sum of w^2: the two together move by no more than 1, so it costs nothing. How far
a row or a unit moves each block, and the best noise for that, are derived in docs/mechanisms/regression.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gaussveil.accounting import Release
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import BoundedMechanism, Draws
from gaussveil.mechanisms.regression.lengths import SHELLS, Lengths
from gaussveil.mechanisms.regression.rows import GivenTable, WeightedRows
from gaussveil.mechanisms.regression.unit_sums import (
    FRACTIONS,
    WIDEST,
    Left,
    UnitGrams,
    WholeUnits,
    block_energies,
)
from gaussveil.statistics import ExactSum
from gaussveil.statistics.block import Grouping
from gaussveil.statistics.fixed_point import carry
from gaussveil.typing import Floats

LOOK_SHARE = 0.1  # of t^2
LENGTH_SHARE = 0.02  # of t^2, where units have several rows: how long their sums are
HARDLY = 0.4  # noise deviations by which a mean square that is not known may exceed what was drawn
SURELY = 4.5  # noise deviations above which a mean square is taken for known
TYPICAL = 0.4  # of the square root of the number of columns: length of a row in units of half a range
NORMAL_95 = 1.959963984540054
Scales = dict[str, float]


@dataclass(frozen=True, eq=False)
class Look:
    """What the first look told of the features, in public units: rows, centre, and the mean square about it."""

    rows: float
    middle: Floats
    square: float
    most: float = math.inf
    """What the mean square hardly exceeds, where it does not stand out of its noise; else the mean square."""
    lengths: Lengths | None = None
    """How long rows are, where that was asked."""

    @classmethod
    def at(
        cls, draws: Draws, units: Floats, mean_shift: float, group: Grouping = None
    ) -> Look:
        """Draw it. Rows are as long as the bounds allow; of the mean is kept what stands out of its noise."""
        size = len(draws.table.features)
        centre, scale = (tuple(side.tolist()) for side in units[:size].T)
        statistic = WeightedRows(
            centre=centre, scale=scale, row_norm=math.sqrt(size), targets=0
        )
        sums = draws.table.source.aggregate(
            statistic, columns=draws.table.features, group=group
        )
        energies = {"1": 1.0, "x": float(size), "trace": float(size**2)}
        scales = block_scales(
            {"1": 1.0, "x": 1.0, "trace": 1.0 / size**2}, energies, mean_shift
        )
        draws.spend_row(sum(energies[name] / each**2 for name, each in scales.items()))
        diagonal = np.arange(1, size + 1)
        blocks = {
            "1": sums.limbs[:, :1, 0],
            "x": sums.limbs[:, 0, 1:-1],
            "trace": carry(
                sums.limbs[:, diagonal, diagonal].sum(axis=1, keepdims=True)
            ),
        }
        count, total, trace = (
            draws.noisy(
                noise_design(scales[name], part.shape[1:], part.shape[1]),
                ExactSum(part, sums.unit),
            )
            for name, part in blocks.items()
        )
        rows = max(float(count[0]), scales["1"], 1.0)
        mean = np.clip(total / rows, -1.0, 1.0)
        mean *= max(
            0.0, 1 - size * (scales["x"] / rows) ** 2 / max(float(mean @ mean), 1e-300)
        )
        seen = float(trace[0]) > SURELY * scales["trace"]
        told = float(trace[0]) / rows - float(mean @ mean)
        if seen:
            square = told
        else:
            square = size * TYPICAL**2
        if seen:
            most = told
        else:
            most = min(max(told, 0.0) + HARDLY * scales["trace"] / rows, square)
        smallest = 1e-6 * size
        return cls(
            rows,
            mean,
            square=min(max(square, smallest), float(size)),
            most=min(max(most, smallest), float(size)),
        )

    def told(self) -> Lengths:
        """How long rows are; all as long as the mean square says where that was not asked."""
        return self.lengths or Lengths(np.asarray([self.square]), np.ones(1))

    def over(self, norm: float) -> Look:
        """What it told, in units of the radius."""
        if self.lengths is None:
            lengths = None
        else:
            lengths = self.lengths.over(norm)
        return replace(
            self,
            square=min(self.square / norm**2, 1.0),
            most=min(self.most / norm**2, 1.0),
            lengths=lengths,
        )


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What was released: the noisy matrix of (1, features, targets) in public units, and the variance of its noise."""

    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    matrix: Floats
    variance: Floats
    centre: Floats
    scale: Floats
    look: Look
    lacking: float
    rows_per_unit: int = 1
    effects: Floats | None = None
    """Design effects of level and slopes of every target, where units have several rows (`unit_sums`)."""

    @property
    def count(self) -> float:
        """Weighted number of rows, at least what its own noise leaves visible."""
        return max(float(self.matrix[0, 0]), math.sqrt(float(self.variance[0, 0])), 1.0)

    @property
    def weight(self) -> float:
        """Mean square weight of a row: 1 where none was weighted down."""
        return self.count / max(self.count + self.lacking, 1.0)

    @property
    def certainty(self) -> Floats:
        """How far a mean stands out of its noise: 1 for targets, for features, which were centred, at most 1."""
        size = len(self.feature_names)
        noise = float(np.sum(self.variance[0, 1 : size + 1]))
        sums = self.matrix[0, 1 : size + 1]
        kept = max(0.0, 1 - noise / max(float(sums @ sums), 1e-300))
        return np.where(np.arange(len(self.scale)) < size, kept, 1.0)

    @property
    def means(self) -> Floats:
        """Weighted means of features and targets, in public units: within [-1, 1] for targets."""
        return np.asarray(self.certainty * self.matrix[0, 1:] / self.count)

    def centred(self, certainty: Floats | float | None = None) -> tuple[Floats, Floats]:
        """Sums of products about the means, drawn so far to zero, and the variance of the noise in each entry."""
        if certainty is None:
            kept = self.certainty
        else:
            kept = np.broadcast_to(certainty, self.scale.shape)
        mean = kept * self.matrix[0, 1:] / self.count
        noise = self.variance
        square = mean**2
        sums = self.matrix[1:, 1:] - self.count * np.outer(mean, mean)
        spread = noise[1:, 1:] + np.outer(square, square) * noise[0, 0]
        across = np.outer(kept * noise[0, 1:], square)
        return sums, spread + across + across.T + 2 * np.diag(np.diag(across))


@dataclass(kw_only=True, eq=False, repr=False)
class MomentsMechanism(BoundedMechanism):
    """Base of the estimators that release `NoisyMoments`; `reach` is the radius over the rows' root mean square.

    Where units have several rows `unit_share` of the budget is kept for their lengths and for what `_by_unit` reads.
    """

    reach: ClassVar[float]
    look_share: ClassVar[float] = LOOK_SHARE
    rows_share: ClassVar[float] = 0.0
    """Of t^2, for how long rows are (`lengths`)."""
    unit_share: ClassVar[float] = LENGTH_SHARE

    @abstractmethod
    def _scales(
        self,
        size: int,
        targets: int,
        look: Look,
        mean_shift: float,
        fraction: float = 1.0,
        left: Left = (1.0, 0.0),
    ) -> tuple[float, Scales]:
        """Predicted risk, and the noise of the blocks: a public rule of what the look told, its mean square in units of
        the radius, where units are bounded to this fraction, which leaves so much of their weight.
        """

    def _radius(self, size: int, targets: int, look: Look, mean_shift: float) -> float:
        """The radius where none is given, in units of half a range."""
        return self.reach * math.sqrt(look.square)

    def _released(
        self, table: GivenTable, target_bounds: Any = "auto"
    ) -> Release[NoisyMoments]:
        """Debit, draw, certify."""
        size, targets = len(table.features), len(table.targets)
        stated_norm = self._given_norm()
        rows = table.source.rows_per_unit
        if rows > 1 and math.comb(size + targets + 2, 2) <= WIDEST:
            share = self.unit_share
        else:
            share = 0.0

        def draw(draws: Draws, units: Floats, whole: float) -> NoisyMoments:
            left = whole * math.sqrt(1 - share)
            look = Look.at(draws, units, left * math.sqrt(self.look_share))
            centre, scale = units.T.copy()
            centre[:size] += look.middle * scale[:size]
            if self.rows_share:
                lengths = Lengths.drawn(
                    draws,
                    np.stack((centre, scale), axis=1),
                    left * math.sqrt(self.rows_share),
                    look.most,
                )
                look = replace(look, lengths=lengths)
            left = left * math.sqrt(1 - self.look_share - self.rows_share)
            norm = stated_norm or self._radius(size, targets, look, left)
            scale[:size] *= norm
            look = look.over(norm)
            placed = np.stack((centre, scale), axis=1)
            together = WholeUnits(draws, placed)
            if share:
                kept = together.left_by(whole * math.sqrt(LENGTH_SHARE))
            else:
                kept = {1.0: (1.0, 0.0)}
            plans = {
                each: self._scales(size, targets, look, left, each, weight)
                for each, weight in kept.items()
            }
            fraction = min(plans, key=lambda each: plans[each][0])
            if share:
                grams = replace(together.grams, fraction=fraction)
            else:
                grams = None
            drawn = draw_moments(together, plans[fraction][1], grams)
            named = table.feature_names, table.target_names
            moments = NoisyMoments(
                *named, *drawn[:2], centre, scale, look, drawn[2], rows
            )
            spared = whole * math.sqrt(share - LENGTH_SHARE * bool(share))
            if grams is None:
                return moments
            return self._by_unit(together, grams, moments, spared)

        return self._publish_sums(
            table,
            draw,
            released=f"second moments of {size} features and {targets} target{'s' * (targets != 1)}"
            + ", and how long rows are" * bool(self.rows_share)
            + ", and how long the sums of units are" * bool(share)
            + ", and squares of each unit's part in the coefficients"
            * bool(share and targets),
            coordinates=(1 + size + targets) ** 2
            + size
            + 2
            + (1 + SHELLS) * bool(self.rows_share)
            + (len(FRACTIONS) + (1 + size) * targets) * bool(share),
            parameters=lambda left: {
                "row_norm": stated_norm or "searched",
                "row_mean_shift": left,
                "unit_share": share,
            },
            target_bounds=target_bounds,
        )

    def _by_unit(
        self,
        units: WholeUnits,
        grams: UnitGrams,
        moments: NoisyMoments,
        mean_shift: float,
    ) -> NoisyMoments:
        """The moments, with what a pass over whole units tells at this mean shift of a row."""
        return moments


def noise_edge(noise: Floats) -> float:
    """About the largest eigenvalue that noise of these variances has by itself."""
    return 2 * math.sqrt(float(np.max(np.sum(noise, axis=1))))


def block_entries(size: int, targets: int) -> Scales:
    """How many numbers of the upper triangle each block has; of the targets' products only squares matter."""
    return {
        "1": 1,
        "x": size,
        "y": targets,
        "xx": size * (size + 1) / 2,
        "xy": size * targets,
        "yy": targets,
    }


def block_scales(weights: Scales, energies: Scales, mean_shift: float) -> Scales:
    """Noise deviations of the blocks that cost one row this mean shift and have the least weighted variance."""
    total = sum(
        math.sqrt(energies[block] * weight) for block, weight in weights.items()
    )
    return {
        block: math.sqrt(math.sqrt(energies[block] / weight) * total) / mean_shift
        for block, weight in weights.items()
    }


def draw_moments(
    units: WholeUnits, scales: Scales, grams: UnitGrams | None
) -> tuple[Floats, Floats, float]:
    """Noisy matrix, variances of its entries, what the weights lack; without `grams` rows are bounded one by one."""
    draws = units.draws
    statistic = units.grams.reader.rows
    columns = 1 + len(draws.table.columns)
    targets = statistic.targets
    above, below = np.triu_indices(columns)
    if grams is None:
        sums = draws.table.source.aggregate(statistic, columns=draws.table.columns)
        found = ExactSum(
            np.hstack((sums.limbs[:, above, below], sums.limbs[:, -1:, -1])), sums.unit
        )
    else:
        found = units.sums(grams, grams.unit)
    energies = block_energies(targets, 1.0 if grams is None else grams.fraction)
    draws.spend_row(sum(energies[name] / each**2 for name, each in scales.items()))
    matrix, variance = np.zeros((2, columns, columns))
    for name, each in scales.items():
        for root in (1.0, math.sqrt(2)):
            (places,) = np.nonzero(
                (units.grams.reader.kind == name)
                & (((above == below) & (above > 0)) == (root > 1))
            )
            if len(places):
                # squares have twice the variance: of units they were summed over sqrt(2)
                if grams is None:
                    after = 1.0
                else:
                    after = root
                noise = noise_design(each * root / after, (len(places),), len(places))
                i = above[places]
                j = below[places]
                matrix[i, j] = after * draws.noisy(
                    noise, ExactSum(found.limbs[:, places], found.unit)
                )
                variance[i, j] = after**2 * noise.covariance
    lower = np.tril_indices(columns, -1)
    matrix[lower], variance[lower] = matrix.T[lower], variance.T[lower]
    lacking = draws.noisy(
        noise_design(scales["1"], (1,), 1), ExactSum(found.limbs[:, -1:], found.unit)
    )
    return matrix, variance, float(lacking[0])
