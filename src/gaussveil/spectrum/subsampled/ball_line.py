"""Rigorous ends of delta along a straight line, in ball arithmetic: steps of any kind, and what stands beside them.

          Im s  |    .  y_1: above it |M| falls on paths of outputs beside the real ones
                |    :
                |    o  last node: up to y_1 |M(c + iy)|^2 <= M(c)^2 (1 - y^2 V + y^4 E D^4/24)
                |    o  h
       - - - - -|- - o - - - -  Re s
                0  c-a c c+a    on the lines c - a and c + a |F| bounds what the nodes miss

    delta in sum +- between nodes +- beyond the last one,  and up to the mass beyond the cuts more

(docs/math/subsampled, "Enclosures along a line"). Choices are made in doubles and cost width at worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_line_step import LineStep, Tilted
from gaussveil.spectrum.subsampled.balls import apart, between_nodes, exp_up, node_sum
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.falling import Falling, falling_height
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.turned_sums import PAIRED, turned_sums
from gaussveil.spectrum.turns import turn

LINE_GOAL = 30.0  # e-foldings between delta and each error
TIGHT_LINE = 1e-10  # relative width with which one attempt is enough
MOST_LINE_PRODUCTS = 2_500_000
MOST_LOST = 100.0
LOOK_BITS = 128  # bits with which what stands beside is looked at


def enclose_on_line(
    steps: Sequence[tuple[Step, int]],
    companions: BallCompanions,
    epsilon: float,
    log_delta: float,
) -> Enclosure | None:
    """Rigorous ends of delta, which is about e^log_delta; None where a line does not do."""
    with precision_lock(), np.errstate(all="ignore"):
        try:
            ends = LineIntegral(steps, companions, epsilon, log_delta).enclose()
            if ends is None or ends.relative_width < TIGHT_LINE:
                return ends
            log_upper = float(ends.log_upper)
            if not log_upper < log_delta - 1.0:
                return ends
            # delta is smaller than it was taken for
            again = LineIntegral(steps, companions, epsilon, log_upper).enclose()
            return again or ends
        except (ArithmeticError, ValueError):
            return None  # what was chosen in doubles left their range


class LineIntegral:
    """Delta at one epsilon for steps with their counts and what stands beside them."""

    def __init__(
        self,
        steps: Sequence[tuple[Step, int]],
        companions: BallCompanions,
        epsilon: float,
        log_delta: float,
    ) -> None:
        self.steps = [LineStep(step, count) for step, count in steps]
        self.companions = companions
        self.epsilon = epsilon
        self.log_delta = log_delta
        self.digits = LINE_GOAL
        gaps = [float(term.gap) for term in companions.terms]
        if min(gaps, default=0.0) < 0.0:
            self.highest = -1.0 / min(gaps)
        else:
            self.highest = math.inf

    @property
    def _uses(self) -> int:
        steps = sum(line_step.count for line_step in self.steps)
        return steps + sum(count for _, count in self.companions.laws)

    def tilted(self, c: float) -> Tilted | None:
        """K and its derivatives of the composition, in doubles; None where c makes rare outputs count."""
        value, slope, bend = self._companions_at(c)
        for line_step in self.steps:
            own = line_step.look(c, self.log_delta, self.digits)
            if own is None:
                return None
            value += line_step.count * own.value
            slope += line_step.count * own.slope
            bend += line_step.count * own.bend
        return Tilted(value, slope, bend, 0.0)

    def _companions_at(self, c: float) -> tuple[float, float, float]:
        """K, K', K'' of what stands beside, by differences."""
        if not self.companions.present:
            return 0.0, 0.0, 0.0
        step = 1e-4 * min(c, 1.0, self.highest - c)
        with ctx.workprec(LOOK_BITS):
            below, value, above = (
                float(self.companions.exponent(acb(c + k * step)).real.mid())
                for k in (-1, 0, 1)
            )
        slope = (above - below) / (2.0 * step)
        return value, slope, max((above - 2.0 * value + below) / step**2, 0.0)

    def _saddle(self) -> float | None:
        """c next to the minimum of K(c) - c eps - log c(1+c), as far as rare outputs let it."""
        low = -16.0
        high = min(24.0, math.log(self.highest))

        def rises(log_c: float) -> bool:
            c = math.exp(log_c)
            at = self.tilted(c)
            return at is None or (
                at.slope - self.epsilon - 1.0 / c - 1.0 / (1.0 + c) > 0.0
            )

        log_c = turn(rises, low, high, looks=30).before
        if log_c == low:
            return None
        best = math.exp(log_c)
        if self.tilted(1.3 * best) is None:
            best /= 1.3
        return best

    def _place(self) -> tuple[float, Tilted, float, float] | None:
        """c, what is known there, log of the integrand times its width, and digits, of which what cancels is part."""
        for _ in range(4):
            c = self._saddle()
            if c is None:
                return None
            at = self.tilted(c)
            if at is None:
                return None
            width = min(1.0 / math.sqrt(at.bend), c)
            peak = at.value - c * self.epsilon
            peak += math.log(width) - math.log(c) - math.log1p(c)
            digits = LINE_GOAL + max(peak - self.log_delta, 0.0)
            if digits <= self.digits + 2.0:
                return c, at, peak, digits
            if not digits < LINE_GOAL + MOST_LOST:
                return None
            self.digits = digits
        return None

    def _lines_beside(
        self, c: float, at: Tilted, digits: float
    ) -> tuple[float, float] | None:
        """How far the lines beside are, so that no rare output counts on them, and the log of |F| there at most."""
        beside = min(
            0.8 * c, math.sqrt(2.0 * digits / at.bend), 0.8 * (self.highest - c)
        )
        grown = -math.inf
        for order in (c - beside, c + beside):
            there = self.tilted(order)
            while there is None and beside > 0.05 * c:
                beside *= 0.7
                order = c + beside
                there = self.tilted(order)
            if there is None:
                return None
            grown = max(grown, there.value - order * self.epsilon - math.log(order))
        return beside, grown

    def enclose(self) -> Enclosure | None:
        """The ends; None where no line reaches them."""
        place = self._place()
        if place is None:
            return None
        c, at, peak, digits = place
        lines = self._lines_beside(c, at, digits)
        if lines is None:
            return None
        beside, grown = lines
        self.tilted(c)  # cuts and means of the steps are those at c again
        h = 2.0 * math.pi * beside / (LINE_GOAL + max(grown - self.log_delta, 1.0))
        goal = self.log_delta - LINE_GOAL - at.value + c * self.epsilon
        last = self._height(c, at, goal, h * MOST_LINE_PRODUCTS / 30.0)
        if not last < math.inf:
            return None
        nodes = math.ceil(last / h)
        points = sum(
            line_step.prepare(c, nodes * h, digits) for line_step in self.steps
        )
        bits = int((digits + math.log(max(self._uses, 1))) / math.log(2.0)) + 50
        affordable = MOST_LINE_PRODUCTS
        if bits > PAIRED:
            affordable //= 3
        if points * nodes > affordable:
            return None
        with ctx.workprec(bits):
            for line_step in self.steps:
                line_step.weigh(c, beside)
            return self._sum(c, peak, h, nodes, beside)

    def _height(self, c: float, at: Tilted, goal: float, most: float) -> float:
        """Where what is left should have fallen to e^goal, by the bounds of `_beyond`; infinite above most."""

        def beside(height: float) -> float:
            return float(self.companions.falls(c, height).mid())

        falls = []
        for line_step in self.steps:
            look = line_step.look(c, self.log_delta, self.digits)
            if look is not None:
                cells = line_step.fresh_cells(c)
                falls.append(look.fall(line_step.count, cells))
        start = 1.0 / math.sqrt(at.bend)
        return falling_height(Falling(beside, falls), goal, start, most)

    def _sum(
        self, c: float, peak: float, h: float, nodes: int, beside: float
    ) -> Enclosure | None:
        """The ends, over e^peak, with losses taken from their means, so that what turns is small."""
        level = self.companions.exponent(acb(c)).real - arb(c) * self.epsilon - peak
        drift = arb(-self.epsilon)
        for line_step in self.steps:
            level += line_step.count * line_step.moments[0].mid().log()
            drift += line_step.count * arb(line_step.mean)
        turned = [self._turned(line_step, h, nodes) for line_step in self.steps]

        def moment(n: int) -> acb:
            product = acb(1)
            for line_step, row in zip(self.steps, turned):
                product *= row[n] ** line_step.count
            return product

        total = node_sum(self.companions, c, h, nodes, drift, moment) * level.exp()
        error = self._spacing_error(c, peak, h, beside)
        error += self._beyond(c, nodes * arb(h), level)
        if not error < arb("inf"):
            return None
        total += arb(0, error.abs_upper())
        missing = arb(-peak).exp() * sum(
            (line_step.left_out for line_step in self.steps), arb(0)
        )
        return from_scaled(total.union(total + arb(missing.abs_upper())), arb(peak))

    def _turned(self, line_step: LineStep, h: float, nodes: int) -> list[acb]:
        """One step's moments at the nodes, over the middle of the one at c, losses less their mean."""
        middle = line_step.moments[0].mid()
        slack = line_step.cells.error(line_step.spacing, line_step.strip, nodes * h)
        radius = arb(0, (exp_up(slack) / middle).abs_upper())
        weights = [acb(weight / middle) for weight in line_step.weights]
        exponents = [
            acb(0, arb(h) * (loss - line_step.mean)) for loss in line_step.losses
        ]
        sums = turned_sums(weights, exponents, nodes)
        return [value + acb(radius, radius) for value in sums]

    def _spacing_error(self, c: float, peak: float, h: float, beside: float) -> arb:
        """The sum against the integral, by |F| on both lines beside it; over e^peak."""
        both = arb(0)
        for side, order in enumerate((c - beside, c + beside)):
            size = self.companions.exponent(acb(order)).real
            size -= arb(order) * self.epsilon + peak
            for line_step in self.steps:
                upper = arb(line_step.beside[side].abs_upper())
                size += line_step.count * upper.log()
            both += size.exp() / order
        return between_nodes(both, apart(c, beside), h)

    def _beyond(self, c: float, height: arb, level: arb) -> arb:
        """(1/pi) sum of |F| h beyond the last node, over e^peak: |M| by moments up to a height, by paths above it."""
        spreads = [line_step.spread() for line_step in self.steps]
        if not all(variance > 0 for variance, _ in spreads):
            return arb("inf")
        start = float(height.lower())
        middle = min(
            (math.sqrt(0.5 / float(ratio.upper())) for _, ratio in spreads), default=0.0
        )
        at_most = level  # moments at c are balls: level has their middles
        for line_step in self.steps:
            moment = line_step.moments[0]
            at_most += line_step.count * (arb(moment.upper()) / moment.mid()).log()
        missed = arb(0)
        if start < middle:
            size = self.companions.falls(c, start) + at_most
            for line_step, (variance, ratio) in zip(self.steps, spreads):
                ends = [
                    arb(y) * arb(y) * (1 - ratio * arb(y) * arb(y))
                    for y in (start, middle)
                ]
                fallen = arb(min(float(end.lower()) for end in ends))
                size -= line_step.count * variance / 2 * fallen
            missed += size.exp() / start
        far = max(start, middle)
        size = self.companions.falls(c, far) + at_most
        for line_step in self.steps:
            log_moment = float(line_step.moments[0].log().mid())
            size += line_step.count * arb(line_step.cells.falls(far, log_moment))
        return (missed + size.exp() / far) / arb.pi()
