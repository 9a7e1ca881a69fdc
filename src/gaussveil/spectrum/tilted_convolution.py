"""Sums of independent discrete losses by FFT, with every error bounded and charged.

Masses are multiplied by e^{s loss} for a few orders s before they are convolved. Each s resolves the masses around its
own mean to full relative precision, so deltas of 1e-30 keep their sense; one plain FFT loses all below 1e-16.
Every bin gets the smallest of the values found plus their error bound (derived: docs/math): where each Fourier
coefficient of masses of sum 1 is wrong by at most r = 16 u log2 N, and b = |coefficient| + r,

    |error of each bin| <= (1/N) sum over frequencies of B (sum_i n_i r / b_i + rounding of powers + r),

B = prod_i b_i^n_i.

Mass that the window of bins cuts off above is bounded by Chernoff's inequality and put at infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft

from gaussveil.spectrum.curve import UNIT, Floats
from gaussveil.spectrum.loss_masses import LossMasses

_SMALLEST = 1e-290  # charged once for everything that may have underflowed
_LOWER_TAIL = 1e-20  # only costs tightness: the mass is moved up to the lowest bin
_LOOSENESS = 1e-6  # share of error bounds in a tail at which another order is worth its time
_MOST_ORDERS = 12
_SMALLEST_ADVANCE = 5  # in a list of orders that grow by 9 % each

Parts = list[tuple[LossMasses, int]]


@dataclass(frozen=True)
class Plan:
    """Window of bins and candidate orders of a convolution. Any choice is sound; a good one is tight."""

    bottom: float
    top: float
    bottom_order: float
    top_order: float
    tail_mass: float
    orders: Floats
    means: Floats

    @staticmethod
    def of(parts: Parts, tail_mass: float) -> Plan:
        """A plan from the masses, which may be on grids of their own."""
        interval = max(part.interval for part, _ in parts)
        spread = max(math.sqrt(_moments(parts, 0.0)[2]), interval)
        orders = np.geomspace(0.01, 1e4, 160) / spread
        moments = [_moments(parts, order) for order in orders]
        top, top_order = min(((m[0] - math.log(tail_mass)) / s, float(s)) for m, s in zip(moments, orders))
        bottom, bottom_order = max(
            ((math.log(_LOWER_TAIL) - _moments(parts, -s)[0]) / s, -float(s)) for s in orders[::4]
        )
        top = min(top + interval, sum(count * part.last * part.interval for part, count in parts))
        bottom = max(bottom - interval, sum(count * part.first * part.interval for part, count in parts))
        means = np.array([mean for _, mean, _ in moments])
        return Plan(min(bottom, top), top, bottom_order, top_order, tail_mass, orders, means)


def _moments(parts: Parts, order: float) -> tuple[float, float, float]:
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


def convolved(parts: Parts, plan: Plan) -> LossMasses:
    """Upper ends of the masses of the sum of independent losses."""
    interval, uses = parts[0][0].interval, sum(count for _, count in parts)
    first = math.floor(plan.bottom / interval)
    size = int(fft.next_fast_len(math.ceil(plan.top / interval) - first + 1, real=True))
    loss = interval * np.arange(first, first + size)
    best, excess = np.full(size, np.inf), np.full(size, np.inf)
    order, index = 0.0, -1
    for _ in range(_MOST_ORDERS):
        tilted, error, log_scale, slack = _tilted_convolution(parts, order, size)
        # Bins are kept modulo size: what lies outside the window only adds to the bins inside.
        factor = np.exp(np.minimum(log_scale - order * loss + slack, 700.0))
        upper = np.maximum(np.roll(tilted, -(first % size)) + error, 0.0) * factor
        excess = np.where(upper < best, 2.0 * error * factor, excess)
        best = np.minimum(best, upper)
        # The next order is the one whose mean sits where tails begin to consist of error bounds.
        tails = np.cumsum(best[::-1])[::-1]
        loose = (np.cumsum(excess[::-1])[::-1] > _LOOSENESS * tails) & (tails > plan.tail_mass)
        loose &= loss > (plan.means[index] if index >= 0 else -np.inf)
        beyond = plan.means >= loss[int(np.argmax(loose))]
        index = max(index + _SMALLEST_ADVANCE, int(np.argmax(beyond)))
        if not loose.any() or not beyond.any() or index >= plan.orders.size:
            break
        order = float(plan.orders[index])
    rounding = 1.0 + uses * 64.0 * UNIT * math.log2(size + 2)
    if first > sum(count * part.first for part, count in parts):
        best[0] += _chernoff(parts, plan.bottom_order, loss[0])
    finite = [float(part.mass.sum()) for part, _ in parts]
    if min(finite) <= 0.0:
        return LossMasses(interval, first, best, 1.0)
    log_finite = sum(count * math.log(total) for total, (_, count) in zip(finite, parts))
    log_odds = sum(count * math.log1p(part.infinity / total) for total, (part, count) in zip(finite, parts))
    infinity = math.exp(min(log_finite, 700.0)) * math.expm1(min(log_odds, 700.0)) * rounding + _SMALLEST
    if first + size - 1 < sum(count * part.last for part, count in parts):
        infinity += _chernoff(parts, plan.top_order, loss[-1] + interval)
    keep = max(0, min(-first, size - 1))  # bins below a loss of 0 never count for epsilon >= 0
    return LossMasses(interval, first + keep, best[keep:], min(infinity, 1.0))


def _chernoff(parts: Parts, order: float, loss: float) -> float:
    """Bound on the mass beyond a loss, on the side of the order's sign."""
    log_moment = _moments(parts, order)[0]
    slack = 1e-12 * (1.0 + abs(log_moment) + abs(order * loss) + sum(count for _, count in parts))
    return math.exp(min(log_moment - order * loss + slack, 0.0)) * 1.001


def _tilted_convolution(parts: Parts, order: float, size: int) -> tuple[Floats, float, float, float]:
    """Circular convolution of masses times e^{order loss}, its error, its log scale and the slack in that."""
    coefficient_error = 16.0 * UNIT * math.log2(size + 2)
    log_size = np.zeros(size // 2 + 1)
    phase, log_bound, relative = np.zeros_like(log_size), np.zeros_like(log_size), np.zeros_like(log_size)
    log_scale = slack = 0.0
    for part, count in parts:
        bins = np.arange(part.first, part.last + 1)
        exponent = order * part.interval * bins
        log_moment = _moments([(part, 1)], order)[0]
        weight = part.mass * np.exp(np.minimum(exponent - log_moment, 700.0))
        transform = fft.rfft(np.bincount(bins % size, weights=weight, minlength=size))
        modulus = np.abs(transform)
        bound = modulus + coefficient_error
        log_modulus = np.log(np.maximum(modulus, 1e-300))
        log_size += count * log_modulus
        phase += count * np.angle(transform)
        log_bound += count * np.log(bound)
        relative += count * (coefficient_error / bound + 8.0 * UNIT * (6.0 - np.minimum(np.log(bound), 0.0)))
        log_scale += count * log_moment
        slack += count * 4.0 * UNIT * (4.0 + abs(log_moment) + float(np.max(np.abs(exponent))))
    composed = fft.irfft(np.exp(log_size) * (np.cos(phase) + 1j * np.sin(phase)), n=size)
    error = 2.02 / size * float(np.sum(np.exp(log_bound) * (relative + coefficient_error)))
    slack += 8.0 * UNIT * (4.0 + abs(log_scale) + abs(order) * parts[0][0].interval * size)
    return composed, error, log_scale, slack
