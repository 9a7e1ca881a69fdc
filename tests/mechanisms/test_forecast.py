from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from gaussveil.accounting import Ledger, PrivateDiagnostics, verify
from gaussveil.errors import (
    AssumptionError,
    BudgetExceededError,
    GaussveilError,
    LedgerStateError,
    ParameterError,
    SchemaError,
)
from gaussveil.mechanisms.forecast import PrivateForecaster
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.forecast import PowerScale
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Readings, fit_arma, fit_weekly_season, simulate_households
from gaussveil.timeseries.arma_process import autocovariance
from gaussveil.timeseries.household_models import HouseholdModels, steps_ahead

from ..timeseries.conditional_forecast import conditional_forecast

HOME = "home00002"
ROUGH = {"order": (2, 1), "horizon": 2, "epsilon": 1.0, "clusters": 3, "smallest_cluster": 3}


@cache
def town() -> Readings:
    return simulate_households(12, 17, step_minutes=60, seed=1)


@cache
def past() -> Readings:
    return town().window(0, 15 * 24)


def forecaster(**changes: Any) -> PrivateForecaster:
    return PrivateForecaster(**{**ROUGH, "accuracy": 0.3, **changes})


@cache
def fitted() -> PrivateForecaster:
    """One for all tests that do not change it: searching noise takes a second."""
    return forecaster(generator=SeededGenerator(5)).fit(past())


def diagnostic(found: PrivateDiagnostics, name: str) -> Any:
    return found[name]


def test_plain_forecast_is_season_plus_dense_conditioning_on_the_past() -> None:
    season = fit_weekly_season(past(), weekday_weight=0.25)
    residual = season.residual(past())
    model = fit_arma(residual, (2, 1))
    found = diagnostic(fitted().diagnostics(HOME), "plain_log_kw")
    row = past().households.index(HOME)
    lags = autocovariance(model.ar[row], model.ma[row], model.variance[row], past().count + 2)
    offset, _, _ = conditional_forecast(lags, residual[row] - model.mean[row], 2)
    np.testing.assert_allclose(found, season.after(past(), 2)[row] + model.mean[row] + offset, atol=1e-8)


def test_release_hides_among_the_cluster_and_its_certificate_verifies() -> None:
    mechanism = forecaster().fit(past())
    release = mechanism.release(HOME)
    certificate = release.certificate
    members = diagnostic(mechanism.diagnostics(HOME), "cluster_households")
    edges = certificate.adjacency.parameters["edges"]
    assert isinstance(edges, list)
    assert {tuple(edge) for edge in edges} == {(x, y) for x in members for y in members if x != y}
    assert HOME in members
    assert verify(certificate).private
    assert certificate.parameters["model"] == "past known"
    assert sum(certificate.parameters["cluster_sizes"]) == 12  # type: ignore[call-overload]
    assert certificate.guarantee.kind == "model-based"
    assert "readings behind them are not protected" in certificate.guarantee.reason
    assert str(certificate).splitlines()[0].startswith("Protected: the label of one household changes")
    assert any("assumed public" in line for line in certificate.assumptions)
    assert float(certificate.parameters["accuracy"]) <= 0.3  # type: ignore[arg-type]
    assert mechanism.certificate_ is certificate
    # Noise means would give every household's forecast away, up to the noise.
    assert not {"noise_means", "noise_covariances"} & set(certificate.parameters)
    shape = np.asarray(certificate.parameters["noise_covariance"]).shape
    assert shape == (2, 2)
    assert list(release.value.times.astype(str)) == ["2018-11-13T00:00", "2018-11-13T01:00"]


