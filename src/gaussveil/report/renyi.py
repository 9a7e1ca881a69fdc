"""The bound that most libraries report, drawn beside the exact curve: Renyi divergences on a fixed list of orders."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.spectrum import PrivacyLoss

# The customary orders of Renyi accountants: tenths from 1.1 to 10.9, integers to 63, then powers of two.
ORDERS = np.array([*(1.0 + k / 10.0 for k in range(1, 100)), *range(11, 64), 128, 256, 512, 1024], dtype=np.float64)


def renyi_delta(loss: PrivacyLoss, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Bound delta(epsilon) in both directions by the best of the customary orders.

    The conversion is the sharp one of Canonne, Kamath and Steinke (2020), Proposition 12:
    delta <= exp((a-1)(D_a - epsilon)) / (a-1) * (1-1/a)^a.
    """
    return np.maximum(_one_direction(loss, epsilon), _one_direction(loss.reversed(), epsilon))


def _one_direction(loss: PrivacyLoss, epsilon: ArrayLike) -> NDArray[np.float64]:
    a = ORDERS
    divergence = np.asarray(loss.renyi(a))
    usable = np.isfinite(divergence)
    a, divergence = a[usable], divergence[usable]
    at = np.asarray(epsilon, dtype=np.float64)[..., np.newaxis]
    log_delta = (a - 1.0) * (divergence - at) - np.log(a - 1.0) + a * np.log1p(-1.0 / a)
    best: NDArray[np.float64] = np.exp(log_delta.min(axis=-1, initial=0.0))
    return best


def renyi_epsilon(loss: PrivacyLoss, delta: float) -> float:
    """Return the epsilon that the same bound gives at delta, the worse of both directions; inf if no order is finite.

    The bound solved for epsilon order by order, then the best order (the same Proposition 12).
    """
    a = ORDERS
    worst = 0.0
    for direction in (loss, loss.reversed()):
        divergence = np.asarray(direction.renyi(a))
        bounds = divergence + (a * np.log1p(-1.0 / a) - np.log(a - 1.0) - np.log(delta)) / (a - 1.0)
        worst = max(worst, float(bounds.min()))
    return worst
