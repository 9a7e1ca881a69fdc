from __future__ import annotations

import math
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import kstest
from sklearn.datasets import load_breast_cancer
from sklearn.utils.estimator_checks import check_estimator

from gaussveil.accounting import Ledger, verify
from gaussveil.errors import GaussveilError, ParameterError, SchemaError, ShapeError
from gaussveil.mechanisms import (
    PrivateBayesianLogisticRegression,
    PrivateGaussianMixture,
    PrivateGaussianProcessRegressor,
)
from gaussveil.mechanisms.logistic import LogisticSensitivity, bohning_factor, minimiser
from gaussveil.mechanisms.records import clipped_rows
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import as_source

RNG = np.random.default_rng(8)
ROWS = RNG.normal(size=(200, 3))
LABELS = np.where(ROWS @ [2.0, -1.0, 0.0] + RNG.logistic(size=200) > 0, "yes", "no")
LOOSE = {"epsilon": 1.0, "delta": 0.01, "row_norm": 1.0, "regularization": 1.0}

# each fit draws anew, or leaves out a record that scikit-learn wants refused
EXEMPT = {
    "check_classifier_data_not_an_array": "two fits draw differently",
    "check_supervised_y_2d": "two fits draw differently",
    "check_fit_idempotent": "two fits draw differently",
    "check_supervised_y_no_nan": "a record without a label is left out: a refusal would tell of it",
    "check_dtype_object": "a cell that is no number is a missing one: a refusal would tell of it",
    "check_estimators_empty_data_messages": "no rows are released like any other number of them",
}


def test_scikit_learn_checks_pass() -> None:
    assert len(EXEMPT) <= 10
    check_estimator(PrivateBayesianLogisticRegression(), expected_failed_checks=EXEMPT, on_skip=None, on_fail="raise")


def test_breast_cancer_of_the_paper_needs_less_than_half_its_noise() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    model = PrivateBayesianLogisticRegression(
        epsilon=1.0, delta=1e-5, row_norm=1.5, regularization=3.0, generator=SeededGenerator(2)
    ).fit(rows[:455], labels[:455])
    assert math.sqrt(model.added_variance_) <= 2.06  # their corrected table adds 4.12
    assert model.plan().added_variance == model.plan(30).added_variance == model.added_variance_
    assert model.coef_.shape == (1, 30)


def test_sensitivity_covers_neighbours_on_data() -> None:
    sensitivity, rng = LogisticSensitivity(1.0, 0.7), np.random.default_rng(1)
    for variance in (0.3, 3.0):
        gap, log_ratio = sensitivity(variance)
        for _ in range(20):
            signed = clipped_rows(rng.normal(size=(rng.integers(1, 30), 3)) * 3, 1.0)
            with_it, without = [(minimiser(z, 0.7, 1e-9), bohning_factor(z, 0.7)) for z in (signed, signed[1:])]
            narrow, wide = (f @ f.T + variance * np.eye(3) for f in (with_it[1], without[1]))
            ratios = np.linalg.eigvals(np.linalg.solve(narrow, wide)).real
            assert np.sum(ratios > 1 + 1e-9) == 1
            assert math.log(np.max(ratios)) <= log_ratio
            shift = with_it[0] - without[0]
            assert math.sqrt(shift @ np.linalg.solve(narrow, shift)) <= gap
    assert sensitivity(0.0)[0] == math.inf


def test_minimiser_is_that_of_a_generic_optimiser() -> None:
    signed = clipped_rows(ROWS, 1.0) * np.where(LABELS == "yes", 1.0, -1.0)[:, None]

    def loss(t: Any) -> float:
        return float(np.sum(np.logaddexp(0, -signed @ t)) + 0.25 * t @ t)

    assert minimiser(signed, 0.5, 1e-10) == pytest.approx(minimize(loss, np.zeros(3), tol=1e-12).x, abs=1e-5)
    assert minimiser(signed[:0], 0.5, 1e-10) == pytest.approx(np.zeros(3))
    precision = 0.5 * np.eye(3) + signed.T @ signed / 4
    factor = bohning_factor(signed, 0.5)
    assert factor @ factor.T == pytest.approx(np.linalg.inv(precision))


