"""Rigorous ends of delta for steps on random batches: the contour integral in ball arithmetic.

    delta = (1/pi) Im int F(s) ds,  F = exp(K(s) - s eps) / (s (s+1)),  s = c + e^t d, d = e^{i (pi/2 - bend)}

along one ray (mirrored for exchanged pairs), as a sum over t = n h. Shifting t by i a turns the ray by a, so that the
sum errs by at most (1/pi) (I_+ + I_-) / (e^(2 pi a/h) - 1), I the integrals of |F| along the two turned rays. Those are
bounded cell by cell, from m, m' at each node and a bound on m''; beyond the last node |m| falls on every ray
(derived: docs/math/subsampled). All choices are made in doubles and cost width at worst, never soundness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_ray import BallRay, outputs, upper
from gaussveil.spectrum.subsampled.step import Step

STEEPEST = 0.54  # radians of the ray of losses; 1.3 times it is below pi/4, where the normal density falls
LIFT = 3.2  # standard deviations that the ray may leave the real outputs by
GOAL = 1e-10  # relative error aimed at
SPREAD = 12.0  # e-foldings that terms may grow by on the steepest ray; c gives way to keep it
MISSING = 1e-10  # relative error of the sum at which more digits are taken
NEAR = 0.02  # of the saddle's width: what one cell at c covers
MOST_NODES = 400_000
ATTEMPTS = 4


def enclose_steps(
    steps: Sequence[tuple[Step, int]], energy: float, epsilon: float, goal: float | None = None
) -> tuple[Enclosure, float] | None:
    """Rigorous ends of delta for steps of one direction with one mean shift.

    With a goal for log delta also about the epsilon that reaches it.
    """
    with precision_lock():
        integral = StepIntegral(steps, energy, epsilon)
        found = integral.enclose(goal)
        return None if found is None else (found, math.nan if goal is None else integral.root(goal))


class Tilted(NamedTuple):
    """K, K' and K'' of the composition at a real order, in doubles."""

    value: float
    slope: float
    bend: float


