"""One step on the straight line, in ball arithmetic: where it is cut, its points, and the proven errors of its sums.

    M(s) = sum_j w_j e^{(s - c) L_j} +- error,    w_j = h phi(z_j) e^{base_j + c L_j},    z_j = Z - (j + 1/2) h

          ----|--.--.--.--.--.--.--.--|----> z        outputs beyond the cut Z are left out, and charged to delta;
             low                     cut              those below `low` weigh next to nothing: that is in the error

Lines and places are chosen in doubles, by a look at the integrand on a coarse grid; a bad choice costs width only. The
errors of the sums are those of `line_cells` (derived: docs/math/subsampled, "M by sums").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb
from scipy.special import log_ndtr

from gaussveil.spectrum.subsampled.balls import BallStep, exp_up
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.falling import Fall
from gaussveil.spectrum.subsampled.line_cells import PATH_CELLS, LineCells, OutputWindow
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

MOST_LOOKED_POINTS = 100_000  # where a step is looked at in doubles
BEYOND_CUT = 25.0  # deviations beyond the least cut in which a cut is looked for
SHORT_BITS = 26  # of what multiples are taken of, at least 2^-27 of it less
LINE_STRIPS = np.array([0.06, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95])
"""Distances from the real outputs that are tried, in units of the farthest: 0.95 pi sigma, or 8."""


def short(length: float) -> float:
    """At most a length, with so few bits that its multiples are doubles."""
    mantissa, exponent = math.frexp(length)
    return math.ldexp(
        math.floor(math.ldexp(mantissa, SHORT_BITS)), exponent - SHORT_BITS
    )


class Tilted(NamedTuple):
    """K, K', K'' and the fourth central moment at a real order, in doubles."""

    value: float
    slope: float
    bend: float
    fourth: float

    def fall(self, count: int, cells: LineCells) -> Fall:
        """What a line is ended by, before anything is proven."""
        ratio = (2.0 * self.fourth + 6.0 * self.bend**2) / (24.0 * self.bend)
        return Fall(count, cells, self.bend, ratio, self.value)


class Coarse(NamedTuple):
    """Points that a line is chosen by: their distance, logs of what is integrated at order 0, and losses."""

    apart: float
    base: Floats
    loss: Floats


