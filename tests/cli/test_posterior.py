from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.cli.posterior import gp, logistic
from gaussveil.errors import ParameterError

APP = typer.Typer()
for _command in (logistic, gp):
    APP.command()(_command)

PROMISE = ["--epsilon", "1", "--delta", "0.01"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, list(map(str, arguments)))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path / "in.csv"
    pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "label": rng.integers(0, 2, size=40)}).to_csv(
        path, index=False
    )
    return path


def test_logistic_plans_without_data_and_writes_coefficients_with_a_certificate(table: Path, tmp_path: Path) -> None:
    options = ["--row-norm", 1, "--regularization", 2, *PROMISE, "--json"]
    plan = json.loads(run("logistic", tmp_path / "missing.csv", *options).stdout)
    assert list(plan) == ["added_variance"]
    account = Ledger.create(tmp_path / "spent.ledger").open_account("people", epsilon=2.0, delta=0.1)
    out = tmp_path / "coef.json"
    paid = ["--ledger", account.ledger, "--account", "people", "--classes", "0,1", "--out", out]
    done = run("logistic", table, *options, *paid)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["added_variance"] == plan["added_variance"]
    assert set(json.loads(out.read_text())["coefficients"]) == {"a", "b"}
    certificate = Certificate.read(f"{out}.certificate.json")
    assert verify(certificate).private
    assert certificate.account == "people"
    again = run("logistic", table, *options, *paid)
    assert isinstance(again.exception, ParameterError)
    assert len(Ledger(account.ledger).entries("people")) == 1


def test_logistic_without_a_row_norm_searches_its_bounds_for_units_of_several_rows(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    frame.assign(home=np.arange(len(frame)) // 2).to_csv(table, index=False)
    out = tmp_path / "coef.json"
    asked = ["logistic", table, *PROMISE, "--classes", "0,1", "--unit", "home", "--rows-per-unit", 2]
    assert isinstance(run(*asked).exception, ParameterError)  # it has no plan to show without --out
    done = run(*asked, "--out", out)
    assert done.exit_code == 0, done.output
    assert list(json.loads(out.read_text())["coefficients"]) == ["intercept", "a", "b"]
    certificate = Certificate.read(f"{out}.certificate.json")
    assert (certificate.mechanism, certificate.adjacency.unit) == ("logistic-regression", "home")
    assert verify(certificate).private
    assert isinstance(run(*asked, "--row-norm", 1, "--out", out, "--force").exception, ParameterError)


def test_gp_writes_values_at_public_points(table: Path, tmp_path: Path) -> None:
    points, out = tmp_path / "points.csv", tmp_path / "values.json"
    points.write_text("a,b\n0,0\n1,0.5\n")
    options = ["--points", points, "--length-scale", 2, "--observation-variance", 50, "--label-bound", 1, "--n-max", 64]
    done = run("gp", table, *options, *PROMISE, "--out", out)
    assert done.exit_code == 0, done.output
    body = json.loads(out.read_text())
    assert body["points"] == [[0.0, 0.0], [1.0, 0.5]]
    assert len(body["values"]) == 2
    assert verify(Certificate.read(f"{out}.certificate.json")).private


@pytest.mark.parametrize(
    "extra", [["--out", "x.csv"], ["--ledger", "y.ledger"], ["--regularization", "0"]], ids=lambda e: e[0]
)
def test_bad_options_are_refused(table: Path, extra: list[str]) -> None:
    assert run("logistic", table, "--row-norm", 1, *PROMISE, *extra).exception is not None
