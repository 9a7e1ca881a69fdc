"""One step's moments on the straight line Re s = c, in doubles, with bounds of everything they are off by.

    M(c + iy) = M(c) + iy M'(c) + sum_j w_j e^{first_j + c L_j} (e^{iyL_j} - 1 - iyL_j),    L = first - second

    M(c) - 1 = sum_j w_j e^{first_j} r(c L_j) + c (mean of L under X),                      r(x) = e^x - 1 - x

Points are those of `ball_line_step`, which are doubles: z_j = Z - (j + 1/2) h up to a cut Z, with weights
w_j = h phi(z_j). Charged are the distance of sums from their integrals, by `line_cells`, and roundings (`roundings`).
They count by what is quadratic in the losses, as M - 1 is: 10^7 steps need these digits (docs/math/subsampled, "Errors
in doubles").
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.ball_line_step import LineStep
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.line_cells import LineCells
from gaussveil.spectrum.subsampled.roundings import (
    LIBRARY,
    REST,
    TURN,
    log_density_off,
    rest,
    summed,
    total,
    turned_parts,
    window_off,
)
from gaussveil.spectrum.subsampled.step import (
    LARGEST_SUBTRACTED,
    SUM_DIGITS,
    StepMoments,
    log_one_plus,
)
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

LARGE = 2.0  # a moment of which 1 is not subtracted: the density alone may count where the tilted one does not
LARGEST_TILT = 300.0  # of a single loss, whose exponential is multiplied with others
LOST = 0.25  # relative error of M^T from which on its size alone is told
TURNED_AT_A_TIME = 2**16  # points times nodes


class LossSpread(NamedTuple):
    """Variance of the loss at c at least, and E (L - L')^4 over 24 times it at most."""

    variance: float
    ratio: float


class OutputSums:
    """Points, weights and what sums of them are off by: of a step that was prepared for heights up to the given one."""

    def __init__(self, prepared: LineStep, c: float, height: float) -> None:
        check_work()
        self.step = prepared.step
        self.count = prepared.count
        self.summed = summed(prepared.number)
        self.prepared = prepared
        self.c = c
        numbers = np.arange(float(prepared.number)) + 0.5
        z = prepared.cut - numbers * prepared.spacing
        first, second = self.step.logs(z)
        off_first, off_second = self._logs_off(z, first, second)
        self.loss = first - second
        self.exponent = first + c * self.loss
        scale = math.log(prepared.spacing / math.sqrt(2.0 * math.pi))
        self.log_weight = scale - 0.5 * z * z
        # of a weight: its own logarithm and the point
        own = LIBRARY + 4.0 + 0.5 * z * z + abs(scale)
        weight_off = UNIT_ROUNDOFF * own
        if prepared.window is not None:
            ended = prepared.window.log_at(z)
            self.log_weight += ended
            weight_off += window_off(prepared.window, z, ended)
        size = self.exponent + self.log_weight
        top = float(size.max())
        self.level = top if top > LARGEST_SUBTRACTED else 0.0
        self.weight = np.exp(size - self.level)
        self.missed = self._missed(prepared.cells, height)
        logs = (first, second, off_first, off_second)
        large = self.level or self.weight.sum() > LARGE
        if large or float((c * self.loss).max()) > LARGEST_TILT:
            self._take_all(weight_off, *logs)
        else:
            self._take_less_one(weight_off, *logs)

    def _logs_off(self, z: Floats, first: Floats, second: Floats) -> tuple[Any, Any]:
        """By how much both logs of densities are off."""
        step = self.step
        nothing = np.zeros(z.size)
        if step.backward:
            return nothing, log_density_off(step, z, second)
        ahead = log_density_off(step, z, first)
        if step.replace:
            return ahead, log_density_off(step, -z, second)
        return ahead, nothing

    def _take_all(
        self, weight_off: Floats, first: Floats, second: Floats, *off: Floats
    ) -> None:
        """M(c) over e^level, where it is large: as it stands."""
        self.one = 0.0
        unit = UNIT_ROUNDOFF
        loss_off = sum(off) + unit * np.abs(self.loss)
        whole_off = weight_off + off[0] + abs(self.c) * loss_off
        far = np.abs(first) + np.abs(self.c * self.loss)
        whole_off += unit * (3.0 * far + abs(self.level) + TURN + self.summed)
        self.start = total(self.weight)
        self.slope = 0.0
        self.start_off = float(self.weight @ whole_off)
        lever = np.abs(self.loss)
        self.by_height = float(self.weight @ (lever * whole_off + loss_off))
        self.at_most = 2.0 * self.start_off
        self.at_most_by_height = float(self.weight @ (2.0 * unit * lever + loss_off))
        self.by_square = 0.0
        self.turned_by_height = 0.0  # it is in `by_height`

    def _take_less_one(
        self, weight_off: Floats, first: Floats, second: Floats, *off: Floats
    ) -> None:
        """M less 1 where M is next to it, from what is quadratic in the logs: roundings of these hardly count.

        As E e^first = E e^second = 1, the mean k of L under X is E [L (e^first - 1) - r(first) + r(second)], and

            M(c) - 1 = E [e^first r(cL)] + c k,   M'(c) = E [e^first L (e^cL - 1)] + k.
        """
        self.one = 1.0
        c = self.c
        unit = UNIT_ROUNDOFF
        plain = np.exp(self.log_weight)
        record = np.exp(self.log_weight + first)
        tilt = c * self.loss
        grown = np.expm1(tilt)
        beyond = rest(tilt)
        own_off = weight_off + (REST + self.summed) * unit
        record_off = own_off + off[0] + unit * np.abs(first)
        loss_off = sum(off) + 2.0 * unit * np.abs(self.loss)
        # the mean k
        addends = (self.loss * np.expm1(first), -rest(first), rest(second))
        mean = total(plain * sum(addends))
        mean_off = float(plain @ (sum(np.abs(part) for part in addends) * own_off))
        mean_off += float(record @ (np.abs(self.loss) * off[0]))
        mean_off += float(plain @ (np.abs(np.expm1(first)) * loss_off))
        mean_off += float(plain @ (np.abs(np.expm1(second)) * off[1]))
        beyond_sums = _known_integrals(self.prepared)
        self.start = total(record * beyond) + c * mean + beyond_sums.start(c)
        self.start_off = float(record @ (np.abs(beyond) * record_off))
        self.start_off += float(record @ (np.abs(c * grown) * loss_off))
        self.start_off += abs(c) * mean_off + beyond_sums.off * (1.0 + 2.0 * abs(c))
        self.slope = total(record * self.loss * grown) + mean + beyond_sums.slope
        by_loss = np.abs(grown) + np.abs(tilt) * (1.0 + grown)
        self.by_height = float(record @ (np.abs(self.loss * grown) * record_off))
        self.by_height += float(record @ (by_loss * loss_off))
        self.by_height += mean_off + 2.0 * beyond_sums.off
        # of e^{ix} - 1 - ix, x = y L: the weight, itself, and L
        turned_off = weight_off + off[0] + abs(c) * loss_off
        turned_off += unit * (np.abs(first) + np.abs(tilt) + TURN + self.summed)
        far = np.abs(self.loss)
        by_square = 0.5 * far**2 * turned_off + far * loss_off
        self.by_square = float(self.weight @ by_square)
        self.turned_by_height = unit * TURN * float(self.weight @ far)
        self.at_most = math.inf
        self.at_most_by_height = 0.0

    def _missed(self, cells: LineCells, height: float) -> float:
        """How far sums are from their integrals, over e^level, at orders of the cells' real part up to a height."""
        log_error = cells.error(self.prepared.spacing, self.prepared.strip, height)
        return math.exp(min(log_error + UP - self.level, 700.0))

    def moments(self, heights: Floats) -> StepMoments:
        """log M at c + iy, and its error; where errors reach a moment, all that it may be stands for it."""
        turned = np.empty(heights.size, dtype=complex)
        turned_off = np.zeros(heights.size)
        rows = max(TURNED_AT_A_TIME // self.loss.size, 1)
        for start in range(0, heights.size, rows):
            part = slice(start, start + rows)
            angles = np.multiply.outer(heights[part], self.loss)
            near = float(np.abs(angles).max(initial=0.0)) <= 1.0
            turned[part] = turned_parts(self.weight, angles, bool(self.one), near)
            if not near:
                turned_off[part] = self.turned_by_height * heights[part]
        level = 1j * heights * self.slope + self.start
        above = turned + level
        off = self.start_off + self.missed + turned_off
        off = off + np.minimum(
            self.by_height * heights + self.by_square * heights**2,
            self.at_most + self.at_most_by_height * heights,
        )
        size = np.abs(above + self.one)
        off += 4.0 * UNIT_ROUNDOFF * (np.abs(turned) + np.abs(level))
        if self.one:
            log_moment = log_one_plus(above)
            further = np.abs(above) * (2.0 + np.abs(above)) / size**2
            further = np.where(size < 0.3, 1.0 + 1.0 / size, further)
            further += np.abs(log_moment)
        else:
            log_moment = np.log(above)
            further = 1.0 + np.abs(log_moment)
        relative = off / size
        lost = ~(self.count * relative < LOST)
        log_moment = np.where(lost, np.log(size + off + 1e-300), log_moment)
        error = relative * (1.0 + relative) + (LIBRARY + 4.0) * UNIT_ROUNDOFF * further
        return StepMoments(
            log_moment + self.level,
            np.where(lost, 4.0 / self.count, error) + UNIT_ROUNDOFF * abs(self.level),
        )

    def log_beside(self, order: float) -> float:
        """log M at another real order, at most."""
        size = self.exponent + self.log_weight + (order - self.c) * self.loss
        top = float(size.max())
        total = float(np.exp(size - top).sum())
        cells = self.prepared.fresh_cells(order)
        error = cells.error(self.prepared.spacing, self.prepared.strip, 0.0)
        total += math.exp(min(error - top, 700.0))
        return top + math.log(total) + SURE * (1.0 + abs(top))

    def spread(self) -> LossSpread:
        """What bounds |M| next to c, by its parabola."""
        total = float(self.weight.sum())
        deviation = self.loss - self.prepared.mean
        size = math.log(total) + self.level
        first, second, fourth = (
            float(self.weight @ deviation**power) / total for power in (1, 2, 4)
        )
        off = [
            math.exp(
                self.prepared.cells.error(
                    self.prepared.spacing,
                    self.prepared.strip,
                    0.0,
                    power,
                    self.prepared.mean,
                )
                - size
            )
            for power in (1, 2, 4)
        ]
        first = abs(first) + off[0]
        variance = (second - off[1] - first * first) * (1.0 - UP)
        second += off[1]
        fourth += off[2]
        third = math.sqrt(second * fourth)
        of_difference = 2.0 * fourth + 8.0 * third * first + 6.0 * second * second
        if not variance > 0.0:
            return LossSpread(0.0, math.inf)
        return LossSpread(variance, of_difference / (24.0 * variance) * (1.0 + UP))


LINE_CELLS = 400  # cells of bounds in doubles: wider ones are looser, and sound
SURE = 1e-13  # of the log of a moment in doubles that is only a bound: 900 roundings


def reach_to_both_densities(prepared: LineStep, c: float) -> None:
    """Points far enough to the left for both densities, which are subtracted 1 + |c| times, and so many more digits."""
    step = prepared.step
    prepared.further = math.log(1.0 + 2.0 * abs(c))
    digits = SUM_DIGITS + math.log(prepared.count) + prepared.further
    low = math.sqrt(2.0 * digits)
    if step.replace:
        rare = max(digits + math.log(step.sampling_rate), 1.0)
        low = max(low, math.sqrt(2.0 * rare) + 1.0 / step.noise_multiplier)
    prepared.low = min(prepared.low, -low)


class Known(NamedTuple):
    """What outputs that are not summed have of Y, and of both densities less Y's; `off`: how far each sum may be."""

    left: float
    first: float
    second: float
    off: float

    def start(self, c: float) -> float:
        """What M(c) less 1 lacks without them."""
        return -self.left - (1.0 + c) * self.first + c * self.second

    @property
    def slope(self) -> float:
        """What M'(c) lacks."""
        return self.second - self.first


def _known_integrals(prepared: LineStep) -> Known:
    """The densities beyond the cut or the window, in closed form, and how far their sums up to there are off.

    e^first and e^second times the normal density are mixtures of normal ones; the sum of each of these is bounded.
    """
    step = prepared.step
    shift = 1.0 / step.noise_multiplier
    rate = step.sampling_rate
    means = np.array([0.0, shift, -shift])
    weights = np.array([1.0, rate, rate if step.replace else 0.0])
    cap = prepared.cut
    spread = 1.0
    beyond = 0.0
    if prepared.window is not None:
        cap = prepared.window.cap
        spread = math.hypot(1.0, prepared.window.edge)
        ended = float(scipy.special.ndtr((cap - prepared.cut) / prepared.window.edge))
        beyond = ended * float(weights @ scipy.special.ndtr(means - prepared.cut))
    places = (means - cap) / spread
    tails = scipy.special.ndtr(places)
    rounded = weights @ (tails * (LIBRARY + 16.0 + 4.0 * places**2)) * UNIT_ROUNDOFF
    off = float(rounded) + beyond * (1.0 + UP)
    off += float(weights @ _normals_missed(prepared, means))
    left, ahead, aside = tails.tolist()
    first = rate * (ahead - left)
    second = 0.0
    if step.backward:
        first, second = 0.0, first
    elif step.replace:
        second = rate * (aside - left)
    return Known(left, first, second, off)


def _normals_missed(prepared: LineStep, means: Floats) -> Floats:
    """How far sums of normal densities of these means, times the window, are from their integrals up to the cut."""
    strip = prepared.strip
    spacing = prepared.spacing
    damping = 2.0 * math.pi * strip / spacing
    level = 0.5 * strip * strip - damping
    grown = np.full(means.shape, math.exp(min(level, 700.0)))
    bend = 1.0
    if prepared.window is not None:
        # |W(z + id)| <= W(z) + (d/w) phi((cap - z)/w) e^(d^2/(2 w^2)), d the strip
        edge = prepared.window.edge
        bend += edge**-2
        spread = math.hypot(1.0, edge)
        away = level + 0.5 * (strip / edge) ** 2
        steepest = away - 0.5 * ((prepared.window.cap - means) / spread) ** 2
        grown += strip / spread * np.exp(np.minimum(steepest, 700.0))
    beside = 2.0 * grown / -math.expm1(-damping)
    steep = 2.0 * math.pi / spacing - 0.5 * bend * strip
    if not steep > 0.0:
        return np.full(means.shape, math.inf)
    ends = np.exp(-0.5 * (prepared.cut - means) ** 2)
    ends += np.exp(-0.5 * (prepared.low - means) ** 2)
    ends *= 2.0 / (steep * math.sqrt(2.0 * math.pi))
    left = scipy.special.ndtr(prepared.low - means)
    return np.asarray((beside + ends + left) * (1.0 + UP))