class LineStep:
    """One step with its count on the line: what is left out, the points, and proven errors."""

    def __init__(
        self,
        step: Step,
        count: int,
        many: int = PATH_CELLS,
        window: OutputWindow | None = None,
    ) -> None:
        self.step = step
        self.count = count
        self.many = many  # cells of its bounds
        self.window = window
        self.further = 0.0  # digits that sums need beyond the moment's own
        self._kept: tuple[tuple[float, float, float], LineCells] | None = None

    def look(
        self,
        c: float,
        log_delta: float,
        digits: float,
        room: tuple[float, ...] = (0.0,),
    ) -> Tilted | None:
        """K and its derivatives at c, up to a cut that suits; None where c makes rare outputs count.

        The first share of c that may be added to it counts as `room`, for lines beside.
        """
        step = self.step
        noise = step.noise_multiplier
        uses = math.log(self.count)
        rare = math.sqrt(2.0 * (digits + uses - min(log_delta, 0.0)))
        least_cut = rare
        lowest = -rare - 4.0
        if step.backward:
            lowest -= min(max(c, 0.0) / noise, 60.0)
        else:
            least_cut += 1.0 / noise
        if c < 0.0:  # between the poles: what falls is what grew
            least_cut -= c / noise
            lowest += c / noise
        apart = min(0.1, 0.1 * noise)
        if not least_cut - lowest < MOST_LOOKED_POINTS * apart:
            return None
        z = np.arange(lowest, least_cut + BEYOND_CUT, apart)
        first, second = step.logs(z)
        loss = first - second
        size = c * loss + first - 0.5 * z * z
        if self.window is not None:
            size = size + self.window.log_at(z)
            least_cut = self.window.cap
        top = int(np.argmax(np.where(z <= least_cut, size, -np.inf)))
        needed = float(size[top]) - digits - uses - 3.0
        for share in room:
            fallen = size + share * c * (loss - loss[top]) <= needed
            beyond = np.flatnonzero((z >= least_cut) & fallen)
            if beyond.size:
                break
        else:
            return None
        self.cut = float(z[beyond[0]])
        below = np.flatnonzero((z < z[top]) & (z < -3.0) & (size <= needed))
        self.low = lowest
        if below.size:
            self.low = float(z[below[-1]])
        inside = z <= self.cut
        size = size[inside]
        loss = loss[inside]
        self.coarse = Coarse(z[1] - z[0], size - c * loss, loss)
        terms = np.exp(size - size[top])
        total = float(terms.sum())
        self.mean = float(terms @ loss) / total
        deviation = loss - self.mean
        self.value = float(size[top]) + math.log(
            total * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
        )
        bend = float(terms @ deviation**2) / total
        fourth = float(terms @ deviation**4) / total
        return Tilted(self.value, self.mean, bend, fourth)

    def tilted_to(self, orders: Floats, digits: float) -> tuple[Floats, Floats]:
        """K and its slopes at real orders, on the coarse points; infinite where outputs at the cut count."""
        base, loss = self.coarse.base, self.coarse.loss
        size = base + np.multiply.outer(orders, loss)
        top = size.max(axis=1)
        terms = np.exp(size - top[:, None])
        total = terms.sum(axis=1)
        value = top + np.log(total * self.coarse.apart / math.sqrt(2.0 * math.pi))
        counts = size[:, -1] > top - digits - math.log(self.count)
        return (
            np.where(counts, np.inf, value),
            np.where(counts, np.inf, terms @ loss / total),
        )

    def fresh_cells(self, c: float) -> LineCells:
        """Bounds beside the outputs at an order of real part c; the last ones are kept."""
        place = (c, self.low, self.cut)
        if self._kept is None or self._kept[0] != place:
            cells = LineCells(self.step, c, self.low, self.cut, self.window, self.many)
            self._kept = (place, cells)
        return self._kept[1]

    def prepare(self, c: float, height: float, digits: float) -> int:
        """Choose the spacing for heights up to the given one; the number of points."""
        self.cells = self.fresh_cells(c)
        needed = digits + math.log(self.count) + 3.0 + self.further
        spacing = 0.0
        self.strip = 0.0
        farthest = min(0.95 * math.pi * self.step.noise_multiplier, 8.0)
        for strip in (LINE_STRIPS * farthest).tolist():
            cost = max(self.cells.beside(strip, height) - self.value, 0.0)
            wide = 2.0 * math.pi * strip / (needed + cost)
            if wide >= spacing:
                spacing = wide
                self.strip = strip
        slowest = 1.9 * math.pi / self.cells.growth(self.strip, height)
        self.spacing = short(min(spacing, slowest))
        grain = math.ldexp(0.5, math.frexp(self.spacing)[1] - SHORT_BITS)
        self.cut = grain * math.ceil(self.cut / grain)  # so that points are doubles
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing
        self.cells = self.fresh_cells(c)
        return self.number

    def weigh(self, c: float, beside: float) -> None:
        """Losses and weights at the points, and upper ends of M at c - beside and c + beside."""
        check_work()
        densities = BallStep(self.step)
        scale = arb(self.spacing) / (2 * arb.pi()).sqrt()
        self.losses = []
        self.weights = []
        for j in range(self.number):
            z = arb(self.cut) - (arb(j) + arb(0.5)) * arb(self.spacing)
            base, loss = densities.base_and_loss(z)
            self.losses.append(loss)
            self.weights.append((base - z * z / 2 + c * loss).exp() * scale)
        self.moments = [self._central_moment(power) for power in range(5)]
        self.beside = [self._moment_at(order, c) for order in (c - beside, c + beside)]

    def _central_moment(self, power: int) -> arb:
        """The integral of (L - mean)^power times the integrand of M(c)."""
        total = arb(0)
        for weight, loss in zip(self.weights, self.losses):
            total += weight * (loss - self.mean) ** power
        slack = self.cells.error(self.spacing, self.strip, 0.0, power, self.mean)
        return total + arb(0, exp_up(slack))

    def _moment_at(self, order: float, c: float) -> arb:
        """M at another real order."""
        shift = arb(order) - arb(c)
        total = arb(0)
        for weight, loss in zip(self.weights, self.losses):
            total += weight * (shift * loss).exp()
        cells = self.fresh_cells(order)
        return total + arb(0, exp_up(cells.error(self.spacing, self.strip, 0.0)))

    def spread(self) -> tuple[arb, arb]:
        """Lower end of the variance of the loss at c, and an upper one of E (L - L')^4 over 24 times it."""
        first, second, third, fourth = (
            moment / self.moments[0] for moment in self.moments[1:]
        )
        variance = arb((second - first * first).lower())
        of_difference = 2 * fourth - 8 * third * first + 6 * second * second
        return variance, arb(of_difference.abs_upper()) / (24 * variance)

    @property
    def beyond_cut(self) -> float:
        """The same in doubles, rounded up."""
        shift = 0.0
        if not self.step.backward:
            shift = 1.0 / self.step.noise_multiplier
        share = math.exp(float(log_ndtr(shift - self.cut)) + UP)
        if self.window is not None:
            share += math.exp(self.step.left_out(self.window.cap) + UP)
        return self.count * share

    @property
    def left_out(self) -> arb:
        """Probability under X that some output exceeds the cut, at most."""
        return self.count * BallStep(self.step).left_out(arb(self.cut), arb(1))
