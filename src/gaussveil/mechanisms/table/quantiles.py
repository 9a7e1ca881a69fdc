"""Quantiles by a search in rounds: each counts at thresholds that the rounds before it suggest.

Round 0 counts the rows between fixed limits. Every later one asks, per group and share q, for the signed count
#(x <= threshold) - q #rows: zero where the threshold is the quantile, and moved by one unit by at most max(q, 1 - q) of
its rows. Rounds have mean shifts fixed beforehand, so all of them are one Gaussian release (adaptive composition;
derived: docs/math/tables.md, "Quantiles"). What follows from the noisy counts is post-processing: least squares carry
each count to all knots of the curve, and near its zero a line through the last counts is most exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from gaussveil.calibration.prefix_sums import prefix_rows, workload_noise
from gaussveil.mechanisms.table.answers import Quantile
from gaussveil.statistics.keys import Thresholds
from gaussveil.typing import Floats

RANGES = 32
ROUND_SHARES = (0.12, 0.1, 0.2, 0.58)  # of the search's squared loss
WINDOW = 3.0  # deviations of a first count to either side, between which the slope is measured
WITHIN = 0.8  # of the way to either end, which the window does not pass
SLOPE_ERROR = 0.3  # relative, of that slope
BEND = 0.25  # relative error of a straight line
FAR = 6.0  # deviations from zero beyond which the curve knows better than a line
Z = 1.959963984540054  # 95 %


def first_limits(answer: Quantile) -> Thresholds:
    """Where round 0 counts, in every group: half the limits at equal steps, half nearer and nearer to zero."""
    low, high = answer.between
    centre = min(max(0.0, low), high)
    arms = [arm for arm in (high - centre, low - centre) if arm]
    near = [centre + arm * 2.0**-k for k in range(1, RANGES // 2) for arm in arms][: RANGES // 2 - 1]
    return Thresholds(answer.column, np.sort([*np.linspace(low, high, RANGES // 2 + 2)[1:-1], *near])[None])


@dataclass(frozen=True)
class QuantileDraw:
    """Quantiles (groups x shares), the deviations of their noise, and intervals that hold them with 95 %."""

    value: Floats
    deviation: Floats
    low: Floats
    high: Floats


@dataclass
class _Curve:
    """Signed counts of one group and share along its knots: what is known of them, and the counts of later rounds."""

    knots: Floats
    mean: Floats
    covariance: Floats
    spread: float
    points: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, place: float, signed: float, variance: float) -> None:
        """A count at a new knot; until now it was known as far as a line between its neighbours tells."""
        self.points.append((place, signed, variance))
        after = int(np.clip(np.searchsorted(self.knots, place), 1, len(self.knots) - 1))
        low, high = self.knots[after - 1 : after + 1]
        part = (place - low) / (high - low) if high > low else 0.5
        row = np.zeros(len(self.knots))
        row[after - 1 : after + 1] = 1 - part, part
        rise = max(self.mean[after] - self.mean[after - 1], self.spread / 4)
        known = self.covariance @ row
        own = float(row @ known) + part * (1 - part) * (2 * BEND * rise) ** 2
        mean = np.insert(self.mean, after, row @ self.mean)
        whole = np.insert(np.insert(self.covariance, after, known, axis=0), after, np.insert(known, after, own), axis=1)
        gain = whole[after] / (own + variance)
        self.knots = np.insert(self.knots, after, place)
        self.mean = mean + gain * (signed - mean[after])
        self.covariance = whole - np.outer(gain, whole[after])

    def zero(self, below: float, above: float) -> tuple[float, float, float, float]:
        """Where the curve is zero, the deviation of that place, its interval; surely so many rows lie to either side.

        Rows lie about the line as chance has it, which widens the interval, as does not knowing the slope.
        """
        rising = self.mean.copy()
        rising[1:-1] = scipy.optimize.isotonic_regression(rising[1:-1]).x
        least = self.spread / 4
        rising[0], rising[-1] = min(rising[0], rising[1], -least), max(rising[-1], rising[-2], least)
        rising += np.linspace(-1e-6, 1e-6, len(rising)) * self.spread  # strictly
        wanted = max(-WINDOW * self.spread, WITHIN * rising[0]), min(WINDOW * self.spread, WITHIN * rising[-1])
        first, last = np.interp(wanted, rising, self.knots)
        width = self.knots[-1] - self.knots[0]
        rise = np.interp(last, self.knots, rising) - np.interp(first, self.knots, rising)
        slope = max(float(rise) / max(last - first, width * 2.0**-40), self.spread / width)
        place, variance, unsure = float(np.interp(0.0, rising, self.knots)), self.spread**2, SLOPE_ERROR**2
        if self.points:
            place, slope, variance, unsure = self._line(place, slope, (first, last))
        reach = math.sqrt(variance + Z * math.sqrt(variance))
        deviation = reach / slope * (1 + unsure)
        low = place - Z * deviation if 2 * Z * reach < below else self.knots[0]
        high = place + Z * deviation if 2 * Z * reach < above else self.knots[-1]
        return place, deviation, max(low, self.knots[0]), min(high, self.knots[-1])

    def _line(self, place: float, slope: float, ends: tuple[float, float]) -> tuple[float, float, float, float]:
        """Zero of a line through the counts, its slope, its variance there and its slope's, relative, squared."""
        at, signed, variances = np.array(self.points).T
        if abs(signed[-1]) < FAR * math.sqrt(variances[-1]):
            place = at[-1]
        steepest, known = slope, (SLOPE_ERROR * slope) ** -2
        variance = unsure = 0.0
        for _ in range(2):
            away = at - place
            weight = 1 / (variances + (BEND * slope * away) ** 2 + np.abs(slope * away))
            total, first, second = weight.sum(), weight @ away, weight @ away**2 + known
            level, product = weight @ signed, weight @ (away * signed) + known * steepest
            determinant = total * second - first**2
            slope = max(float((total * product - first * level) / determinant), steepest / 5)
            height = (second * level - first * product) / determinant
            place = float(np.clip(place - height / slope, *ends))
            variance, unsure = float(second / determinant), float(total / determinant) / slope**2
        return place, slope, variance, unsure


