from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.stats import multivariate_normal
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.arima_process import arma_acovf, arma_impulse_response

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries import autocovariance, fit_arma, impulse_response, log_likelihood
from gaussveil.timeseries.arma import conditional_innovations
from gaussveil.timeseries.arma_process import spectral_radius

Vector = NDArray[np.float64]


@st.composite
def polynomials(draw: st.DrawFn) -> Vector:
    """Coefficients c of 1 - c1 z - ... whose roots lie inside the disk of radius 0.95, possibly none."""
    found = np.ones(1)
    for radius, angle in draw(st.lists(st.tuples(st.floats(0, 0.95), st.floats(0.1, 3.0)), max_size=2)):
        found = np.convolve(found, [1, -2 * radius * np.cos(angle), radius**2])
    for root in draw(st.lists(st.floats(-0.95, 0.95), max_size=2)):
        found = np.convolve(found, [1, -root])
    return -found[1:]


@given(polynomials(), polynomials())
def test_impulse_response_and_autocovariance_agree_with_statsmodels_and_with_the_sum(ar: Vector, ma: Vector) -> None:
    left, right = np.r_[1, -ar], np.r_[1, -ma]
    response = impulse_response(ar, -ma, 2000)
    np.testing.assert_allclose(response[:60], arma_impulse_response(left, right, 60), atol=1e-9)
    covariances = autocovariance(ar, -ma, 2.5, 40)
    scale = covariances[0]
    np.testing.assert_allclose(covariances, arma_acovf(left, right, 40, 2.5), atol=1e-8 * scale)
    direct = [2.5 * response[: 2000 - k] @ response[k:] for k in range(40)]  # K6: sum_j h[j] h[j+k]
    np.testing.assert_allclose(covariances, direct, atol=1e-8 * scale)


def test_closed_form_of_the_first_order() -> None:
    np.testing.assert_allclose(autocovariance([0.7], [], 3.0, 12), 3 / (1 - 0.49) * 0.7 ** np.arange(12), rtol=1e-13)
    np.testing.assert_allclose(impulse_response([0.7], [], 12), 0.7 ** np.arange(12), rtol=1e-13)
    np.testing.assert_allclose(autocovariance([], [0.4], 3.0, 4), [3 * 1.16, 1.2, 0, 0], rtol=1e-13)


def test_the_printed_swap_of_ar_and_ma_gives_another_process() -> None:
    assert abs(impulse_response([0.9], [0.1], 5)[4] - impulse_response([-0.1], [-0.9], 5)[4]) > 0.5


def test_batches_are_rows() -> None:
    ar, ma = np.array([[0.5, 0.2], [0.1, -0.3]]), np.array([[0.3], [0.0]])
    both = autocovariance(ar, ma, np.array([1.0, 2.0]), 9)
    for home in range(2):
        np.testing.assert_allclose(both[home], autocovariance(ar[home], ma[home], home + 1.0, 9), rtol=1e-12)


@given(polynomials(), polynomials(), st.integers(0, 2**32 - 1))
def test_exact_likelihood_is_that_of_the_dense_gaussian(ar: Vector, ma: Vector, seed: int) -> None:
    series = np.random.default_rng(seed).standard_normal((1, 30))
    dense = multivariate_normal(np.zeros(30), toeplitz(autocovariance(ar, -ma, 1.7, 30))).logpdf(series[0])
    found = log_likelihood(series, ar[None], -ma[None], np.array([1.7]))[0]
    assert found == pytest.approx(dense, rel=1e-7, abs=1e-6)


def simulated(ar: list[float], ma: list[float], homes: int, count: int, seed: int) -> Vector:
    noise = np.random.default_rng(seed).standard_normal((homes, count + 500))
    return np.asarray(lfilter(np.r_[1, ma], np.r_[1, -np.array(ar)], noise)[:, 500:])


