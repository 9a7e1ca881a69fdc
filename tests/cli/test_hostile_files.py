"""Whatever a file holds, a command ends by an answer or one sentence, within bounds on memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..warm_processes import WarmProcesses
from . import hostile_files

FILES = 50  # of each kind with --full, a tenth of them without
pytestmark = pytest.mark.xdist_group("warm processes")


@pytest.fixture(scope="module")
def processes(pytestconfig: pytest.Config) -> WarmProcesses:
    """A kind of files has a process of its own: it may be ended by a limit on memory."""
    return WarmProcesses(pytestconfig.getoption("--draws"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, processes: WarmProcesses) -> Path:
    """A folder with one whole file of every kind."""
    folder = tmp_path_factory.mktemp("hostile")
    said = tmp_path_factory.mktemp("said") / "written.txt"
    assert processes.run("hostile files", said, hostile_files.in_folder, folder, "written", 0) == (0, "")
    return folder


@pytest.mark.parametrize("kind", hostile_files.KINDS)
def test_no_damaged_file_ends_a_command_by_an_accident(
    whole: Path, kind: str, processes: WarmProcesses, tmp_path: Path, full: bool
) -> None:
    count = FILES if full else FILES // 10
    ended, said = processes.run(kind, tmp_path / "said.txt", hostile_files.in_folder, whole, kind, count)
    tried = [f"# {kind} {seed}" for seed in range(count)]
    assert (ended, said.splitlines()) == (0, tried), f"ended with {ended}: {said[-600:]}"
