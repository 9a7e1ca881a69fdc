"""Quantiles by a search in rounds: each counts at thresholds that the rounds before it suggest.

Rounds have mean shifts fixed beforehand, so all of them are one Gaussian release; a quantile lies where the cumulative
count - share * rows, one normal vector at all limits so far, crosses zero (derived: docs/math/tables.md, "Quantiles").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from gaussveil.calibration.prefix_sums import prefix_rows, workload_noise
from gaussveil.mechanisms.table.answers import Quantile
from gaussveil.postprocessing.intervals import Interval, Z
from gaussveil.statistics.keys import Thresholds
from gaussveil.typing import Floats, Integers

RANGES = 32
ROUND_SHARES = (0.2, 0.15, 0.25, 0.4)  # of the search's squared loss
ROUND_LIMITS = (RANGES - 1, 7, 3, 1)  # for each share, of few
SMOOTH = 0.25  # variance of a count about a line, over (its range's rows)^2 / rows from there to the nearer end
SURPRISE = 12.0  # times its variance, squared: a count that far from a line says how rough the rows lie
UNLIKE = 0.06  # of the largest variance between groups, the least that is held to be possible
ODD = (
    3.0  # deviations from the mean of all groups beyond which a group speaks for itself
)
FEWEST_GROUPS = 4  # that are compared
STEPS = np.array(
    [0, 2.0**-10, *np.arange(1, 8) / 8, 1 - 2.0**-10]
)  # of a range, where a zero is looked for
CHUNK = 128  # groups at a time


def first_limits(answer: Quantile) -> Thresholds:
    """Where round 0 counts, in every group: half the limits at equal steps, half nearer and nearer to zero."""
    low, high = answer.span
    centre = min(max(0.0, low), high)
    arms = [arm for arm in (high - centre, low - centre) if arm]
    near = [centre + arm * 2.0**-k for k in range(1, RANGES // 2) for arm in arms][
        : RANGES // 2 - 1
    ]
    return Thresholds(
        answer.column,
        np.sort([*np.linspace(low, high, RANGES // 2 + 2)[1:-1], *near])[None],
    )


@dataclass
class _Curves:
    """Cumulative counts of groups (G, K) along their knots, the last the number of rows; covariances (G, K, K)."""

    knots: Floats
    mean: Floats
    covariance: Floats
    spread: float
    rough: Floats

    def _ranges(self) -> tuple[Floats, Floats]:
        """Per range the square of its rows, as many as it may hold; and that square times how far it reaches, squared.

        A density changes over a range as its rows are to those from there to the nearer end of all of them.
        """
        noise = np.diagonal(self.covariance, axis1=1, axis2=2)
        noise = (
            noise[:, 1:]
            + noise[:, :-1]
            - 2 * np.diagonal(self.covariance, 1, axis1=1, axis2=2)
        )
        square = (
            np.maximum(np.diff(self.mean, axis=1), 0.0) ** 2
            + np.maximum(noise, 0.0) / 4
        )
        beyond = (self.mean[:, -1:] - self.mean[:, :-1]).clip(max=self.mean[:, 1:])
        return square, square**2 / np.maximum(
            np.maximum(beyond, self.spread / 100) ** 2, square
        )

    def _bend(self, unknown: float = 1.0) -> Floats:
        """Variance, per range, of a count within it about a line: four times that of the middle.

        Where rows lie as roughly as they can, or a range holds most of them, nothing is known of what lies within.
        """
        square, reach = self._ranges()
        bend = self.rough[:, None] * reach + reach**2 / np.maximum(square, 2.0**-1000)
        return np.where(bend < square, bend, unknown * square)

    def add(self, limits: Floats, counts: Floats, noise: Floats) -> None:
        """Take in noisy cumulative counts (G, L + 1) at new limits (G, L), known until now as lines between knots."""
        groups, size = self.knots.shape
        every = np.arange(groups)[:, None]
        after = (self.knots[:, None] < limits[:, :, None]).sum(axis=2).clip(1, size - 1)
        low = self.knots[every, after - 1]
        high = self.knots[every, after]
        part = np.where(
            high > low, (limits - low) / np.where(high > low, high - low, 1.0), 0.5
        )
        rows = np.zeros((groups, limits.shape[1], size))
        np.put_along_axis(rows, after[:, :, None], part[:, :, None], axis=2)
        np.put_along_axis(rows, after[:, :, None] - 1, 1 - part[:, :, None], axis=2)
        inside = np.minimum(part[:, :, None], part[:, None]) * (
            1 - np.maximum(part[:, :, None], part[:, None])
        )
        known = rows @ self.covariance
        line = np.einsum("glk,gk->gl", rows, self.mean)
        # Less a share of all rows, whose noise is large.
        share = np.clip(line / np.maximum(self.mean[:, -1:], self.spread), 0.0, 1.0)
        surprise = (
            counts[:, :-1] - line - share * (counts - self.mean[:, -1:])[:, -1:]
        ) ** 2
        sure = np.einsum("glk,glk->gl", known, rows) + np.diagonal(noise)[:-1]
        sure += share**2 * (self.covariance[:, -1:, -1] + noise[-1, -1])
        sure -= 2 * share * (known[:, :, -1] + noise[-1, :-1])
        alone = part * (1 - part) * self._ranges()[1][every, after - 1]
        self.rough = np.maximum(
            self.rough,
            np.max((surprise - SURPRISE * sure) / (alone + sure / 10), axis=1),
        )
        inside *= (after[:, :, None] == after[:, None]) * self._bend()[
            every, after - 1
        ][:, :, None]
        mean = np.concatenate([self.mean, line], axis=1)
        own = known @ np.swapaxes(rows, 1, 2) + inside
        whole = np.block([[self.covariance, np.swapaxes(known, 1, 2)], [known, own]])
        seen = [*range(size, mean.shape[1]), size - 1]
        gain = np.linalg.solve(whole[:, seen][:, :, seen] + noise, whole[:, seen])
        mean += np.einsum("gsk,gs->gk", gain, counts - mean[:, seen])
        whole -= np.swapaxes(whole[:, seen], 1, 2) @ gain
        knots = np.concatenate([self.knots, limits], axis=1)
        order = np.argsort(
            np.where(np.arange(knots.shape[1]) == size - 1, np.inf, knots),
            axis=1,
            kind="stable",
        )
        self.knots = knots[every, order]
        self.mean = mean[every, order]
        self.covariance = whole[every[:, :, None], order[:, :, None], order[:, None]]

    def _signed(self, share: float, unknown: float) -> tuple[Floats, Floats, Floats]:
        """Places, means and deviations of count - share * rows at the knots and between them, means rising."""
        mean = self.mean - share * self.mean[:, -1:]
        last = self.covariance[:, -1]
        whole = (
            self.covariance
            - share * (last[:, :, None] + last[:, None])
            + share**2 * last[:, -1:, None]
        )
        variance = (
            np.maximum(np.diagonal(whole, axis1=1, axis2=2), 0.0)
            + (1e-3 * self.spread) ** 2
        )
        mean = np.array(
            [
                scipy.optimize.isotonic_regression(one, weights=1 / v).x
                for one, v in zip(mean, variance)
            ]
        )
        part = STEPS

        def between(ends: Floats) -> Floats:
            inner = ends[:, :-1, None] * (1 - part) + ends[:, 1:, None] * part
            return np.concatenate([inner.reshape(len(ends), -1), ends[:, -1:]], axis=1)

        cross = (
            np.diagonal(whole, 1, axis1=1, axis2=2)[:, :, None] * 2 * part * (1 - part)
        )
        square = (
            variance[:, :-1, None] * (1 - part) ** 2
            + variance[:, 1:, None] * part**2
            + cross
        )
        square += self._bend(unknown)[:, :, None] * part * (1 - part)
        deviation = np.sqrt(np.maximum(square, (1e-3 * self.spread) ** 2)).reshape(
            len(mean), -1
        )
        deviation = np.concatenate([deviation, np.sqrt(variance[:, -1:])], axis=1)
        return between(self.knots), between(mean), deviation

    def zeros(self, share: float, levels: Floats, unknown: float) -> Floats:
        """Places (G, levels) where count - share * rows is so many deviations above zero: the nearest to its zero.

        To a side where surely no more rows lie than twice the interval's noise it reaches to the end.
        """
        places, mean, deviation = self._signed(share, unknown)
        height = mean / deviation
        below = np.minimum.accumulate(height[:, ::-1], axis=1)[:, ::-1]
        height = (
            np.where(mean < 0, below, np.maximum.accumulate(height, axis=1))
            + np.arange(places.shape[1]) * 1e-12
        )
        found = np.array(
            [np.interp(levels, one, at) for one, at in zip(height, places)]
        )
        rows = self.mean[:, -1] - Z * np.sqrt(
            np.maximum(self.covariance[:, -1, -1], 0.0)
        )
        noise = (
            2
            * Z
            * np.array(
                [np.interp(0.0, one, spread) for one, spread in zip(height, deviation)]
            )
        )
        for few, side, end in ((share, levels <= -Z, 0), (1 - share, levels >= Z, -1)):
            found = np.where(
                (few * rows < noise)[:, None] & side, places[:, end, None], found
            )
        return found


@dataclass
class QuantileSearch:
    """The search of one answer, in each group or in all of them together; `scale` is what a unit moves, squared."""

    answer: Quantile
    together: bool
    squared_loss: float
    scale: float
    rounds: list[tuple[Floats, Floats]] = field(default_factory=list, init=False)
    limits: Thresholds = field(init=False)
    known: tuple[int, _Curves] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.limits = first_limits(self.answer)

    def per_share(self, number: int) -> int:
        """At how many limits a round counts for each share."""
        return max(
            min(ROUND_LIMITS[number], (RANGES - 1) // len(self.answer.shares)), 1
        )

    def loss(self, number: int) -> float:
        """Squared loss of a round."""
        return self.squared_loss * ROUND_SHARES[number]

    def covariance(self, number: int) -> Floats:
        """Noise of the counts between the limits of a round."""
        return np.asarray(
            self.scale / self.loss(number) * workload_noise(self._rows(number))
        )

    def _rows(self, number: int) -> Floats:
        shares = tuple(
            np.repeat(
                self.answer.shares, self.per_share(number) if number else 1
            ).tolist()
        )
        return prefix_rows(shares, None if number else RANGES)

    def learn(self, counts: Floats) -> None:
        """Take in the noisy counts (groups x ranges) between the limits; the next ones follow."""
        sums = np.cumsum(counts, axis=1)
        if not self.rounds:
            sums = np.hstack([np.zeros((len(sums), 1)), sums])
        self.rounds.append((self.limits.limits, sums))
        if (number := len(self.rounds)) < len(ROUND_SHARES):
            levels = scipy.special.ndtri(
                np.arange(1, self.per_share(number) + 1) / (self.per_share(number) + 1)
            )
            self.limits = Thresholds(
                self.answer.column, np.sort(np.hstack(self._zeros(levels)), axis=1)
            )

    def _zeros(self, levels: Floats, unknown: float = 1.0) -> list[Floats]:
        """For each share the places (groups x levels) of its levels."""
        low, high = self.answer.span
        spread = math.sqrt(self.scale / self.squared_loss)
        knots = np.concatenate([[low], self.rounds[0][0][0], [high]])
        first = np.zeros((len(knots), len(knots)))
        first[1:, 1:] = self.covariance(0).cumsum(axis=0).cumsum(axis=1)
        means, both, alike = _compared(self.rounds[0][1], first, spread)
        found = []
        for begin in range(0, len(means), CHUNK):
            some = slice(begin, begin + CHUNK)
            size = len(means[some])
            places = np.repeat(knots[None], size, axis=0)
            rough = np.full(size, SMOOTH)
            known = self.known or (
                1,
                _Curves(places, means[some], both[alike[some]], spread, rough),
            )
            for number, (limits, sums) in enumerate(self.rounds[known[0] :], known[0]):
                noise = self.covariance(number).cumsum(axis=0).cumsum(axis=1)
                known[1].add(limits[some], sums[some], noise)
            # of few groups, for next time
            if len(means) <= CHUNK:
                self.known = (len(self.rounds), known[1])
            else:
                self.known = None
            found.append(
                [known[1].zeros(share, levels, unknown) for share in self.answer.shares]
            )
        return [np.vstack(parts) for parts in zip(*found)]

    @property
    def found(self) -> Interval:
        """What the rounds so far say; the deviation is half of where two thirds lie: a band may end with the range."""
        levels = np.array([-Z, 0.0, Z, -1.0, 1.0])
        places = np.moveaxis(np.array(self._zeros(levels, 1e6)), (0, 2), (2, 0))
        low, value, high = (np.sort(one, axis=1) for one in places[:3])
        below, above = places[3:]
        return Interval(value, np.abs(above - below) / 2, low, high)

    def expected(self, rows: float) -> Interval:
        """What would be found in a group of so many rows, spread evenly."""
        low, high = self.answer.span
        precision = 0.0
        for number in range(1, len(ROUND_SHARES)):
            read = self._rows(number)
            variances = np.einsum("ij,jk,ik->i", read, self.covariance(number), read)
            precision = precision + 1 / variances.reshape(
                len(self.answer.shares), -1
            ).mean(axis=1)
        value = low + (high - low) * np.array([self.answer.shares])
        deviation = np.sqrt(1 / np.asarray(precision))[None] * (high - low) / rows
        return Interval.about(value, deviation)


def _compared(
    means: Floats, covariance: Floats, spread: float
) -> tuple[Floats, Floats, Integers]:
    """Cumulative counts of groups, each a law about the mean of all, as unlike it as the counts say (a bridge).

    Returned are means, the covariances of groups that speak for themselves and of others, and which each group is.
    """
    groups, size = means.shape
    if groups < FEWEST_GROUPS:
        return means, covariance[None], np.zeros(groups, dtype=np.int64)
    pooled = np.maximum.accumulate(np.maximum(means.mean(axis=0), 0.0))
    rows = max(float(pooled[-1]), spread)
    share = np.minimum(pooled / rows, 1.0)
    read = np.eye(size)
    read[:, -1] -= share
    noise = read @ covariance @ read.T
    bridge = rows**2 * (np.minimum.outer(share, share) - np.outer(share, share))
    about = (means - pooled) @ read.T
    seen = np.sum(about**2, axis=1) / (1 - 1 / groups) - np.trace(noise)
    unlike = (seen.mean() + 2 * seen.std() / math.sqrt(groups)) / max(
        np.trace(bridge), spread**2
    )
    bridge *= min(max(unlike, UNLIKE), 1.0)
    prior = bridge + np.outer(pooled, pooled)
    least = (
        1e-12 * np.trace(prior) + 1e-9 * spread**2
    )  # no table is too large to be solved for
    gain = np.linalg.solve(prior + covariance + least * np.eye(size), prior).T
    alike = (
        np.max(about**2 / (np.diagonal(noise + bridge) + 1e-9 * spread**2), axis=1)
        < ODD**2
    )
    found = np.where(alike[:, None], pooled + (means - pooled) @ gain.T, means)
    return found, np.array([covariance, prior - gain @ prior]), alike.astype(np.int64)
