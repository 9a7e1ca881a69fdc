from __future__ import annotations

import numpy as np
import pytest

from gaussveil.errors import ParameterError
from gaussveil.timeseries import Readings, fit_weekly_season, log_power


def readings(weeks: float, start: str = "2024-01-03T06:00", step: int = 60) -> Readings:
    count = round(weeks * 7 * 24 * 60 / step)
    values = np.exp(np.random.default_rng(1).standard_normal((3, count)))
    return Readings(values, ("a", "b", "c"), np.datetime64(start), step)


def test_zeros_become_the_public_floor() -> None:
    np.testing.assert_allclose(log_power(np.array([0.0, 0.005, 2.0]), 0.01), np.log([0.01, 0.01, 2.0]))
    with pytest.raises(ParameterError, match="floor must be a finite number, above 0"):
        log_power(np.ones(3), 0.0)


@pytest.mark.parametrize("weeks", [1, 2.3, 4])
def test_season_is_the_mean_by_position_in_the_week(weeks: float) -> None:
    data = readings(weeks)
    season = fit_weekly_season(data)
    logs = np.log(data.values)
    positions = np.array([(t.astype("datetime64[h]").astype(int) - 4 * 24) % 168 for t in data.times])
    for position in (0, 54, 167):
        expected = logs[:, positions == position].mean(axis=1)
        np.testing.assert_allclose(season.mean[:, position], expected, rtol=1e-12)
    residual = season.residual(data)
    for position in (0, 100):
        np.testing.assert_allclose(residual[:, positions == position].mean(axis=1), 0, atol=1e-12)


def test_a_purely_weekly_series_leaves_nothing_and_is_continued() -> None:
    base = readings(1)
    data = Readings(np.tile(base.values, 3), base.households, base.start, 60)
    season = fit_weekly_season(data)
    np.testing.assert_allclose(season.residual(data), 0, atol=1e-12)
    np.testing.assert_allclose(season.after(data.window(0, 200), 30), np.log(data.values[:, 200:230]), rtol=1e-12)


def test_weekday_weight_zero_is_one_profile_for_all_days() -> None:
    data = readings(3, start="2024-01-01")
    plain, daily = fit_weekly_season(data), fit_weekly_season(data, weekday_weight=0.0)
    expected = np.log(data.values).reshape(3, 21, 24).mean(axis=1)
    np.testing.assert_allclose(daily.mean, np.tile(expected, 7), rtol=1e-10)
    half = fit_weekly_season(data, weekday_weight=0.5)
    np.testing.assert_allclose(half.mean, (plain.mean + daily.mean) / 2, rtol=1e-10)


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_variance_inflation_is_what_independent_noise_shows(weight: float) -> None:
    noise = np.exp(np.random.default_rng(2).standard_normal((60, 4 * 168)))
    names = tuple(map(str, range(60)))
    past = Readings(noise[:, : 3 * 168], names, np.datetime64("2024-01-01"), 60)
    future = Readings(noise[:, 3 * 168 :], names, np.datetime64("2024-01-22"), 60)
    season = fit_weekly_season(past, 1e-6, weekday_weight=weight)
    found = np.mean(season.residual(future) ** 2) / np.mean(season.residual(past) ** 2)
    assert found == pytest.approx(season.variance_inflation, rel=0.04)
    if weight == 1:
        assert season.variance_inflation == pytest.approx(2.0)
    assert fit_weekly_season(past.window(0, 168)).variance_inflation == np.inf


def test_too_little_data_or_other_households_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 168 readings"):
        fit_weekly_season(readings(0.9))
    with pytest.raises(ParameterError, match=r"weekday_weight must be a number in \[0, 1\]"):
        fit_weekly_season(readings(1), weekday_weight=1.5)
    season = fit_weekly_season(readings(1))
    with pytest.raises(ParameterError, match=r"fitted to 3 households at 60 minutes\. Got 3 at 15"):
        season.residual(readings(1, step=15))
