"""What a version is built and checked with says one thing everywhere: workflows, scripts, versions, notebooks."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(workflow: Path) -> None:
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step)
        for line in step.get("run", "").splitlines():
            words = line.split()
            if words[0] == "make":
                assert set(words[1:]) <= TARGETS | {".venv/.installed-dev"}, line
            if words[0].startswith("scripts/"):
                assert os.access(ROOT / words[0], os.X_OK), line
                assert f"\n{words[1]}() {{" in (ROOT / words[0]).read_text(), line


def test_the_suite_runs_on_every_python_that_is_promised() -> None:
    promised = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["suite"]["strategy"]["matrix"]
    assert set(matrix["python"]) == promised
    assert {machine.endswith("-arm") for machine in matrix["machine"]} == {True, False}
    policy = (ROOT / "docs/policy.md").read_text()
    assert all(version in policy for version in promised)


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[(Unreleased\]: )?{re.escape(version)}", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_machine_without_a_kernel_is_built_for_without_one(tmp_path: Path) -> None:
    asked = "import hatch_build, pathlib, sys; sys.exit(hatch_build.compile_kernel(pathlib.Path(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", asked, str(tmp_path / "kernel.so")],
        cwd=ROOT,
        env={**os.environ, "GAUSSVEIL_MACHINE": "none"},
        check=False,
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_notebooks_are_their_pages_and_run_in_a_kernel() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_notebooks.py"))
    assert script["differing"]() == []
    page = next(page for page in script["pages"]() if page.stem == "one-budget")
    printed = [
        line
        for cell in script["run"](script["notebook_of"](page)).cells
        for output in cell.get("outputs", [])
        for line in output.get("text", "").splitlines()
    ]
    promised = re.findall(r"print\(.*# -> (.*)", page.read_text())
    assert promised
    assert printed == promised