def test_fit_finds_the_truth_within_its_standard_errors() -> None:
    series = 3.0 + 2.0 * simulated([1.2, -0.5], [0.5], 6, 4000, 5)
    found = fit_arma(series, (2, 1))
    np.testing.assert_allclose(found.mean, 3.0, atol=0.8)
    np.testing.assert_allclose(found.variance, 4.0, rtol=0.12)
    np.testing.assert_allclose(found.ar, np.tile([1.2, -0.5], (6, 1)), atol=0.08)
    np.testing.assert_allclose(found.ma, 0.5, atol=0.08)


def test_fit_is_the_maximum_that_statsmodels_finds() -> None:
    series = simulated([0.6, 0.2], [0.4], 1, 800, 5)
    found = fit_arma(series, (2, 1))
    centred = series - found.mean[:, None]
    peer = ARIMA(centred[0], order=(2, 0, 1), trend="n").fit()
    assert log_likelihood(centred, found.ar, found.ma)[0] == pytest.approx(peer.llf, abs=0.02)
    np.testing.assert_allclose(np.r_[found.ar[0], found.ma[0]], peer.params[:3], atol=0.05)


def test_fit_is_at_least_as_likely_as_the_truth_and_stays_admissible() -> None:
    series = simulated([0.5, 0.1, 0.1, 0.05, 0.05, 0.1], [0.3, 0.2, 0.1, 0.1, 0.1], 4, 1440, 6)
    found = fit_arma(series)
    centred = series - found.mean[:, None]
    truth = np.tile([0.5, 0.1, 0.1, 0.05, 0.05, 0.1], (4, 1)), np.tile([0.3, 0.2, 0.1, 0.1, 0.1], (4, 1))
    assert (log_likelihood(centred, found.ar, found.ma) > log_likelihood(centred, *truth) - 0.5).all()
    assert spectral_radius(found.ar).max() < 1
    assert spectral_radius(-found.ma).max() < 1
    errors = conditional_innovations(centred, found.ar, found.ma)
    np.testing.assert_allclose(found.variance, (errors**2).mean(axis=1), rtol=0.02)


def test_fit_is_stationary_near_a_unit_root_and_invertible_near_an_overdifferenced_series() -> None:
    walk = np.cumsum(np.random.default_rng(7).standard_normal(800))
    over = np.diff(np.random.default_rng(8).standard_normal(801))
    found = fit_arma(np.stack([walk, over]), (2, 2))
    assert spectral_radius(found.ar).max() < 1
    assert spectral_radius(-found.ma).max() < 1


def test_fit_does_not_depend_on_scale_or_company() -> None:
    series = simulated([0.7], [0.2], 3, 600, 9)
    together, alone = fit_arma(series, (1, 1)), fit_arma(1000 * series[1], (1, 1))
    np.testing.assert_allclose(together.ar[1], alone.ar[0], rtol=1e-6)
    np.testing.assert_allclose(together.variance[1] * 1e6, alone.variance[0], rtol=1e-6)


def test_constant_rows_and_pure_noise_are_fitted_too() -> None:
    found = fit_arma(np.full((1, 200), 4.2))
    assert found.variance[0] > 0
    assert not found.ar.any()
    white = fit_arma(np.random.default_rng(10).standard_normal((1, 500)), (0, 0))
    assert white.variance[0] == pytest.approx(1.0, abs=0.2)
    assert white.ar.shape == white.ma.shape == (1, 0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"largest root has modulus 1.1"):
        autocovariance([1.1], [], 1.0, 3)
    with pytest.raises(ParameterError, match="variance must be positive"):
        autocovariance([0.1], [], 0.0, 3)
    with pytest.raises(ParameterError, match="n must be a whole number, at least 1"):
        impulse_response([0.1], [], 0)
    with pytest.raises(NotFiniteError, match="ar must hold finite"):
        impulse_response([np.nan], [], 3)
    with pytest.raises(ShapeError, match="at least 120 times"):
        fit_arma(np.ones((2, 100)))
    with pytest.raises(NotFiniteError, match="fill gaps first"):
        fit_arma(np.r_[np.nan, np.ones(400)])
    with pytest.raises(ParameterError, match="order"):
        fit_arma(np.ones(400), (-1, 2))
