from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gaussveil.accounting import Guarantee, PrivateDiagnostics, Release
from gaussveil.mechanisms import PrivateForecast, PrivateForecaster
from gaussveil.noise import SeededGenerator
from gaussveil.report.forecast import absolute_errors, forecast_figure, forecast_report
from gaussveil.report.html import render
from gaussveil.timeseries import simulate_households

HOME = "home00002"


@cache
def released(accuracy: float = 0.3) -> tuple[Release[PrivateForecast], PrivateDiagnostics]:
    readings = simulate_households(5, 15, step_minutes=60, seed=1)
    forecaster = PrivateForecaster(
        horizon=2, epsilon=1.0, accuracy=accuracy, clusters=1, order=(1, 0), generator=SeededGenerator(1)
    ).fit(readings)
    return forecaster.release(HOME), forecaster.diagnostics(HOME, truth=[0.123456, 0.654321])


def test_shared_page_holds_released_values_only() -> None:
    release, private = released()
    page = render(forecast_report(release.value, release.certificate))
    for kw in release.value.kw:
        assert f"{kw:.3f}" in page
    assert "do not share" not in page
    assert "For the owner only" not in page
    assert "Hidden among 5 households" in page
    assert f"{private['plain_rmse_kw']:.3g} kW" not in page


def test_shared_figure_has_no_private_line() -> None:
    release, private = released()
    shared, owner = forecast_figure(release.value), forecast_figure(release.value, private)
    assert [line.get_label() for line in shared.axes[0].lines] == ["released"]
    labels = [line.get_label() for line in owner.axes[0].lines]
    assert labels == ["released", "past day", "plain forecast", "truth"]
    drawn = [np.asarray(line.get_ydata(), dtype=np.float64) for line in owner.axes[0].lines]
    np.testing.assert_allclose(drawn[3], np.array([0.123456, 0.654321]))
    assert len(drawn[1]) == 24


def test_private_page_is_marked() -> None:
    release, private = released()
    page = render(forecast_report(release.value, release.certificate, private))
    assert "do not share" in page[: page.index("<main>")]
    assert "For the owner only" in page


def test_a_release_of_the_centre_says_so() -> None:
    release, private = released(accuracy=50.0)
    page = render(forecast_report(release.value, release.certificate))
    assert "he forecast is the average of its group of 5 households" in page
    promised = replace(release.certificate, guarantee=Guarantee.model_based("models are public"))
    first = render(forecast_report(release.value, promised))
    assert "differential privacy for the label of each household, model-based (models are public)" in first
    errors = absolute_errors(release.value, private)
    truth = np.array([0.123456, 0.654321])
    assert errors["released"] == pytest.approx(float(np.mean(np.abs(release.value.kw - truth))))
    assert errors["group"] == pytest.approx(errors["released"], rel=0.05)
    owner = render(forecast_report(release.value, release.certificate, private))
    for told in ("the release", "the plain forecast", "the group's average".replace("'", "&#39;")):
        assert f"Mean absolute error of {told}" in owner


@pytest.mark.parametrize("rows", [2, 3])
def test_a_cluster_draws_one_line_per_row(rows: int) -> None:
    ones = np.ones((rows, 2))
    value = PrivateForecast(
        np.array(["2020-01-01T00:00", "2020-01-01T01:00"], dtype="datetime64[m]"), ones, ones, ones / 2, ones * 2, 0.9
    )
    assert len(forecast_figure(value).axes[0].lines) == rows
