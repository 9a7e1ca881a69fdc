"""Ledgers of older and newer format versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.migrations import APPLICATION_ID, SCHEMA_1, VERSION
from gaussveil.errors import BudgetExceededError, FormatError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
CHARGE = Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-19)


@pytest.fixture
def version_one(tmp_path: Path) -> Path:
    """A ledger as version 1 wrote it: five entries, one of them void, one killed while drawing."""
    path = tmp_path / "old.ledger"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA_1)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("PRAGMA user_version=1")
        for number, name in ((1, "homes"), (2, "empty")):
            row = (number, name, "winter", canonical_json(HOME.to_dict()), 3.0, 1e-5, "2025-01-01T00:00:00Z")
            connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for number, state in enumerate(("released", "released", "drawing", "debited", "void"), start=1):
            row = (number, f"old-{number}", 1, CHARGE.to_json(), state, "mean", "2025-01-02T00:00:00Z")
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return path


def test_version_one_loads_with_nothing_lost(version_one: Path) -> None:
    ledger = Ledger(version_one)
    ledger.check()
    assert [entry.state for entry in ledger.entries("homes")] == ["released", "released", "drawing", "debited", "void"]
    statement = ledger.statement("homes")
    assert statement.charges == ((CHARGE, 4),)
    assert statement.terms.adjacency == HOME
    assert statement.terms.active_filter == "mean-shift"
    assert ledger.terms("empty").active_filter is None
    assert ledger.history()[0].event == "migrated"
    # The account goes on where it was: 4 x 0.09 is spent of 0.517.
    ledger.debit("homes", CHARGE, HOME)
    with pytest.raises(BudgetExceededError):
        ledger.debit("homes", CHARGE, HOME)
    ledger.void("old-4", "never drawn")
    ledger.debit("homes", CHARGE, HOME)
    ledger.check()


def test_migration_happens_once(version_one: Path) -> None:
    Ledger(version_one)
    ledger = Ledger(version_one)
    assert [event.event for event in ledger.history()] == ["migrated"]
    with closing(sqlite3.connect(version_one)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_failed_migration_changes_nothing(version_one: Path) -> None:
    with closing(sqlite3.connect(version_one)) as connection, connection:
        connection.execute("UPDATE entries SET charge = '{' WHERE seq = 3")
    with pytest.raises(FormatError):
        Ledger(version_one)
    with closing(sqlite3.connect(version_one)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT COUNT(*) FROM entries").fetchone() == (5,)


def test_newer_versions_are_refused_with_advice(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
    with pytest.raises(FormatError, match=f"version {VERSION + 1}.*upgrade"):
        Ledger(ledger.path)
    with pytest.raises(FormatError, match="upgrade"):
        ledger.open_account("a", epsilon=1.0, delta=1e-5)
