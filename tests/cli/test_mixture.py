from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from gaussveil.accounting import Ledger, verify
from gaussveil.cli.mixture import label_mixture, mixture, sample
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import MixtureModel

Call = Callable[..., Any]
PROMISE = ("--epsilon", 1, "--delta", 1e-5)


@pytest.fixture
def call() -> Call:
    app = typer.Typer()
    app.command("mixture")(mixture)
    app.command("label-mixture")(label_mixture)
    app.command("sample")(sample)

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    kind = generator.integers(2, size=600)
    rows = generator.normal(size=(600, 2)) + 3.0 * kind[:, None]
    table = {"noon": rows[:, 0], "one": rows[:, 1], "class": np.array(["flat", "house"])[kind]}
    pq.write_table(pa.table({**table, "home": np.arange(600) // 3}), tmp_path / "profiles.parquet")
    return tmp_path / "profiles.parquet"


def test_a_model_a_report_and_samples(call: Call, profiles: Path, tmp_path: Path) -> None:
    out, report, rows = tmp_path / "model.json", tmp_path / "out.html", tmp_path / "rows.csv"
    made = call(
        "mixture",
        profiles,
        "--label",
        "class",
        "--classes",
        "flat,house",
        "--columns",
        "noon,one",
        "--radius",
        8,
        *PROMISE,
        "--out",
        out,
        "--report",
        report,
    )
    assert made.exit_code == 0, made.output
    model = MixtureModel.read(out)
    assert model.classes == ("flat", "house")
    assert model.certificate is not None
    assert verify(model.certificate).private
    assert "Released mixture" in report.read_text(encoding="utf-8")
    assert call("sample", out, "-n", 50, "--out", rows, "--seed", 1).exit_code == 0
    with rows.open(encoding="utf-8") as stream:
        drawn = list(csv.DictReader(stream))
    assert len(drawn) == 50
    assert {row["class"] for row in drawn} <= {"flat", "house"}
    assert all(np.isfinite(float(row["noon"])) for row in drawn)
    assert call("sample", out, "-n", 3).output.count("\n") == 4


def test_households_and_clusters(call: Call, profiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    made = call(
        "mixture",
        profiles,
        "--classes",
        2,
        "--columns",
        "noon,one",
        "--radius",
        8,
        "--nominal-size",
        600,
        "--unit",
        "home",
        "--rows-per-unit",
        3,
        *PROMISE,
        "--out",
        out,
    )
    assert made.exit_code == 0, made.output
    certificate = MixtureModel.read(out).certificate
    assert certificate is not None
    assert certificate.adjacency.unit == "home"


def test_labels_alone_are_protected_without_a_radius(call: Call, profiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    options = ("--label", "class", "--classes", "flat,house", "--columns", "noon,one", *PROMISE, "--out", out)
    made = call("label-mixture", profiles, *options, "--method", "response")
    assert made.exit_code == 0, made.output
    certificate = MixtureModel.read(out).certificate
    assert certificate is not None
    assert (certificate.adjacency.unit, certificate.parameters["method"]) == ("label", "response")
    assert call("mixture", profiles, *options, "--radius", 8, "--adjacency", "label").exit_code == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"--radius": -1}, "radius"),
        ({"--label": "kind"}, "kind"),
        ({"--columns": "noon,home2"}, "home2"),
        ({"--columns": "noon,class"}, "must hold numbers"),
        ({"--classes": None}, "--classes"),
        ({"--delta": 0}, "delta"),
        ({"--out": "model.txt"}, ".json"),
        ({"--centre": "0,x"}, "--centre"),
    ],
    ids=str,
)
def test_mistakes_are_refused_before_anything_is_spent(
    call: Call, profiles: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("homes", epsilon=3.0, delta=1e-3)
    options = {
        "--label": "class",
        "--classes": "flat,house",
        "--columns": "noon,one",
        "--radius": 8,
        "--epsilon": 1,
        "--delta": 1e-5,
        "--out": "model.json",
        "--ledger": account.ledger,
        "--account": "homes",
        **change,
    }
    options["--out"] = tmp_path / options["--out"]
    given = [part for name, value in options.items() if value is not None for part in (name, value)]
    done = call("mixture", profiles, *given)
    assert isinstance(done.exception, GaussveilError)
    assert told in str(done.exception)
    assert Ledger(account.ledger).entries("homes") == []
    assert not (tmp_path / "model.json").exists()
