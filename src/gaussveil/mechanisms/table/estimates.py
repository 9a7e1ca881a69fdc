"""From noisy sums to answers: values, standard deviations of the noise, 95 % intervals. All of it post-processing.

The intervals speak of the noise alone: what clipping to the public bounds changed is not in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy

from gaussveil.calibration.prefix_sums import prefix_noise
from gaussveil.mechanisms.table.answers import CDF, Answer, Count, Histogram, Mean, Quantile, Share, Sum, Variance
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.noise import TableNoise, Variances
from gaussveil.mechanisms.table.profile import ProfileDraw
from gaussveil.mechanisms.table.quantiles import Estimate, Z, adding_up_to
from gaussveil.statistics.unit_cells import Feature
from gaussveil.typing import Floats

ROUNDS = 30  # of bringing cells to their totals both ways


@dataclass(frozen=True)
class Noisy:
    """Noisy numbers and their variances; a last one for the total of all groups where that is asked for."""

    value: Floats
    variance: Floats

    @classmethod
    def of(cls, value: Floats, variances: Variances, total: bool) -> Noisy:
        """One number per group, and the total of all."""
        count = len(value)
        spread = np.full(count, variances.one)
        if not total:
            return cls(value, spread)
        whole = count * variances.own + count**2 * variances.shared
        return cls(np.append(value, value.sum()), np.append(spread, whole))

    def estimate(self, factor: float = 1.0) -> Estimate:
        """The numbers themselves, times a positive factor."""
        value, deviation = factor * self.value, factor * np.sqrt(self.variance)
        return Estimate(value, deviation, value - Z * deviation, value + Z * deviation)


@dataclass(frozen=True)
class Estimates:
    """All answers of a request from what was drawn."""

    noise: TableNoise
    drawn: Drawn
    total: bool = False

    def columns(self) -> dict[str, Estimate]:
        """Every answer under its name."""
        return {name: one for answer in self.noise.request.answers for name, one in self.answer(answer).items()}

    def answer(self, answer: Answer) -> dict[str, Estimate]:
        """An answer's columns."""
        request = self.noise.request
        match answer:
            case Count():
                return {answer.name: self._not_negative(self._counts.estimate())}
            case Histogram():
                return self._histogram(answer, request.histograms.index(answer))
            case CDF():
                return self._cumulative(answer, request.cumulatives.index(answer))
            case Quantile():
                return self._quantiles(answer)
            case Variance():
                return {answer.name: self._variance(answer)}
            case Share():
                return {answer.name: self._mean(answer.feature).shifted(0.5, 0.5).clipped(0.0, 1.0)}
            case Mean() | Sum() if answer.is_profile:
                draw: ProfileDraw = self.drawn.profiles[request.profiles.index(answer)]
                return {answer.name: self._profile(answer, draw)}
            case Mean():
                feature = answer.feature
                return {answer.name: self._mean(feature).shifted(feature.middle, feature.half)}
            case Sum():
                return {answer.name: self._sum(answer.feature)}
        raise AssertionError(answer)

    def _not_negative(self, one: Estimate) -> Estimate:
        return one.adding_up() if self.total else one.clipped(0.0, math.inf)

    @cached_property
    def _rows(self) -> tuple[Floats, Variances]:
        """Rows of every group, from their count and from the bins of every histogram: weighted least squares."""
        found = [] if self.drawn.rows is None else [(self.drawn.rows, self.noise.count)]
        for bins, own in zip(self.drawn.histograms, self.noise.histograms):
            found.append((bins.sum(axis=1), Variances(bins.shape[1] * own)))
        return reduce(_weighed, found)

    @property
    def _counts(self) -> Noisy:
        return Noisy.of(*self._rows, self.total)

    def _feature(self, feature: Feature) -> Noisy:
        place = self.noise.request.features.index(feature)
        return Noisy.of(self.drawn.features[place], Variances(self.noise.features[place]), self.total)

    def _mean(self, feature: Feature) -> Estimate:
        top = self._feature(feature)
        return ratio(top.value, top.variance, self._counts.value, self._counts.variance)

    def _sum(self, feature: Feature) -> Estimate:
        request = self.noise.request
        if request.counted:
            top, count = self._feature(feature), self._counts
            value = feature.half * top.value + feature.middle * count.value
            spread = feature.half**2 * top.variance + feature.middle**2 * count.variance
            estimate = Noisy(value, spread).estimate()
        else:
            lone = Feature(feature.column, feature.low, feature.high, "size")
            place = request.lone_sums.index(lone)
            sums = Noisy.of(self.drawn.lone_sums[place], self.noise.lone_sums[place], self.total)
            estimate = sums.estimate(lone.half)
        if feature.low >= 0:
            return self._not_negative(estimate)
        return estimate.clipped(-math.inf, 0.0 if feature.high <= 0 else math.inf)

    def _variance(self, answer: Variance) -> Estimate:
        first, second, count = self._feature(answer.feature), self._feature(answer.square), self._counts
        rows = np.maximum(count.value, np.sqrt(count.variance))
        mean, square = np.clip(first.value / rows, -1, 1), np.clip(second.value / rows, -1, 1)
        value = (square + 1) / 2 - mean**2
        slope = 2 * mean**2 - square / 2
        spread = second.variance / 4 + 4 * mean**2 * first.variance + slope**2 * count.variance
        deviation = np.sqrt(spread) / rows
        half = answer.feature.half
        found = Estimate(value, deviation, value - Z * deviation, value + Z * deviation)
        return found.shifted(0.0, half**2).clipped(0.0, half**2)

    def _histogram(self, answer: Histogram, place: int) -> dict[str, Estimate]:
        """Rows per bin and outside, none negative: those of a group add up to its count, groups to their total."""
        bins, own = self.drawn.histograms[place], self.noise.histograms[place]
        (rows, known), width = self._rows, bins.shape[1]
        bins = bins + (rows - bins.sum(axis=1))[:, None] / width
        spread = Variances(own * (1 - 1 / width) + known.own / width**2, known.shared / width**2)
        columns = [Noisy.of(column, spread, self.total).estimate() for column in bins.T]
        counts = self._not_negative(self._counts.estimate()).value
        value = adding_up_to(bins, counts[: len(bins)])
        if self.total:
            whole = adding_up_to(np.array([one.value[-1] for one in columns]), counts[-1])
            for _ in range(ROUNDS):
                value = adding_up_to(adding_up_to(value.T, whole).T, counts[:-1])
            value = np.vstack([value, value.sum(axis=0)])
        labels = (*answer.bins.values, "outside")
        return {f"{answer.name} {label}": one.moved(value[:, k]) for k, (label, one) in enumerate(zip(labels, columns))}

    def _cumulative(self, answer: CDF, place: int) -> dict[str, Estimate]:
        bins = self.drawn.cumulatives[place]
        scale = np.full(len(bins), self.noise.cumulatives[place])
        if self.total:
            bins, scale = np.vstack([bins, bins.sum(axis=0)]), np.append(scale, len(bins) * scale[0])
        curve = _Cumulative.of(bins, scale)
        return {f"{answer.name} {edge:g}": curve.share(k) for k, edge in enumerate(answer.edges[1:])}

    def _quantiles(self, answer: Quantile) -> dict[str, Estimate]:
        places = [place for place, (one, _) in enumerate(self.noise.request.searches) if one is answer]
        drawn = [self.drawn.quantiles[place] for place in places[: 1 + self.total]]
        parts = [np.vstack([getattr(one, name) for one in drawn]).T for name in ("value", "deviation", "low", "high")]
        columns = [Estimate(*part).clipped(*answer.span) for part in zip(*parts)]
        return {f"{answer.name}_{share:g}": one for share, one in zip(answer.shares, columns)}

    def _profile(self, answer: Mean | Sum, draw: ProfileDraw) -> Estimate:
        """Mean or sum of units' curves about the released centre: only the residuals are divided by a noisy number."""
        if isinstance(answer, Sum):
            value = draw.units * draw.centre + draw.residual
            spread = draw.residual_variance + draw.centre**2 * draw.units_variance
            return Noisy(value, spread).estimate()
        count = np.full(len(draw.residual), draw.units)
        units = np.full(len(draw.residual), draw.units_variance)
        about = ratio(draw.residual, draw.residual_variance, count, units, limit=math.inf)
        return about.shifted(draw.centre, 1.0).clipped(answer.feature.low, answer.feature.high)


