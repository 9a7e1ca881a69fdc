from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.cli import main

MATRICES: dict[str, Any] = {
    "mean_x": [0.3, 0.0],
    "cov_x": [[1.2, 0.1], [0.1, 1.0]],
    "mean_y": [0.0, 0.0],
    "cov_y": [[1.0, 0.1], [0.1, 1.0]],
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process; return exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gaussveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        captured = capsys.readouterr()
        code = ended.value.code
        return (0 if code is None else int(code)), captured.out, captured.err

    return call


@pytest.fixture
def run_outside(tmp_path: Path) -> Run:
    """Run the installed command as a user would, in a process of its own."""

    def call(*arguments: object) -> tuple[int, str, str]:
        command = [str(Path(sys.executable).parent / "gaussveil"), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def pair_files(tmp_path: Path) -> dict[str, Path]:
    """Write the same pair in every format, and a second pair."""
    files = {ending: tmp_path / f"pair.{ending}" for ending in ("json", "npz", "csv")}
    files["json"].write_text(json.dumps(MATRICES), encoding="utf-8")
    np.savez(files["npz"], **{name: np.array(value) for name, value in MATRICES.items()})
    files["csv"].write_text(
        "distribution,mean,cov_1,cov_2\nX,0.3,1.2,0.1\nX,0,0.1,1\nY,0,1,0.1\nY,0,0.1,1\n", encoding="utf-8"
    )
    files["other"] = tmp_path / "other.csv"
    files["other"].write_text("variance_gap,mean_gap\n0.2,0.5\n-0.1,0\n", encoding="utf-8")
    return files
