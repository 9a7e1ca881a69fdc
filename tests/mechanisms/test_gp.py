from __future__ import annotations

import math
from typing import Any

import flint
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.datasets import load_linnerud
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.utils.estimator_checks import check_estimator

from gaussveil.accounting import verify
from gaussveil.errors import GaussveilError, ParameterError
from gaussveil.mechanisms import PrivateGaussianProcessRegressor
from gaussveil.mechanisms.gp import predictive
from gaussveil.mechanisms.gp_kernels import as_computed
from gaussveil.mechanisms.gp_sensitivity import ProcessSensitivity
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics import as_source

EXEMPT = {
    "check_regressor_data_not_an_array": "two fits draw differently",
    "check_supervised_y_2d": "two fits draw differently",
    "check_fit_idempotent": "two fits draw differently",
    "check_regressors_int": "two fits draw differently",
    "check_supervised_y_no_nan": "a record without a label is left out: a refusal would tell of it",
    "check_dtype_object": "a cell that is no number is a missing one: a refusal would tell of it",
    "check_estimators_empty_data_messages": "no rows are released like any other number of them",
}


def process(**changes: Any) -> ProcessSensitivity:
    design = {"point_variance": 1.0, "kernel_bound": 1.0, "observation_variance": 1.0, "label_bound": 1.0, "n_max": 1}
    return ProcessSensitivity(**{**design, **changes})


def test_scikit_learn_checks_pass() -> None:
    assert len(EXEMPT) <= 10
    check_estimator(PrivateGaussianProcessRegressor(), expected_failed_checks=EXEMPT, on_skip=None, on_fail="raise")


# the joint maximum over the record's predictive variance; 254.6, 12.28 and 3.22 with each part at its own worst
@pytest.mark.parametrize(("n_max", "bound", "variance"), [(100, 1.0, 119.4), (1, 1.0, 8.42), (100, 0.01, 3.17)])
def test_variances_of_the_joint_worst_case_are_reached(n_max: int, bound: float, variance: float) -> None:
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
    pair = process(observation_variance=250.0, label_bound=0.5, n_max=16).pair(0.0)
    assert float(np.maximum(pair.log_delta(1.0), pair.reversed().log_delta(1.0))) < -100 * math.log(10)
    assert model.predict(rows[16:]) == pytest.approx(model.values_, abs=1e-4)


@pytest.mark.parametrize("added", [0.0, 0.5])
def test_dominating_pair_covers_neighbours_on_data(added: float) -> None:
    rng, kernel, bound, noise, epsilon = np.random.default_rng(2), RBF(0.7), 1.0, 0.3, 0.4
    query = np.zeros((1, 1))
    for count in (1, 2, 6):
        sensitivity = process(observation_variance=noise, label_bound=bound, n_max=count)
        pair, (gap, log_ratio) = sensitivity.pair(added), sensitivity(added)
        for _ in range(15):
            rows, labels = rng.normal(size=(count, 1)) * 0.5, rng.choice([-bound, bound], size=count)
            (m1, s1), (m0, s0) = (predictive(kernel, rows[k:], labels[k:], query, noise) for k in (0, 1))
            found = GaussianPair(m1, [s1 + added], m0, [s0 + added])
            assert abs(m1 - m0)[0] / math.sqrt(s1[0] + added) <= gap
            assert math.log((s0[0] + added) / (s1[0] + added)) <= log_ratio
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
    values = np.stack([model.fit(rows, labels).values_ for _ in range(120)])
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


def test_more_records_than_stated_are_dropped_by_a_public_rule() -> None:
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(9, 1)), rng.choice([-1.0, 1.0], size=9)
    shuffled = rng.permutation(9)
    fits = [
        PrivateGaussianProcessRegressor(n_max=3, epsilon=1.0, delta=0.05, generator=SeededGenerator(4)).fit(X, y)
        for X, y in ((rows, labels), (rows[shuffled], labels[shuffled]))
    ]
    assert np.array_equal(fits[0].values_, fits[1].values_)  # neither the order nor the number refuses or decides
    assert any("at most 3 records" in line for line in fits[0].certificate_.assumptions)


def test_no_records_are_released_like_some() -> None:
    model = PrivateGaussianProcessRegressor(epsilon=1.0, delta=0.05, n_max=3)
    assert model.fit(np.empty((0, 2)), np.empty(0)).values_.shape == (1,)
    assert model.fit(np.ones((4, 2)), np.array([1.0, 2.0, 3.0, 4.0])).values_.shape == (1,)


def test_bounded_kernels_are_accepted() -> None:
    with pytest.raises(ParameterError, match="kernel_bound"):
        PrivateGaussianProcessRegressor(kernel=DotProduct()).plan()
    assert PrivateGaussianProcessRegressor(kernel=DotProduct(), kernel_bound=3.0).plan().added_variance > 0


