"""ARMA processes: impulse response, exact autocovariance, stability; last axis coefficients, leading axes a batch.

Convention throughout: x[k] = sum_i ar[i] x[k-i] + e[k] + sum_j ma[j] e[k-j], e white of the given variance; so the
paper's coefficients are a_i = -ar_i and its filter is (1 + sum ma z^-j) / (1 - sum ar z^-i): eq. (58) prints AR and MA
swapped (docs/corrections, K6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import checks
from gaussveil.errors import NotFiniteError, NumericalError, ParameterError
from gaussveil.typing import Floats


def _coefficients(name: str, values: ArrayLike) -> Floats:
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(found).all():
        raise NotFiniteError(f"{name} must hold finite coefficients along its last axis. Got NaN or infinity.")
    return found


def _with_one(coefs: Floats) -> Floats:
    return np.concatenate([np.ones((*coefs.shape[:-1], 1)), coefs], axis=-1)


def spectral_radius(coefs: Floats) -> Floats:
    """Largest modulus of the roots of z^p - c1 z^(p-1) - ... - cp."""
    order = coefs.shape[-1]
    if order == 0:
        return np.zeros(coefs.shape[:-1])
    companion = np.zeros((*coefs.shape[:-1], order, order))
    companion[..., 0, :] = coefs
    companion[..., np.arange(1, order), np.arange(order - 1)] = 1.0
    return np.asarray(np.abs(np.linalg.eigvals(companion)).max(axis=-1))


def impulse_response(ar: ArrayLike, ma: ArrayLike, n: int) -> Floats:
    """First `n` terms of h, x = h * e (class-based paper, eq. (58) corrected)."""
    from scipy.signal import lfilter  # seconds to import, which streams that run do not need

    checks.whole("n", n)
    phi, theta = _coefficients("ar", ar), _with_one(_coefficients("ma", ma))
    batch = np.broadcast_shapes(phi.shape[:-1], theta.shape[:-1])
    phi = np.broadcast_to(phi, (*batch, phi.shape[-1]))
    response = np.zeros((*batch, n))
    known = min(theta.shape[-1], n)
    response[..., :known] = theta[..., :known]
    if phi.shape[-1]:
        for index in np.ndindex(batch):
            response[index] = lfilter([1.0], np.concatenate([[1.0], -phi[index]]), response[index])
    return response


def autocovariance(ar: ArrayLike, ma: ArrayLike, variance: ArrayLike, n: int) -> Floats:
    """Exact covariances at lags 0..n-1: variance * sum_j h[j] h[j+k] (class-based paper, eq. (60) corrected).

    No truncation: the p+1 equations r[k] - sum_i ar[i] r[|k-i|] = variance * sum_{j>=k} ma[j] h[j-k] are solved, and
    later lags follow by recursion.
    """
    checks.whole("n", n)
    phi, theta = _coefficients("ar", ar), _with_one(_coefficients("ma", ma))
    level = np.asarray(variance, dtype=np.float64)
    if not (np.isfinite(level).all() and (level > 0).all()):
        raise ParameterError("variance must be positive and finite")
    radius = float(spectral_radius(phi).max(initial=0.0))
    if radius >= 1:
        raise ParameterError(f"ar must be stationary: its largest root has modulus {radius:.6g}, must be below 1")
    return level[..., None] * _unit_autocovariance(phi, theta, n)


def _unit_autocovariance(phi: Floats, theta: Floats, n: int) -> Floats:
    p, q = phi.shape[-1], theta.shape[-1] - 1
    from scipy.signal import lfilter  # seconds to import, which streams that run do not need

    batch = np.broadcast_shapes(phi.shape[:-1], theta.shape[:-1])
    phi = np.broadcast_to(phi, (*batch, p))
    response = impulse_response(phi, theta[..., 1:], q + 1)
    right = np.zeros((*batch, max(p + 1, q + 1, n)))
    for k in range(q + 1):
        right[..., k] = np.sum(theta[..., k:] * response[..., : q + 1 - k], axis=-1)
    if p == 0:
        return right[..., :n]
    system = np.zeros((*batch, p + 1, p + 1))
    system[...] = np.eye(p + 1)
    for k in range(p + 1):
        for i in range(1, p + 1):
            system[..., k, abs(k - i)] -= phi[..., i - 1]
    first = np.linalg.solve(system, right[..., : p + 1, None])[..., 0]
    if not np.isfinite(first).all() or (first[..., 0] <= 0).any():
        raise NumericalError("the autocovariance could not be computed: the AR roots lie too near the unit circle")
    if n <= p + 1:
        return first[..., :n]
    found = np.concatenate([first, right[..., p + 1 :]], axis=-1)
    for index in np.ndindex(batch):
        # Beyond lag p the same equations are a recursion, run as a filter from the lags just solved for.
        state = np.array([phi[index][i:] @ first[index][p - np.arange(p - i)] for i in range(p)])
        later, _ = lfilter([1.0], np.concatenate([[1.0], -phi[index]]), found[index][p + 1 :], zi=state)
        found[index][p + 1 :] = later
    return found[..., :n]
