"""pandas in, pandas out; polars in, polars out; arrays in, arrays out: whatever gives a table or a vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gaussveil.errors import ParameterError
from gaussveil.mechanisms import (
    ClassLabelNoise,
    GaussianRelease,
    MeterStream,
    PrivateForecaster,
    PrivateGaussianMixture,
    PrivateSketch,
    PrivateSpectrum,
    TrajectoryRelease,
)
from gaussveil.noise import SeededGenerator
from gaussveil.timeseries import simulate_households

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
COLUMNS = {"noon": np.linspace(-1.0, 1.0, 40), "night": np.linspace(1.0, 0.0, 40) ** 2}
KW = np.linspace(0.1, 2.0, 6)
LIBRARIES = {"pandas": (pd.DataFrame, pd.Series), "polars": (pl.DataFrame, pl.Series)}

library = pytest.mark.parametrize("library", LIBRARIES)


def made(library: str, columns: dict[str, Any]) -> Any:
    return LIBRARIES[library][0](columns)


def generator() -> SeededGenerator:
    return SeededGenerator(5)


@library
def test_a_table_comes_back_with_its_columns(library: str) -> None:
    def release(value: Any) -> Any:
        return GaussianRelease(**PROMISE, l2_sensitivity=1.0, generator=generator()).release(value).value

    noisy = release(made(library, COLUMNS))
    assert type(noisy) is LIBRARIES[library][0]
    assert list(noisy.columns) == list(COLUMNS)
    plain = release(np.stack(list(COLUMNS.values()), axis=1))
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(np.asarray(noisy), plain)
    arrow = release(pa.table(COLUMNS))
    assert arrow.column_names == list(COLUMNS)
    np.testing.assert_array_equal(np.stack([column.to_numpy() for column in arrow.columns], axis=1), plain)


@cache
def designed() -> ClassLabelNoise:
    means = np.stack([KW, *np.random.default_rng(0).normal(size=(2, KW.size))])
    return ClassLabelNoise(**PROMISE, common_covariance=True).design(means, labels=("a", "b", "c"))


def replace_generator(noise: ClassLabelNoise) -> ClassLabelNoise:
    noise.generator = generator()
    return noise


VECTORS: dict[str, Callable[[Any], Any]] = {
    "stream": lambda kw: MeterStream.design(
        sample_period="1h", **PROMISE, event=(0.5, "1h"), generator=generator()
    ).push_many(kw),
    "trajectory": lambda kw: TrajectoryRelease(**PROMISE, l2_ball=1.0, generator=generator()).release(kw).value,
    "vector": lambda kw: GaussianRelease(**PROMISE, l2_sensitivity=1.0, generator=generator()).release(kw).value,
    "label": lambda kw: replace_generator(designed()).release("a", kw).value,
}


@library
@pytest.mark.parametrize("mechanism", VECTORS)
def test_a_series_comes_back_with_its_name(library: str, mechanism: str) -> None:
    noisy = VECTORS[mechanism](made(library, {"kw": KW})["kw"])
    assert type(noisy) is LIBRARIES[library][1]
    # A row or column is often named after its label, which is what a class-label release hides.
    assert noisy.name == ("kw" if mechanism != "label" else None if library == "pandas" else "")
    plain = VECTORS[mechanism](KW)
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(np.asarray(noisy), plain)


def test_a_pandas_index_stays() -> None:
    index = pd.date_range("2024-01-01", periods=KW.size, freq="h")
    assert VECTORS["stream"](pd.Series(KW, index)).index.equals(index)


@library
def test_a_density_comes_as_a_series(library: str) -> None:
    def release(kw: Any) -> Any:
        return PrivateSpectrum(**PROMISE, l2_ball=1.0, points=3, generator=generator()).release(kw).value

    density = release(made(library, {"kw": KW})["kw"])
    assert (type(density), density.name, len(density)) == (LIBRARIES[library][1], "density", 4)
    np.testing.assert_array_equal(np.asarray(density), release(KW))


@library
def test_queries_of_all_labels_come_back_without_anything_that_names_them(library: str) -> None:
    means = np.random.default_rng(0).normal(size=(3, 2))
    noise = ClassLabelNoise(**PROMISE, common_covariance=True, swap=True, generator=generator())
    noise.design(means, labels=("a", "b", "c"))
    queries = made(library, {"noon": means[[2, 0, 1], 0], "night": means[[2, 0, 1], 1]})
    if library == "pandas":
        queries.index = ["c", "a", "b"]
    noisy = noise.release_all(["c", "a", "b"], queries).value
    assert type(noisy) is LIBRARIES[library][0]
    assert list(noisy.columns) == ["noon", "night"]
    if library == "pandas":
        assert list(noisy.index) == [0, 1, 2]
    noise.generator = generator()
    np.testing.assert_array_equal(np.asarray(noisy), noise.release_all(["c", "a", "b"], means[[2, 0, 1]]).value)


@library
def test_synthetic_rows_come_in_the_library_of_the_fit(library: str) -> None:
    def model(rows: Any, labels: Any) -> PrivateGaussianMixture:
        return PrivateGaussianMixture(**PROMISE, radius=3.0, classes=["a", "b"], generator=generator()).fit(
            rows, labels
        )

    kinds = ["a", "b"] * 20
    rows, classes = model(made(library, COLUMNS), kinds).sample(30, random_state=1)
    assert (type(rows), type(classes)) == LIBRARIES[library]
    assert list(rows.columns) == list(COLUMNS)
    assert classes.name == "class"
    plain, plain_classes = model(np.stack(list(COLUMNS.values()), axis=1), kinds).sample(30, random_state=1)
    np.testing.assert_array_equal(np.asarray(rows), plain)
    assert list(classes) == list(plain_classes)


@library
def test_the_label_column_is_not_among_the_synthetic_columns(library: str) -> None:
    table = made(library, {**COLUMNS, "kind": ["a", "b"] * 20})
    model = PrivateGaussianMixture(**PROMISE, radius=3.0, classes=["a", "b"], generator=generator())
    rows, _ = model.fit(table, "kind").sample(3)
    assert list(rows.columns) == list(COLUMNS)


def sketched(table: Any) -> PrivateSketch:
    return PrivateSketch(**PROMISE, row_norm=2.0, n_components=64, generator=generator()).fit(table)


@pytest.mark.parametrize("library", [*LIBRARIES, "arrow"])
def test_estimates_of_a_sketch_as_frames(library: str) -> None:
    given = pa.table(COLUMNS) if library == "arrow" else made(library, COLUMNS)
    kind = pa.Table if library == "arrow" else LIBRARIES[library][0]
    sketch = sketched(given)
    gram = sketch.gram()
    shown = gram.frame()
    assert type(shown) is kind
    assert [str(name) for name in shown["column"]] == list(COLUMNS)
    for place, name in enumerate(COLUMNS):
        np.testing.assert_array_equal(np.asarray(shown[name]), gram.value[:, place])
        np.testing.assert_array_equal(np.asarray(gram.frame("standard_error")[name]), gram.standard_error[:, place])
    per_record = sketch.covariance(40.0)
    np.testing.assert_allclose(np.asarray(per_record.frame()["noon"]), gram.value[:, 0] / 40.0)
    line = sketch.ridge_regression("noon").frame()
    assert (type(line), len(line)) == (kind, 1)
    components = sketch.pca(2)
    np.testing.assert_array_equal(np.asarray(components.frame()["night"]), components.components[:, 1])


@library
def test_forecasts_as_frames(library: str) -> None:
    town = simulate_households(3, 15, 60, seed=1)
    readings = town.to_pandas() if library == "pandas" else town.to_polars()
    forecaster = PrivateForecaster(horizon="2h", **PROMISE, clusters=1, generator=generator())
    release = forecaster.fit(readings).release("home00001")
    shown = release.value.frame()
    assert type(shown) is LIBRARIES[library][0]
    assert list(shown.columns) == ["time", "kw", "lower_kw", "upper_kw", "log_kw"]
    np.testing.assert_array_equal(np.asarray(shown["kw"]), release.value.kw)
    np.testing.assert_array_equal(np.asarray(shown["time"]).astype("datetime64[m]"), release.value.times)
    again = forecaster.fit(town).release("home00001")
    assert isinstance(again.value.frame(), pa.Table)


def test_a_frame_is_no_series_of_readings() -> None:
    with pytest.raises(ParameterError, match="one vector"):
        VECTORS["stream"](pd.DataFrame({"kw": KW}))
