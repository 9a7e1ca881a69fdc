"""The supremum of delta over the pairs of an envelope, between two ends: branch and bound, and the triangle bound."""

from __future__ import annotations

from functools import lru_cache
from math import expm1, inf, log, log1p, pi

import numpy as np
import scipy

from gaussveil.spectrum.closed_forms import log_delta_equal_ratios, log_delta_mean_shift
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.typing import Floats

ENVELOPE_GAP = 0.005  # of log delta, between the certified upper end and the largest feasible pair found
BATCH = 64
MOST_EVALUATIONS = (
    1500  # only a direction that does not decide needs more, near tau = 1
)
OUTWARDS = 1 + 1e-12  # covers the rounding of a cell's corners
SAFETY = log1p(2 * LOSS_RELATIVE_ERROR)


def dominating_pair(
    mean_gap: float, log_ratio: float, rank: int, mixing: float
) -> PrivacyLoss:
    """N(mean_gap/a, 1) x N(0, 1 + (e^log_ratio - 1)/(1 - a^2))^rank against N(0, I), a^2 = `mixing` (corrections N2).

    Every pair of the envelope is a post-processing of it: rotate, then y -> a y + sqrt(1 - a^2) z.
    """
    excess = expm1(log_ratio) / (1 - mixing) * OUTWARDS
    energy = mean_gap * mean_gap / mixing * OUTWARDS
    return PrivacyLoss.from_terms([0.0, -excess], [1.0, float(rank)], [energy, 0.0])


def triangle_bound(
    mean_gap: float, excess: float, rank: int, epsilon: float, *, wide_first: bool
) -> float:
    """Upper end of log delta: a mean shift at part of epsilon, a change of covariance at the rest (NDIS Proposition 3).

    H_{e^(p+q)}(P||R) <= H_{e^p}(P||Q) + e^p H_{e^q}(Q||R), either change coming first; both parts are nondecreasing.
    """
    if excess <= 0.0:
        return float(log_delta_mean_shift(mean_gap, epsilon)) + SAFETY
    share = np.minimum(np.geomspace(0.5, 120.0, 60) * excess * rank, epsilon)
    certain = min(
        0.5 * rank * log1p(excess) * OUTWARDS, epsilon
    )  # beyond it a narrow law loses nothing
    share = np.unique(
        np.concatenate((share, np.linspace(0.0, 1.0, 11) * epsilon, [certain]))
    )
    if wide_first:
        ratio = 1.0 + excess
    else:
        ratio = 1.0 / (1.0 + excess)
    change = log_delta_equal_ratios(ratio, rank, share)
    shift = log_delta_mean_shift(mean_gap, epsilon - share)
    bounds = np.minimum(
        np.logaddexp(shift, epsilon - share + change),
        np.logaddexp(change, share + shift),
    )
    return min(0.0, float(np.min(bounds)) + SAFETY)


@lru_cache(maxsize=4096)
def supremum(
    mean_gap: float, log_ratio: float, rank: int, epsilon: float, *, wide_first: bool
) -> tuple[float, float]:
    """Log of a feasible delta and of a proven upper end of the supremum, wide against narrow or narrow against wide.

    Of rank 1 the ends are within `ENVELOPE_GAP`; of higher rank the upper end is the better of the dominating pair and
    the triangle.
    """
    excess = expm1(log_ratio) * OUTWARDS
    whole = triangle_bound(mean_gap, excess, rank, epsilon, wide_first=wide_first)
    if rank > 1 and excess > 0:
        return _higher_rank(mean_gap, log_ratio, rank, epsilon, wide_first, whole)
    return _Search(mean_gap, excess, epsilon, wide_first).run(whole)


def _higher_rank(
    mean_gap: float,
    log_ratio: float,
    rank: int,
    epsilon: float,
    wide_first: bool,
    upper: float,
) -> tuple[float, float]:
    for mixing in np.linspace(0.05, 0.95, 19):
        pair = dominating_pair(mean_gap, log_ratio, rank, float(mixing))
        upper = min(
            upper,
            float((pair if wide_first else pair.reversed()).log_delta(epsilon))
            + SAFETY,
        )
    lower = feasible_log_delta(
        mean_gap, log_ratio, rank, epsilon, wide_first=wide_first
    )
    return min(lower, upper), upper


