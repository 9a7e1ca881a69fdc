"""One step on the straight line, in ball arithmetic: where it is cut, its points, and the proven errors of its sums."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from gaussveil.spectrum.subsampled.line_cells import UP, LineCells
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work

MOST_LOOKED_POINTS = 100_000  # where a step is looked at in doubles
LINE_STRIPS = np.array([0.06, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95])


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
        noise = self.step.noise_multiplier
        step = self.step
        uses = math.log(self.count)
        rare = math.sqrt(2.0 * (digits + uses - min(log_delta, 0.0)))
        least = rare + (0.0 if step.backward else 1.0 / noise)
        lowest = -rare - 4.0 - (min(c / noise, 60.0) if step.backward else 0.0)
        apart = min(0.1, 0.1 * noise)
        if not least - lowest < MOST_LOOKED_POINTS * apart:
            return None
        z = np.arange(lowest, least + 25.0, apart)
        one = step.log_density(z)
        if step.backward:
            loss = -one
        elif step.replace:
            loss = one - step.log_density(-z)
        else:
            loss = one
        size = c * loss + (0.0 if step.backward else one) - 0.5 * z * z
        place = int(np.argmax(np.where(z <= least, size, -np.inf)))
        needed = float(size[place]) - digits - uses - 3.0
        beyond = np.flatnonzero((z >= least) & (size <= needed))
        if not beyond.size:
            return None
        self.cut = float(z[beyond[0]])
        below = np.flatnonzero((z < z[place]) & (z < -3.0) & (size <= needed))
        if below.size:
            self.low = float(z[below[-1]])
        else:
            self.low = lowest
        inside = z <= self.cut
        terms = np.exp(size[inside] - size[place])
        total = float(terms.sum())
        loss = loss[inside]
        self.mean = float(terms @ loss) / total
        apart = loss - self.mean
        self.value = float(size[place]) + math.log(
            total * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
        )
        bend = float(terms @ apart**2) / total
        fourth = float(terms @ apart**4) / total
        return Tilted(self.value, self.mean, bend, fourth)

    def prepare(self, c: float, height: float, digits: float) -> int:
        """Choose the spacing for heights up to the given one; the number of points."""
        self.cells = LineCells(self.step, c, self.low, self.cut)
        noise = self.step.noise_multiplier
        found = (0.0, 0.0)
        for strip in LINE_STRIPS * min(0.95 * math.pi * noise, 8.0):
            cost = max(self.cells.beside(strip, height) - self.value, 0.0)
            found = max(
                found,
                (
                    2.0
                    * math.pi
                    * strip
                    / (digits + math.log(self.count) + cost + 3.0),
                    float(strip),
                ),
            )
        self.spacing = min(
            found[0], 1.9 * math.pi / self.cells.growth(found[1], height)
        )
        self.strip = found[1]
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing
        self.cells = LineCells(self.step, c, self.low, self.cut)
        return self.number

    def weigh(self, c: float, beside: float) -> None:
        """Losses and weights at the points, and upper ends of M at c - beside and c + beside."""
        check_work()
        noise = arb(self.step.noise_multiplier)
        rate = arb(self.step.sampling_rate)
        scale = arb(self.spacing) / (2 * arb.pi()).sqrt()
        half = 1 / (2 * noise * noise)
        points = [
            arb(self.cut) - (arb(k) + arb(0.5)) * arb(self.spacing)
            for k in range(self.number)
        ]
        ones = [(rate * (z / noise - half).expm1()).log1p() for z in points]
        if self.step.backward:
            base = [arb(0)] * len(ones)
            self.losses = [-one for one in ones]
        else:
            base = ones
            self.losses = ones
        if self.step.replace:
            others = [(rate * (-z / noise - half).expm1()).log1p() for z in points]
            self.losses = [one - other for one, other in zip(ones, others)]
        plain = [
            (a - z * z / 2 + c * loss).exp() * scale
            for a, z, loss in zip(base, points, self.losses)
        ]
        self.weights = plain
        self.moments = []
        for power in range(5):
            total = sum(
                (
                    w * (loss - self.mean) ** power
                    for w, loss in zip(plain, self.losses)
                ),
                arb(0),
            )
            slack = self.cells.error(self.spacing, self.strip, 0.0, power, self.mean)
            self.moments.append(total + arb(0, _exp_up(slack)))
        self.beside = []
        for order in (c - beside, c + beside):
            cells = LineCells(self.step, order, self.low, self.cut)
            shift = arb(order) - arb(c)
            total = sum(
                (w * (shift * loss).exp() for w, loss in zip(plain, self.losses)),
                arb(0),
            )
            self.beside.append(
                total + arb(0, _exp_up(cells.error(self.spacing, self.strip, 0.0)))
            )

    def spread(self) -> tuple[arb, arb]:
        """Lower end of the variance of the loss at c, and an upper one of E (L - L')^4 over 24 times it."""
        first, second, third, fourth = (
            moment / self.moments[0] for moment in self.moments[1:]
        )
        variance = arb((second - first * first).lower())
        fourth = 2 * fourth - 8 * third * first + 6 * second * second
        return variance, arb(fourth.abs_upper()) / (24 * variance)

    @property
    def left_out(self) -> arb:
        """Probability under X that some output exceeds the cut, at most."""
        place = arb(self.cut) - (
            arb(0) if self.step.backward else 1 / arb(self.step.noise_multiplier)
        )
        return self.count * (place / arb(2).sqrt()).erfc() / 2


def _exp_up(log: float) -> arb:
    if log < math.inf:
        return arb((arb(log) + arb(UP)).exp().abs_upper())
    return arb("inf")
