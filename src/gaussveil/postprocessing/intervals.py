"""Noisy numbers as estimates: values, standard deviations of the noise, 95 % intervals.

Those made here speak of the noise; who knows of clipping as well adds its variance to that of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gaussveil.calibration.prefix_sums import prefix_noise
from gaussveil.typing import Floats

Z = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class Interval:
    """One column of answers: value, standard deviation of its noise, ends of its interval."""

    value: Floats
    deviation: Floats
    low: Floats
    high: Floats

    @classmethod
    def about(cls, value: Floats, deviation: Floats, z: float = Z) -> Interval:
        """Of a Gaussian, or of another law whose 95 % lie within `z` deviations."""
        return cls(value, deviation, value - z * deviation, value + z * deviation)

    def clipped(self, low: float, high: float) -> Interval:
        """The same within what is possible."""
        value, lower, upper = (
            np.clip(column, low, high) for column in (self.value, self.low, self.high)
        )
        return Interval(value, self.deviation, lower, upper)

    def adding_up(self) -> Interval:
        """Numbers that are not negative and add up to the last one, their total: the nearest such."""
        whole = np.maximum(self.value[-1:], 0.0)
        return self.moved(np.append(adding_up_to(self.value[:-1], whole[0]), whole))

    def moved(self, value: Floats) -> Interval:
        """Another value, not negative; the interval reaches as far."""
        return Interval(
            value,
            self.deviation,
            np.clip(self.low, 0.0, value),
            np.maximum(self.high, value),
        )

    def shifted(self, offset: float | Floats, factor: float) -> Interval:
        """offset + factor * estimate, factor > 0."""
        value, low, high = (
            offset + factor * column for column in (self.value, self.low, self.high)
        )
        return Interval(value, factor * self.deviation, low, high)


def adding_up_to(parts: Floats, whole: ArrayLike) -> Floats:
    """The nearest numbers along the last axis that are not negative and add up to this."""
    whole = np.asarray(whole)[..., None]
    falling = -np.sort(-parts, axis=-1)
    excess = (np.cumsum(falling, axis=-1) - whole) / np.arange(1, parts.shape[-1] + 1)
    last = np.maximum(np.sum(falling > excess, axis=-1, keepdims=True) - 1, 0)
    kept = np.maximum(parts - np.take_along_axis(excess, last, axis=-1), 0.0)
    return np.asarray(np.where(whole > 0, kept, 0.0))


@dataclass(frozen=True)
class Variances:
    """Variance in each cell and, on top of it, shared by all cells."""

    own: float
    shared: float = 0.0

    @property
    def one(self) -> float:
        """Variance of one number."""
        return self.own + self.shared


@dataclass(frozen=True)
class Noisy:
    """Noisy numbers and their variances; a last one for the total of all groups where that is asked for."""

    value: Floats
    variance: Floats
    z: float = Z
    """Within how many deviations 95 % of the noise lie."""

    @classmethod
    def of(
        cls, value: Floats, variances: Variances, total: bool, z: float = Z
    ) -> Noisy:
        """One number per group, and the total of all."""
        count = len(value)
        spread = np.full(count, variances.one)
        if not total:
            return cls(value, spread, z)
        whole = count * variances.own + count**2 * variances.shared
        return cls(np.append(value, value.sum()), np.append(spread, whole), z)

    def estimate(self, factor: float = 1.0) -> Interval:
        """The numbers themselves, times a positive factor."""
        return Interval.about(
            factor * self.value, factor * np.sqrt(self.variance), self.z
        )


def weighed(
    one: tuple[Floats, Variances], other: tuple[Floats, Variances]
) -> tuple[Floats, Variances]:
    """The best of two independent measurements of all groups: their common part and the rest each by its variances."""
    (value, first), (again, second) = one, other
    count = len(value)
    gap = again - value
    common, further = (v.own + count * v.shared for v in (first, second))
    value = (
        value
        + first.own / (first.own + second.own) * (gap - gap.mean())
        + common / (common + further) * gap.mean()
    )
    own = first.own * second.own / (first.own + second.own)
    return value, Variances(
        own, max(common * further / (common + further) - own, 0.0) / count
    )


def ratio(
    top: Floats,
    top_variance: Floats,
    below: Floats,
    below_variance: Floats,
    limit: float = 1.0,
    z: float = Z,
) -> Interval:
    """Fieller's interval of a ratio known to lie within [-limit, limit], of two independent noisy numbers."""
    sure = np.maximum(below, np.sqrt(below_variance))
    value = np.clip(top / sure, -limit, limit)
    a = below**2 - z**2 * below_variance
    b = top * below
    c = top**2 - z**2 * top_variance
    bounded = (a > 0) & (below > 0)
    safe = np.where(bounded, a, 1.0)
    root = np.sqrt(np.maximum(b * b - safe * c, 0.0)) / safe
    low = np.where(bounded, np.clip(b / safe - root, -limit, limit), -limit)
    high = np.where(bounded, np.clip(b / safe + root, -limit, limit), limit)
    deviation = np.sqrt(top_variance + value**2 * below_variance) / sure
    return Interval(value, deviation, np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True)
class Cumulative:
    """Cumulative counts per group, never falling; `scale` multiplies the covariance of `prefix_noise`."""

    sums: Floats
    scale: Floats
    root: Floats

    @classmethod
    def of(cls, bins: Floats, scale: Floats) -> Cumulative:
        """From noisy counts of bins."""
        sums = np.array(
            [
                scipy.optimize.isotonic_regression(row).x
                for row in np.cumsum(bins, axis=1)
            ]
        )
        root = np.cumsum(np.linalg.cholesky(prefix_noise(bins.shape[1])), axis=0)
        return cls(np.maximum(sums, 0.0), scale, root)

    @property
    def totals(self) -> Floats:
        """Rows of each group, kept positive."""
        return np.asarray(
            np.maximum(
                self.sums[:, -1], np.sqrt(self.scale) * np.linalg.norm(self.root[-1])
            )
        )

    def share(self, place: int) -> Interval:
        """Share of the rows at or below an edge."""
        value = (self.sums[:, place] / self.totals).clip(0.0, 1.0)
        rows = (
            self.root[None] - np.reshape(value, (-1, 1, 1)) * self.root[-1]
        )  # cumulative count - share * total
        deviation = np.sqrt(self.scale)[:, None] * np.linalg.norm(rows, axis=2)
        return Interval.about(value, deviation[:, place] / self.totals).clipped(
            0.0, 1.0
        )
