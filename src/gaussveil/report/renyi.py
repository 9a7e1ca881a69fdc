"""The bound that most libraries report, drawn beside the exact curve: Renyi divergences on a fixed list of orders."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.spectrum import PrivacyLoss

# The customary orders of Renyi accountants: tenths from 1.1 to 10.9, integers to 63, then powers of two.
ORDERS = np.array(
    [*(1.0 + k / 10.0 for k in range(1, 100)), *range(11, 64), 128, 256, 512, 1024],
    dtype=np.float64,
)
CONVERSION = ORDERS * np.log1p(-1.0 / ORDERS) - np.log(ORDERS - 1.0)


def renyi_delta(loss: PrivacyLoss, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Bound delta(epsilon) in both directions by the best of the customary orders.

    The conversion is the sharp one of Canonne, Kamath and Steinke (2020), Proposition 12:
    delta <= exp((a-1)(D_a - epsilon)) / (a-1) * (1-1/a)^a.
    """
    at = np.asarray(epsilon, dtype=np.float64)[..., np.newaxis]
    each = (np.asarray(one.renyi(ORDERS)) for one in (loss, loss.reversed()))
    logs = (
        ((ORDERS - 1.0) * (divergence - at) + CONVERSION).min(axis=-1, initial=0.0)
        for divergence in each
    )
    return np.asarray(np.exp(np.maximum(*logs)), dtype=np.float64)


def renyi_epsilon(loss: PrivacyLoss, delta: float) -> float:
    """The epsilon that the same bound gives at delta, the worse of both directions; inf if no order is finite."""
    each = (np.asarray(one.renyi(ORDERS)) for one in (loss, loss.reversed()))
    return max(
        0.0,
        *(
            float(np.min(one + (CONVERSION - np.log(delta)) / (ORDERS - 1.0)))
            for one in each
        ),
    )
