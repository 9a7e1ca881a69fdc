"""Noise for histograms that are read through linear functions: cumulative counts, shares, quantiles.

The cheapest noise for the sum of the variances of all rows read off is a covering ellipsoid of the unit vectors; for
many bins the Toeplitz root of the prefix sums serves (Fichtenberger, Henzinger and Upadhyay 2023; docs/math/tables.md).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy

from gaussveil import checks
from gaussveil.calibration.ellipsoid import covering_ellipsoid
from gaussveil.typing import Floats

MOST_SOLVED = 32  # bins
EITHER_SHARE = (
    0.5 - 12**-0.5,
    0.5 + 12**-0.5,
)  # two shares with the mean square of one of which nothing is known
_SAFETY = 1 + 2.0**-30  # rounding of the root's inverse
_FREE = 1e-3  # weight of directions that nobody reads


@lru_cache(maxsize=64)
def prefix_rows(shares: tuple[float, ...], bins: int | None = None) -> Floats:
    """Prefix sums less shares of the total: the k-th less the k-th share, or, given `bins`, all less each share."""
    if bins is None:
        size = len(shares) + 1
    else:
        size = checks.whole("bins", bins)
    sums = np.tril(np.ones((size, size)))[: max(size - 1, 1)]
    if bins is None:
        rows: Floats = sums - np.reshape(shares, (-1, 1))
    else:
        rows = np.vstack([sums - share for share in shares])
    rows.setflags(write=False)
    return rows


def workload_noise(rows: Floats) -> Floats:
    """Covariance of the noise of bins, for a squared loss of at most 1 of a unit in one bin, best for these rows."""
    return _solved(
        np.ascontiguousarray(rows, dtype=np.float64).tobytes(), rows.shape[1]
    )


@lru_cache(maxsize=64)
def _solved(rows: bytes, bins: int) -> Floats:
    read = np.frombuffer(rows).reshape(-1, bins)
    weight = read.T @ read
    weight += _FREE * np.trace(weight) / bins * np.eye(bins)
    return _constant(
        covering_ellipsoid(np.eye(bins), weight, relative_gap=0.01).covariance
    )


@lru_cache(maxsize=32)
def prefix_noise(bins: int) -> Floats:
    """Covariance of the noise of bins whose cumulative shares are read."""
    if bins <= MOST_SOLVED:
        return workload_noise(prefix_rows(EITHER_SHARE, bins))
    j = np.arange(1, bins, dtype=np.float64)
    column = np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])
    inverse = scipy.linalg.solve_triangular(
        scipy.linalg.toeplitz(column, np.zeros(bins)), np.eye(bins), lower=True
    )
    return _constant(float(np.sum(column**2)) * _SAFETY * (inverse @ inverse.T))


def _constant(product: Floats) -> Floats:
    covariance: Floats = (product + product.T) / 2
    covariance.setflags(write=False)
    return covariance
