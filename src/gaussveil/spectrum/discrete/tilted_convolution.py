"""Sums of independent discrete losses by FFT, with every error bounded and charged (derived: docs/math/profiles).

Masses are multiplied by e^{s loss} for a few orders s before they are convolved. Each s resolves the masses around its
own mean to full relative precision, so deltas of 1e-30 keep their sense; one plain FFT loses all below 1e-16. Every
delta is the smallest of the values found plus their error bound. Mass beyond the window is put at infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.discrete.masses import LossCurve, LossMasses
from gaussveil.typing import Floats

_SMALLEST = 1e-290  # charged once for everything that may have underflowed
_LOWER_TAIL = 1e-20  # only costs tightness: that mass is wrapped around into the window
_LOOSENESS = (
    1e-6  # share of error bounds in a tail at which another order is worth its time
)
_MOST_ORDERS = 12
_SMALLEST_ADVANCE = 5  # in a list of orders that grow by 9 % each

CountedMasses = list[tuple[LossMasses, int]]


@dataclass(frozen=True)
class ConvolutionPlan:
    """Window of bins and candidate orders of a convolution. Any choice is sound; a good one is tight."""

    bottom: float
    top: float
    top_order: float
    tail_mass: float
    orders: Floats
    means: Floats

    @staticmethod
    def of(parts: CountedMasses, tail_mass: float) -> ConvolutionPlan:
        """A plan from the masses, which may be on grids of their own."""
        interval = max(part.interval for part, _ in parts)
        spread = max(math.sqrt(moments(parts, 0.0)[2]), interval)
        orders = np.geomspace(0.01, 1e4, 160) / spread
        looks = [moments(parts, order) for order in orders]
        top, top_order = min(
            ((m[0] - math.log(tail_mass)) / s, float(s)) for m, s in zip(looks, orders)
        )
        bottom = max(
            (math.log(_LOWER_TAIL) - moments(parts, -s)[0]) / s for s in orders[::4]
        )
        top = min(
            top + interval,
            sum(count * part.last * part.interval for part, count in parts),
        )
        bottom = max(
            bottom - interval,
            sum(count * part.first * part.interval for part, count in parts),
        )
        means = np.array([mean for _, mean, _ in looks])
        return ConvolutionPlan(
            min(bottom, top), top, top_order, tail_mass, orders, means
        )


def moments(parts: CountedMasses, order: float) -> tuple[float, float, float]:
    """Log moment of the composed loss at an order, and the tilted mean and variance."""
    log_moment = mean = variance = 0.0
    for part, count in parts:
        loss = part.interval * np.arange(part.first, part.last + 1)
        peak = float(np.max(order * loss[part.mass > 0.0], initial=-1e300))
        weight = part.mass * np.exp(np.minimum(order * loss - peak, 0.0))
        total = max(float(weight.sum()), 1e-300)
        centre = float(weight @ loss) / total
        log_moment += count * (peak + math.log(total))
        mean += count * centre
        variance += count * float(weight @ (loss - centre) ** 2) / total
    return log_moment, mean, variance


def convolved(parts: CountedMasses, plan: ConvolutionPlan) -> LossCurve:
    """Upper ends of delta of the sum of independent losses, at losses >= 0."""
    interval = parts[0][0].interval
    first = math.floor(plan.bottom / interval)
    size = int(
        scipy.fft.next_fast_len(math.ceil(plan.top / interval) - first + 1, real=True)
    )
    kept = max(
        0, min(-first, size - 1)
    )  # bins below a loss of 0 never count for epsilon >= 0
    infinity = _infinite_mass(parts)
    if first + size - 1 < sum(count * part.last for part, count in parts):
        infinity += _chernoff(parts, plan.top_order, interval * (first + size))
    if infinity >= 1.0:
        return LossCurve(interval, first + kept, np.ones(1), 1.0)
    loss = interval * np.arange(first + kept, first + size)
    best = np.full(loss.size, np.inf)
    excess = np.full(loss.size, np.inf)
    order = 0.0
    index = -1
    for _ in range(_MOST_ORDERS):
        tilted, error, log_scale, slack = tilted_convolution(parts, order, size)
        # Bins are kept modulo size: what lies outside the window only adds to the bins inside.
        factor = np.exp(np.minimum(log_scale - order * loss + slack, 600.0))
        mass = np.maximum(np.roll(tilted, -(first % size))[kept:], 0.0) * factor
        # Weights above a bin fall like the factor: their l2 norm is that of a geometric series, or of all bins.
        if order > 0.0:
            series = 1.0 / math.expm1(min(2.0 * order * interval, 600.0))
        else:
            series = math.inf
        length = math.sqrt(min(loss.size, series))
        charged = 1.001 * error * length * factor
        upper = (
            LossMasses(interval, first + kept, mass, 0.0).slope_and_height[1]
            * (1.0 + 8.0 * size * ULP)
            + charged
        )
        excess = np.where(upper < best, 2.0 * charged, excess)
        best = np.minimum(best, upper)
        # The next order is the one whose mean sits where delta begins to consist of error bounds.
        loose = (excess > _LOOSENESS * best) & (best > plan.tail_mass)
        loose &= loss > (plan.means[index] if index >= 0 else -np.inf)
        beyond = plan.means >= loss[int(np.argmax(loose))]
        index = max(index + _SMALLEST_ADVANCE, int(np.argmax(beyond)))
        if not loose.any() or not beyond.any() or index >= plan.orders.size:
            break
        order = float(plan.orders[index])
    return LossCurve(
        interval, first + kept, np.minimum(best + infinity, 1.0), min(infinity, 1.0)
    )


def _infinite_mass(parts: CountedMasses) -> float:
    """Bound on the mass of sums with at least one infinite loss."""
    finite = [float(part.mass.sum()) for part, _ in parts]
    if min(finite) <= 0.0:
        return 1.0
    log_finite = sum(
        count * math.log(total) for total, (_, count) in zip(finite, parts)
    )
    log_odds = sum(
        count * math.log1p(part.infinity / total)
        for total, (part, count) in zip(finite, parts)
    )
    rounding = 1.0 + 1e-12 * sum(count for _, count in parts)
    return (
        math.exp(min(log_finite, 300.0)) * math.expm1(min(log_odds, 300.0)) * rounding
        + _SMALLEST
    )


def _chernoff(parts: CountedMasses, order: float, loss: float) -> float:
    """Bound on the mass beyond a loss, on the side of the order's sign."""
    log_moment = moments(parts, order)[0]
    slack = 1e-12 * (
        1.0 + abs(log_moment) + abs(order * loss) + sum(count for _, count in parts)
    )
    return math.exp(min(log_moment - order * loss + slack, 0.0)) * 1.001


