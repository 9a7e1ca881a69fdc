"""ARMA processes: impulse response, exact autocovariance, stability, likelihood; coefficients on the last axis.

Convention throughout: x[k] = sum_i ar[i] x[k-i] + e[k] + sum_j ma[j] e[k-j], e white of the given variance; so the
paper's coefficients are a_i = -ar_i and its filter is (1 + sum ma z^-j) / (1 - sum ar z^-i): eq. (58) prints AR and MA
swapped (docs/corrections, K6).

The exact Gaussian likelihood is a nonlinear least-squares problem. With m = max(p, q), w[t] = x[t] for t < m and
x[t] - sum_i ar[i] x[t-i] from there on has a banded covariance V = LL' (unit innovations; Ansley 1979). Minus twice the
log-likelihood with the variance profiled out is n log(sum_t u[t]^2) + const, u = (prod_t L[t,t])^(1/n) L^-1 w.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpbtrf, dtbtrs
from scipy.signal import lfilter

from gaussveil import checks
from gaussveil.errors import NotFiniteError, NumericalError, ParameterError
from gaussveil.typing import Floats


def _coefficients(name: str, values: ArrayLike) -> Floats:
    coefficients = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(coefficients).all():
        raise NotFiniteError(
            f"{name} must hold finite coefficients along its last axis. Got NaN or infinity."
        )
    return coefficients


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
    from scipy.signal import (
        lfilter,
    )  # seconds to import, which streams that run do not need

    checks.whole("n", n)
    phi = _coefficients("ar", ar)
    theta = _with_one(_coefficients("ma", ma))
    batch = np.broadcast_shapes(phi.shape[:-1], theta.shape[:-1])
    phi = np.broadcast_to(phi, (*batch, phi.shape[-1]))
    response = np.zeros((*batch, n))
    stated = min(theta.shape[-1], n)
    response[..., :stated] = theta[..., :stated]
    if phi.shape[-1]:
        for index in np.ndindex(batch):
            response[index] = lfilter(
                [1.0], np.concatenate([[1.0], -phi[index]]), response[index]
            )
    return response


def autocovariance(ar: ArrayLike, ma: ArrayLike, variance: ArrayLike, n: int) -> Floats:
    """Exact covariances at lags 0..n-1: variance * sum_j h[j] h[j+k] (class-based paper, eq. (60) corrected).

    No truncation: the p+1 equations r[k] - sum_i ar[i] r[|k-i|] = variance * sum_{j>=k} ma[j] h[j-k] are solved, and
    later lags follow by recursion.
    """
    checks.whole("n", n)
    phi = _coefficients("ar", ar)
    theta = _with_one(_coefficients("ma", ma))
    level = np.asarray(variance, dtype=np.float64)
    if not (np.isfinite(level).all() and (level > 0).all()):
        raise ParameterError("variance must be positive and finite")
    radius = float(spectral_radius(phi).max(initial=0.0))
    if radius >= 1:
        raise ParameterError(
            f"ar must be stationary: its largest root has modulus {radius:.6g}, must be below 1"
        )
    return level[..., None] * _unit_autocovariance(phi, theta, n)


def _unit_autocovariance(phi: Floats, theta: Floats, n: int) -> Floats:
    p = phi.shape[-1]
    q = theta.shape[-1] - 1
    from scipy.signal import (
        lfilter,
    )  # seconds to import, which streams that run do not need

    batch = np.broadcast_shapes(phi.shape[:-1], theta.shape[:-1])
    phi = np.broadcast_to(phi, (*batch, p))
    response = impulse_response(phi, theta[..., 1:], q + 1)
    right = np.zeros((*batch, max(p + 1, q + 1, n)))
    for k in range(q + 1):
        right[..., k] = (theta[..., k:] * response[..., : q + 1 - k]).sum(axis=-1)
    if p == 0:
        return right[..., :n]
    system = np.zeros((*batch, p + 1, p + 1))
    system[...] = np.eye(p + 1)
    for k in range(p + 1):
        for i in range(1, p + 1):
            system[..., k, abs(k - i)] -= phi[..., i - 1]
    first = np.linalg.solve(system, right[..., : p + 1, None])[..., 0]
    if not np.isfinite(first).all() or (first[..., 0] <= 0).any():
        raise NumericalError(
            "the autocovariance could not be computed: the AR roots lie too near the unit circle"
        )
    if n <= p + 1:
        return first[..., :n]
    autocovariance = np.concatenate([first, right[..., p + 1 :]], axis=-1)
    for index in np.ndindex(batch):
        # Beyond lag p the same equations are a recursion, run as a filter from the lags just solved for.
        state = np.array(
            [phi[index][i:] @ first[index][p - np.arange(p - i)] for i in range(p)]
        )
        later, _ = lfilter(
            [1.0],
            np.concatenate([[1.0], -phi[index]]),
            autocovariance[index][p + 1 :],
            zi=state,
        )
        autocovariance[index][p + 1 :] = later
    return autocovariance[..., :n]


def _head(ar: Floats, ma: Floats) -> tuple[Floats, Floats]:
    """Covariance of w in LAPACK's lower band layout (row d: d-th subdiagonal): first m columns, and any later one."""
    q = ma.shape[-1]
    m = max(ar.shape[-1], q)
    theta = np.concatenate([np.ones((len(ma), 1)), ma], axis=1)
    later = np.zeros((len(ma), m + 1))
    for lag in range(q + 1):
        later[:, lag] = (theta[:, : q + 1 - lag] * theta[:, lag:]).sum(axis=1)
    head = np.zeros((len(ma), m + 1, m))
    if m:
        lags = autocovariance(ar, ma, np.ones(len(ar)), m)
        response = impulse_response(ar, ma, m)
        for column in range(m):
            head[:, : m - column, column] = lags[:, : m - column]
            # Rows t >= m see x[column] only through the innovations that both share.
            for gap in range(m - column, q + 1):
                shared = q + 1 - gap
                head[:, gap, column] = (theta[:, gap:] * response[:, :shared]).sum(
                    axis=1
                )
    return head, later


