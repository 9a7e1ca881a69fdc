"""Two families of pairs by their usual parameters, in log space: mean shifts and equal ratios.

Both are one term of the spectrum. As differences of two probabilities (Balle and Wang 2018; NDIS Lemma 4) they cancel
for close pairs and underflow where delta is small; the contour integral does neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.spectrum.arguments import epsilon_array, float_array, require_finite
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.terms import energy_of
from gaussveil.typing import Floats


def log_delta_mean_shift(shift: Any, epsilon: Any) -> Floats:
    """log delta of N(shift, 1) against N(0, 1): Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t) (NDIS Proposition 1)."""
    t, eps = np.broadcast_arrays(
        _finite("shift", shift), epsilon_array(epsilon, np.zeros(0))
    )
    loss = PrivacyLoss.from_terms([0.0], [1.0], energy_of(t)[..., None])
    return np.asarray(loss.log_delta(eps))[()]


def log_delta_equal_ratios(ratio: Any, degrees: Any, epsilon: Any) -> Floats:
    """log delta of N(0, ratio I) against N(0, I) in `degrees` dimensions, either direction (NDIS Lemma 4)."""
    tau, size, eps = np.broadcast_arrays(
        _finite("ratio", ratio),
        _finite("degrees", degrees),
        epsilon_array(epsilon, np.zeros(0)),
    )
    if np.any(tau <= 0.0):
        raise ParameterError(
            "'ratio' must be > 0: it is a ratio of variances. Got a value <= 0."
        )
    if np.any(size < 1.0):
        raise ParameterError("'degrees' must be >= 1. Got a smaller value.")
    wide = PrivacyLoss.from_terms(
        1.0 - np.maximum(tau, 1.0 / tau)[..., None], size[..., None], 0.0
    )
    ahead, back = (np.asarray(side.log_delta(eps)) for side in (wide, wide.reversed()))
    return np.asarray(np.where(tau < 1.0, back, ahead))[()]


def _finite(name: str, value: Any) -> Floats:
    array: Floats = np.asarray(float_array(name, value))
    require_finite(name, array)
    return array
