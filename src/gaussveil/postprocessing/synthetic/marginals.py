"""One column's law in every class, from noisy counts of its cells: denoised, turned to and from normal scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri

from gaussveil.postprocessing.synthetic.cells import Cells
from gaussveil.typing import Floats, Integers

LEAST_MASS = 1e-7  # of a cell that an interval of numbers passes through
# of its noise by which a share of missing cells must exceed zero
MISSING_DEVIATIONS = 4.0
STEEPEST = 2.0  # logarithm by which the steps of a tail may grow per normal score
FLATTEST = 2.5  # the same, by which they may shrink; those of an even law do by its score, about 2
TAIL_REACH = 4.0  # how far beyond its last edge a tail goes, in that edge's distance from the median
PLACES = ndtri((np.arange(512) + 0.5) / 512)  # scores at which a law is
HERMITE = 12  # degrees of polynomials by which signals are described
VALUE_PART = 0.5  # of what correlations are read off: a value, the rest a normal score
FARTHEST = 3.5  # standard deviations to which values are moved
MIDDLE = 0.05  # of the numbers, on either side, that are left aside where clusters are looked for
GAP = (
    0.4  # of the middle numbers' spread, from which on an empty interval parts clusters
)
# normal scores before the last limit from which a tail's slope and bend are read
TAIL_STEPS = (0.75, 1.5)


def simplex(values: Floats, total: float) -> Floats:
    """The nearest nonnegative numbers with this sum."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(ordered > excess)
    return np.asarray(np.maximum(values - excess[kept[-1] if len(kept) else 0], 0.0))


def smoothed(counts: Floats, prior: Floats, deviation: float) -> Floats:
    """Counts of cells in order, shrunk towards a prior with the same sum: slow departures kept, fast ones as seen.

    Blocks of a cosine transform are shrunk as far as the noise, whose deviation is known, explains their length
    (James and Stein 1961, by blocks as Cai 1999).
    """
    departure = dct(counts - prior, norm="ortho")
    start = 0
    width = 2
    while start < len(departure):
        block = departure[start : start + width]
        square = float(np.sum(block**2))
        departure[start : start + width] *= max(
            0.0, 1 - len(block) * deviation**2 / max(square, 1e-300)
        )
        start = start + width
        width = 2 * width
    return np.asarray(prior + idct(departure, norm="ortho"))


def shrunk(counts: Floats, prior: Floats, deviation: float) -> Floats:
    """Counts of cells without an order, shrunk towards a prior as far as the noise explains the difference."""
    departure = counts - prior
    square = float(np.sum(departure**2))
    kept = max(0.0, 1 - max(len(counts) - 2, 0) * deviation**2 / max(square, 1e-300))
    return np.asarray(prior + kept * departure)


