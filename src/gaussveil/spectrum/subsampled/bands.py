"""Few steps that count: delta as a sum over bands of the largest output, each along its own straight line.

    prod W_0 = sum_b (prod W_b - prod W_{b+1}) + prod W_last,     W_b a window: outputs below cap_b

    outputs ----[ below ]--[ band 2 ][ band 1 ][ band 0 ]|----> z        Re s:  one line at c_b for each band
                           cap_3     cap_2     cap_1     cap_0

All terms are positive: nothing cancels between bands, and each is integrated at the tilt that suits its outputs, where
its moment falls like a Gaussian. Here is what every arithmetic shares: which bands count, their tilts, and how far
nodes and the lines beside them are apart. A band then goes the same way in doubles and in balls:

    points, weights, moments at nodes       double_band_step.py     ball_band_step.py
    height, prod M^T - prod (M - m)^T       double_band.py          ball_band.py
    sum of bands, and what is left out      double_bands.py         ball_bands.py

(docs/math/subsampled, "Bands" and "One band in doubles and in balls").
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.step import SUM_REACH, Step
from gaussveil.spectrum.subsampled.windowed_points import END_DIGITS, Points
from gaussveil.typing import Floats

HEIGHT = 1.5  # of a band, at most
MOST_BANDS = 40
MOST_JOINED_NODES = (
    1500  # foreseen for a line that takes all below a cap: it takes a third of them
)
LINE_DIGITS = 32.0  # e-foldings between delta and what a line leaves out
BAND_DIGITS = 31.0  # e-foldings below delta at which a band is only bounded
WITHIN = 4.0  # e-foldings by which Chernoff's bound may exceed delta
JOINED = 2.0  # e-foldings by which that of all below a cap may exceed the bands' where one line takes it all
LARGEST_CAP = 1e3  # cap of a window: outputs beyond it have no probability in doubles
MOST_EDGES = 2e3  # of a window that a cap may stand for
SHIFTS = np.array(
    [0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.85]
)  # of lines beside the line, over c
NEXT_ORDER = (
    0.9  # log of how far the next band's order may be from where the last ones point
)
ENDED = 9.2  # edges beyond the cap at which a window ends


def lower_cap(step: Step, cap: float) -> float:
    """The cap below a cap: nearer to the left of the knee, where losses fall by a factor for each sigma."""
    return cap - (
        HEIGHT if cap - HEIGHT > step.knee else min(HEIGHT, 1.2 * step.noise_multiplier)
    )


def log_least_weight(orders: Floats) -> Floats:
    """log of c^c/(1+c)^(1+c), the largest (1 - e^-x) e^-cx: Chernoff's bound is that times E e^{c (L - eps)}."""
    return np.asarray(orders * np.log(orders) - (1.0 + orders) * np.log1p(orders))


@lru_cache(maxsize=256)
def _coarse(step: Step, cap: float, low: float, ends: tuple[float, float]) -> Points:
    return Points(step, cap, low, ends, 0.8 * step.edge)