class StepIntegral:
    """Delta at one epsilon for steps of one direction, with their counts, and one mean shift's energy."""

    def __init__(self, steps: Sequence[tuple[Step, int]], energy: float, epsilon: float) -> None:
        self.steps, self.energy, self.epsilon = steps, energy, epsilon
        self.backward = steps[0][0].backward
        self.sign = -1 if self.backward else 1
        self.uses = sum(count for _, count in steps)
        self.centre, self.width, self.peak = self._saddle()
        self._nodes: list[tuple[acb, acb]] = []

    # --- choices, in doubles

    def tilted(self, order: float) -> Tilted:
        """K and its derivatives at a real order of the direction."""
        total = np.array([0.5 * order * (1 + order), order + 0.5, 1.0]) * self.energy
        for step, count in self.steps:
            total += count * np.array(self._tilted(step, order))
        return Tilted(*(float(entry) for entry in total))

    def _tilted(self, step: Step, order: float) -> Tilted:
        noise, weight = step.noise_multiplier, -order if self.backward else 1.0 + order
        z = np.arange(-10.5 + min(weight / noise, 0.0), 10.5 + max(weight / noise, 0.0), 0.5 * min(noise, 1.0))
        loss = step.log_density(z)
        size = weight * loss - 0.5 * z * z
        top = float(size.max())
        terms = np.exp(size - top)
        mass = float(terms.sum())
        mean = float(terms @ loss) / mass
        value = top + math.log(mass * (z[1] - z[0]) / math.sqrt(2.0 * math.pi))
        return Tilted(value, self.sign * mean, float(terms @ (loss - mean) ** 2) / mass)

    def _mean(self, step: Step, c: float) -> float:
        """Mean loss above the floor of one step, at c."""
        return self.sign * self._tilted(step, c).slope - step.floor

    def _saddle(self) -> tuple[float, float, float]:
        """c > 0 next to the minimum of K(c) - c eps - log c(1+c), the width there, and its value."""
        low, high = -12.0, 30.0
        for _ in range(44):
            middle = 0.5 * (low + high)
            c = math.exp(middle)
            rises = c / self._least() > 1e5 or self._force(c) > 0.0 or self._spread(c) > SPREAD
            low, high = (low, middle) if rises else (middle, high)
        c = math.exp(low)
        value, _, bend = self.tilted(c)
        width = 1.0 / math.hypot(math.sqrt(bend), 1.0 / c, 1.0 / (1.0 + c), self._force(c))
        return c, width, value - c * self.epsilon - math.log(c) - math.log1p(c)

    def _force(self, c: float) -> float:
        return self.tilted(c).slope - self.epsilon - 1.0 / c - 1.0 / (1.0 + c)

    def _angle(self, step: Step, c: float) -> float:
        """How steep the ray of losses may be: so that outputs stay within reach of the real ones."""
        mean = max(self._mean(step, c), 1e-12)
        return min(STEEPEST, LIFT / (step.noise_multiplier * mean / -math.expm1(-mean)))

    def _spread(self, c: float) -> float:
        """log of how much larger the terms of m grow on the steepest ray; large losses that hardly ever occur do."""
        found = 0.0
        order = -c if self.backward else 1.0 + c
        for step, _ in self.steps:
            noise, angle = step.noise_multiplier, 1.3 * self._angle(step, c)
            far = 3.0 * max(order, 0.0) / noise**2 / math.cos(2.0 * angle) + 3.0
            sizes = []
            for steep in (0.0, angle):
                loss = np.exp(np.linspace(math.log(far) - 30.0, math.log(far), 600) + 1j * steep)
                _, z, _ = outputs(step, loss)
                sizes.append(float(np.max((order * loss - 0.5 * z * z).real)))
            found = max(found, sizes[1] - sizes[0])
        return found

    def _least(self) -> float:
        return min(step.noise_multiplier for step, _ in self.steps)

    def _last(self, rays: Sequence[BallRay], directions: Sequence[float], h: float, digits: float) -> int | None:
        """The first place at which what is left has surely fallen by so many digits on both turned rays."""
        place = math.floor(math.log(self.width) / h)
        while place * h < math.log(self.width) + 60.0:
            if all(self._size(rays, place * h, angle) < self.peak - digits for angle in directions):
                return place
            place += max(1, int(0.25 / h))
        return None

    def _size(self, rays: Sequence[BallRay], t: float, angle: float) -> float:
        """log of the bound on |F| s^2 that cells will give, about."""
        radius = math.exp(t)
        own = self.centre + radius * self.sign * np.exp(1j * self.sign * angle)
        total = -own.real * self.epsilon + (own * (1.0 + own)).real * self.energy / 2.0
        for ray, (step, count) in zip(rays, self.steps):
            stride = max(1, len(ray.places) // 400)
            loss, z, speed = outputs(step, np.exp(np.arange(ray.low, ray.high + 1, stride) * ray.h + 1j * ray.angle))
            size = ((1.0 + ray.centre) * loss - 0.5 * z * z + np.log(speed)).real
            size = size + radius * math.exp(-ray.h) * (loss * np.exp(1j * angle)).real
            bend = np.abs((1.0 + ray.centre) * loss) + np.abs(speed) * (np.abs(speed) + np.abs(z))
            slope = np.abs((1.0 + ray.centre) * loss - z * speed)
            size = size + ray.h**2 * (0.2 * bend + 0.05 * slope**2)  # what bounding cell by cell adds, about
            top = float(size.max())
            mass = float(np.exp(size - top).sum()) * ray.h * stride / math.sqrt(2.0 * math.pi)
            power = 1.0 + own.real if not self.backward else -own.real
            total += count * (top + math.log(mass) + step.floor * power)
        return float(total)

    # --- the integral

    def enclose(self, log_delta: float | None = None) -> Enclosure | None:
        """The interval, or None where no ray was found; a guess of log delta saves an attempt."""
        lost = 6.0 if log_delta is None else max(self.peak - log_delta, 0.0)
        for _ in range(ATTEMPTS):
            found = self._attempt(lost)
            if found is None:
                return None
            if not isinstance(found, float):
                return found
            lost = found
        return None

    def _attempt(self, lost: float) -> Enclosure | float | None:
        """The interval, or how many e-foldings the sum loses to cancellation if that was too little."""
        means = [self._mean(step, self.centre) for step, _ in self.steps]
        angles = [self._angle(step, self.centre) for step, _ in self.steps]
        least = min(angles)
        bend, turn = 0.4 * least, 0.3 * least
        lift = self._spread(self.centre)
        digits = lost - math.log(GOAL) + math.log(self.uses) + 6.0
        h = 2.0 * math.pi * turn / (digits + lift)
        order = -1.0 - self.centre if self.backward else self.centre
        bits = int((digits + lift) / math.log(2.0)) + 50
        self._bits, self._h = bits, h
        with ctx.workprec(bits):
            rays = [BallRay(step, order, angle, h, digits + lift) for angle, (step, _) in zip(angles, self.steps)]
            directions = [math.pi / 2 - bend + side * turn for side in (1, -1)]
            first = math.floor((math.log(self.width) - digits) / h)
            with np.errstate(all="ignore"):
                last = self._last(rays, directions, h, digits)
            if last is None or last - first > MOST_NODES:
                return None
            sums = [_Sums(ray, count, turn, mean) for ray, (_, count), mean in zip(rays, self.steps, means)]
            straight = arb.pi() / 2 - arb(bend)
            main = self._main(sums, straight, first, last - first + 1, h)
            if main.rad() > MISSING * abs(main.mid()):
                seen = math.log(max(float(abs(main.mid())), float(main.rad()), 1e-300))
                return max(lost + 12.0, -seen + 3.0)
        with ctx.workprec(int((lift + math.log(self.uses)) / math.log(2.0)) + 56):
            start = math.floor(math.log(NEAR * self.width) / h)
            turned = arb(0)
            for side in (1, -1):
                angle = straight + side * arb(turn)
                turned += self._absolute(sums, angle, start, last - start + 1, h)
            error = turned / arb.pi() / ((2 * arb.pi() * arb(turn) / arb(h)).exp() - 1)
            error += (self._inside(sums, first, h) + self._outside(sums, straight, last, h)) * (1 + 2 * arb(h))
        with ctx.workprec(bits):
            return from_scaled(main + arb(0, error.abs_upper()), arb(self.peak))

    def root(self, goal: float) -> float:
        """About the epsilon at which log delta is the goal, by Newton's steps on the nodes of the last attempt."""
        change = 0.0
        with ctx.workprec(self._bits):
            for _ in range(12):
                terms = [(s, value * (s * -change).exp()) for s, value in self._nodes]
                total = sum((value.imag for _, value in terms), arb(0))
                slope = -sum(((s * value).imag for s, value in terms), arb(0)) / total
                if not (total > 0 and slope < 0):
                    break
                excess = float((total * self._h / arb.pi()).log().mid()) + self.peak - goal
                step = excess / float(slope.mid())
                change -= step
                if abs(step) < 1e-12 * abs(self.epsilon + change):
                    break
        return self.epsilon + change

    def _direction(self, angle: arb) -> acb:
        """d for an angle of the rays on which m is known; mirrored at the imaginary axis if X and Y are exchanged."""
        return acb(self.sign * angle.cos(), angle.sin())

    def _log_rest(self, sums: Sequence[_Sums], s: acb) -> acb:
        """log of e^level F s(s+1) without the moments m."""
        power = -s if self.backward else 1 + s
        floor = sum((one.ray.floor * one.count for one in sums), arb(0))
        return power * floor - s * self.epsilon + s * (1 + s) * (arb(self.energy) / 2) - self.peak

    def _main(self, sums: Sequence[_Sums], angle: arb, first: int, count: int, h: float) -> arb:
        """The sum over the nodes, over e^peak; its terms are kept."""
        known = [one.ray.moments(one.plain, angle, first, count) for one in sums]
        direction, total = self._direction(angle), acb(0)
        self._nodes = []
        for index in range(count):
            radius = (arb(h) * (first + index)).exp()
            s = self.centre + radius * direction
            value = self._log_rest(sums, s).exp() / (s * (s + 1)) * radius
            for one, found in zip(sums, known):
                m = found[index] + one.error
                value *= (m.conjugate() if self.backward else m) ** one.count
            total += value * direction
            self._nodes.append((s, value * direction))
        return total.imag * h / arb.pi()

    def _absolute(self, sums: Sequence[_Sums], angle: arb, first: int, count: int, h: float) -> arb:
        """Upper end of the integral of |F| over the whole ray at the angle, over e^peak."""
        direction, h_ball = self._direction(angle), arb(h)
        near = (h_ball * first - h_ball / 2).exp()
        total = self._cell(sums, acb(self.centre), near, [one.at_centre() for one in sums]) * near
        known = [
            (
                one.ray.moments(one.plain, angle, first, count),
                one.ray.moments(one.moved, angle, first, count),
                one.ray.sizes([cell.second for cell in one.cells], angle, first, count),
            )
            for one in sums
        ]
        half, whole = (h_ball / 2).exp() - 1, (h_ball / 2).exp() - (-h_ball / 2).exp()
        for index in range(count):
            radius = (h_ball * (first + index)).exp()
            entries = [
                (m[index] + one.error, slope[index] + one.moved_error, float(bend[index]) + one.outside)
                for one, (m, slope, bend) in zip(sums, known)
            ]
            total += self._cell(sums, self.centre + radius * direction, radius * half, entries) * radius * whole
        return total + self._outside(sums, angle, first + count - 1, h) * arb.pi()

    def _cell(self, sums: Sequence[_Sums], s: acb, reach: arb, known: list[tuple[acb, acb, float]]) -> arb:
        """Upper end of |F| within the reach of s, from m, m' there and a bound on |m''| over the reach.

        All is about e^{(s-c) mean}: with x = (m'/m - mean) d + rest, |log(1 + x) - x| <= |x|^2 for |x| <= 1/2.
        """
        reach = arb(reach.abs_upper())
        floor = sum((one.ray.floor * one.count for one in sums), arb(0))
        pull = acb(self.sign * floor - self.epsilon) + (1 + 2 * s) * (arb(self.energy) / 2)
        size, rest = self._log_rest(sums, s).real, reach * reach * (arb(self.energy) / 2)
        for one, (m, slope, bend) in zip(sums, known):
            curved = reach * reach * bend / 2 * (reach * abs(one.mean)).exp()
            least = m.abs_lower()
            part = slope / m - one.mean if least > 0 else acb("nan", "nan")
            change = part.abs_upper() * reach + curved / least if least > 0 else arb(1)
            if change < 0.5:
                pull += self.sign * one.count * ((part.conjugate() if self.backward else part) + one.mean)
                rest += one.count * (curved / least + change * change)
                size += one.count * arb(m.abs_upper()).log()
            else:
                pull += self.sign * one.count * arb(one.mean)
                size += one.count * (m.abs_upper() + (slope - one.mean * m).abs_upper() * reach + curved).log()
        gap = (s.abs_lower() - reach) * ((s + 1).abs_lower() - reach)
        bound = (size + pull.abs_upper() * reach + rest).exp() / gap if gap > 0 else arb("inf")
        return arb(bound.abs_upper())

    def _inside(self, sums: Sequence[_Sums], first: int, h: float) -> arb:
        """Upper end of what lies below the first node: (1/pi) times radius times |F|."""
        near = (arb(h) * first - arb(h) / 2).exp()
        return self._cell(sums, acb(self.centre), near, [one.at_centre() for one in sums]) * near / arb.pi()

    def _outside(self, sums: Sequence[_Sums], angle: arb, last: int, h: float) -> arb:
        """Upper end of (1/pi) int |F| beyond the last node: there all but 1/|s(s+1)| falls, and that is below y^-2."""
        radius, direction = (arb(h) * last + arb(h) / 2).exp(), self._direction(angle)
        s = self.centre + radius * direction
        falls = (1 + 2 * arb(self.centre)) * direction.real + 2 * radius * (direction * direction).real
        floor = sum((one.ray.floor * one.count for one in sums), arb(0))
        if not (self.sign * (self.sign * floor - self.epsilon) < 0 and (self.energy == 0.0 or falls < 0)):
            return arb("inf")
        size = self._log_rest(sums, s).real
        for one in sums:
            turned = (angle + arb(one.ray.angle)).cos()
            mass = arb(one.outside)
            for place, cell in zip(one.ray.places, one.cells):
                mass += cell.mass * (radius * (arb(h) * place - arb(h) / 2).exp() * turned).exp()
            size += one.count * mass.log()
        return arb((size.exp() / (direction.imag**2 * radius)).abs_upper()) / arb.pi()


class _Sums:
    """A ray's weights and their proven errors."""

    def __init__(self, ray: BallRay, count: int, turn: float, mean: float) -> None:
        self.ray, self.count, self.mean = ray, count, mean
        self.plain, self.moved = ray.weights()
        strip = min(turn, 0.3 * ray.angle)
        with ctx.workprec(64):
            self.cells = ray.cells(ray.angle, mean)
            self.outside = ray.tails(ray.angle)
            damping = 1 / ((2 * arb.pi() * arb(strip) / arb(ray.h)).exp() - 1)
            errors = [arb(self.outside), arb(self.outside)]
            for side in (-1.0, 1.0):
                angle = ray.angle + side * strip
                rows, tail = ray.cells(angle), ray.tails(angle)
                errors[0] += damping * (math.fsum(row.mass for row in rows) * (1 + 1e-12) + tail)
                errors[1] += damping * (math.fsum(row.first for row in rows) * (1 + 1e-12) + tail)
        self.error, self.moved_error = (acb(arb(0, upper(error)), arb(0, upper(error))) for error in errors)

    def at_centre(self) -> tuple[acb, acb, float]:
        """m and m' at c, and a bound on |m''| beside it on every ray."""
        plain, moved = sum(self.plain, acb(0)), sum(self.moved, acb(0))
        second = math.fsum(cell.second for cell in self.cells) * (1 + 1e-12) + self.outside
        return plain + self.error, moved + self.moved_error, second