@dataclass(frozen=True, eq=False)
class Marginal:
    """Shares of the cells of one column in every class (K x C), of missing ones (K), and the cells' ends.

    Of a category the ends are the places of its values.
    """

    low: Floats
    high: Floats
    shares: Floats
    missing: Floats
    order: Integers | None = None
    """Of a category: the cells from the lowest score to the highest."""
    partition: Cells | None = None
    """Of numbers: which cell each lies in."""
    pooled: Floats | None = None
    """Of numbers: shares of the cells in all classes together, by which the tails beyond the last edges are drawn."""
    value_part: float = VALUE_PART
    """Of numbers: how much of what correlations are read off is a value, the rest a normal score."""
    beyond: tuple[float, float] = (0.0, 0.0)
    """Of numbers whose range was learnt: shares below and above it, which are drawn inside."""
    reach: tuple[float, float] | None = None
    """Of numbers: how far the tails may go, where that is farther than the outermost cells."""

    @cached_property
    def _sorted(self) -> Floats:
        if self.order is None:
            return self.shares
        return self.shares[:, self.order]

    @cached_property
    def limits(self) -> Floats:
        """Normal scores between which the cells lie, in the order of scores: K x (C + 1)."""
        below = np.cumsum(self._sorted, axis=1)
        below = np.concatenate(
            [np.zeros((len(below), 1)), below / below[:, -1:]], axis=1
        )
        below[:, -1] = 1.0
        return np.asarray(ndtri(np.clip(below, 0.0, 1.0)))

    def largest_interval(self, step: float) -> float:
        """Largest share of one interval, inside which nothing was counted; single numbers, `step` wide, are none."""
        if self.order is not None:
            return 0.0
        return float(self.together[self.high - self.low > step].max(initial=0.0))

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that may be drawn."""
        if self.reach is None:
            return float(self.low[0]), float(self.high[-1])
        return self.reach

    @property
    def together(self) -> Floats:
        """Shares of the cells in all classes together."""
        if self.pooled is None:
            return np.asarray(self.shares.mean(axis=0))
        return self.pooled

    @property
    def is_clustered(self) -> bool:
        """Whether an interval between numbers holds much of what lies between the .05 and the .95 quantile."""
        below = np.cumsum(self.together)
        first, last = np.searchsorted(below / below[-1], [MIDDLE, 1 - MIDDLE])
        spread = self.high[last] - self.low[first]
        gaps = (self.high - self.low)[first + 1 : last]
        return bool(gaps.max(initial=0.0) > GAP * spread)

    def width_at(self, number: float) -> float:
        """Of the interval that a number lies in, 0 of a single value."""
        place = min(int(np.searchsorted(self.high, number)), len(self.high) - 1)
        return float(self.high[place] - self.low[place])

    @property
    def tails(self) -> tuple[float, float]:
        """Inner ends of the outermost cells; infinite where these are single values."""
        return self.tails_wider_than(0.0)

    def tails_wider_than(self, step: float) -> tuple[float, float]:
        """Inner ends of the outermost cells; infinite where these hold one value, being as wide as a step."""
        wide = self.high - self.low > step
        low = float(self.high[0]) if wide[0] else -math.inf
        high = float(self.low[-1]) if wide[-1] else math.inf
        return low, high

    @property
    def held_spread(self) -> float:
        """Part of the standard deviation that is left where the outermost cells' numbers lie at their inner ends."""
        groups = range(len(self.shares))
        drawn = np.concatenate([self.numbers(PLACES, k) for k in groups])
        spread = float(drawn.std())
        return float(np.clip(drawn, *self.tails).std()) / spread if spread > 0 else 1.0

    @cached_property
    def hermite(self) -> Floats:
        """Coefficients of the cells' mean scores in normalised Hermite polynomials of the latent score: K x 12."""
        limits = self.limits
        density = _density(limits)
        finite = np.where(np.isfinite(limits), limits, 0.0)
        polynomials = [np.ones_like(finite), finite]
        for degree in range(1, HERMITE):
            polynomials.append(finite * polynomials[-1] - degree * polynomials[-2])
        if self.order is None:
            means = self.signals
        else:
            means = self.signals[:, self.order]
        factorial = 1.0
        found = []
        for degree in range(1, HERMITE + 1):
            factorial *= degree
            parts = -np.diff(polynomials[degree - 1] * density, axis=1) / np.sqrt(
                factorial
            )
            found.append(np.sum(means * parts, axis=1))
        return np.stack(found, axis=1)

    @cached_property
    def scores(self) -> Floats:
        """Mean normal score of every cell in every class, in the order of the cells: K x C."""
        limits = self.limits
        density = _density(limits)
        masses = np.diff(ndtr(limits), axis=1)
        ends = np.clip(limits, -8.0, 8.0)
        middle = (ends[:, 1:] + ends[:, :-1]) / 2
        found = np.where(
            masses > 1e-12,
            -np.diff(density, axis=1) / np.maximum(masses, 1e-300),
            middle,
        )
        found = np.nan_to_num(found)
        if self.order is None:
            return np.asarray(found)
        back = np.empty_like(found)
        back[:, self.order] = found
        return back

    @cached_property
    def signals(self) -> Floats:
        """What correlations are read off, K x C: scores, of numbers half way to their values."""
        if self.order is not None:
            return self.scores
        blended = np.empty_like(self.scores)
        for k, scores in enumerate(self.scores):
            values = _standard(self.numbers(scores, k), self.shares[k])
            blended[k] = (1 - self.value_part) * scores + self.value_part * np.clip(
                values, -FARTHEST, FARTHEST
            )
            blended[k] = _standard(blended[k], self.shares[k])
        return blended

    def cells(self, scores: Floats, group: int) -> Integers:
        """Cell of every normal score in a class."""
        place = np.clip(
            np.searchsorted(self.limits[group], scores, side="right") - 1,
            0,
            len(self.low) - 1,
        )
        return np.asarray(place if self.order is None else self.order[place])

    def numbers(self, scores: Floats, group: int) -> Floats:
        """Numbers of a column for normal scores in a class: monotone cubics between the edges of intervals."""
        cells = self.cells(scores, group)
        found = self.low[cells].astype(np.float64)
        wide = self.high > self.low
        limits = self.limits[group]
        starts = np.flatnonzero(wide & ~np.concatenate([[False], wide[:-1]]))
        ends = np.flatnonzero(wide & ~np.concatenate([wide[1:], [False]])) + 1
        for start, end in zip(starts.tolist(), ends.tolist()):
            inside = (cells >= start) & (cells < end)
            if inside.any():
                knots = np.concatenate(
                    [self.low[start : start + 1], self.high[start:end]]
                )
                found[inside] = _between(
                    limits[start : end + 1],
                    knots,
                    scores[inside],
                    self._tails(start, end),
                    (
                        self.ends[0] if start == 0 else float(knots[0]),
                        self.ends[1] if end == len(wide) else float(knots[-1]),
                    ),
                )
        return found

    def share_beyond(self, number: float, group: int, upper: bool) -> float:
        """Of a class, how much its tail has above a number in its last cell, or below one in its first."""
        sign = 1 if upper else -1
        edge = self.limits[group, -2 if upper else 1]
        share = float(ndtr(-sign * edge))
        numbers = self.numbers(-sign * ndtri(share * ndtr(PLACES)), group)
        return share * float(np.mean(sign * (numbers - number) > 0))

    @property
    def unplaced(self) -> tuple[float, float]:
        """Shares of which only the side is known: numbers beyond a learnt range, or in an outermost cell far from all.

        Such a cell is no tail of those inside, for which the quantile curve would have to bend as no law of people's
        numbers does: a cluster lies somewhere in it.
        """
        parts = zip(self.beyond, self.bends, self.together[[0, -1]])
        low, high = (
            max(out, float(share) if bend >= STEEPEST else 0.0)
            for out, bend, share in parts
        )
        return low, high

    @property
    def hidden(self) -> float:
        """How little values follow normal scores: the root of the part of their variance that scores do not tell."""
        if self.order is not None:
            return 0.0
        told = []
        for k in range(len(self.shares)):
            values = self.numbers(PLACES, k)
            spread = max(float(values.std() * PLACES.std()), 1e-300)
            told.append(float(np.mean((values - values.mean()) * PLACES)) / spread)
        return math.sqrt(max(1 - float(np.mean(told)) ** 2, 0.0))

    @property
    def bends(self) -> tuple[float, float]:
        """By which logarithm the steps of the lower and of the upper tail grow per normal score."""
        wide = np.flatnonzero(self.high <= self.low)
        first = int(wide[0]) if len(wide) else len(self.low)
        last = int(wide[-1]) + 1 if len(wide) else 0
        found = []
        for start, end, sign in ((0, first, -1), (last, len(self.low), 1)):
            knots = np.concatenate([self.low[start : start + 1], self.high[start:end]])
            limits, heights = _distinct(self._tails(start, end), knots)
            found.append(_bent(limits, heights, sign)[1] if len(limits) > 1 else 0.0)
        return found[0], found[1]

    def _tails(self, start: int, end: int) -> Floats:
        """Limits of the cells of a run of intervals in all classes together."""
        below = np.concatenate([[0.0], np.cumsum(self.together)]) / self.together.sum()
        below[-1] = 1.0
        return np.asarray(ndtri(np.clip(below, 0.0, 1.0)))[start : end + 1]

    def missing_at(self, group: Integers, uniform: Floats) -> NDArray[np.bool_]:
        """Which of the drawn cells are missing."""
        return np.asarray(uniform < self.missing[group])


