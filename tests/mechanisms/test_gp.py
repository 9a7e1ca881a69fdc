from __future__ import annotations

import math
import traceback
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.datasets import load_linnerud
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel
from sklearn.utils.estimator_checks import check_estimator

from gaussveil.accounting import verify
from gaussveil.errors import AssumptionError, GaussveilError, ParameterError, SchemaError
from gaussveil.mechanisms import PrivateGaussianProcessRegressor
from gaussveil.mechanisms.gp import dominating_pair, predictive
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics import as_source

EXEMPT = {
    "check_regressor_data_not_an_array": "two fits draw differently",
    "check_supervised_y_2d": "two fits draw differently",
    "check_fit_idempotent": "two fits draw differently",
    "check_regressors_int": "two fits draw differently",
    "check_supervised_y_no_nan": "a record without a label is left out: a refusal would tell of it",
}


def test_scikit_learn_checks_pass() -> None:
    assert len(EXEMPT) <= 10
    check_estimator(PrivateGaussianProcessRegressor(), expected_failed_checks=EXEMPT, on_skip=None, on_fail="raise")


# corrections.md, last column
@pytest.mark.parametrize(("n_max", "bound", "variance"), [(100, 1.0, 254.6), (1, 1.0, 12.3), (100, 0.01, 3.22)])
def test_variances_of_the_corrections_are_reached(n_max: int, bound: float, variance: float) -> None:
    plan = PrivateGaussianProcessRegressor(n_max=n_max, label_bound=bound, epsilon=1.0, delta=1e-5).plan()
    assert plan.added_variance == pytest.approx(variance, rel=2e-3)


def test_linnerud_of_the_paper_needs_no_noise() -> None:
    data = load_linnerud()
    rows, pulse = data.data, data.target[:, 2] - 56.0
    model = PrivateGaussianProcessRegressor(
        kernel=RBF(5.0),
        query_points=rows[16:],
        observation_variance=250.0,
        label_bound=0.5,
        n_max=16,
        epsilon=1.0,
        delta=1e-5,
    ).fit(rows[:16], pulse[:16])
    assert model.added_variance_ == 0.0
    assert verify(model.certificate_).private
    pair = dominating_pair(
        0.0, point_variance=1.0, kernel_bound=1.0, observation_variance=250.0, label_bound=0.5, n_max=16
    )
    assert float(np.maximum(pair.log_delta(1.0), pair.reversed().log_delta(1.0))) < -100 * math.log(10)
    assert model.predict(rows[16:]) == pytest.approx(model.values_, abs=1e-4)


@pytest.mark.parametrize("added", [0.0, 0.5])
def test_dominating_pair_covers_neighbours_on_data(added: float) -> None:
    rng, kernel, bound, noise, epsilon = np.random.default_rng(2), RBF(0.7), 1.0, 0.3, 0.4
    query = np.zeros((1, 1))
    for count in (1, 2, 6):
        pair = dominating_pair(
            added, point_variance=1.0, kernel_bound=1.0, observation_variance=noise, label_bound=bound, n_max=count
        )
        for _ in range(15):
            rows, labels = rng.normal(size=(count, 1)) * 0.5, rng.choice([-bound, bound], size=count)
            (m1, s1), (m0, s0) = (predictive(kernel, rows[k:], labels[k:], query, noise) for k in (0, 1))
            found = GaussianPair(m1, [s1 + added], m0, [s0 + added])
            assert float(found.delta(epsilon)) <= float(pair.delta(epsilon)) + 1e-12
            assert float(found.reversed().delta(epsilon)) <= float(pair.reversed().delta(epsilon)) + 1e-12


def test_moments_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    rows, labels, points = rng.normal(size=(12, 2)), rng.normal(size=12), rng.normal(size=(4, 2))
    mean, variance = predictive(Matern(1.3), rows, labels, points, 0.2)
    peer = GaussianProcessRegressor(Matern(1.3), alpha=0.2, optimizer=None).fit(rows, labels)
    expected, deviation = peer.predict(points, return_std=True)
    assert mean == pytest.approx(expected)
    assert variance == pytest.approx(deviation**2)