def tilted_convolution(
    parts: CountedMasses, order: float, size: int
) -> tuple[Floats, float, float, float]:
    """Circular convolution of masses times e^{order loss}, its l2 error, its log scale and the slack in that."""
    coefficient_error = 16.0 * ULP * math.log2(size + 2)
    log_size = np.zeros(size // 2 + 1)
    phase = np.zeros_like(log_size)
    log_bound = np.zeros_like(log_size)
    relative = np.zeros_like(log_size)
    log_scale = slack = 0.0
    for part, count in parts:
        bins = np.arange(part.first, part.last + 1)
        exponent = order * part.interval * bins
        log_moment = moments([(part, 1)], order)[0]
        weight = part.mass * np.exp(np.minimum(exponent - log_moment, 700.0))
        transform = scipy.fft.rfft(
            np.bincount(bins % size, weights=weight, minlength=size)
        )
        modulus = np.abs(transform)
        bound = modulus + coefficient_error
        log_modulus = np.log(np.maximum(modulus, 1e-300))
        log_size += count * log_modulus
        phase += count * np.angle(transform)
        log_bound += count * np.log(bound)
        relative += count * (
            coefficient_error / bound
            + 8.0 * ULP * (6.0 - np.minimum(np.log(bound), 0.0))
        )
        log_scale += count * log_moment
        slack += (
            count
            * 4.0
            * ULP
            * (4.0 + abs(log_moment) + float(np.max(np.abs(exponent))))
        )
    composed = scipy.fft.irfft(
        np.exp(log_size) * (np.cos(phase) + 1j * np.sin(phase)), n=size
    )
    bounds = np.exp(log_bound)
    norms = (
        float(np.linalg.norm(bounds * relative)),
        coefficient_error * float(np.linalg.norm(bounds)),
    )
    error = math.sqrt(2.02 / size) * sum(
        norms
    )  # of the coefficients, and of the transform back
    slack += (
        8.0 * ULP * (4.0 + abs(log_scale) + abs(order) * parts[0][0].interval * size)
    )
    return composed, error, log_scale, slack