def test_draws_follow_the_lifted_posterior() -> None:
    model = PrivateBayesianLogisticRegression(**LOOSE, generator=SeededGenerator(5))
    signed = clipped_rows(ROWS, 1.0) * np.where(LABELS == "yes", 1.0, -1.0)[:, None]
    mean, factor = minimiser(signed, 1.0, 1e-9), bohning_factor(signed, 1.0)
    draws = np.stack([model.fit(ROWS, LABELS).coef_[0] for _ in range(60)])
    total = factor @ factor.T + model.added_variance_ * np.eye(3)
    standard = np.linalg.solve(np.linalg.cholesky(total), (draws - mean).T).ravel()
    assert kstest(standard, "norm").pvalue > 1e-3
    assert kstest(standard / 2, "norm").pvalue < 1e-3


def test_frames_arrays_and_sources_give_the_same_draw(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    inputs: list[tuple[Any, Any]] = [
        (ROWS, LABELS),
        (frame, pd.Series(LABELS)),
        (pl.DataFrame(ROWS, schema=["a", "b", "c"]), pl.Series(LABELS)),
        (as_source(frame.assign(label=LABELS)), None),
    ]
    found = [
        PrivateBayesianLogisticRegression(**LOOSE, generator=SeededGenerator(1)).fit(X, y).coef_ for X, y in inputs
    ]
    assert all(np.array_equal(found[0], other) for other in found[1:])
    account = Ledger.create(tmp_path / "spent.ledger").open_account("people", epsilon=2.0, delta=0.1)
    model = PrivateBayesianLogisticRegression(**LOOSE, account=account).fit(frame, LABELS)
    assert verify(model.certificate_).private
    assert model.certificate_.account == "people"
    assert set(model.predict(frame)) <= {"yes", "no"}
    assert model.predict_proba(frame).sum(axis=1) == pytest.approx(np.ones(200))


def test_bad_records_are_left_out_and_long_rows_are_clipped() -> None:
    dirty = np.concatenate((ROWS, [[np.nan, 0, 0], [1, 1, 1], [np.inf, 0, 0]]))
    labels = np.concatenate((LABELS, ["yes", "maybe", "no"]))
    made = [
        PrivateBayesianLogisticRegression(**LOOSE, classes=["no", "yes"], generator=SeededGenerator(1)).fit(X, y).coef_
        for X, y in ((ROWS, LABELS), (dirty, labels))
    ]
    assert np.array_equal(*made)
    rows = clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4], [1e200, 1e200], [0.0, 0.0]]), 1.0)
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4], [math.sqrt(0.5), math.sqrt(0.5)], [0, 0]]))
    assert np.all(np.sum(rows**2, axis=1) <= 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"row_norm": 0.0},
        {"regularization": -1.0},
        {"regularization": "1"},
        {"classes": ["a"]},
        {"classes": ["a", "b", "c"]},
        {"epsilon": None},
        {"delta": 2.0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(GaussveilError):
        PrivateBayesianLogisticRegression(**{**LOOSE, **changes}).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    "changes",
    [{"delta": 1e-12}, {"epsilon": 20.0}, {"row_norm": 1e-3, "regularization": 1e3, "epsilon": 10.0}],
    ids=str,
)
def test_what_the_sampler_cannot_serve_is_refused_in_words_of_the_caller(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="row_norm") as refused:
        PrivateBayesianLogisticRegression(**{**LOOSE, **changes}).plan(3)
    assert "mean_bound" not in str(refused.value)
    with pytest.raises(ParameterError, match="n_max"):
        PrivateGaussianProcessRegressor(epsilon=1.0, delta=1e-13).plan()


