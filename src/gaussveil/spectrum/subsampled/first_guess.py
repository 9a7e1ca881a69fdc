"""Where an epsilon is looked for first: rough, and of no consequence for what is found."""

from __future__ import annotations

import math

import scipy

from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.step import Step


def saddlepoint_epsilon(parts: Parts, goal: float) -> float:
    """Epsilon by the saddlepoint approximation log delta = K(c) - c K'(c) - log(c (1+c) sqrt(2 pi K''(c))).

    Near an order log delta falls by it for each epsilon, which also bridges orders at which a rare output takes over.
    """
    low, high, epsilon = 0.0, parts.gaussians.highest_order, 0.0
    order = parts.start(math.sqrt((1.0 - 2.0 * goal) / parts.real_moments(0.0)[2]), math.sqrt(-2.0 * goal))
    for _ in range(16):
        value, mean, variance = parts.real_moments(order)
        spread = order * (1.0 + order) * math.sqrt(2.0 * math.pi * variance) + 1.0
        found = value - order * mean - math.log(spread) if math.isfinite(value) else -math.inf  # the windows' end
        if found > goal or (low == 0.0 and math.isfinite(found)):
            epsilon = max(mean + (found - goal) / order, 0.0)
        if abs(found - goal) < 0.5:
            return max(mean + (found - goal) / order, 0.0)
        if high < 1.01 * low:
            break
        low, high = (order, high) if found > goal else (low, order)
        newton = (found - goal) / (order * order * variance + 1.0) if math.isfinite(found) else -3.0
        step = order * math.exp(max(-3.0, min(newton, 3.0)))
        middle = math.sqrt(low * high) if low > 0.0 else 0.1 * high
        order = step if low < step < high else middle if math.isfinite(high) else 2.0 * order
    return epsilon


def single_epsilon_guess(step: Step, goal: float) -> float:
    """About the epsilon at which log delta of one step is the goal."""
    low, high = 1e-12, 1e3
    for _ in range(50):
        middle = math.sqrt(low * high)
        raised, edge = math.expm1(min(middle, 700.0)) + step.sampling_rate, step.place(middle)
        part = math.log(step.sampling_rate) + float(scipy.special.log_ndtr(1.0 / step.noise_multiplier - edge))
        rest = math.log(raised) + float(scipy.special.log_ndtr(-edge)) - part
        found = part + math.log(-math.expm1(rest)) if rest < 0.0 else -math.inf
        low, high = (middle, high) if found > goal else (low, middle)
    return high
