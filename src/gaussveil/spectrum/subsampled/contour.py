"""The contour integral of delta for compositions with random batches, along Re s = c, and its saddle.

    delta = (1/pi) int_0^inf Re e^{K(s) - s eps} / (s (1+s)) dy,   s = c + iy,   K = sum of T log M + the companions' K

    Im s |  :    o    :     nodes of equal spacing h: the sum of F there times h/pi
         |  :    o    :     on the dotted lines, a beside, |F| bounds what the nodes miss
    -----|-c-a---o---c+a--- Re s     c: where |integrand| is least on the real axis (`saddle`)

Windows leave out outputs that are too rare to matter, and what they leave out is charged (docs/math/subsampled, "The
line" and "Errors in doubles").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.constants import ULP, UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.companions import Companions
from gaussveil.spectrum.subsampled.step import Complexes, Step
from gaussveil.typing import Floats

ACCURATE = 1e-11  # error of log delta, over 1 + epsilon times its slope, at which nothing else is tried
SLACK = 1e-6  # of logs of bounds, whose exponents are sums of numbers below 10^9
NARROW = 1e-9  # share of an order to which its place is looked for
LEFT_OUT = 31.0  # -log of the share of delta that windows may leave out


class Parts(NamedTuple):
    """What is composed: steps with their counts, and what stands beside; windows suit a delta of e^log_delta."""

    steps: tuple[tuple[Step, int], ...]
    companions: Companions
    log_delta: float = -math.inf

    def windowed(self, log_delta: float) -> Parts:
        """The same with windows that are narrow, yet leave out next to nothing of delta = e^log_delta."""
        if self.steps:
            return self._replace(log_delta=min(log_delta, 0.0))
        return self

    def cap(self, step: Step) -> float:
        """Where the step's window ends."""
        if self.log_delta == -math.inf:
            return math.inf
        return step.cap(
            self.log_delta - math.log(sum(count for _, count in self.steps)) - LEFT_OUT
        )

    @property
    def left_out(self) -> float:
        """Bound on how much of delta the windows leave out."""
        if self.log_delta == -math.inf:
            return 0.0
        return sum(
            count * math.exp(step.left_out(self.cap(step)))
            for step, count in self.steps
        )

    def start(self, normal: float, z: float) -> float:
        """Where a search for an order begins: at that of a normal loss, or at one that tilts a single output to z."""
        if self.steps and not self.companions.present and not self.steps[0][0].backward:
            normal = min(normal, max(z, 1.0) / self.steps[0][0].slope(z))
        return min(
            normal if 0.0 < normal < math.inf else 1.0,
            0.5 * self.companions.highest_order,
        )

    def real_moments(self, order: float) -> tuple[float, float, float]:
        """K, K', K'' of the composition at a real order."""
        total = self.companions.real_moments(np.array([order]))[:, 0]
        for step, count in self.steps:
            total = total + count * np.array(step.real_moments(order, self.cap(step)))
        return float(total[0]), float(total[1]), float(total[2])


class Saddle(NamedTuple):
    """Crossing point c of the real axis, width w there, and log of the integrand."""

    centre: float
    width: float
    peak: float


def saddle(parts: Parts, epsilon: float) -> Saddle:
    """The minimum of K(c) - c eps - log |c (1+c)| over c > 0, or over -1 < c < 0 where eps is far below the mean loss.

    Any c serves, a good one saves nodes. Between the poles the integral is delta - 1.
    """
    low, high, centre = _first_order(parts, epsilon)
    for _ in range(80):
        value, mean, variance = parts.real_moments(centre)
        force = mean - epsilon - 1.0 / centre - 1.0 / (1.0 + centre)
        stiffness = variance + 1.0 / centre**2 + 1.0 / (1.0 + centre) ** 2
        finite = math.isfinite(force)
        if finite and force <= 0.0:
            low = centre
        else:
            high = centre
        narrow = high - low < NARROW * centre
        if finite and (abs(force) < 1e-2 * math.sqrt(stiffness) or narrow):
            break
        newton = centre - force / stiffness
        if centre > 0.0 and finite:
            newton = centre * math.exp(max(-1.5, min(1.5, -force / stiffness / centre)))
        if not low < newton < high:
            newton = _between(low, high, centre)
        centre = newton
    peak = value - centre * epsilon - math.log(abs(centre)) - math.log1p(centre)
    return Saddle(centre, 1.0 / math.sqrt(stiffness), peak)


def _first_order(parts: Parts, epsilon: float) -> tuple[float, float, float]:
    """Ends of the interval between poles that suits epsilon, and an order in it, that of a normal loss."""
    _, mean, variance = parts.real_moments(0.0)
    if not mean - epsilon <= 2.0 * math.sqrt(variance):
        return -1.0, 0.0, -0.5
    far = epsilon - mean
    z = 0.0
    if parts.steps:
        z = parts.steps[0][0].place(epsilon)
    normal = (far + math.sqrt(far * far + 4.0 * variance)) / (2.0 * variance)
    return 0.0, parts.companions.highest_order, parts.start(normal, z)


