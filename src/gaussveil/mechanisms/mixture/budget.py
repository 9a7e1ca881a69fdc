"""How a private mixture divides its budget: stages, and what is released within a stage.

All rules are functions of public numbers: the mean shift of the promise, the number of classes K and columns d, and the
size that the data are thought to have (stated by the caller, or estimated from what an earlier stage released). Stage j
is a Gaussian release of mean shift sqrt(share_j) mu; whatever the earlier outputs were, the later stages have the
shares that remain, so the whole is one mean shift mu (adaptive composition of Gaussian releases: docs/mechanisms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaussveil.calibration import noise_scales
from gaussveil.postprocessing.class_guess import NoiseScales
from gaussveil.postprocessing.clipped_moments import (
    mean_gain,
    radius_from_quantile,
    shape_gain,
)
from gaussveil.typing import Floats

FEW = (0.33, 0.06, 0.27, 0.34)  # centres, radii, two refinements
MANY = (0.18, 0.03, 0.12, 0.14, 0.18, 0.35)  # centres, radii, four refinements
FIRST_SHARE = 0.25  # of the centres, where their counts must tell the size
TILT_ONE = (
    -0.8,
    0.0,
    -0.2,
    0.4,
)  # of a single class: powers for centres, radii, refinements but the last, the last
RECORDS_PER_MOMENT = 2.5
# that a rule chooses
MOST_CLUSTERS = 8
MOST_ROWS_PER_UNIT = 4
SAMPLING_PART = 0.05  # of the noise's variance that a sampling error may have
CAPS = {
    2: (0.90, 0.99),
    4: (0.90, 0.93, 0.96, 0.99),
}  # largest share left unclipped, per refinement
# smallest share of a class that a refinement leaves unclipped
EARLY_FLOOR = 0.55
LAST_FLOOR = 0.5
RADIUS_BINS = 14
INNER_BALL = 0.7  # of the public radius: where noise outweighs it, sums of shortened records tell more


def centre_scales(
    mean_shift: float, radius: float, dimension: int
) -> tuple[float, float]:
    """Noise of counts and of sums in a ball, as if centres lay halfway between its middle and its surface."""
    count, total = noise_scales(
        mean_shift, np.array([radius**2 / 4, dimension]), np.array([1.0, radius**2])
    )
    return float(count), float(total)


def _refinement_weights(
    dimension: int, mean_gain: float, shape_gain: float
) -> tuple[Floats, Floats]:
    """What unit variances in count, sum and shape add to the divergence of a class, and their squared sensitivities."""
    d = dimension
    shape_weight = max(d * (d + 1) / 2 - 1, 0.25) / (4 * shape_gain**2)
    weights = np.array([1.0, d / (2 * mean_gain**2), shape_weight])
    sensitivities = np.array([1.0, 1.0, max(1 - 1 / d, 0.0)])
    return weights, sensitivities


def _gains(mass: Floats | float, dimension: int) -> tuple[float, float]:
    rho = radius_from_quantile(mass, dimension)
    return float(mean_gain(rho, np.ones(()), dimension)), float(
        shape_gain(rho, np.ones(()), dimension)
    )


class RefinementScales(NoiseScales):
    """How a refinement's share of the budget becomes noise, and what one record can lose in it."""

    @classmethod
    def split(
        cls, mean_shift: float, dimension: int, mean_gain: float, shape_gain: float
    ) -> RefinementScales:
        """Divide a stage. The slack is free: one record's loss is convex in |z|^2 and equal at both of its ends."""
        d = dimension
        weights, sensitivities = _refinement_weights(d, mean_gain, shape_gain)
        if d > 1:
            used = slice(None)
        else:
            used = slice(2)
        scales = noise_scales(mean_shift, weights[used], sensitivities[used])
        count = float(scales[0])
        total = float(scales[1])
        if d > 1:
            shape = float(scales[2])
        else:
            shape = 1.0
        slack = 1 / math.sqrt(1 / total**2 + (1 - 1 / d) / shape**2)
        return cls(count, total, shape, slack)

    def squared_loss(self, dimension: int) -> float:
        """The most that one record can lose in the stage, in squared noise deviations: at |z| = 0 or at |z| = 1."""
        shape = (1 - 1 / dimension) / self.shape**2
        return 1 / self.count**2 + max(1 / self.slack**2, 1 / self.total**2 + shape)

    def count_and_diagonal(self, dimension: int) -> Floats:
        """Covariance of (count, diagonal of zz') under which count, slack and traceless part are independent."""
        d = dimension
        covariance = np.full((d + 1, d + 1), self.count**2 / d)
        covariance[0, 0] = self.count**2
        if d > 1:
            traceless = self.shape**2 * (np.eye(d) - 1 / d)
        else:
            traceless = np.zeros((1, 1))
        covariance[1:, 1:] = traceless + (self.count**2 + self.slack**2) / d**2
        return covariance


