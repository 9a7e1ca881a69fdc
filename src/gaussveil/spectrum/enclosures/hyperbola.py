"""The trapezoid rule along a hyperbola, and a proven bound on its error (derived: docs/math/spectrum).

On s(u) = b + rho sin(iu - angle), u -> u + iv turns the angle by v. With f(u) = F(s(u)) s'(u) analytic between the two
hyperbolas a turn of `half` away, h sum f(nh) is off by at most (M- + M+) / (e^(2 pi half/h) - 1), M the integrals of
|f| along them (Trefethen, Weideman 2014, Theorem 5.1). Those, and the sum of all nodes left out, are bounded in doubles
cell by cell: Re log F at the middle, its slope, a bound on |(log F)''| over the cell, and roundings a thousandfold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gaussveil.typing import Floats

GOAL = 42.0  # -log of the relative error aimed at
TURNS = ((0.0, 1.2), (0.0, 0.9), (0.0, 0.65))  # of both outer hyperbolas, to the side on which F falls
UPRIGHT = ((-0.65, 0.65),)  # where F falls as a Gaussian does, below 45 degrees
MOST_NODES, MOST_TERMS = 300, 200
ROUNDING = 1e-12
FARTHEST = 1e20
ROUNDS = 3


class Exponent(NamedTuple):
    """log F(s) + log s(1+s) = slope s + s(1+s)/2 (flat + sum e/(1+sg)) - sum m/2 log(1+sg), its numbers to some ulp."""

    slope: float
    size: float  # of what the slope is the difference of
    flat: float
    gap: Floats
    number: Floats
    shift: Floats

    @property
    def far(self) -> float:
        """Slope along the real axis, less that of the flat part, far from all branch points."""
        return self.slope + 0.5 * float(np.sum(self.shift / self.gap))


class Hyperbola(NamedTuple):
    """b + rho sin(iu - angle), with nodes at the multiples of `step`."""

    b: float
    rho: float
    angle: float
    half: float
    step: float
    nodes: int

    def at(self, angle: float, u: Floats) -> Floats:
        """Points of the hyperbola of that angle."""
        return np.asarray(self.b + self.rho * np.sin(1j * u - angle))


def chosen(exponent: Exponent, log_size: Callable[[Floats], Floats], c: float, room: tuple[float, float]) -> Hyperbola:
    """Few nodes for the goal, in floating point: a bad choice costs precision, never soundness.

    `log_size` is log |F/F(c)|; `room` how far the outer hyperbolas may cross the real axis below and above c.
    """
    u = 12.0 * np.linspace(0.0, 1.0, 41) ** 1.5
    side = 1.0 if exponent.far >= 0.0 else -1.0
    lines = []
    for low, high in TURNS if exponent.flat == 0.0 else UPRIGHT:
        angle, half = side * (low + high) / 2, (high - low) / 2
        below, above = (abs(math.sin(angle + turn) - math.sin(angle)) for turn in (half, -half))
        rho = min(room[0] / below, room[1] / above)
        lines.append(Hyperbola(c + rho * math.sin(angle), rho, angle, half, 0.0, 0))
    points = np.concatenate([one.at(one.angle + turn, u) for one in lines for turn in (-one.half, one.half, 0.0)])
    sizes = np.reshape(log_size(points), (len(lines), 3, -1)) + np.log(np.cosh(u))
    found = []
    for line, (left, right, own) in zip(lines, sizes):
        step = 2 * math.pi * line.half / (GOAL + max(0.0, float(np.max([left, right]))))
        over = np.flatnonzero(~(own < -GOAL))
        last = float(u[min(over[-1] + 1, len(u) - 1)]) if over.size else 0.1
        found.append(line._replace(step=step, nodes=math.ceil(last / step) if step > 0 else MOST_NODES + 1))
    return min(found, key=lambda line: line.nodes)


@np.errstate(all="ignore")
def error_bound(line: Hyperbola, exponent: Exponent, level: float, limit: float, wanted: float) -> float:
    """At least |h sum over the nodes of |n| <= nodes - integral| of f e^-level; infinite where so little is not shown.

    Cells that are too wide for it are divided, twice.
    """
    ends = line.angle - line.half, line.angle + line.half
    gain = 2 * math.pi * line.half / line.step * (1 - ROUNDING)
    inside = line.b - line.rho * math.sin(ends[1]) > 0 and (line.b - line.rho * math.sin(ends[0])) * limit < 1
    if not (inside and gain > 1 and max(map(abs, ends)) < 1.5):
        return math.inf
    # Integrals along the outer hyperbolas, and the sum over nodes beyond the last one.
    ways = (ends[0], 0.0), (ends[1], 0.0), (line.angle, line.nodes * line.step)
    reaches = [_far_out(line, turn, exponent) for turn, _ in ways]
    if not max(reaches) < FARTHEST:
        return math.inf
    edges = [start + _edges(math.acosh(max(end, 4.0)) - start) for (_, start), end in zip(ways, reaches)]
    low, high = (np.concatenate([one[part] for one in edges]) for part in (slice(-1), slice(1, None)))
    turn = np.repeat([turn for turn, _ in ways], [len(one) - 1 for one in edges])
    shares = np.array([1 / math.expm1(gain), 1 / math.expm1(gain), 1.0])
    for _ in range(ROUNDS):
        value, bend = _highest(line, turn, low, high, exponent, level)
        top, total = np.exp(value) * line.rho * np.cosh(high), 0.0
        for (one, _), share, spacing in zip(ways, shares.tolist(), (0.0, 0.0, line.step)):
            mine = turn == one
            # Further out |s(s+1)| >= (rho sinh u)^2 / 2, |s'| <= rho cosh u: at most 18 times the last height is left.
            total += share * float(np.sum(top[mine] * ((high - low)[mine] + spacing)) + 24 * top[mine][-1])
        if 2 * total <= wanted:
            return 2 * total * (1 + ROUNDING)
        pieces = np.clip(np.ceil(np.where(value > -2 * GOAL, np.sqrt(bend), 1.0)), 1.0, 50.0).astype(np.intp)
        length, place = (high - low) / pieces, np.concatenate([np.arange(number) for number in pieces])
        low, length, turn = (np.repeat(one, pieces) for one in (low, length, turn))
        low, high = low + place * length, low + (place + 1) * length * (1 + ROUNDING)
    return math.inf


def _far_out(line: Hyperbola, turn: float, exponent: Exponent) -> float:
    """cosh u beyond which each factor of |f| falls, but for e^(1/2) from the parts 1/(1+sg); infinite if unknown."""
    _, size, flat, gap, _, shift = exponent
    b, rho, sine = line.b, line.rho, math.sin(turn)
    least, far = float(np.min(np.abs(gap))), sine * (flat * (b + 0.5) + exponent.far)
    end = 4 * max(1 / least + abs(b) + 1, float(np.sum(shift * (1 - gap) / np.abs(gap) ** 3))) / rho
    if flat:
        end = max(end, 2 * abs(far) / (flat * rho * math.cos(2 * turn)))
    falling = far + flat * rho * math.cos(2 * turn) * max(end, 4.0)
    doubt = ROUNDING * abs(sine) * (flat * (abs(b) + 1) + size + 0.5 * float(np.sum(np.abs(shift / gap))))
    return end if falling >= doubt and (flat == 0 or math.cos(2 * turn) > 0) else math.inf


def _highest(
    line: Hyperbola, turn: Floats, low: Floats, high: Floats, exponent: Exponent, level: float
) -> tuple[Floats, Floats]:
    """At least log |F| - level on cells of hyperbolas, infinite if unknown; and what of it is due to their size."""
    slope, size, flat, gap, number, shift = exponent
    b, rho, sine, cosine = line.b, line.rho, np.sin(turn), np.cos(turn)
    ends = np.cosh([low, high]), np.sinh([low, high])
    across, along = (np.mean(one, axis=0) for one in ends)
    wide, tall = (np.diff(one, axis=0)[0] / 2 for one in ends)
    blur = ROUNDING * (abs(b) + rho * ends[0][1])
    middle = b + rho * (1j * cosine * along - sine * across)
    chord = rho * (1j * cosine * tall - sine * wide)
    wide, tall = np.abs(chord.real) + blur, chord.imag + blur
    reach, s = np.hypot(wide, tall), middle[:, None]
    w = 1 + s * gap
    spread, steep = np.abs(w), 1 + np.abs(s * gap)
    logs, inverse = np.log(spread), 1 / w
    least = spread - reach[:, None] * np.abs(gap) - ROUNDING * steep
    near, beside = np.abs(middle) - reach, np.abs(1 + middle) - reach
    twice = middle * (1 + middle) / 2
    value = (slope * middle + twice * (flat + inverse @ shift)).real - 0.5 * logs @ number - level
    value -= np.log(np.abs(middle)) + np.log(np.abs(1 + middle))
    rise = slope + flat * (middle + 0.5) - 0.5 * inverse @ (gap * number) - 1 / middle - 1 / (1 + middle)
    rise += 0.5 * ((s * (1 + w) + 1) * inverse**2) @ shift
    over = 1 / least
    bend = flat + over**2 @ (gap**2 * number / 2) + over**3 @ ((1 - gap) * shift) + near**-2 + beside**-2
    rounding = np.abs(middle) * size + np.abs(twice) * (flat + (steep / spread**2) @ shift) + abs(level) + 4
    rounding += (np.abs(logs) + steep / spread) @ number + np.abs(np.log(np.abs(middle)))
    # Along the chord, and off it by at most |s''| / 8 times the cell's length squared; or in any direction.
    tangent = np.abs((rise * chord).real) + np.abs(rise) * (rho * ends[0][1] * (high - low) ** 2 / 8 + blur)
    bend *= reach**2 / 2
    value += np.minimum(tangent, np.abs(rise.real) * wide + np.abs(rise.imag) * tall) + bend + ROUNDING * rounding
    known = (near > 0) & (beside > 0) & np.all(least > 0, axis=-1) & np.isfinite(value)
    return np.where(known, value, math.inf), np.where(known, bend, math.inf)


def _edges(length: float) -> Floats:
    """Cells that grow from 0.03 to 0.5, up to a length."""
    growing = 0.3 * (1.1 ** np.arange(30) - 1)
    return np.append(growing, np.arange(growing[-1], max(length, growing[-1]) + 0.5, 0.5)[1:])
