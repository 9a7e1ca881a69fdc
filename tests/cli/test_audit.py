from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gaussveil.audit import GaussianSketch
from gaussveil.audit import audit as audit_exactly
from gaussveil.cli.audit import audit
from gaussveil.errors import FormatError, GaussveilError, ParameterError, SourceError

app = typer.Typer()
app.command("audit")(audit)

ROWS = np.random.default_rng(5).normal(size=(30, 3))


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, GaussveilError):
        raise done.exception
    return done.exit_code, done.stdout


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "model.json", tmp_path / "rows.csv"
    files[0].write_text(json.dumps({"model": "sketch", "n_components": 4, "ridge": 20.0}), encoding="utf-8")
    np.savetxt(files[1], ROWS, delimiter=",", fmt="%.17g")
    return files


def test_model_on_data_agrees_with_the_library(model: tuple[Path, Path], tmp_path: Path) -> None:
    out, plot = tmp_path / "audit.json", tmp_path / "audit.svg"
    exact = audit_exactly(GaussianSketch(n_components=4, ridge=20.0), ROWS, claim=(0.5, 1e-3))
    code, text = run(
        model[0], "--data", model[1], "--claim", "0.5,1e-3", "--json", "--out", out, "--plot", plot, "--worst", 2
    )
    answer = json.loads(text)
    assert (code, answer["verdict"]) == (1, "refuted") == (1, exact.verdict)
    assert [found["lower"] for found in answer["worst"]] == [found.lower for found in exact.findings[:2]]
    assert answer["neighbours"] == 30
    record = json.loads(out.read_text(encoding="utf-8"))
    assert "do not share" in record["warning"]
    assert record["values"]["above_the_claim"] == answer["above_the_claim"] > 0
    assert out.stat().st_mode & 0o077 == 0
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_exit_codes_of_the_three_verdicts(tmp_path: Path, pair_files: dict[str, Path]) -> None:
    delta = json.loads(run(pair_files["json"], "--claim", "1,0", "--json")[1])["worst"][0]["lower"]
    for factor, code, verdict in ((1.1, 0, "holds"), (0.9, 1, "refuted"), (1 - 1e-12, 3, "undecided")):
        found, text = run(pair_files["json"], "--claim", f"1,{factor * delta!r}")
        assert found == code
        assert verdict in text


def test_batches_and_several_files_are_one_audit(tmp_path: Path, pair_files: dict[str, Path]) -> None:
    batch: dict[str, Any] = {
        "mean_x": np.array([[0.1, 0.0], [2.0, 0.0]]),
        "cov_x": np.broadcast_to(np.eye(2), (2, 2, 2)),
        "mean_y": np.zeros(2),
        "cov_y": np.eye(2),
    }
    np.savez(tmp_path / "batch.npz", **batch)
    code, text = run(pair_files["npz"], tmp_path / "batch.npz", pair_files["other"], "--claim", "1,0.3", "--json")
    answer = json.loads(text)
    assert code == 1
    assert answer["neighbours"] == 4
    assert answer["worst"][0]["neighbour"] == 2


def test_bad_input_is_named(model: tuple[Path, Path], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    with pytest.raises(ParameterError, match="claim"):
        run(model[0], "--data", model[1], "--claim", "1")
    with pytest.raises(ParameterError, match="claim"):
        run(model[0], "--data", model[1], "--claim", "1,2")
    with pytest.raises(ParameterError, match="exactly one model"):
        run(model[0], model[0], "--data", model[1], "--claim", "1,0.1")
    with pytest.raises(SourceError, match=r"absent\.json"):
        run(tmp_path / "absent.json", "--data", model[1], "--claim", "1,0.1")
    for content, words in (("{", "JSON"), ('{"model": "oracle"}', "sketch"), ('{"model": "sketch"}', "parameters")):
        wrong.write_text(content, encoding="utf-8")
        with pytest.raises(FormatError, match=words):
            run(wrong, "--data", model[1], "--claim", "1,0.1")
