"""One step's moments on rays of the complex plane, in ball arithmetic (derived: docs/math/subsampled).

With l = A - log(1-q) >= 0 the loss above its floor, M(s) = (1-q)^(1+s) m(s) and

    m(s) = int e^{(1+s) l} phi(z) dz,    z = sigma (log(e^l - 1) + log((1-q)/q)) + 1/(2 sigma).

The path is the ray l = e^(v + i psi). On s = c + e^(t + i angle) the factor e^{(s-c) l} depends on t + v alone, so that
all nodes follow from one product of polynomials. It shrinks as t grows if angle + psi >= pi/2. Shifting v by i a turns
the ray by a: the sum over v converges geometrically.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import acb, acb_poly, arb, ctx

from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

STRAY = 0.02  # radians by which the argument of dz/dv may exceed that of l
ROUNDED_UP = 1.0 + 1e-9  # more than a sum of a million positive doubles can err by


class Cell(NamedTuple):
    """Upper ends of the integrals of |g|, |g l| and |g| |l - mean|^2 over one cell, g dv = e^{(1+c) l} phi dz."""

    mass: float
    first: float
    second: float


def outputs(step: Step, loss: Any) -> tuple[Any, Any, Any]:
    """l, z and dz/dv in doubles, to choose ranges by; nothing rigorous depends on them."""
    rest = -np.expm1(-loss)
    small = np.where(loss.real > 0.5, 1.0, loss)
    root = np.where(loss.real > 0.5, loss + np.log(rest), np.log(loss) + np.log(np.expm1(small) / small))
    z = step.noise_multiplier * (root + step.floor - math.log(step.sampling_rate)) + 0.5 / step.noise_multiplier
    return loss, z, step.noise_multiplier * loss / rest


class BallRay:
    """The ray at the angle psi, cut into cells of width h about the multiples of h, for a step and a real order c."""

    def __init__(self, step: Step, centre: float, angle: float, h: float, digits: float) -> None:
        self.step, self.centre, self.angle, self.h = step, centre, angle, h
        self.noise, rate = step.noise_multiplier, step.sampling_rate
        self.floor = (1 - arb(rate)).log()
        self.odds = self.floor - arb(rate).log()
        self.tilt = 1 + arb(centre)
        self.low, self.high = self._range(digits)
        self.places = range(self.low, self.high + 1)

    def _range(self, digits: float) -> tuple[int, int]:
        """First and last place outside which less than e^-digits is left on rays up to 1.3 times as steep."""
        widest = 1.3 * self.angle
        reach = math.sqrt(2.0 * digits) + widest * self.noise
        odds = self.step.floor - math.log(self.step.sampling_rate)
        ends = []
        for z in (-reach, reach):
            raised = (z - 0.5 / self.noise) / self.noise - odds
            ends.append(raised if raised < -30.0 else math.log(float(np.logaddexp(0.0, raised))))
        low, high = min(ends[0], -0.5), ends[1]
        step = max(self.h, 0.02 / max(self.noise, 1.0))
        while True:
            loss, output, _ = (complex(value) for value in outputs(self.step, np.exp(high + 1j * widest)))
            size = ((1.0 + self.centre) * loss - 0.5 * output * output).real
            if size < -digits and self._fall(output.real, output.imag, math.tan(widest + STRAY)) > 0.5:
                return math.floor(low / self.h), math.ceil(high / self.h)
            high += step

    def _fall(self, real: Any, imag: Any, slope: Any) -> Any:
        """Least rate at which |g| (1 + |l|)^2 falls with Re z to the right of z (derived: docs/math/subsampled)."""
        return real - slope * abs(imag) - (max(1.0 + self.centre, 0.0) + 2.0) / (0.9 * self.noise)

    def _terms(self, v: arb, angle: arb) -> tuple[acb, acb, acb, acb, acb]:
        """(1+c) l - z^2/2, dz/dv, l, z and 1 - e^-l."""
        loss = acb(v, angle).exp()
        rest = 1 - (-loss).exp()
        near = loss.abs_upper() < 1
        root = acb(v, angle) + (loss.expm1() / loss).log() if near else loss + rest.log()
        z = self.noise * (root + self.odds) + 1 / (2 * arb(self.noise))
        return self.tilt * loss - z * z / 2, self.noise * loss / rest, loss, z, rest

    def weights(self) -> tuple[list[acb], list[acb]]:
        """The terms of the sum at s = c, and the same times l."""
        scale = arb(self.h) / (2 * arb.pi()).sqrt()
        plain, moved = [], []
        for place in self.places:
            size, speed, loss, _, _ = self._terms(arb(self.h) * place, arb(self.angle))
            plain.append(size.exp() * speed * scale)
            moved.append(plain[-1] * loss)
        return plain, moved

    def cells(self, angle: float, mean: float = 0.0) -> list[Cell]:
        """Upper ends for each cell of the ray at another angle, by second-order expansions of the exponent."""
        h, half, steep = arb(self.h), arb(self.h) / 2, arb(angle)
        scale = h / (2 * arb.pi()).sqrt()
        found = []
        for place in self.places:
            size, speed, loss, z, rest = self._terms(h * place, steep)
            slope = self.tilt * loss - z * speed + 1 - loss * (1 - rest) / rest
            level = size.real + arb(speed.abs_upper()).log()
            _, speed, loss, z, rest = self._terms(arb((h * place).mid(), half.upper()), steep)
            back = loss * (1 - rest) / rest  # l / (e^l - 1); the logarithm of dz/dv has slope 1 - back
            bend = self.tilt * loss - speed * speed - z * speed * (1 - back) - back * (1 - loss - back)
            tilt = arb(upper(slope.real * half) + 1e-6)
            mass = (level + bend.abs_upper() * half * half / 2).exp() * scale * (tilt.sinh() / tilt)
            apart = (loss - mean).abs_upper()
            found.append(Cell(upper(mass), upper(mass * loss.abs_upper()), upper(mass * apart * apart)))
        return found

    def tails(self, angle: float) -> float:
        """Upper end of the integral of |g| (1 + |l|)^2 outside the cells, on the ray at an angle."""
        noise, steep = arb(self.noise), arb(angle)
        tilt = self.tilt if self.tilt > 0 else arb(0)
        start = arb(self.h) * self.low - arb(self.h) / 2
        radius = start.exp()
        depth = -(noise * (start + radius + self.odds) + 1 / (2 * noise))
        end = arb(self.h) * self.high + arb(self.h) / 2
        size, _, loss, z, _ = self._terms(end, steep)
        fall = self._fall(z.real, z.imag, (steep + STRAY).tan())
        if not (radius < 1 and depth > 0 and fall > 0):
            return math.inf
        lift = noise * steep * (1 + radius)  # the argument of (e^l - 1)/l lies between 0 and Im l
        left = (lift * lift / 2 + tilt * radius).exp() * (1 + radius) ** 4 * (depth / arb(2).sqrt()).erfc() / 2
        right = size.real.exp() * (1 + loss.abs_upper()) ** 2 / ((steep + STRAY).cos() * fall * (2 * arb.pi()).sqrt())
        return upper(left + right)

    def moments(self, weights: Sequence[acb], angle: arb, first: int, count: int) -> list[acb]:
        """Sums of the weights times e^{(s-c) l} at s = c + e^(h n + i angle), n = first, ..., without their error."""
        turned = angle + arb(self.angle)
        start = first + self.low
        steep, least = float(-turned.cos()), ctx.prec * math.log(2.0)
        end = math.floor(math.log(least / steep) / self.h)  # beyond it factors are below 2^-bits, and taken to be 0
        places = range(start, start + count + len(weights) - 1)
        table = [acb(arb(self.h) * k, turned).exp().exp() if k <= end else acb(0) for k in places]
        product = acb_poly(list(weights)[::-1]) * acb_poly(table)
        left_out = arb(0, upper(sum((abs(weight) for weight in weights), arb(0)) * arb(2) ** (1 - ctx.prec)))
        return [product[index + len(weights) - 1] + acb(left_out, left_out) for index in range(count)]

    def sizes(self, sizes: Sequence[float], angle: arb, first: int, count: int) -> Floats:
        """Upper ends of the sums of the sizes times |e^{(s-c) l}| over the cells about l and about each node."""
        turned = (angle + arb(self.angle)).cos()
        start = first + self.low - 1
        table = [upper((arb(self.h) * k).exp() * turned) for k in range(start, start + count + len(sizes) - 1)]
        factors = np.exp(np.minimum(np.array(table), 0.0)) * ROUNDED_UP + 1e-300
        return np.asarray(np.correlate(factors, np.array(sizes), mode="valid")) * ROUNDED_UP


def upper(value: Any) -> float:
    """A double not below the absolute value of a ball, infinity where it is not finite."""
    found = float(arb(value.abs_upper()).upper()) if value.is_finite() else math.inf
    return math.nextafter(found, math.inf) if found < math.inf else found
