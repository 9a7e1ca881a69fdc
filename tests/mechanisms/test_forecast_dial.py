"""The dial of a forecast: what is kept grows with the promise, errors are those of the designs, the rule is public."""

from __future__ import annotations

import numpy as np
import pytest

from gaussveil import PrivateForecaster, simulate_households
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.forecast_dial import DialPoint, chosen
from gaussveil.report.forecast_dial import dial_figure, dial_lines

READINGS = simulate_households(12, 16, step_minutes=60, seed=1)
PAST, FUTURE = READINGS.window(0, 15 * 24), READINGS.window(15 * 24, 24)
DIAL_PROMISES = ((1.0, 1e-5), (8.0, 1e-2), (60.0, 1e-2))


@pytest.fixture(scope="module")
def points() -> list[DialPoint]:
    forecaster = PrivateForecaster(horizon="2h", epsilon=1.0, delta=1e-5, clusters=1, order=(1, 0)).fit(PAST)
    found: list[DialPoint] = forecaster.dial(FUTURE, promises=DIAL_PROMISES, clusters=(1, 2))
    return found


def test_what_is_kept_grows_with_the_promise_and_groups_share_one_plain_error(points: list[DialPoint]) -> None:
    assert len(points) == 6
    for number in (1, 2):
        own = [point for point in points if point.clusters == number]
        kept = [point.kept for point in own]
        assert kept == sorted(kept)
        assert kept[0] < 0.01
        assert kept[-1] > 0.5
        assert own[-1].private < own[0].private
    assert len({point.plain for point in points}) == 1
    assert points[2].private < points[2].centre  # at a promise that hides little


def test_plain_error_is_that_of_the_forecasts(points: list[DialPoint]) -> None:
    forecaster = PrivateForecaster(
        horizon="2h", epsilon=1.0, delta=1e-5, clusters=dict.fromkeys(PAST.households, 0), order=(1, 0)
    ).fit(PAST)
    errors = []
    for row, name in enumerate(PAST.households):
        plain = np.asarray(forecaster.diagnostics(name)["plain_log_kw"])
        errors.append(plain - np.log(np.maximum(FUTURE.values[row, :2], 0.01)))
    assert points[0].plain == pytest.approx(float(np.sqrt(np.mean(np.square(errors)))), rel=1e-9)


def test_the_least_promise_that_pays_is_chosen(points: list[DialPoint]) -> None:
    best = chosen(points)
    assert best is not None
    assert best.pays
    assert all(best.epsilon <= point.epsilon for point in points if point.pays)
    assert chosen(points[:1]) is None
    rows, verdict = dial_lines(points)
    assert len(rows) == 6
    assert f"epsilon {best.epsilon:g}" in verdict
    assert "at none" in dial_lines(points[:1])[1]
    assert len(dial_figure(points).axes) == 2


def test_without_the_truth_errors_are_not_known_and_a_short_one_is_refused() -> None:
    forecaster = PrivateForecaster(horizon="2h", epsilon=1.0, delta=1e-5, clusters=1, order=(1, 0)).fit(PAST)
    (point,) = forecaster.dial(promises=DIAL_PROMISES[:1], clusters=(1,))
    assert np.isnan(point.private)
    wide = forecaster.dial(promises=DIAL_PROMISES[-1:], clusters=(1,))
    rows, verdict = dial_lines(wide)
    assert rows[0][-3:] == ("-", "-", "-")
    assert "first pays" not in verdict
    assert "errors are known only with readings that followed" in verdict
    with pytest.raises(ParameterError, match="truth"):
        forecaster.dial(FUTURE.window(0, 1), promises=DIAL_PROMISES[:1], clusters=(1,))
