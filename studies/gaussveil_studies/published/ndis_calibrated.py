"""NDIS Figure 5, the calibrated Gaussian mechanism, exactly as printed. NOT private: see docs/corrections N2.

Definition 6 bounds the change of covariance by Lemma 2, which speaks of the narrow law against the wide one. What
differential privacy needs as well, and what is larger, is the wide against the narrow one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from gaussveil.errors import ParameterError
from gaussveil.spectrum.curve import mean_shift_delta

Sensitivity = Callable[[float], tuple[float, float, float]]

SPLITS = 24  # of epsilon between mean and covariance, evenly and towards 0, before the best is refined


def published_covariance_bound(
    epsilon: float, log_ratio: float, log_determinant: float, dimension: int
) -> float:
    """Delta of a change of covariance as NDIS Definition 6 claims it; a bound for one direction only.

    phi_s and psi_u are not defined in the paper; those of Lemma 2 are meant. Both are convex and increasing, so that
    A* and B* sit at a vertex: as many entries as fit at `log_ratio`, one at the rest.
    """
    if epsilon >= log_determinant / 2:
        return 0.0
    full = min(dimension, math.floor(log_determinant / log_ratio * (1 + 1e-12)))
    if full < dimension:
        rest = max(0.0, log_determinant - full * log_ratio)
    else:
        rest = 0.0
    largest = 0.5 / math.expm1(log_ratio)

    def first(log_s: float) -> float:
        s = math.exp(log_s)
        phi = [
            s * step - 0.5 * math.log1p(-2 * s * math.expm1(-step))
            for step in (log_ratio, rest)
        ]
        return -2 * epsilon * s + full * phi[0] + phi[1]

    def second(share: float) -> float:
        u = largest * share
        psi = [
            -u * step - 0.5 * math.log1p(-2 * u * math.expm1(step))
            for step in (log_ratio, rest)
        ]
        return 2 * epsilon * u + full * psi[0] + psi[1]

    at_s = min(0.0, minimize_scalar(first, bounds=(-30.0, 30.0), method="bounded").fun)
    at_u = min(
        0.0, minimize_scalar(second, bounds=(0.0, 1.0 - 1e-9), method="bounded").fun
    )
    return max(0.0, math.exp(at_s) + math.exp(epsilon) * math.expm1(at_u))


def published_delta(
    epsilon: float,
    mean_gap: float,
    log_ratio: float,
    log_determinant: float,
    dimension: int,
) -> float:
    """The delta that Definition 6 claims: the best split of epsilon between mean and covariance."""
    if mean_gap == 0:
        return published_covariance_bound(
            epsilon, log_ratio, log_determinant, dimension
        )

    def bound(part: float) -> float:
        change = published_covariance_bound(
            epsilon - part, log_ratio, log_determinant, dimension
        )
        return (
            float(mean_shift_delta(mean_gap, np.asarray(part)))
            + math.exp(part) * change
        )

    parts = epsilon * np.union1d(
        np.linspace(0.0, 1.0, SPLITS), np.geomspace(1e-5, 0.1, SPLITS)
    )
    values = [bound(float(part)) for part in parts]
    best = int(np.argmin(values))
    around = float(parts[max(best - 1, 0)]), float(parts[min(best + 1, len(parts) - 1)])
    return min(
        values[best], float(minimize_scalar(bound, bounds=around, method="bounded").fun)
    )


def published_variance(
    sensitivity: Sensitivity, epsilon: float, delta: float, dimension: int
) -> float:
    """The variance that Figure 5 adds, by bisection.

    `sensitivity` maps a variance to mean gap, log-ratio and log-determinant.
    """
    low = 0.0
    high = 1.0
    while published_delta(epsilon, *sensitivity(high), dimension) > delta:
        low = high
        high = 4 * high
        if high > 1e30:
            raise ParameterError(
                "no variance meets delta: check that the sensitivity falls as the variance grows."
            )
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if published_delta(epsilon, *sensitivity(middle), dimension) <= delta
            else (middle, high)
        )
    return high


def published_process_sensitivity(
    variance: float,
    *,
    kernel_deviation: float,
    label_bound: float,
    observation_deviation: float,
    count: int,
) -> tuple[float, float, float]:
    """Proposition 8: Gaussian process regression, with the number of records taken as public."""
    gap = (
        kernel_deviation
        * label_bound
        * math.sqrt(count)
        / (observation_deviation * math.sqrt(variance))
    )
    log_ratio = math.log1p(kernel_deviation**2 / variance)
    return gap, log_ratio, log_ratio


def published_logistic_sensitivity(
    variance: float,
    *,
    row_norm: float,
    regularization: float,
    count: int,
    dimension: int,
) -> tuple[float, float, float]:
    """Proposition 7: Bayesian logistic regression, with the number of records taken as public."""
    narrow = variance + 1 / (regularization + count * row_norm**2 / 4)
    log_ratio = math.log((variance + 1 / regularization) / narrow)
    return (
        row_norm / regularization / math.sqrt(narrow),
        log_ratio,
        dimension * log_ratio,
    )
