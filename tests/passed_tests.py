"""A run that takes hours goes on where it was ended: tests that passed are written down and left out next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def passed_before(config: pytest.Config) -> frozenset[str]:
    """The tests that the file of --go-on named when the run began; none without that option."""
    path = config.getoption("--go-on")
    if path is None:
        return frozenset()
    if hasattr(config, "workerinput"):
        return frozenset(config.workerinput["passed"])
    if not Path(path).exists():
        return frozenset()
    return frozenset(Path(path).read_text(encoding="utf-8").splitlines())


class PassedTests:
    """Adds each test that passed, once it is torn down, to a file, and tells workers what stood there before."""

    def __init__(self, config: pytest.Config) -> None:
        self._path = Path(config.getoption("--go-on"))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._before = sorted(passed_before(config))
        self._failed: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker, also one that takes the place of another, what every worker leaves out."""
        node.workerinput["passed"] = self._before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test of which every step passed."""
        if not report.passed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            if hasattr(report, "node"):  # a worker adds the group to the name
                name = report.nodeid.rpartition("@")[0]
            else:
                name = report.nodeid
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(f"{name}\n")
