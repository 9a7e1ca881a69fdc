"""What can go wrong with processes, disks and files: nothing is released without its debit, lost or overspent."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaussveil.accounting import Account, Adjacency, CertificateDraft, Charge, Ledger, transaction
from gaussveil.accounting.ledger.filters import Budget
from gaussveil.errors import (
    BudgetExceededError,
    FormatError,
    GaussveilError,
    LedgerCorruptError,
    LedgerUnavailableError,
)
from gaussveil.spectrum import GaussianPair

FORK = multiprocessing.get_context("fork")
UNIT = Adjacency.add_remove()
SHIFT = 0.015


def shift(size: float = SHIFT) -> Charge:
    return Charge(GaussianPair.mean_shift(size))


def write_releases(account: Account, out: Path) -> None:
    """Release until the budget is spent; every value that left the process is in `out`, forced to disk."""
    draft = CertificateDraft(released="x", mechanism="m", adjacency=UNIT, epsilon=1.0, delta=0.1)
    handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        try:
            with transaction(account, shift(), draft) as debit:
                os.write(handle, f"debited {debit.id}\n".encode())
                debit.draw(lambda debit=debit: os.write(handle, f"drawn {debit.id}\n".encode()))
            os.write(handle, f"released {debit.id}\n".encode())
        except BudgetExceededError:
            return


def read_log(folder: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"debited": set(), "drawn": set(), "released": set()}
    for path in folder.glob("writer-*"):
        for line in path.read_text().splitlines():
            event, identifier = line.split()
            found[event].add(identifier)
    return found


KILLED_ON_ITS_WAY = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")  # pages go to the file before the end
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM entries")
connection.execute("CREATE TABLE half_written (x)")
connection.executemany("INSERT INTO half_written VALUES (?)", [("x" * 500,)] * 5000)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("shared", [False, True])
def test_what_a_killed_writer_left_half_written_is_undone_by_the_next_reader(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "home.ledger"
    ledger = Ledger.create(path)
    ledger.open_account("a", epsilon=3, delta=1e-6)
    with transaction(
        Account(path, "a"),
        shift(),
        CertificateDraft(released="x", mechanism="m", adjacency=UNIT, epsilon=1.0, delta=0.1),
    ) as debit:
        debit.draw(lambda: 1.0)
    before = ledger.entries("a")
    subprocess.run([sys.executable, "-c", KILLED_ON_ITS_WAY, path], check=False)
    assert Path(f"{path}-journal").stat().st_size > 0
    reader = ledger if shared else Ledger(path)
    assert reader.entries("a") == before
    reader.check()
    assert not Path(f"{path}-journal").exists()


def test_kill_nine_with_four_writers(tmp_path: Path, full: bool) -> None:
    kills = 200 if full else 6
    ledger = Ledger.create(tmp_path / "spent.ledger")
    budget = Budget(2.0, 1e-5) if full else Budget(1.0, 1e-6)
    account = ledger.open_account("a", epsilon=budget.epsilon, delta=budget.delta)
    affordable = math.floor(budget.mean_shift_cap() / SHIFT**2)
    chance = random.Random(3)
    started = hit = 0

    def start() -> multiprocessing.process.BaseProcess:
        nonlocal started
        started += 1
        process = FORK.Process(target=write_releases, args=(account, tmp_path / f"writer-{started}"))
        process.start()
        return process

    def written() -> int:
        return sum(path.read_text().count("debited") for path in tmp_path.glob("writer-*"))

    writers = [start() for _ in range(4)]
    for kill in range(kills):
        while written() < affordable * (kill + 1) // (kills + 2):  # on a machine of any speed
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.02))
        victim = chance.randrange(4)
        hit += writers[victim].is_alive()
        writers[victim].kill()
        writers[victim].join()
        # Recovery: the next process finds a sound ledger, whatever the last one was doing.
        writers[victim] = start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert hit >= kills // 2, "the budget was spent before the kills; give the writers more to do"
    ledger.check()
    entries = {entry.id: entry.state for entry in ledger.entries("a")}
    log = read_log(tmp_path)
    active = {identifier for identifier, state in entries.items() if state != "void"}
    assert log["debited"] <= active, "a debit was lost"
    assert {entries[identifier] for identifier in log["drawn"]} <= {"drawing", "released"}
    assert all(entries[identifier] == "released" for identifier in log["released"])
    # Neither overspent nor wasted: exactly what the budget affords was debited, killed releases included.
    assert len(active) == affordable
    assert ledger.statement("a").spent_delta <= budget.delta
    killed = [state for state in entries.values() if state in ("debited", "drawing")]
    assert len(killed) <= kills
    assert ledger.statement("a").unfinished == len(killed)


def outcome(function: Callable[[], object], user: int | None = None, limit: int | None = None) -> str:
    """Run in a child, with another user or a file size limit; the error's code and message, or 'fine'."""
    parent, child = FORK.Pipe()

    def run() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if user is not None:
            os.setuid(user)
        try:
            function()
            child.send("fine")
        except GaussveilError as error:
            child.send(f"{error.code} {error}")

    process = FORK.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == 0
    return str(parent.recv())


