from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries import autocovariance, smooth, welch_psd


def first_order(points: int, pole: float, variance: float = 1.0) -> np.ndarray:
    return variance / np.abs(1 - pole * np.exp(-1j * np.pi * np.arange(points + 1) / points)) ** 2


def test_smoother_is_the_dense_conditional_mean_away_from_the_ends() -> None:
    generator = np.random.default_rng(1)
    signal = lfilter([1.0], [1.0, -0.9], generator.standard_normal(600))
    stream = signal + 2.0 * generator.standard_normal(600)
    covariance = toeplitz(autocovariance([0.9], [], 1.0, 600))
    dense = covariance @ np.linalg.solve(covariance + 4.0 * np.eye(600), stream)
    found = smooth(stream, 4.0, first_order(2000, 0.9), profile=0.0)
    np.testing.assert_allclose(found[60:-60], dense[60:-60], atol=5e-3)


def test_smoothing_reaches_the_theoretical_error_and_beats_the_stream() -> None:
    generator = np.random.default_rng(2)
    signal = 5.0 + lfilter([1.0], [1.0, -0.95], generator.standard_normal(100_000))
    stream = signal + 3.0 * generator.standard_normal(signal.size)
    psd = first_order(4000, 0.95)
    expected = np.mean(np.r_[psd, psd[-2:0:-1]] * 9 / (np.r_[psd, psd[-2:0:-1]] + 9))
    assert np.mean((smooth(stream, 9.0, psd) - signal) ** 2) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("level", "correlation", "daily"), [(6.5, 0.54, 0.22), (3.5, 0.65, 0.16), (1.5, 0.79, 0.09)])
def test_a_real_home_is_recovered_from_white_noise(
    real_data: Path, level: float, correlation: float, daily: float
) -> None:
    """Noise of the load-shape design at eps 1/2/5 (0.5 kW x 1 h); profile and PSD of the first 19 weeks."""
    load = np.loadtxt(real_data / "home_uci_5min_kw.csv.gz", delimiter=",", skiprows=1, usecols=1)
    past, future = load.reshape(2, -1)
    profile = past.reshape(-1, 288).mean(axis=0)
    psd = welch_psd(past - np.resize(profile, past.size), 8064)
    stream = future + level * np.random.default_rng(4).standard_normal(future.size)
    found = smooth(stream, level**2, psd, profile=profile)
    assert np.corrcoef(found, future)[0, 1] > 0.95 * correlation
    energy, truth = (series.reshape(-1, 288).mean(axis=1) for series in (found, future))
    assert np.mean(np.abs(energy - truth)) / truth.mean() < 1.25 * daily


def test_profile_is_repeated_and_kept_where_the_signal_has_no_power() -> None:
    profile = np.array([1.0, 2.0, 3.0])
    stream = np.tile(profile, 5)[:13]
    np.testing.assert_allclose(smooth(stream + 1e-3, 1.0, 0.0, profile=profile), stream, atol=1e-12)


def test_no_noise_returns_the_stream_and_the_mean_is_kept() -> None:
    stream = np.random.default_rng(3).standard_normal(101)
    np.testing.assert_allclose(smooth(stream, 0.0, np.ones(5)), stream, atol=1e-12)
    assert smooth(stream, 7.0, np.ones(5)).mean() == pytest.approx(stream.mean(), abs=1e-12)


def test_bad_input_is_refused() -> None:
    for call, error in (
        (lambda: smooth([1.0], 1.0, 1.0), ShapeError),
        (lambda: smooth([1.0, np.nan], 1.0, 1.0), NotFiniteError),
        (lambda: smooth([1.0, 2.0], -1.0, 1.0), ParameterError),
        (lambda: smooth([1.0, 2.0], 1.0, [1.0, -1.0]), ParameterError),
        (lambda: smooth([1.0, 2.0], np.ones((2, 2)), 1.0), ShapeError),
        (lambda: smooth([1.0, 2.0], 1.0, 1.0, profile=np.ones(3)), ShapeError),
    ):
        with pytest.raises(error):
            call()