def banded_factors(ar: Floats, ma: Floats, n: int) -> Iterator[Floats]:
    """Cholesky factors L of the covariance of w[0..n-1], household by household, in lower band layout."""
    head, later = _head(ar, ma)
    m = head.shape[2]
    for home in range(len(head)):
        bands = np.empty((m + 1, n), order="F")
        bands[:] = later[home][:, None]
        bands[:, :m] = head[home][:, : min(m, n)]
        factor, status = dpbtrf(bands, lower=1, overwrite_ab=1)
        if status != 0:
            raise NumericalError(
                "the covariance of the ARMA model is not numerically positive definite"
            )
        yield factor


def standardised(row: Floats, ar: Floats, factor: Floats) -> Floats:
    """L^-1 w: the exact one-step forecast errors of a row, each divided by its standard deviation."""
    m = factor.shape[0] - 1
    transformed = lfilter(np.concatenate([[1.0], -ar]), [1.0], row)
    transformed[:m] = row[:m]
    solved, status = dtbtrs(factor, transformed[:, None], uplo="L")
    if status != 0:
        raise NumericalError("the covariance of the ARMA model is singular")
    return np.asarray(solved[:, 0])


def scaled_innovations(series: Floats, ar: Floats, ma: Floats) -> tuple[Floats, Floats]:
    """The vectors u whose sums of squares exact maximum likelihood minimises, and log prod_t L[t,t]."""
    n = series.shape[1]
    scaled = np.empty_like(series)
    log_root = np.empty(len(series))
    for home, factor in enumerate(banded_factors(ar, ma, n)):
        log_root[home] = np.log(factor[0]).sum()
        scaled[home] = standardised(series[home], ar[home], factor) * np.exp(
            log_root[home] / n
        )
    return scaled, log_root


def log_likelihood(
    series: Floats, ar: Floats, ma: Floats, variance: Floats | None = None
) -> Floats:
    """Exact Gaussian log-likelihood of every row; without `variance`, at its maximum over the variance."""
    n = series.shape[1]
    scaled, log_root = scaled_innovations(series, ar, ma)
    energy = np.sum(scaled * scaled, axis=1) * np.exp(-2 * log_root / n)
    if variance is None:
        level = energy / n
    else:
        level = np.asarray(variance)
    return np.asarray(
        -0.5 * (n * np.log(2 * np.pi * level) + energy / level) - log_root
    )