def _between(low: float, high: float, centre: float) -> float:
    """Where the search goes on if Newton's step leaves the interval."""
    if not math.isfinite(high):
        return 2.0 * centre
    if low == 0.0:
        return 0.1 * high
    return 0.5 * (low + high)


def chernoff(parts: Parts, epsilon: float) -> float:
    """An upper bound of log delta from the moment at one real order, and what windows leave out."""
    # moments of windows jump where what lies beyond their ends begins to count: the order below that
    order = abs(saddle(parts, epsilon).centre) * (1.0 - 2.0 * NARROW)
    value = parts.real_moments(order)[0] - order * epsilon
    value += order * math.log(order) - (1.0 + order) * math.log1p(order)
    if not math.isfinite(value):
        return math.inf
    value += SLACK * (1.0 + abs(value))
    if not parts.left_out:
        return value
    return float(np.logaddexp(value, math.log(parts.left_out) + SLACK))


class Beside(NamedTuple):
    """What nodes leave open: their spacing, orders of two lines beside with K there at most, and what lies beyond.

    `beyond` is the log of the integral of |e^K / (s (1+s))| over pi, above the last node.
    """

    between: float
    orders: Floats
    cumulants: Floats
    beyond: float


class Nodes(NamedTuple):
    """Points of the upper half line, ds/du du / (i pi) there, K, and bounds on what all that is off by."""

    order: Complexes
    weight: Floats
    cumulant: Complexes
    rounding: Floats
    beside: Beside
    left_out: float = 0.0

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope in epsilon, and a bound on its error (infinite where nothing settled)."""
        value, slope, error = self.log_deltas(np.array([epsilon]))
        return float(value[0]), float(slope[0]), float(error[0])

    @np.errstate(all="ignore")
    def log_deltas(self, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """The same at many epsilons."""
        turned = np.multiply.outer(levels, self.order)
        logs = np.log(self.order), np.log1p(self.order)
        terms = self.cumulant - turned - logs[0] - logs[1]
        missing = self.order[0].real < 0.0  # then the sum is delta - 1
        peak = terms.real.max(axis=1)
        values = np.exp(terms - peak[:, None]) * self.weight
        sign = 1.0
        if missing:
            sign = -1.0
        whole = sign * values.real.sum(axis=1)
        size = np.abs(values)
        magnitude = np.abs(self.cumulant) + np.abs(logs[0]) + np.abs(logs[1])
        exact = UNIT_ROUNDOFF * (64.0 + 8.0 * (magnitude + np.abs(turned)))
        off = np.expm1(np.minimum(self.rounding + exact, 700.0))
        error = (size * off).sum(axis=1)
        error += self._missed(levels, peak)
        error = error / whole
        error = np.where(error < 0.5, error / (1.0 - error), math.inf)
        slope = -sign * (values * self.order).real.sum(axis=1) / whole
        value = peak + np.log(whole)
        if missing:
            rest = -np.expm1(value)
            slope = -slope * (1.0 - rest) / rest
            error = error * (1.0 - rest) / rest
            error = np.where(error < 0.5, error / (1.0 - error), math.inf)
            value = np.log(np.maximum(rest, 1e-300))
        error += self.left_out * np.exp(np.minimum(-value, 700.0))
        error += 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(peak) + np.abs(value))
        settled = np.isfinite(peak) & (whole > 0.0)
        return (
            np.where(settled, value, math.nan),
            np.where(settled, slope, math.nan),
            np.where(settled & np.isfinite(error), error, math.inf),
        )

    def _missed(self, levels: Floats, peak: Floats) -> Floats:
        """How far the sum over these nodes is from the integral, over e^peak: between nodes, and beyond the last one.

        The integral of 1/|s (1+s)| over a line is at most pi over the root of |c (1+c)|.
        """
        c = self.order[0].real
        orders = self.beside.orders
        distance = (1.0 - ULP) * float(np.abs(orders - c).min())
        exponents = self.beside.cumulants - np.multiply.outer(levels, orders)
        exponents -= 0.5 * np.log(np.abs(orders * (1.0 + orders)))
        sizes = np.exp(np.minimum(exponents - peak[:, None] + SLACK, 700.0))
        turns = 2.0 * math.pi * distance / self.beside.between
        between = 0.5 * sizes.sum(axis=1) / np.expm1(min(turns * (1.0 - ULP), 700.0))
        beyond = self.beside.beyond - c * levels - peak + SLACK
        return np.asarray(between + np.exp(np.minimum(beyond, 700.0)))