def _standard(numbers: Floats, shares: Floats) -> Floats:
    """With mean 0 and variance 1 under these shares."""
    centred = numbers - float(shares @ numbers)
    return np.asarray(centred / max(math.sqrt(float(shares @ centred**2)), 1e-300))


def _density(scores: Floats) -> Floats:
    """Of the standard normal law; 0 at infinity."""
    return np.asarray(
        np.exp(-np.minimum(scores**2, 1400.0) / 2)
        / np.sqrt(2 * np.pi)
        * np.isfinite(scores)
    )


def _between(
    limits: Floats,
    knots: Floats,
    scores: Floats,
    pooled: Floats,
    ends: tuple[float, float],
) -> Floats:
    """Monotone cubics through (limit, knot); beyond the last finite limits as in all classes together."""
    seen, knot = _distinct(limits, knots)
    if len(seen) < 2:
        return np.asarray(np.interp(ndtr(scores), ndtr(limits), knots))
    found = PchipInterpolator(seen, knot, extrapolate=False)(
        np.clip(scores, seen[0], seen[-1])
    )
    every, height = _distinct(pooled, knots)
    for sign in (1, -1):
        end, last = (-1, seen[-1]) if sign > 0 else (0, seen[0])
        beyond = sign * (scores - last) > 0
        if beyond.any() and len(every) > 1:
            rest = ndtr(-sign * scores[beyond]) / ndtr(-sign * last)
            alike = -sign * ndtri(np.maximum(rest * ndtr(-sign * every[end]), 1e-300))
            found[beyond] = _tail(every, height, alike, sign, ends[end])
    return np.asarray(found)


