"""Sums over windows of a stationary series: their covariances, and what noisy ones tell about the series itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gaussveil.errors import ParameterError
from gaussveil.typing import Floats


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """The sum of `samples` values from `first` on, known with an independent error of deviation `sd`."""

    first: int
    samples: int
    total: float
    sd: float


def window_covariance(lags: Floats, windows: Sequence[tuple[int, int]]) -> Floats:
    """Covariances of the sums over windows [first, last) of a series with autocovariances `lags`.

    With G(k) = sum_{m<k} (k - m) c_m - k c_0 / 2 the variance of k values' sum is 2 G(k), and the covariance of two
    windows is G(a - b') + G(b - a') - G(a - a') - G(b - b'), G even.
    """
    ends = np.array(windows, dtype=np.int64).reshape(-1, 2)
    if ends.size and (int(ends.max()) - int(ends.min()) > lags.size or (ends[:, 0] >= ends[:, 1]).any()):
        raise ParameterError(f"windows must not be empty, nor lie further apart than the {lags.size} lags given")
    count = np.arange(lags.size + 1)
    sums = np.concatenate([[0.0], np.cumsum(lags)])
    moments = np.concatenate([[0.0], np.cumsum(lags * count[:-1])])
    growth = count * sums - moments - count * lags[0] / 2

    first, last = ends[:, 0], ends[:, 1]
    apart = [
        np.abs(one[:, None] - other) for one, other in ((first, last), (last, first), (first, first), (last, last))
    ]
    return np.asarray(growth[apart[0]] + growth[apart[1]] - growth[apart[2]] - growth[apart[3]])


def with_sums(estimate: Floats, error_spectrum: Floats, sums: Sequence[NoisySum]) -> Floats:
    """The estimate after it was told noisy sums of what it estimates: Gaussian conditioning.

    `error_spectrum` is the spectrum of the estimate's error, on `estimate.size + 1` frequencies from 0 to Nyquist.
    """
    if not sums:
        return estimate
    size = estimate.size
    for known in sums:
        if not (known.first >= 0 and known.samples > 0 and known.first + known.samples <= size and known.sd > 0):
            raise ParameterError(f"a sum must lie within the {size} values and have a positive deviation. Got {known}.")
    windows = [(known.first, known.first + known.samples) for known in sums]
    running = np.concatenate([[0.0], np.cumsum(estimate)])
    missing = np.array([known.total - (running[b] - running[a]) for known, (a, b) in zip(sums, windows)])
    covariance = window_covariance(np.fft.irfft(error_spectrum)[:size], windows)
    weights = cho_solve(cho_factor(covariance + np.diag([known.sd**2 for known in sums])), missing)
    steps = np.zeros(size + 1)
    for weight, (first, last) in zip(weights, windows):
        steps[first] += weight
        steps[last] -= weight
    spread = np.zeros(2 * size)
    spread[:size] = np.cumsum(steps)[:size]
    return np.asarray(estimate + np.fft.irfft(np.fft.rfft(spread) * error_spectrum, n=2 * size)[:size])
