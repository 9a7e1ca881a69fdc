"""One budget for several Gaussian releases of the same records: which noise each of them has."""

from __future__ import annotations

import numpy as np

from gaussveil.typing import Floats


def noise_scales(mean_shift: float, weights: Floats, squared_sensitivities: Floats) -> Floats:
    """Standard deviations that minimise sum w_j s_j^2 subject to sum b_j / s_j^2 = mean_shift^2 (Lagrange).

    The squared mean shifts b_j / s_j^2 of releases add up; w_j says what a unit of variance of release j costs.
    """
    roots = np.sqrt(weights * squared_sensitivities)
    return np.asarray(np.sqrt(np.sqrt(squared_sensitivities / weights) * roots.sum()) / mean_shift)
