"""Means and sums of groups from what was drawn of units' curves, with their bands; all of it post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.postprocessing.intervals import Interval, Noisy, Variances, ratio
from gaussveil.typing import Floats


@dataclass(frozen=True)
class ProfileDraw:
    """What was drawn of a profile (places x moments): the mean is centre + residual / counts, all but the centre noisy.

    A count is the one of its place, with noise of its own and some that all places share, and what its moment adds.
    """

    layout: Layout
    counts: Floats
    centre: Floats
    residual: Floats
    place_noise: Variances
    moment_variance: float
    """Of what a moment adds to the count of its place, before its mean is taken off."""
    smooth_variance: float
    """Of a coefficient of the residuals' smooth part."""
    rest_variance: float
    """Of a number of the rest, before its smooth part is taken off."""

    def counted_variance(self, weights: Floats) -> float:
        """Variance of a weighted sum of the counts."""
        places = weights.sum(axis=1)
        shared = self.place_noise.own * np.sum(places**2) + self.place_noise.shared * np.sum(places) ** 2
        moments = weights - weights.mean(axis=1, keepdims=True)
        return float(shared + self.moment_variance * np.sum(moments**2))

    @property
    def count_variance(self) -> float:
        """Variance of one count."""
        return self.place_noise.one + self.moment_variance * (1 - 1 / self.layout.moments)

    @property
    def residual_variance(self) -> Floats:
        """Variance of the residual of each moment."""
        inside = self.layout.inside
        return np.asarray(inside * self.smooth_variance + np.maximum(1 - inside, 0.0) * self.rest_variance)

    @property
    def total_variance(self) -> float:
        """Variance of the sum of all residuals: the constant is smooth, and nothing of the rest is in it."""
        return self.layout.places * self.layout.moments * self.smooth_variance


def interval(answer: Mean | Sum, draw: ProfileDraw, total: bool) -> Interval:
    """The answer of every group, and of all together if asked for: their sum, or the mean over all their counts."""
    groups = _sums(draw) if isinstance(answer, Sum) else _means(draw)
    if total:
        whole = _total_sum(draw) if isinstance(answer, Sum) else _total_mean(draw)
        groups = Interval(
            *(np.append(one, other) for one, other in zip(vars(groups).values(), vars(whole).values(), strict=True))
        )
    return groups if isinstance(answer, Sum) else groups.clipped(answer.feature.low, answer.feature.high)


def _sums(draw: ProfileDraw) -> Interval:
    value = draw.counts * draw.centre + draw.residual
    return _grouped(draw, Noisy(value, draw.residual_variance + draw.centre**2 * draw.count_variance).estimate())


def _means(draw: ProfileDraw) -> Interval:
    """Only the residuals are divided by a noisy number."""
    spread = np.broadcast_to(draw.residual_variance, draw.residual.shape)
    below = np.full(draw.counts.shape, draw.count_variance)
    return _grouped(draw, ratio(draw.residual, spread, draw.counts, below, limit=math.inf).shifted(draw.centre, 1.0))


def _total_sum(draw: ProfileDraw) -> Interval:
    value = np.sum(draw.counts * draw.centre + draw.residual, keepdims=True).ravel()
    variance = draw.total_variance + draw.counted_variance(draw.centre)
    return Noisy(value, np.array([variance])).estimate()


def _total_mean(draw: ProfileDraw) -> Interval:
    """About the mean of the centres, which is weighed by the counts."""
    counts, one = np.maximum(draw.counts, 0.0), np.ones(draw.counts.shape)
    middle = float(np.sum(counts * draw.centre) / max(counts.sum(), 1.0))
    gaps = draw.centre - middle
    top = np.sum(draw.residual + gaps * draw.counts, keepdims=True).ravel()
    spread = np.array([draw.total_variance + draw.counted_variance(gaps)])
    below = np.sum(draw.counts, keepdims=True).ravel()
    return ratio(top, spread, below, np.array([draw.counted_variance(one)]), limit=math.inf).shifted(middle, 1.0)


def _grouped(draw: ProfileDraw, one: Interval) -> Interval:
    return Interval(*(draw.layout.grouped(part) for part in (one.value, one.deviation, one.low, one.high)))
