"""Minimum mean-square forecasts of stationary Gaussian series, their errors, and power in kW.

With S the covariance of (past, future), o the past and f the future: given the past, the forecast is
mu_f + S_fo S_o^-1 (x_o - mu_o) and its error has covariance S_f - S_fo S_o^-1 S_of. Eq. (57) of the class-based paper
calls the latter the covariance of the query; it is the law of the future sample. The forecast itself is a constant once
the past is known, and over random pasts it is N(mu_f, S_fo S_o^-1 S_of) (docs/corrections, K5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import toeplitz
from scipy.signal import lfilter, lfiltic

from gaussveil import checks
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.timeseries.arma import ArmaModels
from gaussveil.timeseries.arma_process import (
    autocovariance,
    banded_factors,
    impulse_response,
    standardised,
)
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecasts of the next steps, one row per household, and what they leave unknown.

    `mean`: the forecast given the past. `error_covariance`: of the future about it. `forecast_covariance`: of the
    forecast itself when the past is random (model (b) of K5); the two add up to the covariance of the future.
    """

    mean: Floats
    error_covariance: Floats
    forecast_covariance: Floats

    @property
    def horizon(self) -> int:
        """Steps ahead."""
        return int(self.mean.shape[1])


def mmse_forecast(models: ArmaModels, past: ArrayLike, horizon: int) -> Forecast:
    """Forecast the `horizon` steps after the past of every household, exactly and in time linear in the past."""
    rows = np.atleast_2d(np.asarray(past, dtype=np.float64))
    needed = max(models.ar.shape[1], models.ma.shape[1], 1)
    if rows.ndim != 2 or len(rows) != len(models) or rows.shape[1] < needed:
        raise ShapeError(
            f"past must have one row per household ({len(models)}) and at least {needed} values. Got {rows.shape}."
        )
    checks.whole("horizon", horizon)
    apart = np.abs(np.subtract.outer(np.arange(horizon), np.arange(horizon)))
    whole = autocovariance(models.ar, models.ma, models.variance, horizon)[..., apart]
    mean = np.empty((len(rows), horizon))
    error = np.empty_like(whole)
    for home, factor in enumerate(
        banded_factors(models.ar, models.ma, rows.shape[1] + horizon)
    ):
        offset, spread = _ahead(
            rows[home] - models.mean[home], models.ar[home], factor, horizon
        )
        mean[home] = models.mean[home] + offset
        error[home] = models.variance[home] * (spread @ spread.T)
    return Forecast(mean, error, whole - error)


def _ahead(
    row: Floats, ar: Floats, factor: Floats, horizon: int
) -> tuple[Floats, Floats]:
    """Forecast of a zero-mean row and a root of its error covariance, for unit innovations.

    With L the Cholesky factor of past and future of w (arma_process.py), w_f is forecast by L_fo L_o^-1 w_o with error
    L_ff L_ff'; the autoregression leads from w_f to x_f.
    """
    count = row.size
    width = factor.shape[0] - 1
    below = np.zeros(
        (horizon, width + horizon)
    )  # rows of L for the future, columns from `width` steps before it
    for step in range(horizon):
        lags = np.arange(width + 1)
        below[step, width + step - lags] = factor[lags, count + step - lags]
    shocks = standardised(row, ar, factor[:, :count])[count - width :]
    denominator = np.concatenate([[1.0], -ar])
    state = lfiltic([1.0], denominator, row[::-1][: ar.size])
    mean, _ = lfilter([1.0], denominator, below[:, :width] @ shocks, zi=state)
    lower = toeplitz(impulse_response(ar, [], horizon), np.zeros(horizon))
    return np.asarray(mean), lower @ below[:, width:]


def to_kw(
    log_mean: ArrayLike, log_variance: ArrayLike, *, statistic: str = "mean"
) -> Floats:
    """Power in kW of a log-normal: its mean exp(m + v/2), or its median exp(m), from mean and variance of log power.

    The paper's eq. (62) takes exp(m) for the mean forecast, which is biased low by exp(-v/2).
    """
    mean = np.asarray(log_mean, dtype=np.float64)
    variance = np.asarray(log_variance, dtype=np.float64)
    if not (
        np.isfinite(mean).all()
        and np.isfinite(variance).all()
        and (variance >= 0).all()
    ):
        raise ParameterError(
            "log_mean must be finite and log_variance finite and not negative"
        )
    checks.one_of("statistic", statistic, ("mean", "median"))
    return np.asarray(np.exp(mean + variance / 2 if statistic == "mean" else mean))
