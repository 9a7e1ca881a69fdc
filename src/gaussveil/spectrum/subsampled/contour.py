"""The contour integral of delta for compositions with random batches, along s(u) = c + i w sinh u.

    delta = (1/pi) int_0^inf Re e^{K(s) - s eps} / (s (1+s)) ds/(i du) du,    K = sum of T log M + the companions' K

    Im s |    o          nodes of equal spacing in u, which spread out as sinh u: close to the saddle, where it is w
         |    o          wide, and far apart where the integrand has fallen; doubled until delta settles
         |    o
    -----|----c---- Re s     c: where |integrand| is least on the real axis (`saddle`)

Windows leave out outputs that are too rare to matter, and what they leave out is charged (docs/math/subsampled, "The
line" and "Errors in doubles").
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.companions import Companions
from gaussveil.spectrum.subsampled.step import Complexes, Step, Sums
from gaussveil.typing import Floats

ACCURATE = 1e-11  # error of log delta, over 1 + epsilon times its slope, at which nothing else is tried
LINE_PROBES = np.arange(1.0, 5.6, 0.4)  # of u; further up one line is not taken
STAYS = 4  # probes at which it stays fallen
RESOLVED = 5e-12  # of delta: a margin for what is not proven in doubles; 2.4e-12 at most in 17,000 random settings
HEIGHT_RANGES = np.concatenate(
    [[0.0], np.arcsinh(2.0 ** np.arange(3.0, 30.0, 2.0))]
)  # heights a factor 4 apart
FALLEN = -36.0  # log of the integrand over its peak at which the contour ends
NODE_COUNTS = (48, 96, 192, 384, 768, 1536)
NODES_AGREE = 3e-10  # agreement with half the nodes; halving the spacing squares the error, or better
NOISY = -22.0  # log of a rounding error, over the peak, that no contour may meet
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
        narrow = high - low < 1e-9 * centre
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


class Nodes(NamedTuple):
    """Points of the upper half line, ds/du du / (i pi) there, K, and bounds on K's error."""

    order: Complexes
    weight: Complexes
    cumulant: Complexes
    rounding: Floats
    left_out: float = 0.0

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope in epsilon, and a bound on its error (infinite where nothing settled)."""
        value, slope, error = self.log_deltas(np.array([epsilon]))
        return float(value[0]), float(slope[0]), float(error[0])

    @np.errstate(all="ignore")
    def log_deltas(self, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """The same at many epsilons."""
        exponent = self.cumulant - np.multiply.outer(levels, self.order)
        terms = exponent + (
            np.log(self.weight) - np.log(self.order) - np.log1p(self.order)
        )
        missing = self.order[0].real < 0.0  # then the sum is delta - 1
        peak = terms.real.max(axis=1)
        values = np.exp(terms - peak[:, None])
        if missing:
            sign = -1.0
        else:
            sign = 1.0
        fine = sign * values.real.sum(axis=1)
        coarse = sign * 2.0 * values[:, ::2].real.sum(axis=1)
        size = np.abs(values)
        apart = np.abs(fine - coarse) / fine
        settled = (apart <= NODES_AGREE) & (size[:, -1] <= 1e-11 * fine)
        exact = UNIT_ROUNDOFF * (16.0 + 4.0 * np.abs(exponent))
        beyond = size[:, -1] * size.shape[1]  # it falls at least as e^-u there
        error = (
            ((size * (self.rounding + exact)).sum(axis=1) + beyond) / fine
            + apart**1.5
            + RESOLVED
        )
        slope = -sign * (values * self.order).real.sum(axis=1) / fine
        value = peak + np.log(fine)
        if missing:
            rest = -np.expm1(value)
            value = np.log(np.maximum(rest, 1e-300))
            slope = -slope * (1.0 - rest) / rest
            error = error * (1.0 - rest) / rest
        error += self.left_out * np.exp(np.minimum(-value, 700.0))
        error += 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(peak) + np.abs(value))
        error = np.where(settled, error, math.inf)
        known = np.isfinite(peak) & (fine > 0.0)
        return (
            np.where(known, value, math.nan),
            np.where(known, slope, math.nan),
            np.where(known, error, math.inf),
        )


class Contour:
    """The line through one saddle; what the sums inside M need is prepared once for each range of heights."""

    def __init__(self, parts: Parts, at: Saddle) -> None:
        self.parts = parts
        self.at = at
        self._sums: dict[tuple[int, int], Sums | None] = {}

    def place(self, u: Floats) -> tuple[Complexes, Complexes]:
        """The points of the contour and ds/du / i."""
        return self.at.centre + 1j * self.at.width * np.sinh(
            u
        ), self.at.width * np.cosh(u)

    def nodes(self, u: Floats, step: float) -> Nodes:
        """Nodes at the parameters u, a step apart."""
        order, swing = self.place(u)
        weight = swing * (step / math.pi) * np.where(u == 0.0, 0.5, 1.0)
        return Nodes(order, weight, *self.cumulant(u, order), self.parts.left_out)

    def cumulant(self, u: Floats, order: Complexes) -> tuple[Complexes, Floats]:
        """K at points of the line, with the bound of its rounding."""
        value, rounding = self.parts.companions.cumulant(order)
        blocks = np.searchsorted(HEIGHT_RANGES, u, side="right") - 1
        for block in np.unique(blocks):
            rows = np.flatnonzero(blocks == block)
            ends, _ = self.place(HEIGHT_RANGES[block : block + 2])
            for index, (step, count) in enumerate(self.parts.steps):
                if (index, block) not in self._sums:
                    self._sums[index, block] = step.sums(
                        ends, count, self.parts.cap(step)
                    )
                sums = self._sums[index, block]
                if sums is None:
                    value[rows] = np.nan
                    continue
                moments = sums.moments(order[rows])
                value[rows] += count * moments.log_moment
                rounding[rows] += count * moments.rounding
        return value, rounding

    def extent(self, epsilon: float) -> float:
        """The u at which the integrand has fallen for good; infinite where it does not or where rounding is met."""
        limit = NOISY + math.log1p(abs(self.at.centre * epsilon))
        fell = np.zeros(0, dtype=bool)
        for start in range(0, LINE_PROBES.size, 4):
            u = LINE_PROBES[start : start + 4]
            order, swing = self.place(u)
            value, rounding = self.cumulant(u, order)
            terms = (
                value
                - order * epsilon
                - np.log(order)
                - np.log1p(order)
                + np.log(swing / self.at.width)
            )
            size = terms.real - self.at.peak
            fell = np.concatenate(
                [fell, size < FALLEN]
            )  # moments may cross zero and come back
            noisy = ~np.isfinite(size) | (size + np.log(rounding + 1e-300) > limit)
            if np.any(noisy & ~np.logical_or.accumulate(fell)[start:]):
                break
            if (stays := np.convolve(fell, np.ones(STAYS), "valid") == STAYS).any():
                return float(LINE_PROBES[int(np.argmax(stays))])
        return math.inf

    def settle(self, epsilon: float, extent: float) -> Nodes:
        """Nodes up to the extent, doubled until delta at epsilon settles."""
        step = extent / NODE_COUNTS[0]
        nodes = self.nodes(step * np.arange(NODE_COUNTS[0] + 1.0), step)
        before = math.nan
        for count in NODE_COUNTS[1:]:
            value, _, error = nodes.log_delta(epsilon)
            if math.isfinite(error) or not np.all(np.isfinite(nodes.cumulant)):
                break
            last = (
                np.log(nodes.weight[-1] / nodes.order[-1] ** 2)
                + nodes.cumulant[-1]
                - nodes.order[-1] * epsilon
            )
            open_end = (
                count > NODE_COUNTS[1]
                and self.at.centre > 0.0
                and last.real > value - 18.0
            )
            if open_end or (
                count > NODE_COUNTS[2] and not abs(value - before) < 0.25
            ):  # digits double with nodes
                break
            before = value
            step = extent / count  # the nodes so far are every second one
            between = self.nodes(step * np.arange(1.0, count, 2.0), step)
            halves = nodes._replace(weight=0.5 * nodes.weight)
            joined: list[Any] = [
                np.empty(count + 1, dtype=column.dtype) for column in halves[:-1]
            ]
            for column, even, odd in zip(joined, halves[:-1], between):
                column[::2], column[1::2] = even, odd
            nodes = Nodes(joined[0], joined[1], joined[2], joined[3], nodes.left_out)
        return nodes
