"""The light core needs four packages; everything else is refused with the name of its extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKED = """
import importlib.abc, runpy, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["check_core.py", "--blocked"]
runpy.run_path({script!r})
"""


def test_the_core_runs_without_any_extra() -> None:
    names = {"cryptography", "duckdb", "jinja2", "matplotlib", "pyarrow", "rich", "sklearn", "typer"}
    names |= {"dp_accounting", "joblib", "mpmath", "pandas", "polars", "statsmodels"}
    code = BLOCKED.format(names=names, script=str(ROOT / "scripts" / "check_core.py"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("the light core works alone"), done.stderr


def test_the_core_asks_for_four_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {requirement.partition(">")[0] for requirement in project["dependencies"]}
    assert names == {"array-api-compat", "numpy", "python-flint", "scipy"}
