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

from gaussveil.spectrum.subsampled.balls import BallStep, exp_up
from gaussveil.spectrum.subsampled.line_cells import LineCells
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work

MOST_LOOKED_POINTS = 100_000  # where a step is looked at in doubles
BEYOND_CUT = 25.0  # deviations beyond the least cut in which a cut is looked for
LINE_STRIPS = np.array([0.06, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95])
"""Distances from the real outputs that are tried, in units of the farthest: 0.95 pi sigma, or 8."""


class Tilted(NamedTuple):
    """K, K', K'' and the fourth central moment at a real order, in doubles."""

    value: float
    slope: float
    bend: float
    fourth: float


class LineStep:
    """One step with its count on the line: what is left out, the points, and proven errors."""

    def __init__(self, step: Step, count: int) -> None:
        self.step = step
        self.count = count

    def look(self, c: float, log_delta: float, digits: float) -> Tilted | None:
        """K and its derivatives at c, up to a cut that suits; None where c makes rare outputs count."""
        step = self.step
        noise = step.noise_multiplier
        uses = math.log(self.count)
        rare = math.sqrt(2.0 * (digits + uses - min(log_delta, 0.0)))
        least_cut = rare
        lowest = -rare - 4.0
        if step.backward:
            lowest -= min(c / noise, 60.0)
        else:
            least_cut += 1.0 / noise
        apart = min(0.1, 0.1 * noise)
        if not least_cut - lowest < MOST_LOOKED_POINTS * apart:
            return None
        z = np.arange(lowest, least_cut + BEYOND_CUT, apart)
        first, second = step.logs(z)
        loss = first - second
        size = c * loss + first - 0.5 * z * z
        top = int(np.argmax(np.where(z <= least_cut, size, -np.inf)))
        needed = float(size[top]) - digits - uses - 3.0
        beyond = np.flatnonzero((z >= least_cut) & (size <= needed))
        if not beyond.size:
            return None
        self.cut = float(z[beyond[0]])
        below = np.flatnonzero((z < z[top]) & (z < -3.0) & (size <= needed))
        if below.size:
            self.low = float(z[below[-1]])
        else:
            self.low = lowest
        inside = z <= self.cut
        terms = np.exp(size[inside] - size[top])
        total = float(terms.sum())
        loss = loss[inside]
        self.mean = float(terms @ loss) / total
        deviation = loss - self.mean
        self.value = float(size[top]) + math.log(
            total * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
        )
        bend = float(terms @ deviation**2) / total
        fourth = float(terms @ deviation**4) / total
        return Tilted(self.value, self.mean, bend, fourth)

    def prepare(self, c: float, height: float, digits: float) -> int:
        """Choose the spacing for heights up to the given one; the number of points."""
        self.cells = LineCells(self.step, c, self.low, self.cut)
        needed = digits + math.log(self.count) + 3.0
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
        self.spacing = min(spacing, slowest)
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing
        self.cells = LineCells(self.step, c, self.low, self.cut)
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
        cells = LineCells(self.step, order, self.low, self.cut)
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
    def left_out(self) -> arb:
        """Probability under X that some output exceeds the cut, at most."""
        return self.count * BallStep(self.step).left_out(arb(self.cut), arb(1))
