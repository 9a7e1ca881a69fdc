from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries import ar1_covariance, ar1_spectrum, smooth_both_ways, welch_psd
from gaussveil.timeseries.psd import check_psd


def variance(psd: NDArray[np.float64]) -> float:
    """The integral over a full turn, by the trapezoid rule."""
    return float((psd[1:-1].sum() + 0.5 * (psd[0] + psd[-1])) / (psd.size - 1))


def test_white_noise_is_flat_at_its_variance_and_units_follow_the_period() -> None:
    noise = 2.0 * np.random.default_rng(1).standard_normal(200_000)
    found = welch_psd(noise, 32)
    assert found.shape == (33,)
    np.testing.assert_allclose(
        found[2:], 4.0, rtol=0.12
    )  # the mean of each segment is removed: less at 0 and beside it
    np.testing.assert_allclose(welch_psd(noise, 32, period=0.25), found / 4, rtol=1e-12)
    assert variance(found) == pytest.approx(4.0, rel=0.03)


def test_first_order_process_has_its_closed_spectrum() -> None:
    series = lfilter([1.0], [1.0, -0.6], np.random.default_rng(2).standard_normal(400_000))
    angles = np.pi * np.arange(65) / 64
    np.testing.assert_allclose(
        welch_psd(series, 64)[2:], 1 / np.abs(1 - 0.6 * np.exp(-1j * angles[2:])) ** 2, rtol=0.12
    )


def test_slow_variations_are_kept_and_the_overall_level_is_not() -> None:
    slow = np.repeat([-1.0, 1.0], 640)
    found = welch_psd(7.0 + slow, 32)
    assert found[0] > 20  # removing the mean of each segment would leave nearly nothing
    np.testing.assert_allclose(found, welch_psd(slow, 32), rtol=1e-9, atol=1e-12)


@given(st.floats(-0.99, 0.99), st.integers(1, 40))
def test_ar1_spectrum_and_covariance(correlation: float, size: int) -> None:
    dense = toeplitz(correlation ** np.arange(size))
    np.testing.assert_allclose(ar1_spectrum(correlation, size), np.linalg.eigvalsh(dense), rtol=1e-8)
    scaled = ar1_covariance(correlation, size, smallest=2.0)
    assert np.linalg.eigvalsh(scaled)[0] == pytest.approx(2.0, rel=1e-8)
    assert np.linalg.eigvalsh(scaled)[0] > 2.0 * (1 - 1e-12)


@given(st.floats(0.01, 1.0), st.floats(0.1, 2.0), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_smoothing_keeps_spectra_positive_and_scales_their_sum(
    coefficient: float, gain: float, points: int, seed: int
) -> None:
    psd = np.random.default_rng(seed).exponential(size=points + 1)
    found = smooth_both_ways(psd, gain, coefficient)
    assert (found >= 0).all()
    assert variance(found) == pytest.approx(gain**2 * variance(psd), rel=1e-9)


def test_smoothing_is_the_filter_of_eq_10_forwards_and_backwards() -> None:
    psd = np.random.default_rng(3).exponential(size=41)
    even = np.r_[psd, psd[-2:0:-1]]
    turns = np.tile(even, 9)  # long enough that the start no longer matters
    forwards = lfilter([0, 0.8 * 0.39], [1, 0.39 - 1], turns)
    both = lfilter([0, 0.8 * 0.39], [1, 0.39 - 1], forwards[::-1])[::-1]
    np.testing.assert_allclose(smooth_both_ways(psd, 0.8, 0.39), both[4 * 80 : 4 * 80 + 41], rtol=1e-9)
    np.testing.assert_allclose(smooth_both_ways(psd, 1.0, 1.0), psd, rtol=1e-12)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"coefficient must be a number in \(0, 1\]"):
        smooth_both_ways([1.0, 1.0], 1.0, 1.2)  # a negative pole: the response changes sign (S5)
    with pytest.raises(ParameterError, match="gain must be a finite number, above 0"):
        smooth_both_ways([1.0, 1.0], 0.0, 0.5)
    with pytest.raises(ParameterError, match="not negative at every frequency; it is not at 1 of them"):
        check_psd([1.0, -0.1])
    with pytest.raises(NotFiniteError):
        check_psd([1.0, np.nan])
    with pytest.raises(ShapeError, match="at least two frequencies"):
        check_psd([1.0])
    with pytest.raises(ShapeError, match=r"2 \* points = 64"):
        welch_psd(np.ones(63), 32)
    with pytest.raises(ParameterError, match="period"):
        welch_psd(np.ones(64), 32, period=0)
    with pytest.raises(ParameterError, match=r"correlation must be a number in \(-1, 1\)"):
        ar1_spectrum(1.0, 4)


@pytest.mark.parametrize("coefficient", [1e-3, 1e-9, 1e-200])
def test_smoothing_over_all_frequencies_leaves_the_mean(coefficient: float) -> None:
    psd = np.random.default_rng(5).exponential(size=9)
    found = smooth_both_ways(psd, 0.7, coefficient)
    np.testing.assert_allclose(found, 0.49 * variance(psd), rtol=2e-5)
