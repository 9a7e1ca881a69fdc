"""`query` says from public numbers whether the answers can be of use."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Run


def test_the_command_says_it_without_reading_a_row(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "header.csv"
    table.write_text("household,kw\n")
    words = ["query", str(table), "--unit", "household", "--mean", "kw", "--between", "0,3", "--epsilon", "1"]
    code, out, _ = run(*words, "--delta", "1e-6", "--units", "20")
    assert code == 0
    assert "cannot be useful with 20 units" in out
    code, out, _ = run(*words, "--delta", "1e-6", "--json")
    assert json.loads(out)["units_needed"] > 20