def _weighed(one: tuple[Floats, Variances], other: tuple[Floats, Variances]) -> tuple[Floats, Variances]:
    """The best of two independent measurements of all groups: their common part and the rest each by its variances."""
    (value, first), (again, second) = one, other
    count, gap = len(value), again - value
    common, further = (v.own + count * v.shared for v in (first, second))
    value = value + first.own / (first.own + second.own) * (gap - gap.mean()) + common / (common + further) * gap.mean()
    own = first.own * second.own / (first.own + second.own)
    return value, Variances(own, max(common * further / (common + further) - own, 0.0) / count)


def ratio(top: Floats, top_variance: Floats, below: Floats, below_variance: Floats, limit: float = 1.0) -> Estimate:
    """Fieller's interval of a ratio known to lie within [-limit, limit], of two independent noisy numbers."""
    sure = np.maximum(below, np.sqrt(below_variance))
    value = np.clip(top / sure, -limit, limit)
    a = below**2 - Z**2 * below_variance
    b, c = top * below, top**2 - Z**2 * top_variance
    known = (a > 0) & (below > 0)
    safe = np.where(known, a, 1.0)
    root = np.sqrt(np.maximum(b * b - safe * c, 0.0)) / safe
    low = np.where(known, np.clip(b / safe - root, -limit, limit), -limit)
    high = np.where(known, np.clip(b / safe + root, -limit, limit), limit)
    deviation = np.sqrt(top_variance + value**2 * below_variance) / sure
    return Estimate(value, deviation, np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True)
class _Cumulative:
    """Cumulative counts per group, never falling; `scale` multiplies the covariance of `prefix_noise`."""

    sums: Floats
    scale: Floats
    root: Floats

    @classmethod
    def of(cls, bins: Floats, scale: Floats) -> _Cumulative:
        sums = np.array([scipy.optimize.isotonic_regression(row).x for row in np.cumsum(bins, axis=1)])
        root = np.cumsum(np.linalg.cholesky(prefix_noise(bins.shape[1])), axis=0)
        return cls(np.maximum(sums, 0.0), scale, root)

    @property
    def totals(self) -> Floats:
        """Rows of each group, kept positive."""
        return np.asarray(np.maximum(self.sums[:, -1], np.sqrt(self.scale) * np.linalg.norm(self.root[-1])))

    def _deviations(self, share: Floats | float) -> Floats:
        """Deviation of (cumulative count - share * total), per group and bin."""
        rows = self.root[None] - np.reshape(share, (-1, 1, 1)) * self.root[-1]
        return np.asarray(np.sqrt(self.scale)[:, None] * np.linalg.norm(rows, axis=2))

    def share(self, place: int) -> Estimate:
        """Share of the rows at or below an edge."""
        value = np.clip(self.sums[:, place] / self.totals, 0.0, 1.0)
        deviation = self._deviations(value)[:, place] / self.totals
        return Estimate(value, deviation, value - Z * deviation, value + Z * deviation).clipped(0.0, 1.0)
