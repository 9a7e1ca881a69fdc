"""Ledgers of older and newer format versions."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.ledger.migrations import VERSION
from gaussveil.errors import BudgetExceededError, FormatError, LedgerCorruptError, LedgerError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
CHARGE = Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-19)


# Written by the last library that wrote version 2 (commit bd9f27f1, 16 November 2026), and left as it was.
VERSION_TWO = Path(__file__).with_name("version_2.ledger.gz")


@pytest.fixture
def version_two(tmp_path: Path) -> Path:
    """A ledger as version 2 left it: six entries in two of three accounts, one void, one killed while drawing."""
    path = tmp_path / "old.ledger"
    path.write_bytes(gzip.decompress(VERSION_TWO.read_bytes()))
    return path


def test_version_two_loads_with_nothing_lost(version_two: Path) -> None:
    with closing(sqlite3.connect(version_two)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    ledger = Ledger(version_two)
    ledger.check()
    assert [entry.state for entry in ledger.entries("homes")] == ["released", "released", "drawing", "debited", "void"]
    statement = ledger.statement("homes")
    assert statement.charges == ((CHARGE, 4),)
    assert statement.terms.adjacency == HOME
    assert statement.terms.active_filter == "mean-shift"
    assert ledger.terms("empty").active_filter is None
    assert ledger.history()[-1].event == "migrated"
    # The account goes on where it was: 4 x 0.09 is spent of 0.517.
    ledger.debit("homes", CHARGE, HOME)
    with pytest.raises(BudgetExceededError):
        ledger.debit("homes", CHARGE, HOME)
    ledger.void("old-4", "never drawn")
    ledger.debit("homes", CHARGE, HOME)
    ledger.debit("plan", CHARGE, HOME)
    with pytest.raises(BudgetExceededError, match="no free place"):
        ledger.debit("plan", CHARGE, HOME)
    ledger.check()


def test_migration_happens_once(version_two: Path) -> None:
    Ledger(version_two)
    key = Ledger(version_two).draw_key()
    ledger = Ledger(version_two)
    assert ledger.draw_key() == key
    # Once for the file, once for each of the three accounts.
    assert [event.event for event in ledger.history()].count("migrated") == 4
    with closing(sqlite3.connect(version_two)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_failed_migration_changes_nothing(version_two: Path) -> None:
    with closing(sqlite3.connect(version_two)) as connection, connection:
        connection.execute("CREATE TABLE keys (other TEXT)")
    with pytest.raises(LedgerError):
        Ledger(version_two)
    with closing(sqlite3.connect(version_two)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT COUNT(*) FROM entries").fetchone() == (6,)


def test_versions_before_the_first_released_are_no_ledgers(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA user_version=1")
    with pytest.raises(FormatError, match="not a gaussveil ledger"):
        Ledger(ledger.path)


def test_newer_versions_are_refused_with_advice(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
    with pytest.raises(FormatError, match=f"version {VERSION + 1}.*upgrade"):
        Ledger(ledger.path)
    with pytest.raises(FormatError, match="upgrade"):
        ledger.open_account("a", epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts SET epsilon = 100 WHERE name = 'homes'",
        "UPDATE accounts SET active_filter = NULL WHERE name = 'homes'",
        "UPDATE entries SET account = 2 WHERE id = 'old-1'",
        "UPDATE entries SET guarantee = 'none' WHERE id = 'old-1'",
        "DELETE FROM entries WHERE id = 'old-1'",
        "DELETE FROM draws",
    ],
)
def test_alterations_after_a_migration_show(version_two: Path, statement: str) -> None:
    ledger = Ledger(version_two)
    drawn = Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-19, draw_identity="0" * 64)
    ledger.debit("homes", drawn, HOME, release_id="new")
    for entry in ("new", "old-4"):
        ledger.void(entry, "never drawn")
    ledger.check()
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    with pytest.raises(LedgerCorruptError, match="do not agree"):
        ledger.check()