def test_disk_full(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    account = ledger.open_account("a", epsilon=3.0, delta=1e-5)
    ledger.debit("a", shift(), UNIT)
    drawn = tmp_path / "drawn"
    drawn.touch()
    draft = CertificateDraft(released="x" * 20000, mechanism="m", adjacency=UNIT, epsilon=1.0, delta=0.1)

    def release_many() -> None:
        for number in range(50):
            with transaction(account, shift(), draft, release_id=str(number)) as debit:
                debit.draw(lambda: drawn.write_text(drawn.read_text() + f"{debit.id}\n"))

    limit = ledger.path.stat().st_size + 100_000
    found = outcome(release_many, limit=limit)
    assert found.startswith(LedgerUnavailableError.code)
    assert "disk" in found
    assert "nothing was recorded" in found
    # Space again: the ledger is intact, holds every debit of a drawn release, and goes on.
    ledger.check()
    states = {entry.id: entry.state for entry in ledger.entries("a")}
    released = drawn.read_text().split()
    assert 0 < len(released) < 50
    assert all(states[identifier] in ("drawing", "released") for identifier in released)
    ledger.debit("a", shift(), UNIT)


def test_a_ledger_that_finds_no_room_leaves_no_empty_file(tmp_path: Path) -> None:
    book = tmp_path / "new.ledger"
    said = outcome(lambda: Ledger.create(book), limit=1024)
    assert said.startswith("GV402")
    assert book.name in said
    assert list(tmp_path.iterdir()) == []
    Ledger.create(book).open_account("a", epsilon=3.0, delta=1e-5)


def test_what_was_paid_and_drawn_is_handed_out_though_the_disk_is_full(tmp_path: Path) -> None:
    """The draw fills the disk: that it is done cannot be noted, and it is spent all the same."""
    account = Ledger.create(tmp_path / "spent.ledger").open_account("a", epsilon=3.0, delta=1e-5)
    draft = CertificateDraft(released="x", mechanism="m", adjacency=UNIT, epsilon=1.0, delta=0.1)

    def full() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return 7

    def release() -> None:
        with transaction(account, shift(), draft) as debit:
            value = debit.draw(full)
        (tmp_path / "out").write_text(f"{value} {debit.certificate.release_id}")

    assert outcome(release) == "fine"
    (entry,) = Ledger(tmp_path / "spent.ledger").entries("a")
    assert (entry.state, (tmp_path / "out").read_text()) == ("drawing", f"7 {entry.id}")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_read_only_file(open_folder: Path) -> None:
    ledger = Ledger.create(open_folder / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    ledger.path.chmod(0o444)
    open_folder.chmod(0o555)
    nobody = 65534 if os.getuid() == 0 else None  # root may write anywhere
    database = ledger._database

    def debit() -> None:
        Ledger(database.path).debit("a", shift(), UNIT)

    found = outcome(debit, user=nobody)
    assert found.startswith(LedgerUnavailableError.code)
    assert "permissions" in found or "may be written" in found
    open_folder.chmod(0o755)
    ledger.path.chmod(0o644)
    assert ledger.entries("a") == []
    ledger.debit("a", shift(), UNIT)


def test_locked_file(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    impatient = Ledger(ledger.path)
    impatient._database.busy_seconds = 0.05
    with ledger._database.writing():
        with pytest.raises(LedgerUnavailableError, match="locked"):
            impatient.debit("a", shift(), UNIT)
        assert impatient.accounts() == ["a"]  # readers do not wait for writers
    impatient.debit("a", shift(), UNIT)


def checkpointed(tmp_path: Path) -> Path:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    for number in range(20):
        ledger.debit("a", shift(), UNIT, what="x" * 500, release_id=str(number))
    return ledger.path


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: b"not a database at all" + body[21:],
        lambda body: body[: len(body) // 2],
        lambda body: body[:8192] + bytes(len(body) - 8192),
        lambda body: body[:4096] + b"\xff" * 4096 + body[8192:],
    ],
    ids=["header", "truncated", "zeroed", "one page"],
)
def test_corrupted_file(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = checkpointed(tmp_path)
    backup = path.read_bytes()
    path.write_bytes(spoil(backup))
    with pytest.raises(LedgerCorruptError, match="backup"):
        Ledger(path).check()
    with pytest.raises(LedgerCorruptError, match="backup"):
        Ledger(path).debit("a", shift(), UNIT)
    path.write_bytes(backup)
    ledger = Ledger(path)
    ledger.check()
    assert len(ledger.entries("a")) == 20


@pytest.mark.parametrize("body", [b"", b"SQLite format 3\x00" + bytes(84)], ids=["empty", "no tables"])
def test_other_files_are_not_ledgers(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(body)
    with pytest.raises((FormatError, LedgerCorruptError), match=r"not a gaussveil ledger|damaged"):
        Ledger(path)
    assert path.read_bytes() == body


def test_a_second_name_is_refused(tmp_path: Path) -> None:
    """SQLite keeps a log and locks beside each name: writers under two names would lose each other's debits."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    os.link(ledger.path, tmp_path / "other.ledger")
    for path in (ledger.path, tmp_path / "other.ledger"):
        with pytest.raises(LedgerUnavailableError, match="hard link"):
            Ledger(path).debit("a", shift(), UNIT)
    os.unlink(tmp_path / "other.ledger")
    os.symlink(ledger.path, tmp_path / "other.ledger")  # SQLite follows these, so that there is one log
    Ledger(tmp_path / "other.ledger").debit("a", shift(), UNIT)
    assert len(ledger.entries("a")) == 1


def ids(ledger: Ledger) -> list[str]:
    return [entry.id for entry in ledger.entries("a")]


def test_no_connection_speaks_for_another_file(tmp_path: Path) -> None:
    """Files are moved, replaced, overwritten and linked between two uses."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    ledger.debit("a", shift(), UNIT, release_id="one")
    older = ledger.path.read_bytes()  # the file alone
    ledger.debit("a", shift(), UNIT, release_id="two")
    ledger.path.rename(tmp_path / "moved.ledger")
    with pytest.raises(LedgerUnavailableError, match="there is no ledger"):
        ledger.entries("a")
    moved = Ledger(tmp_path / "moved.ledger")
    moved.debit("a", shift(), UNIT, release_id="three")
    assert ids(moved) == ["one", "two", "three"]
    ledger.path.write_bytes(older)  # another file under the first name
    ledger.debit("a", shift(), UNIT, release_id="four")
    assert ids(ledger) == ["one", "four"]
    ledger.path.write_bytes(older)  # the same file, written over
    assert ids(ledger) == ["one"]
    ledger.debit("a", shift(), UNIT, release_id="five")
    assert ids(Ledger(ledger.path)) == ["one", "five"]
    for path in (ledger.path, moved.path):
        Ledger(path).check()
    os.link(ledger.path, tmp_path / "second.ledger")
    with pytest.raises(LedgerUnavailableError, match="hard link"):
        ledger.debit("a", shift(), UNIT)


def test_debits_of_a_parent_and_its_children_all_count(tmp_path: Path) -> None:
    """A child inherits no connection: SQLite's locks belong to the process that opened the file."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    expected = set()
    for round_number in range(3):
        ledger.debit("a", shift(), UNIT, release_id=f"before {round_number}")
        children = []
        for child in range(2):
            process = os.fork()
            if process == 0:
                status = 1
                try:
                    for number in range(5):
                        ledger.debit("a", shift(), UNIT, release_id=f"{round_number} {child} {number}")
                    status = 0
                finally:
                    os._exit(status)
            children.append(process)
        ledger.debit("a", shift(), UNIT, release_id=f"beside {round_number}")
        assert [os.waitpid(process, 0)[1] for process in children] == [0, 0]
        expected |= {f"before {round_number}", f"beside {round_number}"}
        expected |= {f"{round_number} {child} {number}" for child in range(2) for number in range(5)}
    ledger.check()
    assert set(ids(ledger)) == expected
    (tmp_path / "alone.ledger").write_bytes(ledger.path.read_bytes())
    assert set(ids(Ledger(tmp_path / "alone.ledger"))) == expected


def test_a_debit_is_in_the_file_itself_before_its_draw(tmp_path: Path, draft: CertificateDraft) -> None:
    """Whoever takes the file without its log, while the noise is drawn or right after, takes the debit along."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    account = ledger.open_account("a", epsilon=3.0, delta=1e-5)
    copy = tmp_path / "copy.ledger"
    with transaction(account, shift(), draft, release_id="r") as debit:
        debit.draw(lambda: copy.write_bytes(ledger.path.read_bytes()))
        assert [entry.state for entry in Ledger(copy).entries("a")] == ["drawing"]
    copy.unlink()
    copy.write_bytes(ledger.path.read_bytes())
    assert [entry.state for entry in Ledger(copy).entries("a")] == ["released"]


def test_who_copies_the_file_keeps_all_debits_in_it(tmp_path: Path) -> None:
    """Closing any handle of a file drops its process's locks; what others see and write stays in the one file."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    (tmp_path / "link.ledger").symlink_to(ledger.path)
    visit = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM events').fetchall(); c.close()"
    )
    for path in (ledger.path, tmp_path / "link.ledger"):
        Ledger(path).debit("a", shift(), UNIT)
        with Ledger.held(path) as held:
            for _ in range(2):
                ledger.path.read_bytes()
                subprocess.run([sys.executable, "-S", "-c", visit, str(ledger.path)], check=True)
                held.debit("a", shift(), UNIT)
                assert not list(tmp_path.glob("*-wal"))
    ledger.check()
    assert len(ids(ledger)) == 6
