"""Every mechanism takes a Source, whatever engine reads it: the same certificate and, under one seed, the same value.

Under one seed the noise is the same, so a value that is equal to the bit was computed from equal numbers.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gaussveil
import gaussveil.mechanisms
from gaussveil.accounting import Certificate
from gaussveil.engines import open
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import (
    AverageSpectrum,
    ClassLabelNoise,
    GaussianRelease,
    LiftedGaussian,
    MeterFleet,
    MeterStream,
    PrivateBayesianLogisticRegression,
    PrivateCovariance,
    PrivateForecaster,
    PrivateGaussianMixture,
    PrivateGaussianProcessRegressor,
    PrivateLabelMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateSketch,
    PrivateSpectrum,
    RunningTotal,
    SyntheticTable,
    TrajectoryRelease,
)
from gaussveil.mechanisms.release_path import Mechanism
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Gram, Source, as_source
from gaussveil.timeseries import simulate_households

pytestmark = pytest.mark.xdist_group("spark")

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
Outcome = tuple[Any, Certificate]
ROWS = 32
DAY = np.linspace(0.1, 2.0, 6)


def seeded() -> dict[str, Any]:
    return {**PROMISE, "generator": SeededGenerator(7)}


def of_release(release: Any) -> Outcome:
    value = release.value
    return (value.to_pydict() if isinstance(value, pa.Table) else np.asarray(value).tolist()), release.certificate


def gaussian(tables: dict[str, Source]) -> Outcome:
    return of_release(GaussianRelease(**seeded(), l2_sensitivity=1.0).release(tables["rows"], order=["hour"]))


def trajectory(tables: dict[str, Source]) -> Outcome:
    kw = tables["rows"].select(["hour", "a"])
    return of_release(TrajectoryRelease(**seeded(), l2_ball=1.0).release(kw, order=["hour"]))


def spectrum(tables: dict[str, Source]) -> Outcome:
    kw = tables["rows"].select(["hour", "a"])
    return of_release(PrivateSpectrum(**seeded(), l2_ball=1.0, points=8).release(kw, order=["hour"]))


def stream(tables: dict[str, Source]) -> Outcome:
    made = MeterStream.design(sample_period="1h", **seeded(), event=(0.5, "1h"))
    return made.push_many(tables["rows"].select(["hour", "a"]), order=["hour"]).tolist(), made.certificate


def fleet(tables: dict[str, Source]) -> Outcome:
    made = MeterFleet.design(sample_period="1h", **seeded(), home="1h", limits=(-0.5, 0.5))
    return made.push_many(tables["rows"], order=["hour"]).tolist(), made.certificate


def average_spectrum(tables: dict[str, Source]) -> Outcome:
    """Of two homes, whose readings come in any order."""
    made = AverageSpectrum(**seeded(), norm=0.05, points=8, bands=3)
    return of_release(made.release(tables["rows"], order=["hour"]))


@cache
def designed() -> ClassLabelNoise:
    means = np.stack([DAY, *np.random.default_rng(0).normal(size=(2, DAY.size))])
    return ClassLabelNoise(**PROMISE, common_covariance=True).design(means, labels=("a", "b", "c"))


def class_label(tables: dict[str, Source]) -> Outcome:
    designed().generator = SeededGenerator(7)
    return of_release(designed().release("a", tables["day"], order=["hour"]))


def sketch(tables: dict[str, Source]) -> Outcome:
    made = PrivateSketch(**seeded(), row_norm=1.0, n_components=8).fit(tables["rows"].select(["a", "b"]))
    return made.released_.matrix.tolist(), made.certificate_


def logistic(tables: dict[str, Source]) -> Outcome:
    made = PrivateBayesianLogisticRegression(**seeded(), row_norm=1.0, regularization=10.0, classes=[0, 1])
    made.fit(tables["labelled"])
    return np.round(
        made.coef_, 9
    ).tolist(), made.certificate_  # its mean is iterated: the last digits are of no account


def process(tables: dict[str, Source]) -> Outcome:
    made = PrivateGaussianProcessRegressor(**seeded(), observation_variance=250.0, label_bound=0.5, n_max=64)
    made.fit(tables["labelled"])
    return made.values_.tolist(), made.certificate_


def mixture(tables: dict[str, Source]) -> Outcome:
    made = PrivateGaussianMixture(**seeded(), radius=2.0, classes=[0, 1]).fit(tables["labelled"], "label")
    return np.asarray(made.means_).tolist(), made.certificate_


def label_mixture(tables: dict[str, Source]) -> Outcome:
    made = PrivateLabelMixture(**seeded(), classes=[0, 1], method="sums").fit(tables["labelled"], "label")
    known = {**made.certificate_.parameters, "noise": None}  # from features added up in the order they come
    return made.means_.tolist(), dataclasses.replace(made.certificate_, parameters=known)


def forecast(tables: dict[str, Source]) -> Outcome:
    made = PrivateForecaster(horizon="2h", **seeded(), clusters=1)
    release = made.fit(tables["readings"]).release("home00001")
    return release.value.frame().to_pydict(), release.certificate


def lifted(tables: dict[str, Source]) -> Outcome:
    """Any algorithm of the data; here one that asks the Source for its sums."""

    def algorithm(source: Source) -> tuple[Any, Any]:
        gram = source.aggregate(Gram(row_norm=1.0), columns=["a", "b"]).to_float().reshape(2, 2)
        return np.diagonal(gram) / 100, np.eye(2) / 10

    made = LiftedGaussian(
        algorithm,
        dimension=2,
        **seeded(),
        mean_gap=lambda t: 0.1,
        log_ratio=lambda t: 0.0,
        mean_bound=1.0,
        largest_variance=0.2,
        smallest_variance=0.05,
    )
    return of_release(made.release(tables["rows"]))


def of_moments(made: Any) -> Outcome:
    return made.moments_.matrix.tolist(), made.certificate_


def regression(tables: dict[str, Source]) -> Outcome:
    rows, certificate = of_moments(PrivateLinearRegression(**seeded(), target=["label"]).fit(tables["labelled"]))
    by_home = PrivateLinearRegression(**seeded(), target=["label"], unit="home", rows_per_unit=3).fit(tables["homes"])
    assert by_home.moments_.effects is not None
    return (rows, by_home.moments_.matrix.tolist(), by_home.moments_.effects.tolist()), certificate


def covariance(tables: dict[str, Source]) -> Outcome:
    return of_moments(PrivateCovariance(**seeded(), bounds=(-0.5, 0.5)).fit(tables["rows"].select(["a", "b"])))


def components(tables: dict[str, Source]) -> Outcome:
    return of_moments(PrivatePCA(**seeded(), bounds={"a": (-0.5, 0.5)}).fit(tables["rows"].select(["a", "b"])))


def gradient_steps(tables: dict[str, Source]) -> Outcome:
    made = PrivateLogisticRegression(**seeded(), classes=[0, 1]).fit(tables["labelled"])
    return made.coef_.tolist(), made.certificate_


def running_total(tables: dict[str, Source]) -> Outcome:
    made = RunningTotal(**seeded(), steps=ROWS, limits=(-0.5, 0.5), size=1.0)
    return made.push_many(tables["rows"].select(["hour", "a"]), order=["hour"]).tolist(), made.certificate_


def synthetic(tables: dict[str, Source]) -> Outcome:
    made = SyntheticTable(**seeded(), between={"a": (-0.5, 0.5), "b": (-0.5, 0.5), "label": (0, 1)})
    release = made.release(tables["labelled"])
    return release.value.sample(20, 1, anyway=True).to_pydict(), release.certificate


MECHANISMS: dict[str, Callable[[dict[str, Source]], Outcome]] = {
    "AverageSpectrum": average_spectrum,
    "ClassLabelNoise": class_label,
    "GaussianRelease": gaussian,
    "LiftedGaussian": lifted,
    "MeterFleet": fleet,
    "MeterStream": stream,
    "PrivateBayesianLogisticRegression": logistic,
    "PrivateCovariance": covariance,
    "PrivateForecaster": forecast,
    "PrivateGaussianMixture": mixture,
    "PrivateGaussianProcessRegressor": process,
    "PrivateLabelMixture": label_mixture,
    "PrivateLinearRegression": regression,
    "PrivateLogisticRegression": gradient_steps,
    "PrivatePCA": components,
    "PrivateSketch": sketch,
    "PrivateSpectrum": spectrum,
    "RunningTotal": running_total,
    "SyntheticTable": synthetic,
    "TrajectoryRelease": trajectory,
}
# On Spark in each run, one for each way to read a table: rows in an order, sums by labels, rows as they come, sums of
# rows and of whole units, sums again and again. The others read it in one of these ways: on Spark with --full alone.
OFTEN = (
    "GaussianRelease",
    "PrivateGaussianMixture",
    "PrivateGaussianProcessRegressor",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
)
# These add up floats in the order in which rows arrive; all others add integers, or take rows in a public order.
UNORDERED = ("PrivateBayesianLogisticRegression", "PrivateGaussianProcessRegressor", "PrivateLabelMixture")


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(0)
    a, b = np.clip(rng.normal(0.0, 0.3, size=(2, ROWS)), -0.5, 0.5)
    town = simulate_households(3, 15, 60, seed=1)
    return {
        "rows": pa.table({"hour": rng.permutation(ROWS), "a": a, "b": b}),
        "labelled": pa.table({"a": a, "b": b, "label": rng.integers(0, 2, size=ROWS)}),
        "homes": pa.table({"home": np.arange(ROWS) % 7, "a": a, "b": b, "label": rng.integers(0, 9, size=ROWS)}),
        "day": pa.table({"hour": np.arange(6)[::-1], "kw": DAY[::-1]}),
        "readings": town.to_arrow(),
    }


@pytest.fixture(scope="module")
def folder(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each table as a folder of two files, the later rows first."""
    path = tmp_path_factory.mktemp("tables")
    for name, whole in tables.items():
        (path / name).mkdir()
        half = whole.num_rows // 2
        for part, rows in enumerate((whole.slice(half), whole.slice(0, half))):
            pq.write_table(rows, path / name / f"{part}.parquet")
    return path


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_same_release_from_memory_duckdb_and_spark(
    name: str, spark: Any, tables: dict[str, pa.Table], folder: Path, full: bool
) -> None:
    release = MECHANISMS[name]
    here, certificate = release({each: as_source(table) for each, table in tables.items()})
    engines: list[dict[str, Any]] = [{}] + [{"engine": "spark", "session": spark}] * (full or name in OFTEN)
    for options in engines:
        value, other = release({each: open(folder / each, **options) for each in tables})
        if name in UNORDERED:
            np.testing.assert_allclose(value, here, rtol=1e-9)
        else:
            assert value == here
        assert (other.epsilon, other.delta_upper, other.parameters) == (
            certificate.epsilon,
            certificate.delta_upper,
            certificate.parameters,
        )


