"""ARMA processes: impulse response, exact autocovariance, stability.

Convention throughout: x[k] = sum_i ar[i] x[k-i] + e[k] + sum_j ma[j] e[k-j], e white of the given variance; so the paper's
coefficients are a_i = -ar_i and its filter is (1 + sum ma z^-j) / (1 - sum ar z^-i): eq. (58) prints AR and MA swapped
(docs/corrections, K6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve
from scipy.signal import lfilter

from gaussveil.errors import NumericalError, ParameterError, ShapeError


def coefficients(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A finite vector of coefficients."""
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ShapeError(f"{name} must be a vector of finite coefficients; got shape {found.shape}")
    return found


def spectral_radius(coefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest modulus of the roots of z^p - c1 z^(p-1) - ... - cp, over leading axes."""
    order = coefs.shape[-1]
    if order == 0:
        return np.zeros(coefs.shape[:-1])
    companion = np.zeros((*coefs.shape[:-1], order, order))
    companion[..., 0, :] = coefs
    companion[..., np.arange(1, order), np.arange(order - 1)] = 1.0
    return np.asarray(np.abs(np.linalg.eigvals(companion)).max(axis=-1))


def impulse_response(ar: ArrayLike, ma: ArrayLike, n: int) -> NDArray[np.float64]:
    """First `n` terms of h, x = h * e (class-based paper, eq. (58) corrected)."""
    if n < 1:
        raise ParameterError(f"n must be at least 1; got {n}")
    pulse = np.zeros(n)
    pulse[0] = 1.0
    numerator, denominator = np.r_[1.0, coefficients("ma", ma)], np.r_[1.0, -coefficients("ar", ar)]
    return np.asarray(lfilter(numerator, denominator, pulse))


def autocovariance(ar: ArrayLike, ma: ArrayLike, variance: float, n: int) -> NDArray[np.float64]:
    """Exact covariances at lags 0..n-1: variance * sum_j h[j] h[j+k] (class-based paper, eq. (60) corrected), without truncation.

    From the p+1 equations r[k] - sum_i ar[i] r[|k-i|] = variance * sum_{j>=k} ma[j] h[j-k], then by recursion.
    """
    phi, theta = coefficients("ar", ar), np.r_[1.0, coefficients("ma", ma)]
    if not (np.isfinite(variance) and variance > 0):
        raise ParameterError(f"variance must be positive; got {variance}")
    if n < 1:
        raise ParameterError(f"n must be at least 1; got {n}")
    radius = float(spectral_radius(phi))
    if radius >= 1:
        raise ParameterError(f"ar must be stationary: its largest root has modulus {radius:.6g}, which must be below 1")
    p, q = phi.size, theta.size - 1
    response = impulse_response(phi, theta[1:], q + 1)
    size = max(p + 1, q + 1, n)
    right = np.zeros(size)
    right[: q + 1] = variance * np.array([theta[k:] @ response[: q + 1 - k] for k in range(q + 1)])
    system = np.eye(p + 1)
    for k in range(p + 1):
        for i in range(1, p + 1):
            system[k, abs(k - i)] -= phi[i - 1]
    first = solve(system, right[: p + 1])
    if not np.isfinite(first).all() or first[0] <= 0:
        raise NumericalError("the autocovariance could not be computed: the AR roots lie too near the unit circle")
    if p == 0:
        return right[:n]
    # Beyond lag p the same equations are a recursion, run as a filter from the lags just solved for.
    state = np.array([phi[i:] @ first[p - np.arange(p - i)] for i in range(p)])
    later, _ = lfilter([1.0], np.r_[1.0, -phi], right[p + 1 :], zi=state)
    return np.r_[first, later][:n]
