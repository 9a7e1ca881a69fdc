"""README and docs hold the figures of docs/numbers.json, and the script that writes them does what it says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_numbers", ROOT / "scripts" / "write_numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    store = {
        "numbers": {"ndis.a": "0.343"},
        "tables": {"ndis.t": {"columns": ["x", "a|b"], "rows": [["one", "1"]]}},
    }
    (tmp_path / "docs" / "numbers.json").write_text(json.dumps(store), encoding="utf-8")
    text = "delta <!-- number:ndis.a -->?<!-- /number -->.\n\n<!-- table:ndis.t -->\n<!-- /table -->\n"
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_pages_hold_the_stored_figures(script: ModuleType) -> None:
    assert script.check(ROOT) == []


def test_marks_are_filled_and_then_agree(script: ModuleType, repository: Path) -> None:
    assert "README.md: figures differ" in script.check(repository)[0]
    assert script.main(["--fill"], repository) == 0
    text = (repository / "README.md").read_text(encoding="utf-8")
    assert text == (
        "delta <!-- number:ndis.a -->0.343<!-- /number -->.\n\n"
        "<!-- table:ndis.t -->\n| x | a\\|b |\n| --- | --- |\n| one | 1 |\n<!-- /table -->\n"
    )
    assert script.main(["--check"], repository) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- number:ndis.b -->1<!-- /number -->", "unknown number ndis.b"),
        ("<!-- table:ndis.u -->\n<!-- /table -->", "unknown table ndis.u"),
        ("<!-- number:ndis.a -->\n0.343<!-- /number -->", "not closed"),
    ],
)
def test_wrong_marks_are_named(script: ModuleType, repository: Path, text: str, problem: str) -> None:
    page = repository / "docs" / "page.md"
    page.write_text(text, encoding="utf-8")
    assert any(problem in line for line in script.check(repository))
    assert script.main(["--check"], repository) == 1


def test_benchmarks_are_read(script: ModuleType) -> None:
    rows = [{"name": "Fit, d = 4", "ours": 0.5, "peer": None, "ratio": "3x"}]
    found = script.from_benchmarks({"benchmarks": {"arma": {"rows": rows}}})
    assert found == {"bench.arma.fit-d-4.ours": "0.5", "bench.arma.fit-d-4.ratio": "3x"}


def test_a_wrong_option_is_answered_with_the_usage(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err