def test_draws_have_the_lifted_predictive_law_and_bad_records_are_left_out() -> None:
    points, rows, labels = np.array([[0.0], [2.0]]), np.array([[0.1], [1.0], [np.nan]]), np.array([9.0, -0.4, 1.0])
    model = PrivateGaussianProcessRegressor(
        query_points=points, n_max=5, epsilon=1.0, delta=0.05, generator=SeededGenerator(9)
    )
    values = np.stack([model.fit(rows, labels).values_ for _ in range(80)])
    mean, variance = predictive(RBF(), rows[:2], np.array([1.0, -0.4]), points, 1.0)  # 9 is clipped to 1
    standard = (values - mean) / np.sqrt(variance + model.added_variance_)
    assert kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert kstest(standard.ravel() / 2, "norm").pvalue < 1e-6
    assert abs(np.corrcoef(standard.T)[0, 1]) < 0.4


def test_points_compose_and_sources_are_read() -> None:
    few, many = (
        PrivateGaussianProcessRegressor(query_points=np.zeros((n, 1)), n_max=5, epsilon=1.0, delta=1e-5) for n in (1, 4)
    )
    assert many.plan().added_variance > few.plan().added_variance
    table = pd.DataFrame({"x": [0.1, 0.2], "label": [1.0, -1.0]})
    options: dict[str, Any] = {"n_max": 5, "epsilon": 1.0, "delta": 0.05}
    first, second = (
        PrivateGaussianProcessRegressor(**options, generator=SeededGenerator(1)).fit(X, y)
        for X, y in ((table[["x"]], table["label"]), (as_source(table), None))
    )
    assert np.array_equal(first.values_, second.values_)
    assert first.certificate_.charge == second.certificate_.charge


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "rbf"},
        {"kernel": RBF() + WhiteKernel()},
        {"kernel": DotProduct()},
        {"kernel_bound": 0.5},
        {"n_max": 0},
        {"n_max": 2.5},
        {"label_bound": 0.0},
        {"observation_variance": -1.0},
        {"epsilon": None},
        {"query_points": np.zeros(3)},
        {"query_points": [[np.nan]]},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(GaussveilError):
        PrivateGaussianProcessRegressor(**changes).fit([[0.0]], [1.0])


def test_more_records_than_stated_are_refused_and_bounded_kernels_accepted() -> None:
    with pytest.raises(AssumptionError, match="n_max"):
        PrivateGaussianProcessRegressor(n_max=1).fit([[0.0], [1.0]], [1.0, 1.0])
    with pytest.raises(ParameterError, match="kernel_bound"):
        PrivateGaussianProcessRegressor(kernel=DotProduct()).plan()
    assert PrivateGaussianProcessRegressor(kernel=DotProduct(), kernel_bound=3.0).plan().added_variance > 0


def test_errors_quote_no_label() -> None:
    labels = [f"secret {4700 + 11}", "b"]
    with pytest.raises(SchemaError) as refused:
        PrivateGaussianProcessRegressor().fit([[0.0], [1.0]], labels)
    assert "4711" not in "".join(traceback.format_exception(refused.value))


def test_records_beyond_the_kernel_bound_are_left_out() -> None:
    settings: dict[str, Any] = {
        "kernel": DotProduct(sigma_0=0.5),
        "kernel_bound": 2.0,
        "query_points": [[1.0]],
        "n_max": 3,
    }
    rows, labels = np.array([[1.0], [0.5]]), np.array([1.0, -1.0])
    far = [[100.0], [1e200], [1.5]]  # k(x, x) of 10^4, infinite, and 2.5
    fits = [
        PrivateGaussianProcessRegressor(**settings, generator=SeededGenerator(5)).fit(rows, labels),
        PrivateGaussianProcessRegressor(**settings, generator=SeededGenerator(5)).fit(
            np.concatenate([rows, far]), np.concatenate([labels, [1.0, 1.0, 1.0]])
        ),
    ]
    np.testing.assert_array_equal(fits[0].values_, fits[1].values_)
    assert any("left out" in line for line in fits[1].certificate_.assumptions)