def feasible_log_delta(
    mean_gap: float, log_ratio: float, rank: int, epsilon: float, *, wide_first: bool
) -> float:
    """Largest log delta among some pairs of the envelope, all moving eigenvalues being equal: a lower end, quickly."""
    angle = np.tile(np.linspace(0.0, pi / 2, 9), 6)
    excess = np.repeat(
        expm1(log_ratio) * np.array([1.0, 0.75, 0.5, 0.25, 0.05, 0.0]), 9
    )
    gap = np.stack((np.zeros_like(excess), -excess), axis=-1)
    energy = np.stack((_cosine(angle) ** 2, np.sin(angle) ** 2), axis=-1) * mean_gap**2
    loss = PrivacyLoss.from_terms(gap, np.array([1.0, float(rank)]), energy)
    values = np.asarray((loss if wide_first else loss.reversed()).log_delta(epsilon))
    # far apart, every delta of these rounds to 1 and settles nothing; the mean alone has a closed form that does
    if mean_gap > 0:
        shifted = float(log_delta_mean_shift(mean_gap, epsilon))
    else:
        shifted = -inf
    return max(float(np.max(_known(values))), shifted)


def _cosine(angle: Floats) -> Floats:
    """Slightly below the cosine, and exactly 0 at a right angle: a trace of a mean would make the loss unbounded."""
    return np.maximum(np.cos(angle) - 1e-15, 0.0)


def _known(log_delta: Floats) -> Floats:
    """Values that may serve as a lower end: an exact 0 says that a delta could not be settled, not that it is 1."""
    return np.where(log_delta < 0.0, log_delta, -inf)


