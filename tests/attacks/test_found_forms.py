"""Who reads a table whose form nobody wrote down is told so by every guarantee, and by nothing else in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gaussveil.accounting import Certificate
from gaussveil.engines import open
from gaussveil.mechanisms import (
    ClassLabelNoise,
    MeterFleet,
    MeterStream,
    PrivateForecaster,
    PrivateLogisticRegression,
    RunningTotal,
)
from gaussveil.statistics import Source
from gaussveil.timeseries import read_readings, simulate_households

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
FOUND = "the form was read off the file: an assumption is that it is public (separator"


@pytest.fixture
def readings(tmp_path: Path) -> Source:
    rows = "".join(f"{hour},{hour % 3 / 2}\n" for hour in range(24))
    (tmp_path / "t.csv").write_text("hour,kw\n" + rows)
    return open(tmp_path / "t.csv")


@pytest.fixture
def pinned(readings: Source, tmp_path: Path) -> Source:
    return open(tmp_path / "t.csv", schema={"columns": {"hour": "whole", "kw": "number"}})


def stream(**given: Any) -> MeterStream:
    return MeterStream.design(sample_period="1h", **PROMISE, event=(0.5, "1h"), **given)


def fleet() -> MeterFleet:
    return MeterFleet.design(sample_period="1h", **PROMISE, home="1h", limits=(0.0, 1.0))


def total() -> RunningTotal:
    return RunningTotal(**PROMISE, steps=100, limits=(0.0, 1.0))


@pytest.mark.parametrize("made", [stream, fleet, total])
def test_what_goes_on_for_years_names_the_form_of_its_readings(made: Any, readings: Source, pinned: Source) -> None:
    for table, names_it in ((readings, True), (pinned, False)):
        opened = made()
        opened.push_many(table, order=["hour"])
        assert (FOUND in opened.certificate.guarantee.reason) == names_it
    later = made()
    later.open()
    assert later.certificate.guarantee.reason == ""
    later.push_many(readings, order=["hour"])
    later.push_many(readings, order=["hour"])
    assert later.certificate.guarantee.reason.count("the form was read off") == 1
    assert Certificate.from_json(later.certificate.to_json()) == later.certificate


def test_forecasts_and_whole_orders_of_queries_name_the_form(tmp_path: Path) -> None:
    town = simulate_households(4, 15, 60, seed=1)
    town.to_pandas().to_csv(tmp_path / "town.csv", index=False)
    source = open(tmp_path / "town.csv")
    for table, names_it in ((source, True), (source.table(order=["household", "time"]), True), (town, False)):
        forecaster = PrivateForecaster(horizon="2h", **PROMISE, clusters=1).fit(table)
        for release in (forecaster.release("home00001"), forecaster.release_cluster_of("home00001")):
            assert (FOUND in release.certificate.guarantee.reason) == names_it
    read = read_readings(source)
    assert read.found_form
    for narrower in (read.select(read.households[:2]), read.window(0, 24), read.resample(120)):
        assert narrower.found_form == read.found_form


def test_a_column_is_never_taken_for_words_about_the_form() -> None:
    """A frame hands out its columns as attributes: their cells would stand on the certificate."""
    secret = pd.DataFrame({"found_form": [0.25, 0.5] * 20, "people": [0.125] * 40, "schema": [0.75] * 40})
    model = PrivateLogisticRegression(**PROMISE, classes=[0, 1], bounds=(-1.0, 1.0)).fit(secret, [0, 1] * 20)
    assert model.certificate_.guarantee.reason == ""
    noise = ClassLabelNoise(**PROMISE, common_covariance=True, swap=True)
    noise.design(np.eye(3)[:, :2], labels=("a", "b", "c"))
    certificate = noise.release_all(
        ["c", "a", "b"], pd.DataFrame({"found_form": [0.0, 1, 0], "b": [0.0, 0, 1]})
    ).certificate
    assert "0.25" not in certificate.to_json()
    assert certificate.guarantee.reason == ""