@dataclass(frozen=True)
class StageBudget:
    """Noise of every stage, and the public targets that go with it."""

    centre_radius: float
    count_scale: float
    total_scale: float
    histogram_scale: float
    radius_quantile: float
    refinements: tuple[RefinementScales, ...]
    floors: tuple[float, ...]
    caps: tuple[float, ...]

    def describe(self) -> dict[str, object]:
        """Standard deviations of the noise for the certificate, in the order of the passes, and the first clipping."""
        return {
            "radius of the first sums": self.centre_radius,
            "counts and sums in the ball": [self.count_scale, self.total_scale],
            "distance histogram": self.histogram_scale,
            "refinements (count, sum, traceless second moments, sum of 1 - |z|^2)": [
                [stage.count, stage.total, stage.shape, stage.slack]
                for stage in self.refinements
            ],
        }


def records_per_class(size: float, mean_shift: float, classes: int) -> float:
    """Nominal records of a class in units of the noise that the whole budget would add to a count."""
    return max(size, 1.0) * mean_shift / classes


def inner_mass(strength: Floats | float, floor: float, cap: float) -> Floats:
    """Share of a class that a refinement leaves unclipped: more where its records stand out of the noise."""
    return np.clip(0.5 + 0.25 * np.log2(np.asarray(strength) / 50), floor, cap)


def centre_radius(strength: float, radius: float) -> float:
    """Radius of the ball that the first sums are clipped to: smaller than the public one where noise rules."""
    return radius * float(
        np.clip(INNER_BALL + 0.1 * math.log2(strength / 50), INNER_BALL, 1.0)
    )


def classes_for(size: float, mean_shift: float, dimension: int) -> int:
    """How many clusters to look for: as many as have enough records each for a shape of their own, one at least."""
    return int(
        np.clip(
            2 * size * mean_shift / (RECORDS_PER_MOMENT * dimension * (dimension + 1)),
            1,
            MOST_CLUSTERS,
        )
    )


def rows_per_unit_for(units: float, mean_shift: float, dimension: int) -> int:
    """How many rows of a unit to use. With each row the noise grows as the sums do; what falls is the sampling error.

    Per coordinate of the second moments that has the variance 1/(d (d + 2)) of a row, the noise (rows/mean shift)^2.
    The root, since units with fewer rows than are paid for add noise alone.
    """
    worth = units * mean_shift**2 / (SAMPLING_PART * dimension * (dimension + 2))
    return int(np.clip(round(math.sqrt(worth)), 1, MOST_ROWS_PER_UNIT))


def _tilted(shares: Sequence[float], dimension: int) -> tuple[float, ...]:
    """Shares for a single class, which need not be told from others: what many columns cost goes to its shape.

    Divergence from noise in the last refinement grows as (sum of sqrt(weight x sensitivity))^2, from noise in the
    centre as the number of columns; the tables are for three columns.
    """

    def cost(columns: int) -> float:
        weights, sensitivities = _refinement_weights(
            columns, *_gains(CAPS[2][0], columns)
        )
        return float(np.sum(np.sqrt(weights * sensitivities)) ** 2) / columns

    centre, radii, early, last = TILT_ONE
    powers = np.array([centre, radii, *[early] * (len(shares) - 3), last])
    parts = np.array(shares) * max(math.sqrt(cost(dimension) / cost(3)), 1.0) ** powers
    return tuple((parts / parts.sum()).tolist())


def stage_budget(
    size: float,
    mean_shift: float,
    classes: int,
    dimension: int,
    radius: float,
    first: float | None,
    given: Sequence[float] | None = None,
) -> StageBudget:
    """The public rule: more refinements where the data can carry them; `first` fixes the share of the centres.

    `given` shares of centres, radii and two or four refinements stand before the rule's.
    """
    strength = records_per_class(size, mean_shift, classes)
    many = 2 * strength / (dimension * (dimension + 1)) >= RECORDS_PER_MOMENT
    shares: tuple[float, ...]
    if many:
        shares = MANY
    else:
        shares = FEW
    if given is not None:
        shares = tuple(given)
    elif classes == 1:
        shares = _tilted(shares, dimension)
    if first is not None:
        shares = (
            first,
            *((1 - first) * share / sum(shares[1:]) for share in shares[1:]),
        )
    if many:
        quantile = float(np.clip(0.5 + 0.1 * math.log2(strength / 50), 0.5, 0.8))
    else:
        quantile = 0.5
    centres, radii, *refinements = (math.sqrt(share) * mean_shift for share in shares)
    caps = CAPS[len(refinements)]
    floors = (*[EARLY_FLOOR] * (len(caps) - 1), LAST_FLOOR)
    split = []
    for shift, floor, cap in zip(refinements, floors, caps):
        split.append(
            RefinementScales.split(
                shift, dimension, *_gains(inner_mass(strength, floor, cap), dimension)
            )
        )
    inner = centre_radius(strength, radius)
    count, total = (
        centre_scales(centres, inner, dimension)
        if centres > 0
        else (math.inf, math.inf)
    )
    return StageBudget(
        inner, count, total, 1 / radii, quantile, tuple(split), floors, caps
    )
