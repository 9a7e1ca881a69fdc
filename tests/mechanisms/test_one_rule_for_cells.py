"""A cell and a label mean the same in every container: one record that is odd is left out, and no other changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gaussveil.mechanisms import (
    MeterStream,
    PrivateBayesianLogisticRegression,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSketch,
)
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Moments, as_source

RNG = np.random.default_rng(7)
ROWS = RNG.normal(size=(40, 2)).tolist()
LABELS = [k % 2 for k in range(40)]


class Unfriendly:
    """An object whose every question raises, with words that quote it."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("SECRET")

    def __hash__(self) -> int:
        raise ValueError("SECRET")

    def __float__(self) -> float:
        raise ValueError("SECRET")


ODD_LABELS: list[Any] = ["yes", None, float("nan"), 10**400, [1], 7, 1j, "\ud800", Unfriendly()]
ODD_CELLS: list[Any] = ["abc", None, float("nan"), 10**400]
MORE_ODD_CELLS: list[Any] = [1j, [1], {}, np.zeros(2), np.zeros(1), Unfriendly(), "\ud800", b"1x"]
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda cells: cells,
    "tuple": tuple,
    "objects": lambda cells: np.array([*cells, None], dtype=object)[:-1],
    "pandas": lambda cells: pd.Series([*cells], dtype=object),
}


def fitted(estimator: type, X: Any, y: Any, **given: Any) -> Any:
    model = estimator(epsilon=1.0, delta=1e-6, generator=SeededGenerator(3), **given)
    return model.fit(X, y)


ESTIMATORS: dict[str, Callable[[Any, Any], Any]] = {
    "logistic": lambda X, y: fitted(PrivateLogisticRegression, X, y, classes=[0, 1], bounds=(-3.0, 3.0)).coef_,
    "bayesian": lambda X, y: fitted(PrivateBayesianLogisticRegression, X, y, classes=[0, 1], row_norm=2.0).coef_,
    "mixture": lambda X, y: fitted(PrivateGaussianMixture, X, y, classes=[0, 1], radius=3.0).means_,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_label_that_is_no_class_is_no_class_whatever_the_container(name: str) -> None:
    fit = ESTIMATORS[name]
    expected = fit(np.array(ROWS), np.array(LABELS))
    for odd in ODD_LABELS:
        for container, made in CONTAINERS.items():
            found = fit(np.array([*ROWS, [0.1, 0.2]]), made([*LABELS, odd]))
            assert np.array_equal(found, expected), (container, type(odd))


def test_a_cell_that_is_no_number_is_missing_whatever_the_container() -> None:
    expected = as_source(np.array(ROWS)).aggregate(Moments(clip=5.0)).total.limbs
    for odd in ODD_CELLS[:3] + MORE_ODD_CELLS[1:]:
        wide = [*ROWS, [odd, 0.5]]
        objects = np.empty((len(wide), 2), dtype=object)
        for place, row in enumerate(wide):
            objects[place, 0], objects[place, 1] = row
        for table in (wide, objects, pd.DataFrame(objects, columns=["a", "b"])):
            assert np.array_equal(as_source(table).aggregate(Moments(clip=5.0)).total.limbs, expected), type(odd)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_text_that_makes_an_array_of_text_drops_one_record(name: str) -> None:
    """numpy.array([0, 1, "yes"]) holds "0" and "1": they are the classes that they were."""
    fit = ESTIMATORS[name]
    expected = fit(np.array(ROWS), np.array(LABELS))
    assert np.array_equal(fit(np.array([*ROWS, [0.1, 0.2]]), np.array([*LABELS, "yes"])), expected)


@pytest.mark.parametrize("name", ["logistic", "bayesian"])
def test_text_is_no_number_whatever_the_container(name: str) -> None:
    """Who names the classes as text has text: a list, a series of pandas and one of polars say the same."""
    fit = ESTIMATORS[name]
    texts = [*map(str, LABELS)]
    series = [made(texts) for made in CONTAINERS.values()] + [pl.Series(texts), pd.Series(texts, dtype="string")]
    fitted_models = [fit(np.array(ROWS), labels) for labels in series]
    assert all(np.array_equal(one, fitted_models[0]) for one in fitted_models)


def test_a_sketch_refuses_nothing_for_a_cell() -> None:
    def sketch(X: Any) -> Any:
        return fitted(PrivateSketch, X, None, row_norm=3.0, n_components=64).sketch_

    assert all(
        np.array_equal(sketch([*ROWS, [odd, 0.5]]), sketch(np.array(ROWS))) for odd in ("abc", None, *MORE_ODD_CELLS)
    )


@pytest.mark.parametrize("odd", ODD_CELLS, ids=lambda cell: type(cell).__name__)
def test_streams_answer_the_same_of_a_list_and_of_objects(odd: Any) -> None:
    cells = [0.5, odd, 1.5, 0.25]
    answers = []
    for made in CONTAINERS.values():
        stream = MeterStream.design(
            sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), generator=SeededGenerator(3)
        )
        answers.append(np.asarray(stream.push_many(made(cells)), dtype=float).tolist())
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize(
    "odd", [None, float("nan"), 10**400, "A17", [1], "\ud800", Unfriendly()], ids=lambda cell: type(cell).__name__
)
def test_one_identifier_does_not_change_whose_rows_the_others_are(odd: Any) -> None:
    names = [k % 5 for k in range(40)]
    expected = as_source(np.array(ROWS), unit=np.array(names), rows_per_unit=3).aggregate(
        Moments(clip=5.0), columns=["x0", "x1"]
    )
    for container, made in CONTAINERS.items():
        found = as_source(np.array([*ROWS, [np.nan, 1.0]]), unit=made([*names, odd]), rows_per_unit=3)
        sums = found.aggregate(Moments(clip=5.0), columns=["x0", "x1"])
        assert np.array_equal(sums.total.limbs, expected.total.limbs), container


