from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from gaussveil.errors import ParameterError
from gaussveil.timeseries import NoisySum, autocovariance, smooth, window_covariance

WINDOWS = [(0, 5), (5, 10), (3, 40), (12, 13), (0, 60), (59, 60)]


def indicators(size: int) -> np.ndarray:
    rows = np.zeros((len(WINDOWS), size))
    for row, (first, last) in zip(rows, WINDOWS):
        row[first:last] = 1
    return rows


@pytest.mark.parametrize("pole", [0.9, -0.6, 0.0])
def test_covariances_of_sums_are_those_of_the_dense_matrix(pole: float) -> None:
    lags = autocovariance([pole], [0.3], 1.0, 60)
    sums = indicators(60)
    np.testing.assert_allclose(window_covariance(lags, WINDOWS), sums @ toeplitz(lags) @ sums.T, atol=1e-10)


def test_smoothing_with_sums_is_dense_conditioning_away_from_the_ends() -> None:
    """A stream and noisy sums of one series, against the conditional mean from the whole covariance matrix."""
    size, rng = 600, np.random.default_rng(3)
    prior = toeplitz(autocovariance([0.9], [], 1.0, size))
    truth = np.linalg.cholesky(prior) @ rng.standard_normal(size)
    stream = truth + 3 * rng.standard_normal(size)
    windows = [(200, 240), (240, 280), (200, 360), (300, 301)]
    sds = [2.0, 5.0, 1.0, 0.1]
    rows = np.zeros((4, size))
    for row, (first, last) in zip(rows, windows):
        row[first:last] = 1
    totals = rows @ truth + np.array(sds) * rng.standard_normal(4)
    seen = np.vstack([np.eye(size), rows])
    error = np.diag(np.concatenate([np.full(size, 9.0), np.square(sds)]))
    known = np.concatenate([stream, totals])
    dense = prior @ seen.T @ np.linalg.solve(seen @ prior @ seen.T + error, known)
    psd = 1 / np.abs(1 - 0.9 * np.exp(-1j * np.linspace(0, np.pi, 4001))) ** 2
    sums = [NoisySum(first=a, samples=b - a, total=t, sd=sd) for (a, b), t, sd in zip(windows, totals, sds)]
    found = smooth(stream, 9.0, psd, 0.0, sums=sums)
    np.testing.assert_allclose(found[100:-100], dense[100:-100], atol=5e-3)
    without = smooth(stream, 9.0, psd, 0.0)
    assert np.sum((found - truth)[200:360] ** 2) < np.sum((without - truth)[200:360] ** 2)
    assert abs(found[300] - truth[300]) < 0.4


@pytest.mark.parametrize("window", [(-1, 2), (598, 5), (3, 0)])
def test_sums_outside_the_stream_are_refused(window: tuple[int, int]) -> None:
    known = NoisySum(first=window[0], samples=window[1], total=1.0, sd=1.0)
    with pytest.raises(ParameterError):
        smooth(np.zeros(600), 1.0, 1.0, 0.0, sums=[known])


def test_windows_further_apart_than_the_lags_are_refused() -> None:
    with pytest.raises(ParameterError):
        window_covariance(np.ones(10), [(0, 5), (5, 12)])
    with pytest.raises(ParameterError):
        window_covariance(np.ones(10), [(4, 4)])