def test_bad_tables_are_refused() -> None:
    model = PrivateBayesianLogisticRegression(**LOOSE)
    with pytest.raises(SchemaError, match="column of the Source"):
        model.fit(as_source(ROWS), LABELS)
    with pytest.raises(SchemaError, match="must hold numbers"):
        model.fit(as_source(pd.DataFrame({"a": ["x"], "label": [1]})))
    with pytest.raises(ParameterError, match="class"):
        model.fit(ROWS, np.zeros(200))
    for rows in (
        [[1.0], [1.0, 2.0]],
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pd.Series([1.0]),
        np.zeros((2, 0)),
    ):
        with pytest.raises(SchemaError):
            model.fit(rows, [0, 1][: len(rows)])
    with pytest.raises(SchemaError, match="inconsistent numbers"):
        model.fit(ROWS, LABELS[:-1])
    with pytest.raises(ShapeError, match="rectangular"):
        PrivateGaussianMixture(epsilon=1.0, delta=1e-5, radius=1.0, classes=2).fit([[1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    "rows",
    [[["secret 4711", 1.0], [0.0, 1.0]], pd.DataFrame({"a": ["secret 4711", "1"], "b": [1, {}]})],
    ids=["text", "frame"],
)
def test_cells_that_are_no_numbers_are_missing(rows: Any) -> None:
    made = [
        PrivateBayesianLogisticRegression(**LOOSE, classes=[0, 1], generator=SeededGenerator(1)).fit(X, y).coef_
        for X, y in ((rows, [0, 1]), ([[0.0, 1.0]], [1]) if isinstance(rows, list) else (np.empty((0, 2)), []))
    ]
    assert np.array_equal(*made)


@pytest.mark.parametrize("rows", [np.array([[4711.0 + 1j, 1.0], [0.0, 1.0]]), [4711.0, 1.0]], ids=["complex", "flat"])
def test_errors_quote_no_record(rows: Any) -> None:
    model = PrivateBayesianLogisticRegression(**LOOSE, classes=[0, 1])
    with pytest.raises(SchemaError) as refused:
        model.fit(rows, [0, 1])
    assert "4711" not in "".join(traceback.format_exception(refused.value))
    fitted = PrivateBayesianLogisticRegression(**LOOSE).fit(ROWS, LABELS)
    with pytest.raises(SchemaError) as refused:
        fitted.predict(rows)
    assert "4711" not in "".join(traceback.format_exception(refused.value))


def test_any_number_of_rows_and_any_missing_label_is_released() -> None:
    model = PrivateBayesianLogisticRegression(**LOOSE, classes=["no", "yes"])
    assert model.fit(np.empty((0, 3)), np.empty(0, dtype=object)).coef_.shape == (1, 3)
    assert model.fit(ROWS[:1], LABELS[:1]).coef_.shape == (1, 3)
    labels = pd.Series(LABELS, dtype="string")
    labels[5] = pd.NA
    found = PrivateBayesianLogisticRegression(**LOOSE, generator=SeededGenerator(1)).fit(ROWS, labels)
    kept = np.arange(200) != 5
    left = PrivateBayesianLogisticRegression(**LOOSE, generator=SeededGenerator(1)).fit(ROWS[kept], LABELS[kept])
    assert np.array_equal(found.coef_, left.coef_)


@pytest.mark.parametrize("count", [10, 300_000])
def test_no_table_leaves_the_posterior_without_a_factor(count: int) -> None:
    """Equal columns and next to no regularisation: nothing is left of it beside 300,000 rows."""
    rows = np.repeat(np.random.default_rng(0).normal(size=(count, 1)), 2, axis=1)
    labels = (rows[:, 0] > 0).astype(int)
    model = PrivateBayesianLogisticRegression(delta=1e-3, regularization=1e-10, classes=[0, 1]).fit(rows, labels)
    assert np.all(np.isfinite(model.coef_))
    signed = clipped_rows(rows, 1.0) * np.where(labels == 1, 1.0, -1.0)[:, None]
    point = minimiser(signed, 1e-10, 2.0**-22)
    gradient = 1e-10 * point - signed.T @ expit(-signed @ point)
    assert np.linalg.norm(gradient) <= 2.0**-22


def test_one_row_of_each_unit_is_used_and_its_column_is_no_feature() -> None:
    homes = np.repeat(np.arange(50), 4)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(home=homes)
    made = [
        PrivateBayesianLogisticRegression(**LOOSE, classes=["no", "yes"], unit=unit, generator=SeededGenerator(1)).fit(
            X, LABELS
        )
        for unit, X in (("home", frame), (homes, frame[["a", "b", "c"]]))
    ]
    assert list(made[0].feature_names_in_) == ["a", "b", "c"]
    assert made[0].certificate_.adjacency.unit == "home"
    assert np.array_equal(made[0].coef_, made[1].coef_)
    everything = PrivateBayesianLogisticRegression(**LOOSE, generator=SeededGenerator(1)).fit(ROWS, LABELS)
    assert not np.array_equal(made[0].coef_, everything.coef_)
    source = as_source(frame.assign(label=LABELS))
    model = PrivateBayesianLogisticRegression(**LOOSE, unit="home").fit(source)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(SchemaError, match="rows_per_unit"):
        model.__class__(**LOOSE).fit(source.bounded("home", 2))
    with pytest.raises(SchemaError, match="unit"):
        PrivateBayesianLogisticRegression(**LOOSE, unit="house").fit(frame, LABELS)