class Band:
    """Outputs, composed, the largest of which lies between two caps of each step; the last one holds all below."""

    def __init__(
        self,
        parts: Parts,
        caps: list[float],
        epsilon: float,
        log_delta: float,
        last: bool = False,
    ) -> None:
        self.parts = parts
        self.caps = caps
        self.epsilon = epsilon
        self.log_delta = log_delta
        self.coarse = []
        self.lows = []
        for (step, _), cap in zip(parts.steps, self.caps):
            ends = (
                -SUM_REACH - (40.0 if step.backward else 0.0),
                cap + ENDED * step.edge,
            )
            self.lows.append(-math.inf if last else lower_cap(step, cap))
            self.coarse.append(_coarse(step, cap, self.lows[-1], ends))

    def real(self, orders: Floats) -> tuple[Floats, Floats, Floats]:
        """At real orders: logs of the band's moment, its slopes, and logs of the moment of all up to the cap.

        A slope is infinite where the windows do not end the moments.
        """
        whole, slope, kept, pull = np.zeros((4, orders.size))
        if self.parts.companions.present:
            whole, slope, _ = self.parts.companions.real_moments(orders)
        rise = np.full(orders.size, -np.inf)
        for points, (_, count) in zip(self.coarse, self.parts.steps):
            means = points.means(orders)
            share = np.minimum(means.share, 1.0 - UNIT_ROUNDOFF)
            ending = np.where(
                means.last > means.largest - END_DIGITS, means.last, -np.inf
            )
            rise = np.maximum(rise, ending - means.log_moment + math.log(count))
            whole = whole + count * means.log_moment
            slope = slope + count * means.mean
            kept = kept + count * np.log1p(-share)
            pull = pull + count * share * (means.inside - means.mean) / (1.0 - share)
        slope[rise + whole - orders * self.epsilon > self.log_delta - END_DIGITS] = (
            np.inf
        )
        gone = np.maximum(-np.expm1(kept), 1e-300)
        return whole + np.log(gone), slope + np.exp(kept) / gone * pull, whole

    def saddle(self, start: float, reach: float) -> tuple[Tilt, Tilt, Tilt]:
        """c > 0 next to the least log moment - c eps - log c(1+c); of all up to the cap, too, and where that ends."""
        native = compiled_steps()
        alone = len(self.coarse) == 1 and not self.parts.companions.present
        if native is not None and alone:
            return self._saddle_in_c(native, start, reach)
        limit = math.log(self.parts.companions.highest_order)
        below = Tilt(1.0, math.inf)
        ended = Tilt(1.0, math.inf)
        middle = min(math.log(start), limit - 0.1)
        for _ in range(12):
            c = np.exp(
                np.minimum(middle + np.linspace(-reach, reach, 13), limit - 0.02)
            )
            value, slope, whole = self.real(c)
            rest = log_least_weight(c) - c * self.epsilon
            tilts = [Tilt(*pair) for pair in zip(c.tolist(), (whole + rest).tolist())]
            below = min(below, *tilts, key=lambda tilt: tilt.bound)
            ended = min(
                [ended, *itertools.compress(tilts, np.isfinite(slope))],
                key=lambda tilt: tilt.bound,
            )
            force = c * (slope - self.epsilon) - 1.0 - c / (1.0 + c)
            first = 1 + int(np.max(np.flatnonzero(force <= 0.0), initial=-1))
            place = self._last_look(c, value, force)
            if place is not None:
                break
            place = max(first - 1, 0)
            if first == 0:
                middle -= 2.0 * reach
            elif first == c.size:
                middle += 2.0 * reach
                if math.log(c[-1]) > limit - 0.03:
                    break
            elif reach < 1.0:
                if not force[first] > -force[first - 1]:
                    place = first
                break
            else:
                low = math.log(c[first - 1])
                high = math.log(c[first])
                middle = 0.5 * (low + high)
                reach = 0.5 * (high - low)
        return Tilt(float(c[place]), float((value + rest)[place])), below, ended

    def _last_look(self, c: Floats, value: Floats, force: Floats) -> int | None:
        """The order at which the search ends early: the band counts no more, or windows end from some order on."""
        spent = (force <= 0.0) & (
            value - c * self.epsilon < self.log_delta - 2.0 * BAND_DIGITS
        )
        if spent.any():
            return int(np.argmax(spent))
        rises = not np.any(force <= 0.0)
        if rises and force[0] == math.inf and np.isfinite(force).any():
            return int(np.argmax(np.isfinite(force)))
        return None

    def _saddle_in_c(
        self, native: Any, start: float, reach: float
    ) -> tuple[Tilt, Tilt, Tilt]:
        answer = native.step_sums(
            "saddle",
            self.coarse[0].columns,
            6,
            1,
            steps=self.parts.steps[0][1],
            epsilon=self.epsilon,
            log_delta=self.log_delta,
            ending=END_DIGITS,
            negligible=BAND_DIGITS,
            start=start,
            reach=reach,
        )
        tilt, below, ended = answer.reshape(3, 2).tolist()
        return Tilt(*tilt), Tilt(*below), Tilt(*ended)

    def spacing(
        self, c: float, log_delta: float, goal: float, ended: bool = False
    ) -> Spacing:
        """The widest spacing of nodes that lines beside it (on which windows end) allow, for a goal of e-foldings."""
        shifts = c * SHIFTS[c * (1.0 + SHIFTS) < self.parts.companions.highest_order]
        if c < 0.0:  # between the poles
            shifts = min(-c, 1.0 + c) * SHIFTS
        values, slopes, _ = self.real(np.concatenate([[c], c - shifts, c + shifts]))
        below = values[1 : 1 + shifts.size]
        above = values[1 + shifts.size :]
        within = np.isfinite(slopes[1 + shifts.size :])
        if ended and within.any():
            shifts = shifts[within]
            below = below[within]
            above = above[within]
        peak = float(values[0]) - math.log(abs(c)) - math.log1p(c)
        digits = max(goal + peak - c * self.epsilon + math.log(abs(c)) - log_delta, 3.0)
        grown = (
            np.maximum(below + shifts * self.epsilon, above - shifts * self.epsilon)
            - peak
        )
        poles = np.minimum(
            np.abs(c - shifts) * (1.0 + c - shifts),
            np.abs(c + shifts) * (1.0 + c + shifts),
        )
        grown = np.maximum(grown - np.log(poles), 0.0)
        between = 2.0 * math.pi * shifts / (digits + grown)
        columns = np.array([between, shifts, below, above])
        widest, shift, low, high = (
            columns[:, np.argmax(between)].tolist() if shifts.size else [0.0] * 4
        )
        return Spacing(widest, shift, low, high, digits, peak - c * self.epsilon)

    def nodes(self, c: float) -> float:
        """About how many nodes the line of all outputs up to the caps takes."""
        spacing = self.spacing(c, self.log_delta, LINE_DIGITS)
        each = spacing.digits / sum(count for _, count in self.parts.steps)
        return max(points.height(c, each) for points in self.coarse) / spacing.between