def test_every_mechanism_is_here() -> None:
    """Every mechanism that is exported; answers from tables have engines' tests of their own."""
    exported = (getattr(gaussveil.mechanisms, name) for name in gaussveil.mechanisms.__all__)
    kinds = {kind.__name__ for kind in exported if isinstance(kind, type) and issubclass(kind, Mechanism)}
    assert kinds - {"TableRelease"} == set(MECHANISMS)


def test_rows_that_have_no_public_order_are_refused(tables: dict[str, pa.Table]) -> None:
    rows, mechanism = as_source(tables["rows"]), GaussianRelease(**PROMISE, l2_sensitivity=1.0)
    for source, order, words in (
        (rows, [], "order must be a list of public columns"),
        (rows, "hour", "order must be a list"),
        (rows, ["absent"], "'absent' is missing"),
        (rows.select(["hour"]), ["hour"], "no columns of numbers"),
        (as_source(tables["labelled"]), ["label"], "tell every two rows apart"),
        (as_source(tables["readings"]), ["time"], "'household' must hold numbers"),
        (as_source(pa.table({"hour": [1, None], "kw": [0.1, 0.2]})), ["hour"], "missing values"),
        (as_source(pa.table({"hour": [0.0, -0.0], "kw": [0.1, 0.2]})), ["hour"], "tell every two rows apart"),
        (np.zeros(3), ["hour"], "for a Source only"),
    ):
        with pytest.raises(GaussveilError, match=words):
            mechanism.release(source, order=order)
    with pytest.raises(GaussveilError, match="one column beside the order"):
        TrajectoryRelease(**PROMISE, l2_ball=1.0).release(rows, order=["hour"])
    assert not hasattr(mechanism, "certificate_")


def test_a_whole_number_that_doubles_do_not_hold_is_refused_and_not_quoted() -> None:
    source = as_source(pa.table({"hour": [2, 1], "count": [2**53 + 1, -3]}))
    with pytest.raises(GaussveilError, match="Clip them by a public rule") as refused:
        GaussianRelease(**PROMISE, l2_sensitivity=1.0).release(source, order=["hour"])
    assert str(2**53 + 1) not in "".join(traceback.format_exception(refused.value))
    small = as_source(pa.table({"hour": [2, 1], "count": [7, -3]}))
    twice = GaussianRelease(**PROMISE, l2_sensitivity=1e-6).release(small, order=["hour", "hour"]).value
    assert twice["count"].to_numpy() == pytest.approx([-3, 7], abs=1e-2)


def test_the_readmes_line_for_a_cluster_runs(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^    (gaussveil\.open\(.*spark://host:7077.*\))$", readme, re.MULTILINE)
    monkeypatch.chdir(folder)
    opened = eval(line.replace('master="spark://host:7077"', "session=spark"), {"gaussveil": gaussveil, "spark": spark})
    assert opened.row_count() == as_source(pq.read_table(folder / "readings")).row_count()
