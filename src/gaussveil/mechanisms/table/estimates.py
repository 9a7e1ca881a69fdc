"""From what was drawn to the answers of a request; all of it post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from gaussveil.mechanisms.table.answers import (
    CDF,
    Count,
    Histogram,
    Mean,
    Quantile,
    Share,
    Sum,
    TableAnswer,
    Variance,
)
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.means import ProfileDraw, interval
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.postprocessing.intervals import (
    Cumulative,
    Interval,
    Noisy,
    Variances,
    adding_up_to,
    ratio,
    weighed,
)
from gaussveil.statistics.unit_cells import Feature
from gaussveil.typing import Floats

ROUNDS = 30  # of bringing cells to their totals both ways


@dataclass(frozen=True)
class Estimates:
    """All answers of a request from what was drawn."""

    noise: TableNoise
    drawn: Drawn
    total: bool = False

    def columns(self) -> dict[str, Interval]:
        """Every answer under its name."""
        return {
            name: one
            for answer in self.noise.request.answers
            for name, one in self.answer(answer).items()
        }

    def answer(self, answer: TableAnswer) -> dict[str, Interval]:
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
                return {
                    answer.name: self._mean(answer.feature)
                    .shifted(0.5, 0.5)
                    .clipped(0.0, 1.0)
                }
            case Mean() | Sum() if answer.is_profile:
                draw: ProfileDraw = self.drawn.profiles[request.profiles.index(answer)]
                return {answer.name: interval(answer, draw, self.total)}
            case Mean():
                feature = answer.feature
                return {
                    answer.name: self._mean(feature).shifted(
                        feature.middle, feature.half
                    )
                }
            case Sum():
                return {answer.name: self._sum(answer.feature)}
        raise AssertionError(answer)

    def _not_negative(self, one: Interval) -> Interval:
        if self.total:
            return one.adding_up()
        return one.clipped(0.0, math.inf)

    @cached_property
    def _rows(self) -> tuple[Floats, Variances]:
        """Rows of every group, from their count and from the bins of every histogram: weighted least squares."""
        if self.drawn.rows is None:
            found = []
        else:
            found = [(self.drawn.rows, self.noise.count)]
        for bins, own in zip(self.drawn.histograms, self.noise.histograms):
            found.append((bins.sum(axis=1), Variances(bins.shape[1] * own)))
        return reduce(weighed, found)

    @cached_property
    def _counts(self) -> Noisy:
        return Noisy.of(*self._rows, self.total, self.noise.z)

    def _feature(self, feature: Feature) -> Noisy:
        place = self.noise.request.features.index(feature)
        return Noisy.of(
            self.drawn.features[place],
            Variances(self.noise.features[place]),
            self.total,
            self.noise.z,
        )

    def _mean(self, feature: Feature) -> Interval:
        top = self._feature(feature)
        return ratio(
            top.value,
            top.variance,
            self._counts.value,
            self._counts.variance,
            z=self.noise.z,
        )

    def _sum(self, feature: Feature) -> Interval:
        request = self.noise.request
        if request.counted:
            top = self._feature(feature)
            count = self._counts
            value = feature.half * top.value + feature.middle * count.value
            spread = feature.half**2 * top.variance + feature.middle**2 * count.variance
            estimate = Noisy(value, spread, self.noise.z).estimate()
        else:
            lone = Feature(feature.column, feature.low, feature.high, "size")
            place = request.lone_sums.index(lone)
            sums = Noisy.of(
                self.drawn.lone_sums[place],
                self.noise.lone_sums[place],
                self.total,
                self.noise.z,
            )
            estimate = sums.estimate(lone.half)
        if feature.low >= 0:
            return self._not_negative(estimate)
        return estimate.clipped(-math.inf, 0.0 if feature.high <= 0 else math.inf)

    def _variance(self, answer: Variance) -> Interval:
        first = self._feature(answer.feature)
        second = self._feature(answer.square)
        count = self._counts
        rows = np.maximum(count.value, np.sqrt(count.variance))
        mean = np.clip(first.value / rows, -1, 1)
        square = np.clip(second.value / rows, -1, 1)
        value = (square + 1) / 2 - mean**2
        slope = 2 * mean**2 - square / 2
        spread = (
            second.variance / 4
            + 4 * mean**2 * first.variance
            + slope**2 * count.variance
        )
        half = answer.feature.half
        return (
            Interval.about(value, np.sqrt(spread) / rows, self.noise.z)
            .shifted(0.0, half**2)
            .clipped(0.0, half**2)
        )

    def _histogram(self, answer: Histogram, place: int) -> dict[str, Interval]:
        """Rows per bin and outside, none negative: those of a group add up to its count, groups to their total."""
        bins = self.drawn.histograms[place]
        own = self.noise.histograms[place]
        (rows, known), width = self._rows, bins.shape[1]
        bins = bins + (rows - bins.sum(axis=1))[:, None] / width
        spread = Variances(
            own * (1 - 1 / width) + known.own / width**2, known.shared / width**2
        )
        columns = [
            Noisy.of(column, spread, self.total, self.noise.z).estimate()
            for column in bins.T
        ]
        counts = self._not_negative(self._counts.estimate()).value
        value = adding_up_to(bins, counts[: len(bins)])
        if self.total:
            whole = adding_up_to(
                np.array([one.value[-1] for one in columns]), counts[-1]
            )
            for _ in range(ROUNDS):
                value = adding_up_to(adding_up_to(value.T, whole).T, counts[:-1])
            value = np.vstack([value, value.sum(axis=0)])
        labels = (*answer.bins.values, "outside")
        return {
            f"{answer.name} {label}": one.moved(value[:, k])
            for k, (label, one) in enumerate(zip(labels, columns))
        }

    def _cumulative(self, answer: CDF, place: int) -> dict[str, Interval]:
        bins = self.drawn.cumulatives[place]
        scale = np.full(len(bins), self.noise.cumulatives[place])
        if self.total:
            bins, scale = (
                np.vstack([bins, bins.sum(axis=0)]),
                np.append(scale, len(bins) * scale[0]),
            )
        curve = Cumulative.of(bins, scale)
        return {
            f"{answer.name} {edge:g}": curve.share(k)
            for k, edge in enumerate(answer.edges[1:])
        }

    def _quantiles(self, answer: Quantile) -> dict[str, Interval]:
        places = [
            place
            for place, (one, _) in enumerate(self.noise.request.searches)
            if one is answer
        ]
        drawn = [self.drawn.quantiles[place] for place in places[: 1 + self.total]]
        parts = [
            np.vstack([getattr(one, name) for one in drawn]).T
            for name in ("value", "deviation", "low", "high")
        ]
        columns = [Interval(*part).clipped(*answer.span) for part in zip(*parts)]
        return {
            f"{answer.name}_{share:g}": one
            for share, one in zip(answer.shares, columns)
        }
