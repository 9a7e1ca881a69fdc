"""Exact Gaussian likelihood of an ARMA model as a nonlinear least-squares problem.

With m = max(p, q), w[t] = x[t] for t < m and x[t] - sum_i ar[i] x[t-i] after has a banded covariance V = LL' (unit innovations;
Ansley 1979). Minus twice the log-likelihood with the variance profiled out is n log(sum_t u[t]^2) + const, where
u = (prod_t L[t,t])^(1/n) L^-1 w: so the maximum-likelihood estimate is a least-squares estimate in u.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dtbtrs
from scipy.signal import lfilter

from gaussveil.errors import NumericalError
from gaussveil.timeseries.arma_process import autocovariance, impulse_response


def _factor(ar: NDArray[np.float64], ma: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Lower banded Cholesky factor of the covariance of w, LAPACK layout: row d holds the d-th subdiagonal."""
    q = ma.size
    m = max(ar.size, q)
    theta = np.r_[1.0, ma]
    moving = np.correlate(theta, theta, "full")[q:]
    bands = np.zeros((m + 1, n))
    bands[: q + 1] = moving[:, None]
    if m:
        lags = autocovariance(ar, ma, 1.0, m)
        response = impulse_response(ar, ma, m)
        for column in range(min(m, n)):
            bands[:, column] = 0.0
            bands[: m - column, column] = lags[: m - column]
            # Rows t >= m see x[column] only through the innovations that both share.
            for row in range(m, min(column + q + 1, n)):
                gap = row - column
                bands[gap, column] = theta[gap:] @ response[: q + 1 - gap][: column + 1 + q] if gap <= q else 0.0
    factor, status = dpbtrf(bands, lower=1)
    if status != 0:
        raise NumericalError("the covariance of the ARMA model is not numerically positive definite")
    return np.asarray(factor)


def scaled_innovations(
    series: NDArray[np.float64], ar: NDArray[np.float64], ma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The vector u whose sum of squares the exact maximum-likelihood estimate minimises."""
    n = series.size
    m = max(ar.size, ma.size)
    transformed = lfilter(np.r_[1.0, -ar], [1.0], series)
    transformed[:m] = series[:m]
    factor = _factor(ar, ma, n)
    solved, status = dtbtrs(factor, transformed[:, None], uplo="L")
    if status != 0:
        raise NumericalError("the covariance of the ARMA model is singular")
    return np.asarray(solved[:, 0] * np.exp(np.log(factor[0]).mean()))


def log_likelihood(
    series: NDArray[np.float64], ar: NDArray[np.float64], ma: NDArray[np.float64], variance: float | None = None
) -> float:
    """Exact Gaussian log-likelihood; without `variance`, at its maximum over the variance."""
    n = series.size
    log_root = float(np.log(_factor(ar, ma, n)[0]).sum())
    energy = float(np.sum(scaled_innovations(series, ar, ma) ** 2)) / np.exp(2 * log_root / n)
    level = energy / n if variance is None else variance
    return -0.5 * (n * np.log(2 * np.pi * level) + energy / level) - log_root
