"""A release that was paid and drawn is found again wherever its process was killed while the files got their names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gaussveil_studio.unfinished import DONE, UNFINISHED, recover

# A process that writes as a release does, and is killed when it has renamed so many files.
WRITER = """
import os, signal, sys
from contextlib import ExitStack
from pathlib import Path
from gaussveil.files import reserved
from gaussveil_studio.unfinished import note_unfinished, settled

folder, renames = Path(sys.argv[1]), int(sys.argv[2])
files, left, replace = {"day.csv": b"hour,kw\\n1,2\\n", "certificate.json": b"{}"}, [0], os.replace

def counted(source, target):
    if Path(target).name in files:
        if left[0] == renames:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] += 1
    replace(source, target)

os.replace = counted
with ExitStack() as stack:
    streams = {name: stack.enter_context(reserved(folder / name, 1 << 16)) for name in files}
    for name, content in files.items():
        settled(streams[name], content)
    note_unfinished(folder, {"state": "released", "file": "day.csv"}, files)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_kill_between_the_renames_loses_nothing(tmp_path: Path, renames: int) -> None:
    killed = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path), str(renames)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert sum((tmp_path / name).exists() for name in ("day.csv", "certificate.json")) == renames
    assert recover(tmp_path)
    assert (tmp_path / "day.csv").read_bytes() == b"hour,kw\n1,2\n"
    assert (tmp_path / "certificate.json").read_bytes() == b"{}"
    assert json.loads((tmp_path / DONE).read_text()) == {"state": "released", "file": "day.csv"}
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert not recover(tmp_path)  # once is enough


def test_what_has_another_digest_is_no_result(tmp_path: Path) -> None:
    """A file that was cut short, or put there by somebody, is never told as the release."""
    note = {"done": {"state": "released"}, "digests": {"day.csv": "0" * 64}}
    (tmp_path / UNFINISHED).write_text(json.dumps(note))
    (tmp_path / ".day.csv.abc").write_text("hour,kw\n")
    (tmp_path / "day.csv").write_text("hour,kw\n")
    assert not recover(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["day.csv", UNFINISHED]


def test_a_writer_killed_before_its_note_leaves_nothing_hidden(tmp_path: Path) -> None:
    (tmp_path / ".certificate.json.xyz").write_text("{")
    assert not recover(tmp_path)
    assert os.listdir(tmp_path) == []