def _distinct(limits: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Finite limits that rise, and their knots."""
    finite = np.flatnonzero(np.isfinite(limits))
    kept = finite[
        np.concatenate([[True], np.diff(limits[finite]) > 1e-9])[: len(finite)]
    ]
    return limits[kept], knots[kept]


def _tail(
    limits: Floats, knots: Floats, scores: Floats, sign: int, end: float
) -> Floats:
    """Beyond the last limit: the quantile curve goes on as it bent before, and stays within the range."""
    slope, growth = _bent(limits, knots, sign)
    away, height = _outwards(limits, knots, sign)
    beyond = sign * scores - away[-1]
    moved = slope * (
        np.expm1(growth * beyond) / growth if abs(growth) > 1e-6 else beyond
    )
    farthest = height[-1] + TAIL_REACH * (height[-1] - np.interp(0.0, away, height))
    return np.asarray(sign * np.minimum(height[-1] + moved, min(sign * end, farthest)))


def _outwards(limits: Floats, knots: Floats, sign: int) -> tuple[Floats, Floats]:
    """Limits and knots that rise towards the upper end, or towards the lower one."""
    return sign * limits[::sign], sign * knots[::sign]


def _bent(limits: Floats, knots: Floats, sign: int) -> tuple[float, float]:
    """The slope of the quantile curve at its last limit, and the logarithm by which it grows per normal score."""
    away, height = _outwards(limits, knots, sign)
    last = len(away) - 1
    near, far = (
        int(np.clip(np.searchsorted(away, away[-1] - gap), 0, last - 1))
        for gap in TAIL_STEPS
    )
    slope = (height[-1] - height[near]) / (away[-1] - away[near])
    growth = 0.0
    if far < near and slope > 0 and height[near] > height[far]:
        earlier = (height[near] - height[far]) / (away[near] - away[far])
        growth = float(np.log(slope / earlier) / ((away[-1] - away[far]) / 2))
    growth = float(np.clip(growth, -FLATTEST, STEEPEST))
    return float(slope * np.exp(growth * (away[-1] - away[near]) / 2)), growth
