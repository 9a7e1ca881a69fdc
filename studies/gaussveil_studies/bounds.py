"""Upper bounds on delta that need less than the whole pair, each in the direction in which it is true.

NDIS Lemma 2 bounds delta of the SMALLER covariance against the larger. Its use for the reverse direction (Definition 6,
Theorem 6.1 and the remark after Theorem 4.2) is unsound: see docs/corrections, N2. For the reverse direction, and for a
mean shift on top, this module has the suprema that hold instead.

Ratios are eigenvalues of cov_X relative to cov_Y. A covariance sensitivity is (log_ratio, rank): at most `rank`
eigenvalues of one covariance relative to the other differ from 1, all in one direction, each by a factor of at most
e^log_ratio. Results are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum.arguments import epsilon_array, float_array, require_finite
from gaussveil.spectrum.closed_forms import log_delta_equal_ratios, log_delta_mean_shift

Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

ROUNDING = 1e-12  # relative, far above the error of the closed forms
EDGE = 1e-14  # relative to the terms of a difference
SPLITS = 17
ZOOMS = 4


def smaller_covariance_bound(ratios: Any, epsilon: float) -> float:
    """NDIS Lemma 2: delta of N(0, S_X) against N(0, S_Y) where S_X <= S_Y, from the ratios (all in (0, 1]).

    Zero, exactly, from epsilon = half the log-determinant of S_Y/S_X on. Not a bound for the reverse direction.
    """
    tau = np.asarray(float_array("ratios", ratios), dtype=np.float64)
    require_finite("ratios", tau)
    if tau.ndim != 1:
        raise ShapeError(f"'ratios' must be a vector. Got shape {tau.shape}.")
    if np.any((tau <= 0.0) | (tau > 1.0)):
        raise ParameterError(
            "'ratios' must lie in (0, 1]: X has the smaller covariance. For larger ones use sup_larger_covariance."
        )
    return _lemma_two(-np.log(tau), _level(epsilon))


def sup_larger_covariance(log_ratio: float, rank: int, epsilon: float) -> float:
    """Largest delta of N(0, S_X) against N(0, S_Y) where S_X >= S_Y within (log_ratio, rank).

    delta is nondecreasing in every ratio (the channel x -> a x + N(0, 1-a^2) maps a larger ratio to a smaller one), so
    the supremum is attained at `rank` equal ratios: NDIS Lemma 4 (docs/corrections, N2).
    """
    return _equal(
        _nonnegative("log_ratio", log_ratio), _whole("rank", rank), _level(epsilon)
    )


def sup_smaller_covariance(log_ratio: float, rank: int, epsilon: float) -> float:
    """Largest delta of N(0, S_X) against N(0, S_Y) where S_X <= S_Y within (log_ratio, rank); by the same channel."""
    return _equal(
        -_nonnegative("log_ratio", log_ratio), _whole("rank", rank), _level(epsilon)
    )


def triangle_bound(first: Curve, second: Curve, epsilon: float) -> float:
    """NDIS Proposition 3: delta_{X,Z}(e1 + e2) <= delta_{X,Y}(e1) + e^e1 delta_{Y,Z}(e2), at the best split of epsilon.

    `first` and `second` are the curves of (X, Y) and of (Y, Z), or upper bounds on them, as functions of an array of
    epsilons (such as `PrivacyLoss.delta`).
    """
    level = _level(epsilon)
    low = 0.0
    high = level
    best = 1.0
    for _ in range(ZOOMS):
        shares = np.linspace(low, high, SPLITS)
        rest = second(level - shares)
        with np.errstate(over="ignore", invalid="ignore"):
            values = first(shares) + np.where(rest > 0.0, np.exp(shares) * rest, 0.0)
        at = int(np.argmin(values))
        best = min(best, float(values[at]))
        low = float(shares[max(at - 1, 0)])
        high = float(shares[min(at + 1, SPLITS - 1)])
    return _upward(best)


def mean_and_covariance_bound(
    shift: float, log_ratio: float, rank: int, epsilon: float, *, larger: bool = True
) -> float:
    """NDIS Theorem 4.2: delta of N(m_X, S_X) against N(m_Y, S_Y) by a step in mean and a step in covariance.

    `shift` is the length of m_X - m_Y in the SMALLER covariance; (log_ratio, rank) compares the covariances; `larger`
    says whether S_X >= S_Y or S_X <= S_Y. The covariance step uses the supremum of its own direction, where the paper
    takes Lemma 2, which bounds the other one. Both orders of the two steps are tried.
    """
    length = _nonnegative("shift", shift)
    top, size, level = (
        _nonnegative("log_ratio", log_ratio),
        _whole("rank", rank),
        _level(epsilon),
    )

    def mean(eps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(log_delta_mean_shift(length, eps)))

    def covariance(eps: NDArray[np.float64]) -> NDArray[np.float64]:
        return _equal_curve(top if larger else -top, size, eps)

    return min(
        triangle_bound(mean, covariance, level), triangle_bound(covariance, mean, level)
    )


# --- Lemma 2


def _lemma_two(logs: NDArray[np.float64], level: float) -> float:
    """The lemma with l_i = -log(ratio_i) >= 0; every s >= 0 and admissible u give a bound, the search may be rough."""
    total = float(np.sum(logs))
    if total - 2.0 * level < -EDGE * (level + total):
        return 0.0
    # At a slightly smaller epsilon, since the difference below is all rounding next to the threshold.
    level = max(0.0, level - EDGE * (level + total))
    slack = total - 2.0 * level  # f(eps) in the paper
    shrink, stretch = -np.expm1(-logs), np.expm1(logs)

    def under_x(s: float) -> float:
        return s * slack - 0.5 * float(np.sum(np.log1p(2.0 * s * shrink)))

    def beyond_under_y(u: float) -> float:
        return -u * slack - 0.5 * float(np.sum(np.log1p(-2.0 * u * stretch)))

    first = min(0.0, _smallest(lambda x: under_x(math.exp(x)), -40.0, 40.0))
    largest = float(np.max(stretch, initial=0.0))
    second = 0.0
    if largest > 0.0 and math.isfinite(largest):
        second = min(
            0.0,
            _smallest(lambda x: beyond_under_y(x / (2.0 * largest)), 0.0, 1.0 - 1e-12),
        )
    growth = _exp(level)
    value = math.exp(first) + (
        growth * math.expm1(second) if math.isfinite(growth) else 0.0
    )
    # The two terms cancel: allow for their rounding.
    return _upward(
        max(value, 0.0) + EDGE * (1.0 + growth if math.isfinite(growth) else 1.0)
    )


def _smallest(function: Callable[[float], float], low: float, high: float) -> float:
    return float(
        minimize_scalar(
            function, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
        ).fun
    )


# --- arguments and rounding


def _equal(log_ratio: float, rank: int, level: float) -> float:
    return _upward(float(_equal_curve(log_ratio, rank, np.array(level))))


def _equal_curve(
    log_ratio: float, rank: int, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    if log_ratio == 0.0 or rank == 0:
        return np.zeros_like(levels)
    if abs(log_ratio) > 700.0:
        return np.ones_like(levels)
    # One ulp further than the ratio asked for: delta grows with the distance from 1.
    ratio = math.nextafter(math.exp(log_ratio), math.inf if log_ratio > 0.0 else 0.0)
    return np.asarray(np.exp(log_delta_equal_ratios(ratio, rank, levels)))


def _upward(value: float) -> float:
    return min(1.0, value * (1.0 + ROUNDING))


def _exp(value: float) -> float:
    if value < 709.0:
        return math.exp(value)
    return math.inf


def _level(epsilon: float) -> float:
    return float(epsilon_array(epsilon, np.zeros(0)))


def _nonnegative(name: str, value: float) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0.0):
        raise ParameterError(f"'{name}' must be finite and >= 0. Got {value}.")
    return number


def _whole(name: str, value: int) -> int:
    if int(value) != value or value < 0:
        raise ParameterError(f"'{name}' must be a whole number >= 0. Got {value}.")
    return int(value)
