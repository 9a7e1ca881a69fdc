"""Noise for histograms that will be summed up: cumulative counts and quantiles.

A histogram h of one unit lies in the hull of 0 and the unit vectors; what is read off are its prefix sums P h. With the
lower triangular Toeplitz root C of P (C C = P, first column f_j = binom(2j, j) / 4^j) noise C^-1 z with white z of
variance rho = sum f_j^2, the longest column's, costs a squared loss of at most 1, and the prefix sums then carry C z:
variances rho sum_{i <= j} f_i^2 that grow with the logarithm of the number of bins, where white noise grows with the
number (Fichtenberger, Henzinger and Upadhyay 2023; derived: docs/math/tables.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from gaussveil import checks
from gaussveil.typing import Floats

_SAFETY = 1 + 2.0**-30  # rounding of the inverse: the covariance is proven afterwards where it is drawn


def root_column(bins: int) -> Floats:
    """First column of the root of the prefix-sum matrix: 1, 1/2, 3/8, 5/16, ..."""
    j = np.arange(1, checks.whole("bins", bins), dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


@lru_cache(maxsize=32)
def prefix_noise(bins: int) -> Floats:
    """Covariance of the noise of the bins, for a squared loss of at most 1 of a unit in one bin."""
    column = root_column(bins)
    inverse = solve_triangular(toeplitz(column, np.zeros(bins)), np.eye(bins), lower=True)
    product = float(np.sum(column**2)) * _SAFETY * (inverse @ inverse.T)
    covariance: Floats = (product + product.T) / 2
    covariance.setflags(write=False)
    return covariance


@lru_cache(maxsize=32)
def prefix_deviations(bins: int) -> Floats:
    """Standard deviations of the cumulative counts under `prefix_noise`."""
    squares = np.cumsum(root_column(bins) ** 2)
    deviations: Floats = np.sqrt(squares * squares[-1]) * math.sqrt(_SAFETY)
    deviations.setflags(write=False)
    return deviations
