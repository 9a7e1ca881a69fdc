"""A ledger with a byte of no text and a disk without room: one sentence that names the file, and an exit code.

A full disk is a real one where the system lends it: /dev/full; elsewhere the kernel's limit on the size of files.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gaussveil.accounting import Ledger

from .conftest import Run

PROMISE = ("--delta", 1e-6, "--l2-sensitivity", 1, "--because", "a home adds 1 to one count")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "spent.ledger"
    Ledger.create(path).open_account("homes", epsilon=3.0, delta=1e-5)
    return path


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    np.savetxt(tmp_path / "counts.csv", np.arange(4.0)[None], delimiter=",", header="a,b,c,d", comments="")
    return tmp_path / "counts.csv"


def column_places(body: bytes, table: bytes) -> list[int]:
    """Where the names of a table's columns begin, in the words that SQLite reads when it opens the file."""
    (words,) = re.findall(rb"CREATE TABLE %s \((?:[^;\0](?!CREATE))*" % table, body)
    start = body.index(words)
    return [start + found.start(1) for found in re.finditer(rb"\n  ([a-z_]+) [A-Z]+", words)]


COMMANDS = {
    "show": lambda ledger, _: ("budget", "show", ledger),
    "check": lambda ledger, _: ("budget", "check", ledger),
    "release": lambda ledger, counts: (
        *("release", "vector", counts, *PROMISE, "--epsilon", 1, "--ledger", ledger, "--account", "homes"),
        *("--out", ledger.with_name("out.csv")),
    ),
    "backup": lambda ledger, _: ("backup", ledger.with_name("copy.tar"), "--ledger", ledger),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_byte_of_no_text_in_the_schema_is_a_damaged_ledger(run: Run, ledger: Path, counts: Path, name: str) -> None:
    whole = ledger.read_bytes()
    places = column_places(whole, b"accounts")
    assert len(places) > 8
    for place in (places[1], places[4], places[-1]):
        ledger.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        code, out, err = run(*COMMANDS[name](ledger, counts))
        assert (code, out) == (5, ""), err
        assert re.fullmatch(r"error GV401: .*spent\.ledger is damaged.*restore a backup.*\n", err), err
        assert not ledger.with_name("out.csv").exists()


def test_wherever_the_byte_is_no_mistake_of_ours_comes_of_it(run: Run, ledger: Path) -> None:
    """In a part of the names of columns, of every table, and in the cells that hold the account's name."""
    whole = ledger.read_bytes()
    places = [found.start(1) for found in re.finditer(rb"\n  ([a-z_]+) [A-Z]+", whole)]
    for place in (*places[::5], whole.rindex(b"homes")):
        ledger.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        code, _, err = run("budget", "show", ledger)
        assert (code, err[:12]) in ((0, ""), (5, "error GV401:")), err


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_names_the_file(run: Run, ledger: Path, counts: Path, tmp_path: Path) -> None:
    """That of the output before the debit, that of the ledger where it cannot grow: nothing is recorded or written."""
    before = {path.name for path in tmp_path.iterdir()}
    given = ("release", "vector", counts, *PROMISE, "--ledger", ledger, "--account", "homes", "--out")
    with no_file_beyond(1024):
        code, _, err = run(*given, tmp_path / "out.csv", "--epsilon", 1)
    assert (code, "out.csv: no room" in err) == (2, True)
    assert Ledger(ledger).entries("homes") == []
    assert {path.name for path in tmp_path.iterdir()} <= before
    paid = 0
    with no_file_beyond(ledger.stat().st_size):
        while code != 5 and paid < 30:  # until it would need another page
            code, _, err = run(*given, tmp_path / f"{paid}.csv", "--epsilon", 0.1)
            paid += code == 0
    assert (code, err[:12], "spent.ledger" in err) == (5, "error GV402:", True)
    assert len(Ledger(ledger).entries("homes")) == paid
    assert not list(tmp_path.glob(f"*{paid}.csv*"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system lends no full disk")
def test_a_full_device_is_told_by_its_name(tmp_path: Path) -> None:
    """What is printed may go to a file on a disk that is full."""
    pair = tmp_path / "pair.json"
    pair.write_text('{"mean_x": [0.3], "cov_x": [[1.0]], "mean_y": [0.0], "cov_y": [[1.0]]}')
    command = [str(Path(sys.executable).parent / "gaussveil"), "delta", str(pair), "--epsilon", "1"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "error GV450: standard output: No space left on device\n")
