from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parents[2] / "benchmarks" / "run.py"
BENCH = """
def run():
    return [{{"name": "{name}", "ours": 2.0, "peer": "1 s", "ratio": {ratio}, "goal": 3.0, "met": {ratio} >= 3.0}}]
"""


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_runner", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_goals_decide_the_exit_code_and_results_of_other_files_are_kept(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bench_fast.py").write_text(BENCH.format(name="quick thing", ratio=4.0), encoding="utf-8")
    (tmp_path / "bench_slow.py").write_text(BENCH.format(name="slow thing", ratio=2.0), encoding="utf-8")
    results = tmp_path / "results"
    assert runner.main(["fast"], tmp_path, results) == 0
    assert runner.main(["slow"], tmp_path, results) == 1
    assert runner.main([], tmp_path, results) == 1
    kept = json.loads(next(results.glob("results-*.json")).read_text(encoding="utf-8"))
    assert set(kept["benchmarks"]) == {"fast", "slow"}
    assert {"architecture", "cores", "python", "libraries"} <= set(kept["machine"])
    page = next(results.glob("results-*.md")).read_text(encoding="utf-8")
    assert "| quick thing | 2 | 1 s | 4 | 3 | met |" in page
    assert "| slow thing | 2 | 1 s | 2 | 3 | MISSED |" in page


def test_unknown_names_are_a_usage_error(runner: ModuleType, tmp_path: Path) -> None:
    assert runner.main(["nothing"], tmp_path, tmp_path / "results") == 2
    assert not (tmp_path / "results").exists()


def test_a_run_goes_on_where_it_was_ended(runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    for name in ("first", "second"):
        (tmp_path / f"bench_{name}.py").write_text(BENCH.format(name=name, ratio=4.0), encoding="utf-8")
    monkeypatch.setattr(runner, "commit", lambda: "0123456789ab")
    assert runner.main(["first"], tmp_path, results) == 0
    (tmp_path / "bench_first.py").write_text("raise RuntimeError('it is run again')\n", encoding="utf-8")
    assert runner.main(["--resume"], tmp_path, results) == 0
    (tmp_path / "bench_second.py").write_text("raise RuntimeError('it is run again')\n", encoding="utf-8")
    monkeypatch.setattr(runner, "commit", lambda: "0123456789ab-dirty")
    with pytest.raises(RuntimeError, match="run again"):
        runner.main(["--resume"], tmp_path, results)