def test_errors_quote_no_label() -> None:
    labels = [f"secret {4700 + 11}", "b"]
    released = PrivateGaussianProcessRegressor(delta=0.05).fit([[0.0], [1.0]], labels)  # both are missing labels
    assert "4711" not in released.certificate_.to_json()


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


INDEFINITE = [
    PairwiseKernel(metric="sigmoid", gamma=1.0),
    PairwiseKernel(metric="poly", gamma=1.0, pairwise_kernels_kwargs={"coef0": -1}),
    PairwiseKernel(metric="polynomial", gamma=1.0, pairwise_kernels_kwargs={"degree": 0.5}),
    PairwiseKernel(metric=lambda x, y: 1.0),
    PairwiseKernel(metric="cosine"),
    RBF(1.0) ** -1,
    RBF(1.0) ** 0.5,
    RBF(1.0) ** 0,
    RBF(-1.0),
    RBF([1.0, 0.0]),
    Matern(nu=-1.5),
    Matern(nu=3.5),
    PairwiseKernel(metric="rbf", gamma=1.0),
    ConstantKernel(-1.0) * RBF(),
    RBF() + ConstantKernel(-0.1),
    RationalQuadratic(alpha=-1.0),
    DotProduct(sigma_0=math.nan),
    CompoundKernel([RBF(), RBF()]),
]


@pytest.mark.parametrize("kernel", INDEFINITE, ids=range(len(INDEFINITE)))
def test_kernels_that_may_be_indefinite_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ParameterError, match="kernel"):
        PrivateGaussianProcessRegressor(kernel=kernel, kernel_bound=9.0, query_points=[[1.0, 1.0]]).plan(2)


def test_periods_of_far_records_are_as_definite_as_those_of_near_ones() -> None:
    rows = np.random.default_rng(2).uniform(0, 1e16, size=(60, 1))
    assert np.min(np.linalg.eigvalsh(ExpSineSquared()(rows))) < -1
    kernel = as_computed(RBF(1e18) * ExpSineSquared(periodicity=0.7) + ExpSineSquared() ** 2)
    assert np.min(np.linalg.eigvalsh(kernel(rows))) > -1e-12
    near = rows / 1e16
    expected = (RBF(1e18) * ExpSineSquared(periodicity=0.7) + ExpSineSquared() ** 2)(near, near + 0.3)
    assert np.allclose(kernel(near, near + 0.3), expected, rtol=1e-13, atol=0)
    PrivateGaussianProcessRegressor(kernel=ExpSineSquared(), n_max=3).plan(1)


def test_squared_distances_by_products_are_refused_since_rounding_breaks_the_bound() -> None:
    """Seven records at 1e12, where scikit-learn's own rbf metric knows distances to 1e4, moved a mean by 1.1 bounds."""
    rows = 1e12 + np.random.default_rng(0).uniform(0, 1e3, size=(60, 1))
    assert np.min(np.linalg.eigvalsh(PairwiseKernel(metric="rbf")(rows))) < -1
    assert np.min(np.linalg.eigvalsh(RBF()(rows))) > -1e-12


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4])
def test_the_mean_is_computed_as_closely_as_the_certificate_says(noise: float) -> None:
    """Equal records, whose matrix is the worst conditioned: in closed form the mean is k(x*, x) sum y / (n + noise)."""
    count = 120
    labels = np.sign(np.random.default_rng(3).normal(size=count))
    mean, variance = predictive(RBF(), np.full((count, 1), 0.3), labels, np.zeros((1, 1)), noise)
    between = (flint.arb(0.3) ** 2 / -2).exp()
    exact = float(between * flint.arb(labels.sum()) / (count + flint.arb(noise)) - flint.arb(mean[0]))
    spread = float(1 - between**2 * count / (count + flint.arb(noise)) - flint.arb(variance[0]))
    sampler = PrivateGaussianProcessRegressor(observation_variance=noise, n_max=count).plan(1).sampler
    deviation = math.sqrt(float(np.asarray(sampler.noise.covariance)))
    assert abs(exact) / deviation < sampler.arithmetic_allowance
    assert abs(spread) / deviation**2 < sampler.arithmetic_allowance


