"""Where an epsilon is looked for first: rough, and of no consequence for what is found."""

from __future__ import annotations

import math

import scipy

from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.step import Step


def saddlepoint_epsilon(parts: Parts, goal: float) -> float:
    """Epsilon by the saddlepoint approximation log delta = K(c) - c K'(c) - log(c (1+c) sqrt(2 pi K''(c))).

    Near an order log delta falls by it for each epsilon, which also bridges orders at which a rare output takes over.
    """
    low = 0.0
    high = parts.companions.highest_order
    epsilon = 0.0
    order = parts.start(
        math.sqrt((1.0 - 2.0 * goal) / parts.real_moments(0.0)[2]),
        math.sqrt(-2.0 * goal),
    )
    for _ in range(16):
        value, mean, variance = parts.real_moments(order)
        spread = order * (1.0 + order) * math.sqrt(2.0 * math.pi * variance) + 1.0
        # the windows' end
        if math.isfinite(value):
            log_delta = value - order * mean - math.log(spread)
        else:
            log_delta = -math.inf
        if log_delta > goal or (low == 0.0 and math.isfinite(log_delta)):
            epsilon = max(mean + (log_delta - goal) / order, 0.0)
        if abs(log_delta - goal) < 0.5:
            return max(mean + (log_delta - goal) / order, 0.0)
        if high < 1.01 * low:
            break
        if log_delta > goal:
            low = order
        else:
            high = order
        if math.isfinite(log_delta):
            newton = (log_delta - goal) / (order * order * variance + 1.0)
        else:
            newton = -3.0
        order *= math.exp(max(-3.0, min(newton, 3.0)))
        if not low < order < high:
            if low > 0.0 and high < math.inf:
                order = math.sqrt(low * high)
            else:
                order = 0.1 * high
        if order == math.inf:
            order = 2.0 * low
    return epsilon


def single_epsilon_guess(step: Step, goal: float) -> float:
    """About the epsilon at which log delta of one step is the goal."""

    def look(log_epsilon: float) -> Trial:
        return Trial(single_log_delta(step, math.exp(log_epsilon)) - goal)

    return math.exp(private_end(look, 0.0, math.log(1e-12), math.log(1e3), rtol=1e-4))


def single_log_delta(step: Step, epsilon: float) -> float:
    """About log delta of one step: what X has beyond the output whose loss is epsilon, less e^epsilon times Y's."""
    raised = math.expm1(min(epsilon, 700.0)) + step.sampling_rate
    edge = step.place(epsilon)
    part = math.log(step.sampling_rate) + float(
        scipy.special.log_ndtr(1.0 / step.noise_multiplier - edge)
    )
    rest = math.log(raised) + float(scipy.special.log_ndtr(-edge)) - part
    if rest < 0.0:
        return part + math.log(-math.expm1(rest))
    return -math.inf
