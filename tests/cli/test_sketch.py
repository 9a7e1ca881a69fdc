"""`gaussveil sketch` as a user types it, on a command line of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.cli.sketch import sketch
from gaussveil.errors import BudgetExceededError, FormatError, GaussveilError, ParameterError, SourceError
from gaussveil.mechanisms import Sketch

PROMISE = ("--epsilon", "1", "--delta", "1e-6", "--row-norm", "3")
SECRET = 31337.5
app = typer.Typer()
app.command()(sketch)


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, GaussveilError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    rows = np.random.default_rng(4).normal(size=(50, 2))
    rows[0] = SECRET
    files = {ending: tmp_path / f"in.{ending}" for ending in ("csv", "npy", "parquet")}
    np.savetxt(files["csv"], rows, delimiter=",", header="load,price", comments="")
    np.save(files["npy"], rows)
    pq.write_table(pa.table({"load": rows[:, 0], "price": rows[:, 1]}), files["parquet"])
    return files


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet"])
def test_sketch_and_certificate_are_written_and_read_back(ending: str, inputs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    answer = json.loads(run(inputs[ending], *PROMISE, "--n-components", 16, "--out", out, "--json"))
    read = Sketch.from_file(out)
    assert read.matrix.shape == (2, 16)
    assert read.ridge == answer["ridge"]
    assert read.columns == (("x0", "x1") if ending == "npy" else ("load", "price"))
    assert read.gram().value.shape == (2, 2)
    certificate = Certificate.read(f"{out}.certificate.json")
    assert verify(certificate).private
    assert certificate.release_id == answer["release_id"]


def test_without_out_only_the_plan_is_shown(inputs: dict[str, Path], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    text = run(inputs["csv"], *PROMISE, "--row-bound", 50)
    assert "GaussianRelease instead" in text
    assert sorted(tmp_path.iterdir()) == before
    answer = json.loads(run(inputs["csv"], *PROMISE, "--row-bound", 50, "--json"))
    assert answer["gram_error"] > answer["gaussian_gram_error"]


def test_account_pays_and_refuses(inputs: dict[str, Path], tmp_path: Path) -> None:
    path, out = tmp_path / "home.ledger", tmp_path / "out.npz"
    ledger = Ledger.create(path)
    ledger.open_account("homes", epsilon=1.0, delta=2e-6)
    paying = (*PROMISE, "--n-components", 8, "--ledger", path, "--account", "homes", "--out")
    run(inputs["csv"], *paying, out)
    with pytest.raises(BudgetExceededError):
        run(inputs["csv"], *paying, tmp_path / "again.npz")
    assert not (tmp_path / "again.npz").exists()
    assert [entry.state for entry in ledger.entries("homes")] == ["released"]


def test_the_noise_of_the_test_may_be_given(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "1,0\n0,1\n" * 50, encoding="utf-8")
    common = (rows, "--row-norm", 1, "--delta", 1e-3, "--n-components", 8, "--variant", "tested")
    run(*common, "--epsilon", 8, "--test-noise", 2)
    with pytest.raises(ParameterError):  # the test alone would cost more than epsilon
        run(*common, "--epsilon", 0.1, "--test-noise", 0.01)


def test_units_and_variants(tmp_path: Path) -> None:
    table = tmp_path / "homes.csv"
    table.write_text("home,load\n" + "".join(f"h{i // 3},{i % 7}\n" for i in range(60)), encoding="utf-8")
    one = run(table, *PROMISE, "--n-components", 8, "--unit", "home", "--rows-per-unit", 2, "--out", tmp_path / "a.npz")
    assert "1 columns" in one
    assert Certificate.read(tmp_path / "a.npz.certificate.json").adjacency.unit == "home"
    run(
        table,
        *PROMISE,
        "--n-components",
        8,
        "--columns",
        "load",
        "--variant",
        "subsampled",
        "--rate",
        0.5,
        "--out",
        tmp_path / "b.npz",
    )
    assert Sketch.from_file(tmp_path / "b.npz").rate == 0.5


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--n-components", "many"), ParameterError),
        (("--n-components", "-3"), ParameterError),
        (("--ledger", "x.ledger"), ParameterError),
        (("--n-components", 4, "--out", "out.csv"), FormatError),
        (("--n-components", 4, "--columns", "nope"), GaussveilError),
        (("--n-components", "auto"), ParameterError),
        (("--n-components", 4, "--out", "no/such/folder/out.npz"), SourceError),
    ],
)
def test_mistakes_are_told_and_nothing_is_told_of_the_data(
    inputs: dict[str, Path], arguments: tuple[object, ...], error: type[GaussveilError]
) -> None:
    with pytest.raises(error) as caught:
        run(inputs["csv"], *PROMISE, *arguments, *(() if "--out" in arguments else ("--out", "never.npz")))
    assert str(SECRET) not in str(caught.value)
    assert not Path("never.npz").exists()


def test_what_is_there_is_not_overwritten_unless_forced(inputs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    out.write_bytes(b"precious")
    with pytest.raises(ParameterError, match="exists"):
        run(inputs["npy"], *PROMISE, "--n-components", 4, "--out", out)
    with pytest.raises(FormatError):
        Sketch.from_file(out)
    run(inputs["npy"], *PROMISE, "--n-components", 4, "--out", out, "--force")
    assert Sketch.from_file(out).components == 4
