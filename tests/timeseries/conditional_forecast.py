"""Forecast, error covariance and forecast covariance from an autocovariance: the definition, solved directly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_toeplitz, toeplitz

Floats = NDArray[np.float64]


def conditional_forecast(autocov: ArrayLike, past: ArrayLike, horizon: int) -> tuple[Floats, Floats, Floats]:
    """Of one zero-mean series; `autocov` holds the lags 0 .. len(past) + horizon - 1."""
    lags, observed = np.asarray(autocov, dtype=np.float64), np.asarray(past, dtype=np.float64)
    count = observed.size
    # Newest first: then value k of the past lies at lag k + 1 + t from future step t, and S_o stays Toeplitz.
    cross = lags[1 + np.arange(count)[:, None] + np.arange(horizon)[None, :]]
    weights = solve_toeplitz(lags[:count], cross)
    explained = cross.T @ weights
    explained = (explained + explained.T) / 2
    return observed[::-1] @ weights, toeplitz(lags[:horizon]) - explained, explained
