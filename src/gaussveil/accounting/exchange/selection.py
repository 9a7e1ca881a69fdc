"""The best of a random number of runs, from the divergences of one (Papernot, Steinke 2022, Theorems 2 and 6)."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.spectrum import PrivacyCurve
from gaussveil.spectrum.renyi_bounds import RenyiBound
from gaussveil.spectrum.turns import turn
from gaussveil.typing import Floats

HALVINGS = 1100  # of the logarithm of gamma


def best_of_many(
    once: RenyiBound, loss: PrivacyCurve, mean: float, shape: float
) -> RenyiBound:
    """The bound for the best of `mean` runs as expected, their number Poisson where `shape` is infinite."""
    orders = np.array(once.orders)
    divergences = np.array(once.divergences)
    if shape == math.inf:
        chances = mean * _worst_delta(
            loss, np.log1p(1.0 / (orders - 1.0)) * (1.0 - 1e-15)
        )
    else:
        gamma = _least_gamma(mean, shape)
        chances = (1.0 + shape) * np.min(
            (1.0 - 1.0 / orders) * divergences - math.log(gamma) / orders
        )
    bounds = divergences + chances + math.log(mean) / (orders - 1.0)
    # divergences grow with the order
    falling = np.minimum.accumulate(bounds[::-1])[::-1]
    return RenyiBound(once.orders, tuple(falling * (1.0 + 1e-12)))


def _worst_delta(loss: PrivacyCurve, levels: Floats) -> Floats:
    """Upper end of delta at some epsilons, of the worse direction at each."""
    deltas = [
        np.asarray(side.delta(levels)) * (1.0 + side.relative_error)
        for side in (loss, loss.reversed())
    ]
    worst: Floats = np.max(deltas, axis=0)
    return worst


def _least_gamma(mean: float, shape: float) -> float:
    """The lower end of gamma, at which that many runs are expected."""

    def expects_fewer(gamma: float) -> bool:
        log = math.log(gamma)
        if shape == 0.0:
            share = -log
        else:
            share = -math.expm1(shape * log) / shape
        return not (1.0 - gamma) / gamma > mean * share

    return turn(
        expects_fewer, 1e-300, 1.0, rtol=1e-12, by_ratio=True, looks=HALVINGS
    ).before
