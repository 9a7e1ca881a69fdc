"""The ledger's tables, version by version. A `version_N.sql`, once released, never changes; a new one has its step.

Version 2 folds equal charges and chains its log by hashes. Version 3 knows what a release was drawn from, keeps what
each filter has used, and lets each line of the log vouch for the account as it left it.

Files of version 2 are read for good: what they say was spent is spent, and a library that refused them would let the
same records be charged from 0 in a new file.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

APPLICATION_ID = 0x47564C31  # "GVL1", tells a ledger from any other SQLite file
VERSION = 3
OLDEST = 2  # no version before it was released

# Whoever changes one of these rows, by whatever program, leaves a mark that the account's last line does not know.
MARKED = ("entries", "plan", "draws")
MARKS = {
    "INSERT": "NEW.account",
    "UPDATE": "OLD.account, NEW.account",
    "DELETE": "OLD.account",
}


def migrate_2_to_3(connection: sqlite3.Connection) -> None:
    """Add draws, balances and marks, inside the caller's transaction."""
    for statement in _statements(3):
        connection.execute(statement)
    for table in MARKED:
        for change, accounts in MARKS.items():
            connection.execute(
                f"CREATE TRIGGER {table}_{change} AFTER {change} ON {table} BEGIN "
                f"UPDATE balances SET changes = changes + 1 WHERE account IN ({accounts}); END"
            )
    connection.execute(
        "INSERT INTO keys VALUES ('draw identity', ?)", (os.urandom(32),)
    )


def make_tables(connection: sqlite3.Connection) -> None:
    """Lay out an empty ledger of the present version."""
    for statement in _statements(2):
        connection.execute(statement)
    migrate_2_to_3(connection)


def _statements(version: int) -> list[str]:
    """The statements that make a version's tables; `executescript` would commit the open transaction."""
    script = (
        Path(__file__).with_name(f"version_{version}.sql").read_text(encoding="utf-8")
    )
    return [part.strip() for part in script.split(";") if part.strip()]


MIGRATIONS = {2: migrate_2_to_3}