@dataclass
class QuantileSearch:
    """The search of one answer, in each group or in all of them together; `scale` is what a unit moves, squared."""

    answer: Quantile
    together: bool
    squared_loss: float
    scale: float
    curves: list[list[_Curve]] = field(default_factory=list, init=False)
    rows: Floats = field(default_factory=lambda: np.zeros(1), init=False)
    rows_precision: float = field(default=0.0, init=False)
    found: QuantileDraw | None = field(default=None, init=False)

    @property
    def limits(self) -> Thresholds:
        """Where the next round counts."""
        if self.found is None:
            return first_limits(self.answer)
        return Thresholds(self.answer.column, self.found.value)

    def loss(self, number: int) -> float:
        """Squared loss of a round."""
        return self.squared_loss * ROUND_SHARES[number]

    def covariance(self, number: int) -> Floats:
        """Noise of the counts between the limits of a round."""
        return np.asarray(self.scale / self.loss(number) * workload_noise(self._rows(number)))

    def _rows(self, number: int) -> Floats:
        return prefix_rows(self.answer.shares, RANGES if number == 0 else None)

    def _variances(self, number: int) -> Floats:
        rows = self._rows(number)
        return np.asarray(np.einsum("ij,jk,ik->i", rows, self.covariance(number), rows))

    def learn(self, number: int, counts: Floats) -> None:
        """Take in the noisy counts (groups x ranges) of a round."""
        if self.found is None:
            self._begin(counts)
        else:
            signed, variances = counts @ self._rows(number).T, self._variances(number)
            for curves, places, values in zip(self.curves, self.found.value, signed):
                for curve, place, value, variance in zip(curves, places, values, variances):
                    curve.add(float(place), float(value), float(variance))
        precision = 1 / float(self.covariance(number).sum())
        self.rows = (self.rows * self.rows_precision + counts.sum(axis=1) * precision) / (
            self.rows_precision + precision
        )
        self.rows_precision += precision
        surely = np.maximum(self.rows - Z / math.sqrt(self.rows_precision), 0.0)
        zeros = np.array(
            [
                [curve.zero(share * rows, (1 - share) * rows) for share, curve in zip(self.answer.shares, curves)]
                for rows, curves in zip(surely, self.curves)
            ]
        )
        value, deviation, low, high = np.moveaxis(zeros, 2, 0)
        self.found = QuantileDraw(np.sort(value, axis=1), deviation, np.sort(low, axis=1), np.sort(high, axis=1))

    def _begin(self, counts: Floats) -> None:
        low, high = self.answer.between
        edges = np.concatenate([[low], first_limits(self.answer).limits[0], [high]])
        sums = np.vstack([np.zeros(RANGES), np.tril(np.ones((RANGES, RANGES)))])
        rows = [sums - share for share in self.answer.shares]
        known = [one @ self.covariance(0) @ one.T for one in rows]
        spreads = [math.sqrt(np.diagonal(one)[1:-1].mean()) for one in known]
        parts = list(zip(rows, known, spreads))
        self.curves = [[_Curve(edges, one @ row, about, spread) for one, about, spread in parts] for row in counts]

    def expected(self, rows: float) -> QuantileDraw:
        """What would be found in a group of so many rows, spread evenly."""
        low, high = self.answer.between
        precision = sum(1 / self._variances(number) for number in range(1, len(ROUND_SHARES)))
        value = low + (high - low) * np.array([self.answer.shares])
        deviation = np.sqrt(1 / np.asarray(precision))[None] * (high - low) / rows
        return QuantileDraw(value, deviation, value - Z * deviation, value + Z * deviation)
