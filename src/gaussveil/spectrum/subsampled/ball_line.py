"""Rigorous ends of delta along a straight line, in ball arithmetic: steps of any kind, and what stands beside them.

Derived: docs/math/subsampled. Choices are made in doubles and cost width at worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_line_step import LineStep, Tilted, _exp_up
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.line_cells import UP, LineCells
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.turned_sums import PAIRED, turned_sums

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
            found = LineIntegral(steps, companions, epsilon, log_delta).enclose()
            if (
                found is None
                or found.relative_width < TIGHT_LINE
                or not found.log_upper < log_delta - 1.0
            ):
                return found
            return (
                LineIntegral(
                    steps, companions, epsilon, float(found.log_upper)
                ).enclose()
                or found
            )  # delta is smaller
        except (
            ArithmeticError,
            ValueError,
        ):  # what was chosen in doubles left their range
            return None


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
        return sum(one.count for one in self.steps) + sum(
            count for _, count in self.companions.laws
        )

    def tilted(self, c: float) -> Tilted | None:
        """K and its derivatives of the composition, in doubles."""
        value = 0.0
        slope = 0.0
        bend = 0.0
        if self.companions.present:
            step = 1e-4 * min(c, 1.0, self.highest - c)
            with ctx.workprec(LOOK_BITS):
                three = [
                    float(self.companions.exponent(acb(c + k * step)).real.mid())
                    for k in (-1, 0, 1)
                ]
            value = three[1]
            slope = (three[2] - three[0]) / (2.0 * step)
            bend = max((three[2] - 2.0 * three[1] + three[0]) / step**2, 0.0)
        for one in self.steps:
            found = one.look(c, self.log_delta, self.digits)
            if found is None:
                return None
            value += one.count * found.value
            slope += one.count * found.slope
            bend += one.count * found.bend
        return Tilted(value, slope, bend, 0.0)

    def _saddle(self) -> float | None:
        """c next to the minimum of K(c) - c eps - log c(1+c), as far as rare outputs let it."""
        low = -16.0
        high = min(24.0, math.log(self.highest))
        best = None
        for _ in range(30):
            c = math.exp(0.5 * (low + high))
            found = self.tilted(c)
            if (
                found is None
                or not found.slope - self.epsilon - 1.0 / c - 1.0 / (1.0 + c) <= 0.0
            ):
                high = math.log(c)
            else:
                low = math.log(c)
                best = c
        if best is not None and self.tilted(1.3 * best) is None:
            best /= 1.3
        return best

    def _place(self) -> tuple[float, Tilted, float, float] | None:
        """c, what is known there, log of the integrand times its width, and digits, of which what cancels is part."""
        for _ in range(4):
            c = self._saddle()
            if c is None:
                at = None
            else:
                at = self.tilted(c)
            if c is None or at is None:
                return None
            width = min(1.0 / math.sqrt(at.bend), c)
            peak = (
                at.value
                - c * self.epsilon
                - math.log(c)
                - math.log1p(c)
                + math.log(width)
            )
            digits = LINE_GOAL + max(peak - self.log_delta, 0.0)
            if digits <= self.digits + 2.0:
                return c, at, peak, digits
            if not digits < LINE_GOAL + MOST_LOST:
                return None
            self.digits = digits
        return None

    def enclose(self) -> Enclosure | None:
        """The interval."""
        place = self._place()
        if place is None:
            return None
        c, at, peak, digits = place
        beside = min(
            0.8 * c, math.sqrt(2.0 * digits / at.bend), 0.8 * (self.highest - c)
        )
        grown = -math.inf
        for order in (c - beside, c + beside):
            found = self.tilted(order)
            while found is None and beside > 0.05 * c:
                beside *= 0.7
                found = self.tilted(c + beside)
                order = c + beside
            if found is None:
                return None
            grown = max(grown, found.value - order * self.epsilon - math.log(order))
        self.tilted(c)
        h = 2.0 * math.pi * beside / (LINE_GOAL + max(grown - self.log_delta, 1.0))
        last = self._height(
            c,
            at,
            self.log_delta - LINE_GOAL - at.value + c * self.epsilon,
            h * MOST_LINE_PRODUCTS / 30.0,
        )
        if not last < math.inf:
            return None
        nodes = math.ceil(last / h)
        points = sum(one.prepare(c, nodes * h, digits) for one in self.steps)
        bits = int((digits + math.log(max(self._uses, 1))) / math.log(2.0)) + 50
        if points * nodes > (
            MOST_LINE_PRODUCTS if bits <= PAIRED else MOST_LINE_PRODUCTS // 3
        ):
            return None
        with ctx.workprec(bits):
            for one in self.steps:
                one.weigh(c, beside)
            return self._sum(c, peak, h, nodes, beside)

    def _height(self, c: float, at: Tilted, goal: float, most: float) -> float:
        """Where what is left should have fallen to e^goal, by the bounds of `_beyond`; infinite above most."""
        height = 1.0 / math.sqrt(at.bend)
        low = 0.0
        high = math.inf
        cells = [LineCells(one.step, c, one.low, one.cut) for one in self.steps]
        looks = [one.look(c, self.log_delta, self.digits) for one in self.steps]
        ratios = [
            (2.0 * look.fourth + 6.0 * look.bend**2) / (24.0 * look.bend)
            for look in looks
            if look is not None
        ]
        if ratios:
            middle = math.sqrt(0.5 / max(ratios))
        else:
            middle = 0.0
        while height < most:
            fallen = float(self.companions.falls(c, height).mid())
            rest = fallen
            for one, cell, look, ratio in zip(self.steps, cells, looks, ratios):
                assert look is not None
                least = min(
                    height**2 * (1.0 - ratio * height**2),
                    middle**2 * (1.0 - ratio * middle**2),
                )
                fallen -= (
                    0.5 * one.count * look.bend * least if height < middle else math.inf
                )
                rest += one.count * cell.falls(max(height, middle), look.value)
            low, high = (
                (low, height)
                if max(fallen, rest) < goal + math.log(height)
                else (height, high)
            )
            if high < 1.06 * low or low == 0.0:
                return high
            if high < math.inf:
                height = math.sqrt(low * high)
            else:
                height = 1.4 * height
        return math.inf

    def _sum(
        self, c: float, peak: float, h: float, nodes: int, beside: float
    ) -> Enclosure | None:
        origin = self.companions.exponent(acb(c))
        step = arb(h)
        level = origin.real - arb(c) * self.epsilon - peak
        for one in self.steps:
            level += one.count * one.moments[0].mid().log()
        known = []
        for one in self.steps:
            middle = one.moments[0].mid()
            slack = one.cells.error(one.spacing, one.strip, nodes * h)
            radius = arb(0, (_exp_up(slack) / middle).abs_upper())
            exponents = [acb(0, step * (loss - one.mean)) for loss in one.losses]
            sums = turned_sums(
                [acb(weight / middle) for weight in one.weights], exponents, nodes
            )
            known.append([value + acb(radius, radius) for value in sums])
        drift = (
            sum((one.count * arb(one.mean) for one in self.steps), arb(0))
            - self.epsilon
        )
        total = arb(0)
        for n in range(nodes + 1):
            s = acb(c, step * n)
            value = (
                acb(0, step * n * drift) + self.companions.exponent(s) - origin
            ).exp() / (s * (s + 1))
            for one, row in zip(self.steps, known):
                value *= row[n] ** one.count
            total += value.real / 2 if n == 0 else value.real
        total *= step / arb.pi() * level.exp()
        error = self._spacing_error(c, peak, h, beside) + self._beyond(
            c, nodes * step, level
        )
        if not error < arb("inf"):
            return None
        total += arb(0, error.abs_upper())
        missing = sum((one.left_out for one in self.steps), arb(0)) * arb(-peak).exp()
        return from_scaled(total.union(total + arb(missing.abs_upper())), arb(peak))

    def _spacing_error(self, c: float, peak: float, h: float, beside: float) -> arb:
        """The sum against the integral: half the integrals of |F| on both lines beside it, damped; over e^peak."""
        found = arb(0)
        for side, order in enumerate((c - beside, c + beside)):
            size = (
                self.companions.exponent(acb(order)).real
                - arb(order) * self.epsilon
                - peak
            )
            for one in self.steps:
                size += one.count * arb(one.beside[side].abs_upper()).log()
            found += size.exp() / order
        apart = arb(min(c - (c - beside), (c + beside) - c)) * (1 - arb(UP))
        return found / 2 / ((2 * arb.pi() * apart / arb(h)).exp() - 1)

    def _beyond(self, c: float, height: arb, level: arb) -> arb:
        """(1/pi) sum of |F| h beyond the last node, over e^peak: |M| by moments up to a height, by paths above it."""
        spreads = [one.spread() for one in self.steps]
        if not all(variance > 0 for variance, _ in spreads):
            return arb("inf")
        start = float(height.lower())
        middle = min(
            (math.sqrt(0.5 / float(ratio.upper())) for _, ratio in spreads), default=0.0
        )
        caps = [
            one.count * (arb(one.moments[0].upper()) / one.moments[0].mid()).log()
            for one in self.steps
        ]
        found = arb(0)
        if start < middle:
            size = self.companions.falls(c, start) + level + sum(caps, arb(0))
            for one, (variance, ratio) in zip(self.steps, spreads):
                ends = [
                    arb(t) * arb(t) * (1 - ratio * arb(t) * arb(t))
                    for t in (start, middle)
                ]
                size -= (
                    one.count
                    * variance
                    / 2
                    * arb(min(float(end.lower()) for end in ends))
                )
            found += size.exp() / start
        far = max(start, middle)
        size = self.companions.falls(c, far) + level + sum(caps, arb(0))
        for one in self.steps:
            size += one.count * arb(
                one.cells.falls(far, float(one.moments[0].log().mid()))
            )
        return (found + size.exp() / far) / arb.pi()