def test_certified_delta_is_that_of_the_outputs_laws() -> None:
    """Every ordered pair of the cluster, from the forecasts, noise means and covariances, by an independent route."""
    few = past().select(past().households[:4])
    mechanism = forecaster(clusters=1, common_covariance=False).fit(few)
    certificate = mechanism.release(HOME).certificate
    forecasts = diagnostic(mechanism.diagnostics(HOME), "cluster_log_forecasts")
    (window,) = mechanism._windows.values()
    centres, spreads = forecasts + window.noise.plan_.shifts, window.noise.noise_covariances_
    count = len(forecasts)
    worst = max(
        GaussianPair(centres[x], spreads[x], centres[y], spreads[y]).delta(1.0)
        for x in range(count)
        for y in range(count)
        if x != y
    )
    assert certificate.delta >= worst * (1 - 1e-9)
    assert certificate.delta == pytest.approx(worst, rel=1e-5)


def test_released_logs_have_the_declared_law() -> None:
    mechanism = fitted()
    mechanism.release(HOME)
    (window,) = (found for found in mechanism._windows.values() if not found.noise.swap)
    row = window.names.index(HOME)
    query = window.queries.forecast[row]
    draws = np.stack([window.noise.plan_.draw(row, query, mechanism.generator) for _ in range(400)])
    centre = window.queries.forecast[row] + window.noise.plan_.shifts[row]
    standard = (draws - centre) @ np.linalg.inv(np.linalg.cholesky(window.noise.noise_covariances_[row])).T
    assert np.all(np.abs(standard.mean(axis=0)) < 6 / math.sqrt(400))
    assert np.all(np.abs(standard.std(axis=0) - 1) < 6 / math.sqrt(800))
    steps = draws / window.noise.plan_.grid
    np.testing.assert_array_equal(steps, np.rint(steps))


def test_back_transform_treats_all_households_of_the_cluster_alike() -> None:
    """kW and band are one function of the released logs, whoever was released; the factor removes the bias."""
    mechanism = fitted()
    names = diagnostic(mechanism.diagnostics(HOME), "cluster_households")
    ratios, widths = set(), set()
    for name in names:
        value = mechanism.release(name).value
        ratios.add(tuple(np.round(value.kw / np.exp(value.log_kw), 12)))
        widths.add(tuple(np.round(value.upper_kw / value.lower_kw, 9)))
    assert len(ratios) == len(widths) == 1
    (window,) = (found for found in mechanism._windows.values() if not found.noise.swap)
    plan, error = window.noise.plan_, window.queries.error_variance
    # By sampling, with the cluster's households equally likely: mean released power is mean power, the band covers.
    generator = np.random.default_rng(3)
    household = generator.integers(len(names), size=200_000)
    future = window.queries.forecast[household] + np.sqrt(error[household]) * generator.standard_normal((200_000, 2))
    noise = np.diagonal(window.noise.noise_covariances_, axis1=1, axis2=2)[household]
    logs = plan.centres[household] + np.sqrt(noise) * generator.standard_normal((200_000, 2))
    value = window.scale.forecast(logs, window.times, 0.9)
    np.testing.assert_allclose(value.kw.mean(axis=0), np.exp(future).mean(axis=0), rtol=0.1)
    inside = (np.exp(future) >= value.lower_kw) & (np.exp(future) <= value.upper_kw)
    assert np.all(np.abs(inside.mean(axis=0) - 0.9) < 0.04)
    assert ndtri(0.95) * 2 * np.sqrt(window.scale.variance) == pytest.approx(np.log(value.upper_kw / value.lower_kw)[0])


def test_expected_errors_in_kw_against_sampling() -> None:
    found = fitted().diagnostics(HOME)
    (window,) = (found for found in fitted()._windows.values() if not found.noise.swap)
    row, generator = window.names.index(HOME), np.random.default_rng(4)
    forecast, error = window.queries.forecast[row], window.queries.error_variance[row]
    future = np.exp(forecast + np.sqrt(error) * generator.standard_normal((400_000, 2)))
    noise = np.sqrt(np.diagonal(window.noise.noise_covariances_[row])) * generator.standard_normal((400_000, 2))
    released = np.exp(window.noise.plan_.centres[row] + noise + window.scale.log_factor)
    plain = np.exp(forecast + error / 2)
    assert diagnostic(found, "plain_rmse_kw") == pytest.approx(np.sqrt(np.mean((plain - future) ** 2)), rel=0.03)
    assert diagnostic(found, "private_rmse_kw") == pytest.approx(np.sqrt(np.mean((released - future) ** 2)), rel=0.03)


