"""Exact Gaussian likelihood of ARMA models as a nonlinear least-squares problem, one row per household.

With m = max(p, q), w[t] = x[t] for t < m and x[t] - sum_i ar[i] x[t-i] from there on has a banded covariance V = LL'
(unit innovations; Ansley 1979). Minus twice the log-likelihood with the variance profiled out is
n log(sum_t u[t]^2) + const, u = (prod_t L[t,t])^(1/n) L^-1 w: the maximum-likelihood estimate is least squares in u.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg.lapack import dpbtrf, dtbtrs
from scipy.signal import lfilter

from gaussveil.errors import NumericalError
from gaussveil.timeseries.arma_process import autocovariance, impulse_response
from gaussveil.typing import Floats


def _head(ar: Floats, ma: Floats) -> tuple[Floats, Floats]:
    """Covariance of w in LAPACK's lower band layout (row d: d-th subdiagonal): first m columns, and any later one."""
    q = ma.shape[-1]
    m = max(ar.shape[-1], q)
    theta = np.concatenate([np.ones((len(ma), 1)), ma], axis=1)
    later = np.zeros((len(ma), m + 1))
    for lag in range(q + 1):
        later[:, lag] = np.sum(theta[:, : q + 1 - lag] * theta[:, lag:], axis=1)
    head = np.zeros((len(ma), m + 1, m))
    if m:
        lags = autocovariance(ar, ma, np.ones(len(ar)), m)
        response = impulse_response(ar, ma, m)
        for column in range(m):
            head[:, : m - column, column] = lags[:, : m - column]
            # Rows t >= m see x[column] only through the innovations that both share.
            for gap in range(m - column, q + 1):
                shared = q + 1 - gap
                head[:, gap, column] = np.sum(theta[:, gap:] * response[:, :shared], axis=1)
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
            raise NumericalError("the covariance of the ARMA model is not numerically positive definite")
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
    scaled, log_root = np.empty_like(series), np.empty(len(series))
    for home, factor in enumerate(banded_factors(ar, ma, n)):
        log_root[home] = np.log(factor[0]).sum()
        scaled[home] = standardised(series[home], ar[home], factor) * np.exp(log_root[home] / n)
    return scaled, log_root


def log_likelihood(series: Floats, ar: Floats, ma: Floats, variance: Floats | None = None) -> Floats:
    """Exact Gaussian log-likelihood of every row; without `variance`, at its maximum over the variance."""
    n = series.shape[1]
    scaled, log_root = scaled_innovations(series, ar, ma)
    energy = np.sum(scaled * scaled, axis=1) * np.exp(-2 * log_root / n)
    level = energy / n if variance is None else np.asarray(variance)
    return np.asarray(-0.5 * (n * np.log(2 * np.pi * level) + energy / level) - log_root)
