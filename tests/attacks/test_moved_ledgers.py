"""Whoever copies, moves, links or restores a ledger while others use it: no acknowledged debit is forgotten."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Account, Adjacency, Certificate, CertificateDraft, Charge, Ledger, transaction
from gaussveil.accounting.ledger import database
from gaussveil.cli.main import app
from gaussveil.errors import GaussveilError, LedgerUnavailableError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
DRAFT = CertificateDraft(released="mean", mechanism="m", adjacency=HOME, epsilon=1.0, delta=0.1)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=1.0, delta=1e-4)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)


def release(account: Account, name: str | None = None) -> Certificate:
    with transaction(account, Charge(GaussianPair.mean_shift(0.01)), DRAFT, release_id=name) as debit:
        debit.draw(lambda: 0)
    return debit.certificate


def names(path: Path) -> list[str]:
    return [entry.id for entry in Ledger(path).entries("homes")]


def copied(path: Path) -> Path:
    """The file alone, as somebody takes it who knows nothing of what may lie beside it."""
    target = path.parent / "elsewhere" / path.name
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, target)
    return target


@pytest.fixture
def reader(ledger: Ledger) -> Iterator[sqlite3.Connection]:
    """Another program in the midst of a transaction that reads."""
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM events").fetchone()
        yield connection


@pytest.mark.usefixtures("hurried")
def test_what_is_acknowledged_under_an_open_reader_is_in_the_file(
    ledger: Ledger, account: Account, reader: sqlite3.Connection
) -> None:
    acknowledged = []
    for name in ("one", "two", "three"):
        try:
            release(account, name)
        except LedgerUnavailableError:
            continue
        acknowledged.append(name)
    assert names(copied(ledger.path)) == acknowledged
    reader.execute("ROLLBACK")
    release(account, "four")
    assert names(copied(ledger.path)) == [*acknowledged, "four"]
    assert sorted(path.name for path in ledger.path.parent.glob("spent*")) == ["spent.ledger", "spent.ledger-witness"]


def test_a_reader_who_leaves_lets_the_writer_go_on(
    ledger: Ledger, account: Account, reader: sqlite3.Connection
) -> None:
    writer = threading.Thread(target=release, args=(account, "one"))
    writer.start()
    assert names(copied(ledger.path)) == []
    reader.execute("ROLLBACK")
    writer.join(60)
    assert not writer.is_alive()
    assert names(copied(ledger.path)) == ["one"]


@pytest.mark.usefixtures("hurried")
def test_a_ledger_of_earlier_versions_leaves_its_log_before_it_pays(ledger: Ledger, account: Account) -> None:
    release(account, "one")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as older:
        older.execute("PRAGMA journal_mode=WAL")
        older.execute("BEGIN")
        older.execute("SELECT * FROM events").fetchone()
        assert names(ledger.path) == ["one"]
        with pytest.raises(LedgerUnavailableError, match="log beside it"):
            release(account, "two")
        assert names(ledger.path) == ["one"]
    release(account, "three")
    assert names(copied(ledger.path)) == ["one", "three"]
    ledger.check()


def test_a_file_that_changes_hands_in_a_release_pays_for_nothing(ledger: Ledger, account: Account) -> None:
    """Moved, replaced or linked between debit and draw: the draw needs a debit that the file at the path holds."""
    moved = ledger.path.with_name("moved.ledger")
    older = copied(ledger.path)
    changes = {
        "moved": lambda: ledger.path.rename(moved),
        "replaced": lambda: os.replace(shutil.copyfile(older, older.with_name("new")), ledger.path),
        "linked": lambda: os.link(ledger.path, moved),
    }
    drawn: list[str] = []

    def release_after(name: str) -> None:
        with transaction(account, Charge(GaussianPair.mean_shift(0.01)), DRAFT) as debit:
            changes[name]()
            debit.draw(lambda: drawn.append(name))

    for name in changes:
        kept = ledger.path.read_bytes()
        with pytest.raises(LedgerUnavailableError, match=r"was moved|there is no ledger|hard link"):
            release_after(name)
        assert drawn == []
        moved.unlink(missing_ok=True)
        ledger.path.unlink(missing_ok=True)
        ledger.path.write_bytes(kept)


def many(account: Account, done: Path, count: int) -> None:
    """A writer with a thread that reads the file as bytes all the while, which takes SQLite's locks from it.

    What it reads under such a thread may be torn, and is refused then; what it is told to be paid is noted.
    """
    path, stop = Path(account.ledger), threading.Event()

    def read() -> None:
        while not stop.is_set():
            path.read_bytes()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(count):
            with contextlib.suppress(GaussveilError):
                release(account, f"{done.name} {number}")
                done.write_text(f"{done.read_text()}{done.name} {number}\n")
    finally:
        stop.set()
        thread.join()


def test_writers_who_read_their_own_file_lose_no_debit(ledger: Ledger, account: Account, tmp_path: Path) -> None:
    notes = [tmp_path / f"writer {number}" for number in range(4)]
    for note in notes:
        note.touch()
    writers = [FORK.Process(target=many, args=(account, note, 6)) for note in notes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    ledger.check()
    acknowledged = {line for note in notes for line in note.read_text().splitlines()}
    assert len(acknowledged) >= 12
    assert acknowledged <= {entry.id for entry in ledger.entries("homes") if entry.state == "released"}


def said(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words))
    return found.exit_code, " ".join(found.output.split())


@pytest.mark.parametrize("in_place", [True, False], ids=["written over", "replaced"])
def test_a_backup_restored_in_place_is_told_for_good(
    ledger: Ledger, account: Account, caplog: pytest.LogCaptureFixture, in_place: bool
) -> None:
    release(account, "one")
    backup = copied(ledger.path)
    line = json.loads(said("budget", "show", str(ledger.path), "--account", "homes", "--json")[1])
    assert line["lost"] == []
    release(account, "two")
    release(account, "three")
    assert said("budget", "check", str(ledger.path))[0] == 0
    if in_place:
        shutil.copyfile(backup, ledger.path)
    else:
        os.replace(backup, ledger.path)
    for _ in range(2):
        code, words = said("budget", "check", str(ledger.path))
        assert code == 1
        assert "entries after" in words
        assert "are not in it" in words
        for command in (["--account", "homes"], ["--json"], []):
            assert "are not in it" in said("budget", "show", str(ledger.path), *command)[1]
        with caplog.at_level(logging.WARNING, "gaussveil"):
            release(account)
    assert sum("are not in it" in record.message for record in caplog.records) == 1  # by the first debit that meets it
    assert len(ledger.lost()) == 1


def test_certificates_beside_a_restored_ledger_tell(ledger: Ledger, account: Account) -> None:
    backup = copied(ledger.path)
    release(account).write(ledger.path.parent / "sums.json")
    assert said("budget", "check", str(ledger.path))[0] == 0
    os.replace(backup, ledger.path)
    ledger.path.with_name("spent.ledger-witness").unlink()
    code, words = said("budget", "check", str(ledger.path))
    assert code == 1
    assert "sums.json" in words
    assert "an older copy was restored" in words


def test_a_copy_elsewhere_and_another_ledger_are_no_restored_ones(ledger: Ledger, account: Account) -> None:
    release(account)
    assert Ledger(copied(ledger.path)).lost() == ()
    ledger.path.unlink()
    anew = Ledger.create(ledger.path)
    anew.open_account("homes", epsilon=1.0, delta=1e-4)
    release(account)
    assert anew.lost() == ()
    ledger.path.with_name("spent.ledger-witness").write_bytes(b"\xff not a note")
    release(account)
    assert anew.lost() == ()