def test_whole_cluster_uses_the_swap_pair_and_shuffles() -> None:
    mechanism = fitted()
    release = mechanism.release_cluster_of(HOME)
    (window,) = (found for found in mechanism._windows.values() if found.noise.swap)
    count = len(window.names)
    assert release.value.kw.shape == (count, 2)
    assert "change places" in release.certificate.adjacency.unit
    assert set(release.value.columns()) == {"time", "row", "kw", "lower_kw", "upper_kw", "log_kw"}
    plan = window.noise.plan_
    pair = GaussianPair(
        np.r_[plan.centres[0], plan.centres[1]],
        np.kron(np.eye(2), window.noise.noise_covariances_[0]),
        np.r_[plan.centres[1], plan.centres[0]],
        np.kron(np.eye(2), window.noise.noise_covariances_[0]),
    )
    edge = [tuple(one) for one in plan.edges].index((0, 1))
    assert float(plan.loss.delta(1.0)[edge]) == pytest.approx(float(pair.delta(1.0)), rel=1e-6)
    # With noise that cannot bridge the distance, a row tells its household: over draws each row is several of them.
    nearest = {
        int(np.argmin(np.sum((plan.centres - mechanism.release_cluster_of(HOME).value.log_kw[0]) ** 2, axis=1)))
        for _ in range(12)
    }
    assert len(nearest) > 1


def test_random_past_rests_on_the_model_and_serves_once() -> None:
    few = past().households[:3]
    settings: dict[str, Any] = {"model": "random past", "horizon": 1, "accuracy": 0.5, "clusters": 1}
    mechanism = forecaster(**settings, smallest_kept=0.0).fit(past().select(few))
    certificate = mechanism.release(HOME).certificate
    assert certificate.guarantee.kind == "model-based"
    assert "ARMA" in certificate.guarantee.reason
    assert verify(certificate).private
    assert certificate.parameters["model"] == "random past"
    with pytest.raises(AssumptionError, match="fresh past"):
        mechanism.release(HOME)
    with pytest.raises(AssumptionError, match="fresh past"):
        mechanism.release(HOME, past=town().window(24, 15 * 24).select(few))


def test_at_strict_settings_the_product_is_the_average_of_its_group() -> None:
    """Whoever of the cluster asks has the same numbers, at no cost; a threshold of 0 asks for one home's anyhow."""
    strict = forecaster(accuracy=None, delta=1e-5, generator=SeededGenerator(1)).fit(past())
    release = strict.release(HOME)
    known = release.certificate.parameters
    assert (known["product"], known["smallest_kept"], known["retained_variance"]) == ("group", 0.1, 0.0)
    assert float(str(known["kept_alone"])) < 0.1
    assert "the average of its" in release.certificate.released
    assert release.certificate.delta < 1e-20
    assert verify(release.certificate).private is False  # seeded
    found = strict.diagnostics(HOME)
    np.testing.assert_allclose(release.value.kw, diagnostic(found, "group_kw"), rtol=0.05)
    for other in diagnostic(found, "cluster_households"):
        np.testing.assert_allclose(strict.release(other).value.kw, release.value.kw, rtol=0.05)
    alone = forecaster(accuracy=None, delta=1e-5, smallest_kept=0.0).fit(past()).release(HOME).certificate
    assert (alone.parameters["product"], alone.delta) == ("household", 1e-5)
    assert float(str(alone.parameters["retained_variance"])) == pytest.approx(float(str(known["kept_alone"])))
    assert forecaster(smallest_kept=1.0).fit(past()).release(HOME).certificate.parameters["product"] == "group"
    loose = fitted().release(HOME).certificate.parameters
    assert loose["product"] == "household"
    assert float(str(loose["retained_variance"])) > 0.1


