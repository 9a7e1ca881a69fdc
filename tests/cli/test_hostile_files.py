"""Whatever a file holds, a command ends by an answer or one sentence, within bounds on memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .hostile_files import KINDS

ROOT = Path(__file__).parents[2]
FILES = 50  # of each kind with --full, a tenth of them without


def process(kind: str, count: int, folder: Path) -> str:
    words = [sys.executable, "-m", "tests.cli.hostile_files", kind, str(count), str(folder)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-600:]}"
    return ended.stdout.strip()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    process("written", 0, folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_file_ends_a_command_by_an_accident(whole: Path, kind: str, full: bool) -> None:
    assert process(kind, FILES if full else FILES // 10, whole) == ""
