from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.timeseries import (
    ArmaModels,
    Readings,
    autocovariance,
    fit_arma,
    fit_weekly_season,
    impulse_response,
    mmse_forecast,
    to_kw,
)

from .conditional_forecast import conditional_forecast

AR, MA = [0.5, 0.2], [0.4, -0.3, 0.1]


def models(homes: int = 2) -> ArmaModels:
    return ArmaModels(np.tile(AR, (homes, 1)), np.tile(MA, (homes, 1)), np.full(homes, 0.8), np.arange(homes) * 1.0)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_forecast_is_the_dense_conditioning_of_the_joint_gaussian(count: int, horizon: int, seed: int) -> None:
    lags = autocovariance(AR, MA, 0.8, count + horizon)
    past = np.random.default_rng(seed).standard_normal(count)
    mean, error, explained = conditional_forecast(lags, past, horizon)
    joint = toeplitz(lags)
    observed, cross = joint[:count, :count], joint[count:, :count]
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(observed, past), atol=1e-10)
    np.testing.assert_allclose(explained, cross @ np.linalg.solve(observed, cross.T), atol=1e-10)
    np.testing.assert_allclose(error, joint[count:, count:] - explained, atol=1e-10)
    assert np.linalg.eigvalsh(error).min() > 0


def test_long_pasts_reach_the_innovations_form() -> None:
    past = np.random.default_rng(1).standard_normal((2, 400))
    found = mmse_forecast(models(), past, 6)
    response = impulse_response(AR, MA, 6)
    lower = toeplitz(response, np.r_[response[0], np.zeros(5)])
    np.testing.assert_allclose(found.error_covariance[0], 0.8 * lower @ lower.T, atol=1e-9)
    whole = toeplitz(autocovariance(AR, MA, 0.8, 6))
    np.testing.assert_allclose(found.error_covariance + found.forecast_covariance, np.stack([whole] * 2), atol=1e-12)


def test_first_order_forecast_in_closed_form_about_its_mean() -> None:
    model = ArmaModels(np.array([[0.6]]), np.zeros((1, 0)), np.ones(1), np.array([2.0]))
    found = mmse_forecast(model, [[5.0, 1.0, 4.0]], 4)
    np.testing.assert_allclose(found.mean[0], 2 + 2 * 0.6 ** np.arange(1, 5), rtol=1e-12)
    powers = 0.6 ** np.arange(1, 5)
    np.testing.assert_allclose(found.forecast_covariance[0], np.outer(powers, powers) / (1 - 0.36), rtol=1e-12)
    assert np.linalg.matrix_rank(found.forecast_covariance[0], tol=1e-10) == 1  # K5: often singular


def test_forecast_covariance_is_that_of_forecasts_over_random_pasts() -> None:
    lags = autocovariance(AR, MA, 0.8, 23)
    pasts = np.random.default_rng(2).multivariate_normal(np.zeros(20), toeplitz(lags[:20]), size=20000)
    weights = np.stack([conditional_forecast(lags, unit, 3)[0] for unit in np.eye(20)])
    sampled = np.cov((pasts @ weights).T)
    np.testing.assert_allclose(sampled, conditional_forecast(lags, pasts[0], 3)[2], atol=0.03)


@pytest.mark.parametrize(("ar", "ma"), [(AR, MA), ([0.9], []), ([], [0.7, 0.2]), ([], []), ([0.3, 0.2, 0.1], [0.5])])
@pytest.mark.parametrize("count", [3, 4, 50])
def test_linear_time_forecast_is_the_conditional_one(ar: list[float], ma: list[float], count: int) -> None:
    model = ArmaModels(np.array([ar]), np.array([ma]), np.array([0.8]), np.array([1.5]))
    past = 1.5 + np.random.default_rng(3).standard_normal((1, count))
    found = mmse_forecast(model, past, 5)
    lags = autocovariance(ar, ma, 0.8, count + 5)
    mean, error, explained = conditional_forecast(lags, past[0] - 1.5, 5)
    np.testing.assert_allclose(found.mean[0], 1.5 + mean, atol=1e-11)
    np.testing.assert_allclose(found.error_covariance[0], error, atol=1e-11)
    np.testing.assert_allclose(found.forecast_covariance[0], explained, atol=1e-11)


def test_forecasts_of_real_homes_beat_the_season_and_know_their_error(real_data: Path) -> None:
    values = np.loadtxt(
        real_data / "ch_homes_15min_kw.csv.gz", delimiter=",", skiprows=1, usecols=range(1, 405, 10), max_rows=1700
    ).T
    homes = Readings(values, tuple(map(str, range(len(values)))), np.datetime64("2018-10-29"), 15)
    season = fit_weekly_season(homes.window(0, 1440), weekday_weight=0.0)
    fitted = fit_arma(season.residual(homes.window(0, 1440)))
    errors, plain, scores = [], [], []
    for now in range(1440, 1688, 24):
        past, truth = homes.window(0, now), season.residual(homes)[:, now : now + 12]
        found = mmse_forecast(fitted, season.residual(past), 12)
        errors.append(truth - found.mean)
        plain.append(truth)
        scores.append(errors[-1] / np.sqrt(np.einsum("hii->hi", found.error_covariance) * season.variance_inflation))
    # Medians over the homes: one of them stands empty in the training weeks and is not afterwards.
    ours, base, score = (np.mean(np.square(kind), axis=(0, 2)) for kind in (errors, plain, scores))
    assert np.median(ours / base) < 0.97
    assert np.mean(ours < base) > 0.75
    assert np.median(score) == pytest.approx(1.0, abs=0.25)


def test_log_normal_power() -> None:
    draws = np.exp(0.3 + 0.5 * np.random.default_rng(4).standard_normal(400_000))
    assert to_kw(0.3, 0.25) == pytest.approx(draws.mean(), rel=5e-3)
    assert to_kw(0.3, 0.25, statistic="median") == pytest.approx(np.median(draws), rel=5e-3)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"one row per household \(2\)"):
        mmse_forecast(models(), np.ones((3, 9)), 2)
    with pytest.raises(ShapeError, match="at least 3 values"):
        mmse_forecast(models(), np.ones((2, 2)), 2)
    with pytest.raises(ParameterError, match="horizon"):
        mmse_forecast(models(), np.ones((2, 9)), 0)
    with pytest.raises(ParameterError, match="statistic"):
        to_kw(0.0, 1.0, statistic="mode")
    with pytest.raises(ParameterError, match="log_variance"):
        to_kw(0.0, -1.0)