def test_the_plan_says_in_one_sentence_where_the_average_does_as_well(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("home", epsilon=1.0, delta=1e-4)
    strict = forecaster(accuracy=None, delta=1e-5, account=account).fit(past())
    size = len(diagnostic(strict.diagnostics(HOME), "cluster_households"))
    assert strict.plan(HOME).endswith(
        f"between the {size} of its group: the average of its group does as well, and the group's is what would be "
        "released"
    )
    assert not Ledger(account.ledger).entries("home")
    anyhow = forecaster(accuracy=None, delta=1e-5, smallest_kept=0.0).fit(past()).plan(HOME)
    assert anyhow.endswith("does as well, and the household's is what would be released")
    loose = fitted()
    kept = float(str(loose.release(HOME).certificate.parameters["retained_variance"]))
    assert loose.plan(HOME).startswith(f"a forecast of one household keeps {kept:.2g} of the variance")
    assert "it tells more than the average, and the household's" in loose.plan(HOME)


def test_an_account_pays_for_a_random_past_once_whoever_asks(tmp_path: Path) -> None:
    """A copy, another process and another horizon all release the same days; the ledger knows them."""
    account = Ledger.create(tmp_path / "spent.ledger").open_account("home", epsilon=10.0, delta=0.9)
    few = past().select(past().households[:3])
    settings: dict[str, Any] = {"model": "random past", "accuracy": 0.5, "clusters": 1, "account": account}
    forecaster(horizon=1, **settings).fit(few).release(HOME)
    for horizon in (1, 2):
        with pytest.raises(LedgerStateError, match="draw"):
            forecaster(horizon=horizon, **settings).fit(few).release(HOME)
    assert len(Ledger(account.ledger).entries("home")) == 1


def test_two_releases_from_one_random_past_would_cost_more_than_they_compose_to() -> None:
    """Why a past serves once: the same random query behind both outputs makes them dependent."""
    own, noise = 0.5, 1.0
    still, moving = noise * np.eye(2), noise * np.eye(2) + own
    together = GaussianPair([0.0, 0.0], moving, [0.0, 0.0], still).delta(0.5)
    composed = (GaussianPair([0.0], [[noise + own]], [0.0], [[noise]]) ** 2).delta(0.5)
    assert float(together) > 1.5 * float(composed)


def test_windows_compose_in_the_account(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("home", epsilon=4.0, delta=0.9)
    mechanism = forecaster(account=account, accuracy=1.0).fit(past())
    first = mechanism.release(HOME)
    once = Ledger(account.ledger).statement("home").spent_delta
    second = mechanism.release(HOME, past=town().window(24, 15 * 24))
    assert second.value.times[0] - first.value.times[0] == np.timedelta64(24, "h")
    assert first.certificate.adjacency == second.certificate.adjacency
    assert Ledger(account.ledger).statement("home").spent_delta > once
    assert [entry.state for entry in Ledger(account.ledger).entries("home")] == ["released", "released"]


def test_every_refusal_comes_before_the_debit(tmp_path: Path) -> None:
    poor = Ledger.create(tmp_path / "poor.ledger").open_account("home", epsilon=0.01, delta=1e-9)
    mechanism = forecaster(account=poor).fit(past())
    short = town().window(0, 14 * 24).select(town().households[:6])
    attempts: tuple[tuple[Callable[[], Any], type[GaussveilError], str], ...] = (
        (lambda: mechanism.release("nobody"), ParameterError, "household must be one of"),
        (lambda: mechanism.release(HOME, past=short), SchemaError, "past must hold the 12"),
        (lambda: mechanism.release(HOME), BudgetExceededError, "nothing was drawn"),
        (lambda: forecaster().release(HOME), ParameterError, "call fit"),
        (lambda: forecaster(delta=1e-5).fit(past()), ParameterError, "exactly one of"),
        (lambda: forecaster(model="sure").fit(past()), ParameterError, "model must be"),
        (lambda: forecaster(horizon="7 weeks").fit(past()), ParameterError, "horizon"),
        (lambda: forecaster(coverage=1.0).fit(past()), ParameterError, "coverage"),
        (lambda: forecaster(smallest_kept=1.5).fit(past()), ParameterError, "smallest_kept"),
        (lambda: forecaster(clusters={HOME: "a"}).fit(past()), ParameterError, "11 have none"),
        (lambda: forecaster(epsilon=-1.0).fit(past()).release(HOME), ParameterError, "epsilon"),
        (lambda: forecaster().fit({"time": ["2020-01-01"]}), SchemaError, "column per household"),
        (lambda: forecaster().fit(town().window(0, 100)), ParameterError, "one week"),
        (lambda: mechanism.diagnostics(HOME, truth=[1.0]), GaussveilError, "one power in kW per step"),
    )
    for attempt, kind, words in attempts:
        with pytest.raises(kind, match=words):
            attempt()
    assert not Ledger(poor.ledger).entries("home")


def test_one_week_alone_is_refused_for_want_of_an_error() -> None:
    with pytest.raises(ParameterError, match="more than one week"):
        forecaster(weekday_weight=1.0).fit(town().window(0, 7 * 24)).release(HOME)


def test_given_clusters_are_kept() -> None:
    names = past().households
    mechanism = forecaster(clusters={name: "odd" if int(name[-1]) % 2 else "even" for name in names}).fit(past())
    found = diagnostic(mechanism.diagnostics(HOME), "cluster_households")
    assert found == [name for name in names if int(name[-1]) % 2 == 0]


def test_nothing_fitted_shows_or_travels() -> None:
    mechanism = fitted()
    assert "home" not in repr(mechanism)
    for made in (pickle.loads(pickle.dumps(forecaster().fit(past()))), copy.deepcopy(forecaster().fit(past()))):
        assert not [name for name in vars(made) if name in ("_models", "certificate_")]
        assert not made._windows
    public = {name for name in vars(mechanism) if not name.startswith("_")} - {"certificate_"}
    assert public <= {*PrivateForecaster.__dataclass_fields__}
    shown = mechanism.diagnostics(HOME, truth=[0.4, 0.5])
    assert "do not share" in repr(shown)
    assert diagnostic(shown, "truth_kw").tolist() == [0.4, 0.5]


def test_horizons() -> None:
    assert [steps_ahead(*pair) for pair in (("3h", 15), ("45min", 15), ("1d", 60), (7, 15))] == [12, 3, 24, 7]
    for bad in ("3", "20min", "0h", 0, 1.5, True):
        with pytest.raises(ParameterError, match="horizon"):
            steps_ahead(bad, 15)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"a time such as '3h' .* \(in Python also a number of steps\). Got '24'"):
        steps_ahead("24", 60)


def test_scale_of_a_centre_release_is_the_mean_power_of_the_cluster() -> None:
    """Households so far apart that only the centre fits: kW must still be the cluster's expected power."""
    mechanism = forecaster(accuracy=50.0, generator=SeededGenerator(2)).fit(past())
    release = mechanism.release(HOME)
    (window,) = mechanism._windows.values()
    assert release.certificate.parameters["kind"] == "centre"
    assert release.certificate.delta < 1e-9
    assert float(release.certificate.parameters["retained_variance"]) < 1e-6  # type: ignore[arg-type]
    expected = np.exp(window.queries.forecast + window.queries.error_variance / 2).mean(axis=0)
    np.testing.assert_allclose(release.value.kw, expected, rtol=0.02)
    assert isinstance(window.scale, PowerScale)
    assert isinstance(mechanism._models, HouseholdModels)