NOBODY = [[math.nan], [1e95]]


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (Matern(nu=4.0), [[0.1], [1e90]]),
        (Matern(nu=20.0), [[0.1], [0.1]]),
        (Matern(nu=20.0), [[0.0], [1.0]]),
        (RBF(1e-250), [[1e89], [1e90]]),
        (PairwiseKernel(metric="laplacian"), NOBODY),
        (DotProduct(), NOBODY),
    ],
    ids=str,
)
def test_no_record_makes_a_fit_fail(kernel: Kernel, rows: list[list[float]]) -> None:
    """Near, far and unusable records made kernels of them NaN or refuse to be computed: a refusal tells of them."""
    model = PrivateGaussianProcessRegressor(kernel=kernel, kernel_assumption="it is known", kernel_bound=9.0, n_max=5)
    with np.errstate(all="ignore"):
        assert np.isfinite(model.fit(np.asarray(rows), np.ones(2)).values_).all()


GOOD = [
    RBF([1.0, 2.0]),
    Matern(nu=math.inf) + RationalQuadratic(),
    ConstantKernel(2.0) * RBF() ** 2,
    DotProduct(sigma_0=-0.5) ** 3,
    PairwiseKernel(metric="linear") + ConstantKernel(1.0),
    PairwiseKernel(metric="laplacian", gamma=0.7),
    PairwiseKernel(metric="poly", gamma=0.2, pairwise_kernels_kwargs={"degree": 2, "coef0": 0.5}),
]


@pytest.mark.parametrize("kernel", GOOD, ids=str)
def test_kernels_on_the_list_are_positive_definite_and_accepted(kernel: Kernel) -> None:
    rows = np.random.default_rng(1).normal(size=(40, 2))
    matrix = kernel(rows)
    assert np.min(np.linalg.eigvalsh(matrix)) > -1e-9 * np.max(matrix)
    model = PrivateGaussianProcessRegressor(kernel=kernel, kernel_bound=50.0, query_points=[[0.1, 0.2]], n_max=3)
    assert model.plan(2).added_variance > 0


def test_another_kernel_needs_a_written_assumption_which_the_guarantee_names() -> None:
    """The sigmoid kernel that told two neighbours apart in every one of 150 releases."""
    settings: dict[str, Any] = {
        "kernel": PairwiseKernel(metric="sigmoid", gamma=1.0),
        "kernel_bound": 1.0,
        "observation_variance": 0.05,
        "n_max": 8,
        "query_points": [[1.0]],
        "delta": 1e-5,
    }
    rows, labels = [[-0.560], [-2.272]], [-1.0, 1.0]
    with pytest.raises(ParameterError, match="kernel_assumption"):
        PrivateGaussianProcessRegressor(**settings).fit(rows, labels)
    with pytest.raises(ParameterError, match="kernel_assumption"):
        PrivateGaussianProcessRegressor(**settings, kernel_assumption=" ").fit(rows, labels)
    model = PrivateGaussianProcessRegressor(**settings, kernel_assumption="inputs lie where it is")
    certificate = model.fit(rows, labels).certificate_
    assert certificate.guarantee.kind == "model-based"
    assert "inputs lie where it is" in str(certificate.guarantee)
    # the mean is clipped to its public bound whatever the kernel does
    bound = float(certificate.parameters["mean_bound"])  # type: ignore[arg-type]
    assert abs(float(model.values_[0])) <= bound + 12 * math.sqrt(1 + model.added_variance_)


def test_one_row_of_each_unit_is_used_and_its_column_is_no_feature() -> None:
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3, 5.0], "home": ["a", "a", "b", None]})
    labels = np.array([1.0, 1.0, -1.0, 1.0])
    settings: dict[str, Any] = {"n_max": 5, "epsilon": 1.0, "delta": 0.05}
    named, beside = (
        PrivateGaussianProcessRegressor(**settings, unit=unit, generator=SeededGenerator(3)).fit(X, labels)
        for unit, X in (("home", frame), (np.array(["a", "a", "b", None], dtype=object), frame[["x"]]))
    )
    assert list(named.feature_names_in_) == ["x"]
    assert named.certificate_.adjacency.unit == "home"
    assert np.array_equal(named.values_, beside.values_)
    one_each = [
        PrivateGaussianProcessRegressor(**settings, generator=SeededGenerator(3))
        .fit(frame[["x"]].iloc[rows], labels[rows])
        .values_
        for rows in ([0, 2], [1, 2])
    ]
    assert any(np.array_equal(named.values_, values) for values in one_each)


def test_the_process_says_when_noisy_sums_do_as_well() -> None:
    """Sixteen cells of ten thousand records: half a label in each cell's mean would be a lot."""
    many = PrivateGaussianProcessRegressor(query_points=np.linspace(0, 1, 16)[:, None], n_max=10_000, delta=1e-6)
    assert "a table of sums and counts instead" in many.plan().comparison
    few = PrivateGaussianProcessRegressor(
        query_points=np.linspace(0, 1, 16)[:, None], n_max=1, observation_variance=400.0, delta=1e-6
    )
    assert "the process is better" in few.plan().comparison
