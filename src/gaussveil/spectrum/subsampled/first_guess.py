"""Where an epsilon is looked for first: rough, and of no consequence for what is found."""

from __future__ import annotations

import math

import numpy as np
import scipy

from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.bands import Band, Chosen, chosen_bands
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.double_bands import TRUSTED_CHANGE
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


def saddlepoint_of_bands(
    parts: Parts, goal: float, epsilon: float
) -> tuple[float, Chosen | None]:
    """About the epsilon at which log delta is the goal, and the bands chosen there, if they were looked at.

    From an epsilon on, by the saddlepoint approximation of each band.
    """
    low = 0.0
    high = math.inf
    for _ in range(12):
        chosen = chosen_bands(parts, epsilon)
        if chosen is None:
            break
        tilts = np.array([c for _, c in chosen.bands])
        sizes = np.array([_saddlepoint(band, c, epsilon) for band, c in chosen.bands])
        top = float(sizes.max())
        shares = np.exp(sizes - top)
        excess = top + math.log(shares.sum()) - goal
        slope = -float(shares @ tilts / shares.sum())
        if not abs(excess) > 0.6 * TRUSTED_CHANGE or epsilon == 0.0:
            return epsilon, chosen
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        epsilon = max(far_from_root(epsilon, excess, slope), 0.0)
        if not low < epsilon < high and low > 0.0:
            epsilon = math.sqrt(low * high)
    return epsilon, None


def _saddlepoint(band: Band, c: float, epsilon: float) -> float:
    """About the log of a band's share in delta, by K and its differences at c."""
    step = 0.02 * c
    below, value, above = band.real(np.array([c - step, c, c + step]))[0]
    force = (above - below) / (2.0 * step) - epsilon - 1.0 / c - 1.0 / (1.0 + c)
    bend = max((above - 2.0 * value + below) / step**2, 0.0)
    bend = bend + c**-2 + (1.0 + c) ** -2
    value -= (
        c * epsilon
        + math.log(c * (1.0 + c) * math.sqrt(2.0 * math.pi * bend))
        + 0.5 * force**2 / bend
    )
    return float(value)


def far_from_root(epsilon: float, excess: float, slope: float) -> float:
    """Newton's step; in log eps if that is shorter, as with few steps log delta is more nearly linear in it."""
    straight = epsilon - excess / slope
    change = excess / (-slope * max(epsilon, 1e-300))
    if change < -5.0:
        return straight
    if excess > 0.0:
        return min(straight, epsilon * math.exp(min(change, 1.5)))
    return epsilon * math.exp(change)
