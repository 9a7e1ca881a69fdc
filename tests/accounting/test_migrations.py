"""Ledgers of older and newer format versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.ledger.database import chained
from gaussveil.accounting.ledger.migrations import APPLICATION_ID, SCHEMA_1, VERSION
from gaussveil.errors import BudgetExceededError, FormatError, LedgerCorruptError
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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts SET epsilon = 100 WHERE name = 'homes'",
        "UPDATE accounts SET active_filter = NULL WHERE name = 'homes'",
        "UPDATE entries SET account = 2 WHERE id = 'old-1'",
        "UPDATE entries SET guarantee = 'none' WHERE id = 'old-1'",
        "DELETE FROM entries WHERE id = 'old-1'",
    ],
)
def test_alterations_after_a_migration_show(version_one: Path, statement: str) -> None:
    ledger = Ledger(version_one)
    ledger.debit("homes", CHARGE, HOME, release_id="new")
    for entry in ("new", "old-4"):
        ledger.void(entry, "never drawn")
    ledger.check()
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    with pytest.raises(LedgerCorruptError, match="do not agree"):
        ledger.check()


def shorten_log(path: Path) -> None:
    """Write the log anew, as the first builds of version 2 did: budgets in words, digests, nothing of a migration."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT at, account, entry, event, detail FROM events ORDER BY seq").fetchall()
        connection.execute("DELETE FROM events")
        link = ""
        for at, account, entry, event, detail in rows:
            said = json.loads(detail) if detail.startswith("{") else {}
            short = {
                "opened": "epsilon {epsilon!r}, delta {delta!r}, {rule}",
                "debited": "{charge}",
                "migrated": "format version {from} to {to}",
            }
            line = (at, account, entry, event, short.get(event, detail).format(**said))
            link = chained(link, line)
            connection.execute(
                "INSERT INTO events (at, account, entry, event, detail, chain) VALUES (?, ?, ?, ?, ?, ?)",
                (*line, link),
            )


@pytest.mark.parametrize("migrated", [False, True])
def test_short_logs_still_load_and_are_compared_as_far_as_they_go(
    version_one: Path, tmp_path: Path, migrated: bool
) -> None:
    ledger = Ledger(version_one) if migrated else Ledger.create(tmp_path / "new.ledger")
    if not migrated:
        ledger.open_account("homes", epsilon=3.0, delta=1e-5)
    ledger.debit("homes", CHARGE, HOME, release_id="short")
    shorten_log(ledger.path)
    ledger.check()
    ledger.void("short", "never drawn")
    ledger.debit("homes", CHARGE, HOME, release_id="long")
    ledger.check()
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        name = "guarantee" if migrated else "epsilon"
        table = {"guarantee": "entries SET guarantee = 'none' WHERE id = 'long'", "epsilon": "accounts SET epsilon = 9"}
        assert connection.execute(f"UPDATE {table[name]}").rowcount == 1
    with pytest.raises(LedgerCorruptError, match="do not agree"):
        ledger.check()
