"""How far a correlation may lie from that of correlated normal scores which hang together as strongly.

Columns of a series that are no neighbours are drawn by correlated normal scores; only how strongly they hang together
was released, not where. Laws whose low values hang together, or whose high ones do (Clayton 1978 and its mirror image),
as strongly by Kendall's tau, stand for what real columns do: of skewed columns the correlations differ by much.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.typing import Floats

POINTS = 4096
GOLDEN = (5**0.5 - 1) / 2
NO_TAU = 1e-3
EDGE = 1e-9


def correlation_room(
    first: Marginal, second: Marginal, correlations: Floats, weights: Floats
) -> tuple[float, float]:
    """By how much the columns' correlation may be smaller, and larger, than that of correlated normal scores.

    Args:
        first, second: the columns' laws by class.
        correlations: of their scores, by class.
        weights: of the classes.
    """
    rooms = [
        _room_of_class(first, second, group, float(one))
        for group, one in enumerate(correlations)
    ]
    low, high = weights @ np.array(rooms) / weights.sum()
    return float(low), float(high)


def _room_of_class(
    first: Marginal, second: Marginal, group: int, correlation: float
) -> tuple[float, float]:
    tau = 2 / np.pi * np.arcsin(correlation)
    if abs(tau) < NO_TAU:
        return 0.0, 0.0
    one = (np.arange(POINTS) + 0.5) / POINTS
    other = np.clip(np.arange(1, POINTS + 1) * GOLDEN % 1.0, EDGE, 1 - EDGE)
    rest = np.sqrt(1 - correlation**2)
    normal = ndtr(correlation * ndtri(one) + rest * ndtri(other))
    low_end = _clayton(one, other, abs(float(tau)))
    if tau < 0:
        low_end = 1 - low_end
    plain, low, high = (
        _correlation(first, second, group, *pair)
        for pair in ((one, normal), (one, low_end), (1 - one, 1 - low_end))
    )
    return max(plain - min(low, high), 0.0), max(max(low, high) - plain, 0.0)


def _clayton(one: Floats, other: Floats, tau: float) -> Floats:
    """A second share for each first, so that low ones hang together with this tau."""
    theta = 2 * tau / (1 - tau)
    inner = one**-theta * (other ** (-theta / (1 + theta)) - 1) + 1
    return np.asarray(np.clip(inner ** (-1 / theta), EDGE, 1 - EDGE))


def _correlation(
    first: Marginal, second: Marginal, group: int, one: Floats, other: Floats
) -> float:
    """Of the numbers below which these shares of both columns lie."""
    score, follower = (ndtri(np.clip(share, EDGE, 1 - EDGE)) for share in (one, other))
    ahead = first.numbers(score, group)
    behind = second.numbers(follower, group)
    if min(float(np.ptp(ahead)), float(np.ptp(behind))) == 0:
        return 0.0
    return float(np.corrcoef(ahead, behind)[0, 1])
