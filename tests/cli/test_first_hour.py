"""What a newcomer does in the first hour: synthetic days, dry runs, two columns of time, reprs, sums of losses."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gaussveil
from gaussveil import (
    Account,
    GaussianPair,
    GaussianRelease,
    Ledger,
    MeterStream,
    PrivateGaussianMixture,
    PrivateSketch,
)
from gaussveil.accounting import Charge
from gaussveil.cli.output import waiting
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms import ClassLabelNoise, MixtureModel, PrivateGaussianProcessRegressor
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import as_source
from gaussveil.timeseries import read_readings
from gaussveil.typing import Floats

Run = Callable[..., tuple[int, str, str]]
PROMISE = ("--epsilon", "4", "--delta", "1e-5")


@pytest.fixture
def days(tmp_path: Path) -> Path:
    rows = np.exp(np.random.default_rng(0).normal(-1.0, 0.7, size=(400, 3)))
    rows[0] = 0.0
    lines = [",".join(f"{value:.6f}" for value in row) + f",{'ab'[k % 2]}" for k, row in enumerate(rows)]
    file = tmp_path / "days.csv"
    file.write_text("\n".join(["night,noon,evening,kind of home", *lines]) + "\n", encoding="utf-8")
    return file


def test_synthetic_days_are_never_negative_and_the_label_keeps_its_name(run: Run, days: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.json", tmp_path / "rows.csv"
    words = ("mixture", days, *PROMISE, "--radius", 6, "--label", "kind of home", "--classes", "a,b", "--out", model)
    assert run(*words, "--log", 0.01)[0] == 0
    assert run("sample", model, "-n", 2000, "--seed", 1, "--out", out)[0] == 0
    header, *rows = out.read_text(encoding="utf-8").splitlines()
    assert header.split(",") == ["night", "noon", "evening", "kind of home"]
    values = np.array([row.split(",")[:3] for row in rows], dtype=float)
    assert values.min() > 0.0
    assert json.loads(model.read_text("utf-8"))["certificate"]["parameters"]["log"] == 0.01
    assert run("verify", model)[0] == 0


def test_a_mixture_of_logarithms_is_the_mixture_of_the_transformed_table() -> None:
    rows = np.exp(np.random.default_rng(1).normal(size=(300, 2)))
    rows[:5] = -1.0

    def fitted(values: Floats, log: float | None = None) -> MixtureModel:
        made = PrivateGaussianMixture(
            epsilon=1.0, delta=1e-5, radius=5.0, classes=1, generator=SeededGenerator(3), log=log
        )
        return made.fit(values).model_

    log, plain = fitted(rows, log=0.05), fitted(np.log(np.maximum(rows, 0.05)))
    assert np.array_equal(log.means, plain.means)
    assert np.array_equal(log.covariances, plain.covariances)
    assert np.array_equal(log.log_joint(rows), plain.log_joint(np.log(np.maximum(rows, 0.05))))
    again = MixtureModel.from_json(log.to_json())
    assert np.array_equal(again.sample(9, 5)[0], np.exp(plain.sample(9, 5)[0]))
    with pytest.raises(ParameterError, match="log must be"):
        fitted(rows, log=0.0)


def test_every_release_has_a_dry_run_that_spends_and_writes_nothing(run: Run, days: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "town.ledger")
    ledger.open_account("homes", epsilon=50.0, delta=1e-3)
    pays = ("--ledger", ledger.path, "--account", "homes", "--dry-run")
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("night,noon\n1.0,2.0\n0.5,0.4\n", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    columns = ("--columns", "night,noon,evening")
    for words in (
        ("mixture", days, "--radius", 6, "--classes", "2", *columns, "--out", tmp_path / "out.json"),
        ("sketch", days, "--row-norm", 5, "--n-components", 50, *columns, "--out", tmp_path / "out.npz"),
        ("pca", numbers, "--out", tmp_path / "out.json"),
        ("regress", numbers, "--target", "noon", "--out", tmp_path / "out.json"),
    ):
        for asked in ((*words, *pays), (*words[:-2], "--dry-run"), (*words[:-2], *pays[:2], "--dry-run")):  # no --out
            code, out, err = run(*asked, *PROMISE)
            shown = (
                ["nothing was spent or written"] if words[0] != "sketch" or "--out" in asked else out.splitlines()[-1:]
            )
            assert (code, out.splitlines()[-1:]) == (0, shown), (asked, err)
    assert ledger.entries("homes") == []
    assert sorted(tmp_path.iterdir()) == before
    release = GaussianRelease(
        epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, because="given", account=Account(ledger.path, "homes")
    )
    plan = release.dry_run(np.zeros(3))
    assert plan is not None
    assert plan.charge == release.release(np.zeros(3)).certificate.charge
    assert len(ledger.entries("homes")) == 1


def test_dates_and_times_of_day_in_two_columns_are_joined() -> None:
    day = np.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"], dtype="datetime64[D]")
    table = {"id": ["a"] * 4, "day": day, "clock": ["00:00", "12:00", "0:00", "12:00:00"], "kw": [1.0, 2.0, 3.0, 4.0]}
    found = read_readings(table, household="id", time="day+clock")
    assert found.step_minutes == 720
    assert found.values.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    wide = read_readings({"day": day, "clock": table["clock"], "a": table["kw"]}, time="day+clock")
    assert wide.households == ("a",)
    with pytest.raises(SchemaError, match="not a whole minute of the day"):
        read_readings({**table, "clock": ["noon"] * 4}, household="id", time="day+clock")


def test_losses_and_charges_add_and_repeat_alike() -> None:
    p, q = GaussianPair.mean_shift(0.3), GaussianPair([0.1], [[1.1]], [0.0], [[1.0]])
    assert (p + q).dp_delta(1.0) == gaussveil.compose(p, q).dp_delta(1.0)
    assert (3 * p).dp_delta(1.0) == (p * 3).dp_delta(1.0) == (p**3).dp_delta(1.0)
    assert 3 * Charge(p) == Charge(p) * 3 == Charge(p) ** 3
    with pytest.raises(TypeError):
        p + 1


def test_what_a_notebook_shows_says_something_and_can_be_drawn(tmp_path: Path) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    ledger = Ledger.create(tmp_path / "town.ledger")
    ledger.open_account("homes", epsilon=5.0, delta=1e-5)
    account = Account(ledger.path, "homes")
    release = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, because="given", account=account)
    made = release.release(np.zeros(3))
    plan = release.dry_run(np.zeros(3))
    pair = GaussianPair.mean_shift(0.3)
    assert repr(pair) == "PrivacyLoss(epsilon at delta 1e-06: 1.292)"
    assert repr(ledger) == "Ledger(file: town.ledger; accounts: homes)"
    assert "array of shape (3,)" in repr(made)
    model = PrivateGaussianMixture(epsilon=1, delta=1e-6, radius=5, classes=3)
    assert repr(model) == "PrivateGaussianMixture(epsilon=1, delta=1e-06, radius=5, classes=3)"
    stream = MeterStream.design(sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))
    assert repr(stream) == "MeterStream(purpose: shape; every: 5 min; noise: 6.46 kW on a reading)"
    source = as_source(pa.table({"home": ["a", "b"], "kw": [0.1, 0.2]}))
    assert repr(source).endswith("(columns: home, kw)")
    plans = (
        stream.plan(),
        PrivateSketch(n_components=64, epsilon=1.0, delta=1e-6, row_norm=1.0).plan(3),
        PrivateGaussianProcessRegressor(epsilon=1.0, delta=1e-6, n_max=100, label_bound=1.0).plan(),
        ClassLabelNoise(epsilon=1.0, accuracy=0.5).design([[0.0, 0.0], [1.0, 0.5], [2.0, 1.0]]).plan_,
    )
    curves = (pair, made, made.certificate, plan, release.plan(3), account, gaussveil.Accountant().add(pair), *plans)
    for thing in (ledger, stream, source, *curves):
        assert thing is not None
        assert len(repr(thing)) < 400
        assert "<table" in thing._repr_html_()
    for thing in curves:
        assert thing is not None
        (line, *_) = thing.plot().get_lines()
        drawn = np.asarray(line.get_ydata(), dtype=np.float64)
        assert drawn[0] > drawn[-1]
    exported = vars(gaussveil)["__all__"]
    assert all(name in exported or name.startswith("__") for name in dir(gaussveil))


def test_keywords_are_spelt_out() -> None:
    promised = [name for name in inspect.signature(gaussveil.calibrate).parameters if name != "mechanism"]
    assert [name for name in inspect.signature(gaussveil.noise_for).parameters if name != "mechanism"] == promised
    assert gaussveil.noise_for(steps=4, epsilon=1.0, delta=1e-6) > gaussveil.noise_for(epsilon=1.0, delta=1e-6)


def test_mistakes_in_python_are_sentences() -> None:
    release = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, because="given", account="winter")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r'account must be .* Account\("town.ledger", "winter"\)'):
        release.release(np.zeros(3))


def test_a_long_job_says_that_it_works(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr("gaussveil.cli.output.PATIENCE", 0.05)
    told, deadline = "", time.monotonic() + 60
    with waiting(True):
        while "working" not in told and time.monotonic() < deadline:
            time.sleep(0.05)
            told += capsys.readouterr().err
    assert "working" in told
    capsys.readouterr()
    with waiting(False):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_who_has_read_enough_is_no_error(days: Path, tmp_path: Path) -> None:
    pair = tmp_path / "pair.json"
    pair.write_text('{"variance_gap": [0.1], "mean_gap": [0.2]}', encoding="utf-8")
    program = Path(sys.executable).parent / "gaussveil"
    line = f"set -o pipefail; {program} curve {pair} --points 5000 --json | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_claim_in_two_options_is_told_the_one(run: Run, tmp_path: Path) -> None:
    code, _, told = run("check", tmp_path / "pair.json", "--epsilon", 1, "--delta", 1e-6)
    assert code == 2
    assert "--claim EPSILON,DELTA" in told
