"""Every mechanism that reads cells reads them alike in every container: an odd one is a missing one, and no more.

A whole number beyond all floats is a large number everywhere. What is handed over as the released value itself (a
vector, a trajectory, a series, a query, a label) is refused whole where it is no number, which certificates say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gaussveil.mechanisms
from gaussveil.mechanisms import (
    AverageSpectrum,
    Count,
    Mean,
    MeterFleet,
    MeterStream,
    PrivateBayesianLogisticRegression,
    PrivateCovariance,
    PrivateGaussianMixture,
    PrivateGaussianProcessRegressor,
    PrivateLabelMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateSketch,
    RunningTotal,
    SyntheticTable,
    TableRelease,
)
from gaussveil.mechanisms.release_path import Mechanism
from gaussveil.noise import SeededGenerator

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
CLASSES = {"classes": [0, 1]}
RNG = np.random.default_rng(7)
ROWS = np.clip(RNG.normal(0, 0.3, size=(40, 2)), -0.5, 0.5).tolist()
LABELS = [k % 2 for k in range(40)]
ODD: list[Any] = ["abc", None, float("nan"), 1j, [1], b"1x", "\ud800", 10**400]


def seeded() -> dict[str, Any]:
    return {**PROMISE, "generator": SeededGenerator(3)}


def objects(rows: Any) -> Any:
    made = np.empty((len(rows), len(rows[0])), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            made[place, column] = cell
    return made


TABLES: dict[str, Callable[[Any], Any]] = {
    "lists": lambda rows: rows,
    "tuples": lambda rows: [tuple(row) for row in rows],
    "objects": objects,
    "pandas": lambda rows: pd.DataFrame(objects(rows), columns=["a", "b"]),
}
VECTORS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": lambda cells: objects([[cell] for cell in cells])[:, 0],
    "pandas": lambda cells: pd.Series(objects([[cell] for cell in cells])[:, 0]),
}

OF_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "PrivateLogisticRegression": lambda X, y: (
        PrivateLogisticRegression(**seeded(), **CLASSES, bounds=(-0.5, 0.5)).fit(X, y).coef_
    ),
    "PrivateBayesianLogisticRegression": lambda X, y: (
        PrivateBayesianLogisticRegression(**seeded(), **CLASSES, row_norm=1.0, regularization=10.0).fit(X, y).coef_
    ),
    "PrivateGaussianMixture": lambda X, y: PrivateGaussianMixture(**seeded(), **CLASSES, radius=2.0).fit(X, y).means_,
    "PrivateLabelMixture": lambda X, y: PrivateLabelMixture(**seeded(), **CLASSES, method="sums").fit(X, y).means_,
    "PrivateGaussianProcessRegressor": lambda X, y: (
        PrivateGaussianProcessRegressor(
            **seeded(), observation_variance=250.0, label_bound=0.5, n_max=64, query_points=np.zeros((1, 2))
        )
        .fit(X, y)
        .values_
    ),
    "PrivateLinearRegression": lambda X, y: (
        PrivateLinearRegression(**seeded(), bounds=(-0.5, 0.5), target_bounds=(0.0, 1.0)).fit(X, y).coef_
    ),
    "PrivateCovariance": lambda X, y: PrivateCovariance(**seeded(), bounds=(-0.5, 0.5)).fit(X).covariance_,
    "PrivatePCA": lambda X, y: PrivatePCA(**seeded(), bounds=(-0.5, 0.5)).fit(X).moments_.matrix,
    "PrivateSketch": lambda X, y: PrivateSketch(**seeded(), row_norm=1.0, n_components=8).fit(X).sketch_,
}
OF_READINGS: dict[str, Callable[[Any], Any]] = {
    "MeterStream": lambda cells: MeterStream.design(sample_period="1h", **seeded(), event=(0.5, "1h")).push_many(cells),
    "RunningTotal": lambda cells: RunningTotal(**seeded(), steps=100, limits=(0.0, 1.0)).push_many(cells),
    "MeterFleet": lambda cells: MeterFleet.design(
        sample_period="1h", **seeded(), home="1h", limits=(0.0, 1.0)
    ).push_many([[cell, 0.5] for cell in cells] if isinstance(cells, list) else cells),
}
OF_READINGS["AverageSpectrum"] = lambda cells: (
    AverageSpectrum(**seeded(), norm=1.0, points=1, bands=2)
    .release(cells.to_frame() if isinstance(cells, pd.Series) else [[cell] for cell in cells])
    .value
)
OF_FRAMES: dict[str, Callable[[Any], Any]] = {
    "TableRelease": lambda table: (
        TableRelease(**seeded(), unit="home", answers=[Count(), Mean("kw", between=(0, 5))]).release(table).value
    ),
    "SyntheticTable": lambda table: (
        SyntheticTable(**seeded(), columns=["kw"], between={"kw": (0.0, 5.0)}, unit="home", rows_per_unit=1)
        .release(table)
        .value.sample(20, 1, anyway=True)
    ),
}
# What is handed over whole, and what reads no table of its own.
WHOLE = {"GaussianRelease", "TrajectoryRelease", "PrivateSpectrum", "ClassLabelNoise", "LiftedGaussian"}
READINGS = {"PrivateForecaster"}  # refused by row and column, for the owner's eyes: test_readings.py


def test_every_mechanism_is_in_one_of_these() -> None:
    exported = (getattr(gaussveil.mechanisms, name) for name in gaussveil.mechanisms.__all__)
    kinds = {kind.__name__ for kind in exported if isinstance(kind, type) and issubclass(kind, Mechanism)}
    assert kinds == OF_ROWS.keys() | OF_READINGS.keys() | OF_FRAMES.keys() | WHOLE | READINGS


def known(odd: Any) -> float:
    """What an odd cell is to everybody: a missing one, or a number beyond every bound."""
    return 1e300 if odd == 10**400 else float("nan")


def same(found: Any, expected: Any) -> bool:
    """To the bit, but for floats that were added up in another order."""
    return bool(np.allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=1e-12, atol=0))


@pytest.mark.parametrize("name", OF_ROWS)
def test_an_odd_cell_is_a_missing_one_in_every_container(name: str) -> None:
    fit = OF_ROWS[name]
    labels = [*LABELS, 1]
    for odd in (ODD[0], ODD[-1]):
        if name == "PrivateLabelMixture" and odd is ODD[-1]:
            continue  # features are public there, and the scale of each is checked
        expected = fit(np.array([*ROWS, [known(odd), 0.25]]), np.array(labels))
        for container, made in TABLES.items():
            for cell in ODD[:-1] if odd is ODD[0] else ODD[-1:]:
                found = fit(made([*ROWS, [cell, 0.25]]), labels)
                assert same(found, expected), (container, cell)


@pytest.mark.parametrize(
    "name", [name for name in OF_ROWS if name not in ("PrivateCovariance", "PrivatePCA", "PrivateSketch")]
)
def test_an_odd_label_is_a_missing_one_in_every_container(name: str) -> None:
    fit = OF_ROWS[name]
    rows = np.array([*ROWS, [0.125, 0.25]])
    for odd in (ODD[0], ODD[-1]):
        expected = fit(rows, np.array([*LABELS, known(odd)]))
        for container, made in VECTORS.items():
            for cell in ODD[:-1] if odd is ODD[0] else ODD[-1:]:
                assert same(fit(rows, made([*LABELS, cell])), expected), (container, cell)


@pytest.mark.parametrize("name", OF_READINGS)
def test_an_odd_reading_is_a_missing_one_in_every_container(name: str) -> None:
    push = OF_READINGS[name]
    for odd in (ODD[0], ODD[-1]):
        expected = push([0.5, known(odd), 0.25])
        for container, made in VECTORS.items():
            for cell in ODD[:-1] if odd is ODD[0] else ODD[-1:]:
                if name != "MeterFleet" or container == "list":  # whose rows are periods: lists hold what others do
                    assert same(push(made([0.5, cell, 0.25])), expected), (container, cell)


@pytest.mark.parametrize("name", OF_FRAMES)
def test_an_odd_cell_of_a_frame_is_a_missing_one(name: str) -> None:
    release = OF_FRAMES[name]
    homes = [f"h{k}" for k in range(41)]
    kw = [k % 5 + 0.5 for k in range(40)]
    for odd in ODD:
        expected = release(pd.DataFrame({"home": homes, "kw": [*kw, known(odd)]}))
        cells = objects([[cell] for cell in (*kw, odd)])[:, 0]
        tables = [pd.DataFrame({"home": homes, "kw": cells})]
        tables += [pl.DataFrame({"home": homes, "kw": [*kw, None if odd != odd or odd is None else known(odd)]})]
        for table in tables:
            assert as_dict(release(table)) == as_dict(expected), odd


def as_dict(table: Any) -> dict[str, list[Any]]:
    if isinstance(table, pd.DataFrame):
        return {name: table[name].tolist() for name in table.columns}
    found: dict[str, list[Any]] = table.to_pydict() if hasattr(table, "to_pydict") else table.to_dict(as_series=False)
    return found
