"""A long run of the suite goes on where it was ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest

@pytest.mark.parametrize("name", ["a", "x@y"])
def test_passes(name): pass

def test_fails(): assert not "this"

@pytest.fixture
def left_in_disorder():
    yield
    raise OSError

def test_ends_badly(left_in_disorder): pass
"""
PLUGIN = """
import sys
import pytest
sys.path.insert(0, {root!r})
from tests.passed_tests import PassedTests, passed_before

def pytest_addoption(parser):
    parser.addoption("--go-on")

def pytest_configure(config):
    if config.getoption("--go-on") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(config))

@pytest.hookimpl(tryfirst=True)  # before groups are added to the names
def pytest_collection_modifyitems(config, items):
    passed = passed_before(config)
    items[:] = [item for item in items if item.nodeid not in passed]
"""


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n", "1", "--dist", "loadgroup")])
def test_what_passed_is_left_out_and_what_failed_is_run_again(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN.format(root=str(ROOT)), encoding="utf-8")
    grouped = "pytestmark = pytest.mark.xdist_group('g')\n" if workers else ""
    (tmp_path / "test_it.py").write_text(
        SUITE.replace("import pytest\n", f"import pytest\n{grouped}"), encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers]
    go_on = ["--go-on", "build/passed"]
    tails = []
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # quick to start
    for options in ([], go_on, go_on):
        run = subprocess.run(
            [*command, *options], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False, timeout=300
        )
        tails.append(run.stdout.splitlines()[-1])
    assert "1 failed, 3 passed, 1 error" in tails[0]  # all of it, as without the option
    assert "1 failed, 3 passed, 1 error" in tails[1]
    assert "1 failed, 1 passed, 1 error" in tails[2]
    named = (tmp_path / "build" / "passed").read_text(encoding="utf-8").splitlines()
    assert sorted(named) == ["test_it.py::test_passes[a]", "test_it.py::test_passes[x@y]"]