class _Search:
    """Branch and bound over (tau, angle of the mean), tau = 1 + excess, for one moving eigenvalue.

    A cell [x, x'] x [t, t'] of excesses and angles is dominated by the one pair with mean (g cos t, g sin t'
    sqrt(x'/x)) and excess x': delta is nondecreasing in both entries of the mean, and y -> a y + sqrt(1 - a^2) z with
    a^2 = (tau - 1)/(tau' - 1) turns N(m/a, tau') into N(m, tau) and leaves N(0, 1) as it is. Where x is small it is
    cheaper to go from tau to 1 + x by the triangle bound, at a small part of epsilon.
    """

    def __init__(
        self, mean_gap: float, excess: float, epsilon: float, wide_first: bool
    ) -> None:
        self.gap = mean_gap
        self.excess = excess
        self.epsilon = epsilon
        self.wide_first = wide_first
        if mean_gap > 0:
            self.lower = float(log_delta_mean_shift(mean_gap, epsilon))
        else:
            self.lower = -inf
        self.evaluations = 0
        # a covariance that grows by w has delta of about e^-(q/w) at epsilon q: small against what is looked for
        self.price = min(epsilon + 8.0 - max(self.lower, -700.0), 700.0)

    def run(self, whole: float) -> tuple[float, float]:
        """Ends of log delta; `whole` bounds the cell [0, excess] to start with."""
        near = self.excess
        near_bound = whole
        cells = np.zeros((0, 4))
        bounds = np.zeros(0)
        self._try(
            np.array(
                [
                    [self.excess, self.excess, angle, angle]
                    for angle in (0.0, pi / 4, pi / 2)
                ]
            )
        )
        while True:
            upper = max(near_bound, float(np.max(bounds, initial=-inf)))
            enough = self.lower + ENVELOPE_GAP
            if upper <= enough or self.evaluations > MOST_EVALUATIONS:
                break
            fresh_cells = []
            if near_bound > enough and near > 1e-13 * self.excess:
                fresh_cells.append(np.array([[near / 4, near, 0.0, pi / 2]]))
                near /= 4
                near_bound = triangle_bound(
                    self.gap, near, 1, self.epsilon, wide_first=self.wide_first
                )
            elif near_bound > enough and upper == near_bound:
                break
            worst = np.argsort(-bounds)[:BATCH]
            worst = worst[bounds[worst] > enough]
            if worst.size:
                fresh_cells.append(self._halves(cells[worst]))
                self._try(cells[worst[:1]])
            fresh = np.concatenate(fresh_cells)
            keep = np.ones(bounds.size, dtype=np.bool_)
            keep[worst] = False
            cells = np.concatenate((cells[keep], fresh))
            bounds = np.concatenate((bounds[keep], self._bound(fresh)))
        upper = min(upper, whole)
        return min(self.lower, upper), upper

    def _bound(self, cells: Floats) -> Floats:
        """Upper ends of log delta over each cell."""
        low, high, first, last = cells.T
        part, inflation = self._costs(cells)
        split = part < np.minimum(inflation, 0.5 * self.epsilon)
        part = np.where(split, part, 0.0)
        aside = self.gap * np.cos(first) * OUTWARDS
        along = (
            self.gap
            * np.sin(last)
            * np.where(split, 1.0, np.sqrt(high / low))
            * OUTWARDS
        )
        value = self._log_delta(
            aside, along, np.where(split, low, high * OUTWARDS), self.epsilon - part
        )
        if not self.wide_first:
            return np.minimum(value + SAFETY, 0.0)
        growth = np.where(split, (high - low) / (1.0 + low) * OUTWARDS, 1.0)
        # Pr[L > part], at least the delta of N(0, 1 + growth) against N(0, 1)
        change = log(2.0) + scipy.special.log_ndtr(
            -np.sqrt((2.0 * part + np.log1p(growth)) / growth / OUTWARDS)
        )
        return np.minimum(
            np.where(split, np.logaddexp(change, part + value), value) + SAFETY, 0.0
        )

    def _costs(self, cells: Floats) -> tuple[Floats, Floats]:
        """What covering a cell's excesses costs, in epsilon: by the triangle bound, and by inflating the mean.

        A narrow law against one wider by w has no loss above log(1 + w)/2 at all, the reverse has an exponential tail.
        """
        low, high, _, last = cells.T
        growth = (high - low) / (1.0 + low)
        if self.wide_first:
            part = self.price * growth
        else:
            part = 0.5 * np.log1p(growth) * OUTWARDS
        return part, 0.5 * self.epsilon * np.sin(last) ** 2 * (high / low - 1)

    def _try(self, cells: Floats) -> None:
        """Raise the lower end by the feasible pair of largest excess in the middle of each cell."""
        angle = (cells[:, 2] + cells[:, 3]) / 2
        values = self._log_delta(
            self.gap * _cosine(angle),
            self.gap * np.sin(angle),
            cells[:, 1] / OUTWARDS,
            self.epsilon,
        )
        self.lower = max(self.lower, float(np.max(_known(values))))

    def _log_delta(
        self, aside: Floats, along: Floats, excess: Floats, epsilon: Floats | float
    ) -> Floats:
        self.evaluations += aside.size
        gap = np.stack((np.zeros_like(excess), -excess), axis=-1)
        loss = PrivacyLoss.from_terms(
            gap, np.ones_like(gap), np.stack((aside**2, along**2), axis=-1)
        )
        return np.asarray(
            (loss if self.wide_first else loss.reversed()).log_delta(epsilon)
        )

    def _halves(self, cells: Floats) -> Floats:
        """Each cell cut in two, across the side that costs more."""
        low, high, first, last = cells.T
        turn = 0.5 * self.epsilon * (np.cos(first) ** 2 - np.cos(last) ** 2)
        by_excess = np.minimum(*self._costs(cells)) >= turn
        middle = np.sqrt(low * high)
        angle = (first + last) / 2
        left_half = np.stack(
            (
                low,
                np.where(by_excess, middle, high),
                first,
                np.where(by_excess, last, angle),
            ),
            axis=-1,
        )
        right_half = np.stack(
            (
                np.where(by_excess, middle, low),
                high,
                np.where(by_excess, first, angle),
                last,
            ),
            axis=-1,
        )
        return np.concatenate((left_half, right_half))