def test_categories_and_extensions_name_units_as_their_text_does() -> None:
    names = [f"h{k % 5}" for k in range(40)]
    kw = [row[0] for row in ROWS]
    tables: dict[str, Any] = {
        "Arrow": pa.table({"home": names, "kw": kw}),
        "Arrow dictionary": pa.table({"home": pa.array(names).dictionary_encode(), "kw": kw}),
        "pandas category": pd.DataFrame({"home": pd.Categorical(names), "kw": kw}),
        "pandas string": pd.DataFrame({"home": pd.array(names, dtype="string"), "kw": kw}),
        "pandas Arrow": pd.DataFrame({"home": pd.array(names, dtype=pd.ArrowDtype(pa.string())), "kw": kw}),
        "polars": pl.DataFrame({"home": names, "kw": kw}),
        "polars Categorical": pl.DataFrame({"home": pl.Series(names, dtype=pl.Categorical), "kw": kw}),
        "polars Enum": pl.DataFrame({"home": pl.Series(names, dtype=pl.Enum(sorted(set(names)))), "kw": kw}),
    }
    sums = {
        name: as_source(table).bounded("home", 3).aggregate(Moments(clip=5.0), columns=["kw"]).total.limbs.tolist()
        for name, table in tables.items()
    }
    assert {str(found) for found in sums.values()} == {str(sums["Arrow"])}


def test_whole_numbers_are_units_by_their_digits_in_every_type() -> None:
    whole = [k % 5 for k in range(40)]
    kw = [row[0] for row in ROWS]
    tables = [
        pa.table({"home": pa.array(whole, pa.int8()), "kw": kw}),
        pa.table({"home": pa.array(whole, pa.uint64()), "kw": kw}),
        pa.table({"home": [str(k) for k in whole], "kw": kw}),
        pd.DataFrame({"home": [*map(float, whole)], "kw": kw}),  # as pandas has them where one is missing
    ]
    sums = [as_source(table).bounded("home", 3).aggregate(Moments(clip=5.0), columns=["kw"]).total for table in tables]
    assert all(np.array_equal(one.limbs, sums[0].limbs) for one in sums)


def test_linear_regression_reads_lists_cell_by_cell() -> None:
    def fit(X: Any, y: Any) -> Any:
        return fitted(PrivateLinearRegression, X, y, bounds=(-3.0, 3.0), target_bounds=(-1.0, 2.0)).coef_

    expected = fit(np.array(ROWS), np.array(LABELS, dtype=float))
    without_target = fit(np.array([*ROWS, [0.5, 0.5]]), np.array([*LABELS, np.nan]))
    for odd in ("abc", None):
        assert np.array_equal(fit([*ROWS, [odd, 0.5]], [*LABELS, 1]), expected)
        assert np.array_equal(fit([*ROWS, [0.5, 0.5]], [*LABELS, odd]), without_target)
