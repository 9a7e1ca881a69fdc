"""The additive Wishart mechanism exactly as printed (GMM eq. (6) and Lemma 2). NOT private: see docs/corrections G-a.

Lemma 2 claims (epsilon, 0). But covariance plus Wishart noise is never below the covariance: outputs of neighbours lie
in different cones, and an output outside the neighbour's cone convicts with certainty, whatever epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gaussveil.typing import Floats


def wishart_rate(count: int, epsilon: float) -> float:
    """The largest gamma that Lemma 2 allows: 3 gamma <= 2 N epsilon, for N rows of norm at most one."""
    return 2.0 * count * epsilon / 3.0


def additive_wishart(
    covariance: Any, rate: float, generator: np.random.Generator, draws: int = 1
) -> Floats:
    """Draw covariance + W with W ~ Wishart(I/rate, d+1), `draws` times (GMM eq. (6))."""
    centre = np.asarray(covariance, dtype=np.float64)
    size = len(centre)
    roots = generator.normal(scale=rate**-0.5, size=(draws, size, size + 1))
    result: Floats = centre + roots @ roots.swapaxes(1, 2)
    return result


def escape_probability(rate: float, squared_norm: float) -> float:
    """Chance that an output on S lies outside the cone of S + vv', |v|^2 given: delta is at least this, at every
    epsilon (v' W^-1 v is rate |v|^2 over a chi-square with two degrees of freedom; derived: docs/audit.md).
    """
    return -math.expm1(-rate * squared_norm / 2.0)


def evidence(outputs: Floats, larger_covariance: Any) -> Floats:
    """Score of outputs: +inf where an output lies outside the cone of the larger covariance, which therefore did not
    produce it, and 0 elsewhere.
    """
    smallest = np.linalg.eigvalsh(outputs - np.asarray(larger_covariance))[:, 0]
    # Inside the cone the smallest eigenvalue is almost surely positive; rounding gets the benefit of the doubt.
    scale = np.max(np.abs(outputs), axis=(1, 2))
    return np.where(smallest < -1e-12 * scale, np.inf, 0.0)