class Tilt(NamedTuple):
    """A real order, and the log of Chernoff's bound there: of a band's share in delta, or of all up to a cap."""

    order: float
    bound: float


class Spacing(NamedTuple):
    """Distances of nodes and of lines beside the line, K on these, e-foldings to fall by, log of the integrand at c."""

    between: float
    shift: float
    below: float
    above: float
    digits: float
    peak: float


class Chosen(NamedTuple):
    """Bands that count with their tilts, those that do not with bounds, and the same of all that is below."""

    bands: list[tuple[Band, float]]
    negligible: list[tuple[Band, Tilt]]
    below: tuple[Band, Tilt] | None
    log_delta: float


def chosen_bands(parts: Parts, epsilon: float) -> Chosen | None:
    """The bands of windowed parts, from the top down until those below do not count; None where they are too many."""
    if not windows_hold(parts):
        return None
    caps = [parts.cap(step) for step, _ in parts.steps]
    small_count = all(step.replace for step, _ in parts.steps)
    bands: list[tuple[Band, Tilt]] = []
    most = -math.inf
    start = 1.5
    reach = 3.0
    for depth in range(MOST_BANDS):
        level = most - WITHIN
        band = Band(parts, caps, epsilon, max(parts.log_delta, level))
        if depth > 1:
            reach = NEXT_ORDER
        tilt, below, ended = band.saddle(start, reach)
        if not tilt.order > 0.0:
            return None
        if depth and below.bound < level - BAND_DIGITS:
            return _split(bands, level, [], (band, below))
        if depth and small_count and ended.bound < max(most, tilt.bound) + JOINED:
            level = max(level, ended.bound - WITHIN)
            last = Band(parts, caps, epsilon, level, last=True)
            if last.nodes(ended.order) < MOST_JOINED_NODES:
                return _split(bands, level, [(last, ended.order)], None)
        growth = 1.5
        if bands:
            growth = tilt.order / bands[-1][1].order
        bands.append((band, tilt))
        start = tilt.order * growth
        most = max(most, tilt.bound)
        caps = [lower_cap(step, cap) for (step, _), cap in zip(parts.steps, caps)]
    return None


def windows_hold(parts: Parts) -> bool:
    """Whether doubles hold windows that end so far out."""
    return all(
        parts.cap(step) <= LARGEST_CAP and parts.cap(step) < MOST_EDGES * step.edge
        for step, _ in parts.steps
    )


def _split(
    bands: list[tuple[Band, Tilt]],
    level: float,
    last: list[tuple[Band, float]],
    below: tuple[Band, Tilt] | None,
) -> Chosen:
    """Bands whose Chernoff bound is within `BAND_DIGITS` of the level count; of the others the bound does."""
    least = level - BAND_DIGITS
    counts = [(band, tilt.order) for band, tilt in bands if tilt.bound >= least]
    rest = [(band, tilt) for band, tilt in bands if tilt.bound < least]
    return Chosen(counts + last, rest, below, level)
