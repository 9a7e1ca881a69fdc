"""The ledger's tables, version by version. A version, once released, never changes; a new one comes with its step.

Version 2 stores each distinct charge once, so that 10^5 entries fold by digest, keeps a hash-chained log of every event
and the kind of each guarantee, and lets an account fix its filter. Version 3 knows what a release was drawn from, keeps
what each filter has used, so that a debit costs the same however many came before, and lets each line of the log vouch
for the account as it left it.
"""

from __future__ import annotations

import os
import sqlite3

APPLICATION_ID = 0x47564C31  # "GVL1", tells a ledger from any other SQLite file
VERSION = 3
OLDEST = 2  # no version before it was released

SCHEMA_2 = """
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dataset TEXT NOT NULL,
  adjacency TEXT,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  sampler_share REAL NOT NULL,
  rule TEXT NOT NULL CHECK (rule IN ('planned', 'adaptive')),
  chosen_filter TEXT NOT NULL CHECK (chosen_filter IN ('auto', 'mean-shift', 'renyi')),
  active_filter TEXT CHECK (active_filter IN ('mean-shift', 'renyi', 'single')),
  chosen_order REAL,
  active_order REAL,
  opened_at TEXT NOT NULL
) STRICT;
CREATE TABLE charges (
  digest TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
CREATE TABLE plan (
  account INTEGER NOT NULL REFERENCES accounts (id),
  charge TEXT NOT NULL REFERENCES charges (digest),
  count INTEGER NOT NULL CHECK (count > 0),
  PRIMARY KEY (account, charge)
) STRICT;
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (id),
  charge TEXT NOT NULL REFERENCES charges (digest),
  slot TEXT,
  state TEXT NOT NULL CHECK (state IN ('debited', 'drawing', 'released', 'void')),
  guarantee TEXT NOT NULL CHECK (guarantee IN ('worst case', 'model-based', 'none')),
  what TEXT NOT NULL,
  debited_at TEXT NOT NULL
) STRICT;
CREATE INDEX entries_folded ON entries (account, charge, slot, state, guarantee);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  account TEXT NOT NULL,
  entry TEXT NOT NULL,
  event TEXT NOT NULL,
  detail TEXT NOT NULL,
  chain TEXT NOT NULL
) STRICT;
"""

SCHEMA_3 = """
CREATE TABLE draws (
  entry TEXT NOT NULL REFERENCES entries (id),
  account INTEGER NOT NULL REFERENCES accounts (id),
  identity TEXT NOT NULL,
  PRIMARY KEY (entry, identity)
) STRICT;
CREATE INDEX draws_known ON draws (account, identity);
CREATE TABLE keys (
  purpose TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;
CREATE TABLE balances (
  account INTEGER PRIMARY KEY REFERENCES accounts (id),
  changes INTEGER NOT NULL,
  used BLOB
) STRICT;
INSERT INTO balances SELECT id, 0, NULL FROM accounts;
ALTER TABLE plan ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE plan SET used = (
  SELECT COUNT(*) FROM entries e WHERE e.account = plan.account AND e.slot = plan.charge AND e.state <> 'void'
);
ALTER TABLE events ADD COLUMN account_state TEXT NOT NULL DEFAULT '';
CREATE INDEX events_of_account ON events (account);
CREATE INDEX events_of_entry ON events (entry)
"""
# Whoever changes one of these rows, by whatever program, leaves a mark that the account's last line does not know.
MARKED = ("entries", "plan", "draws")
MARKS = {"INSERT": "NEW.account", "UPDATE": "OLD.account, NEW.account", "DELETE": "OLD.account"}


def migrate_2_to_3(connection: sqlite3.Connection) -> None:
    """Add draws, balances and marks, inside the caller's transaction."""
    for statement in _statements(SCHEMA_3):
        connection.execute(statement)
    for table in MARKED:
        for change, accounts in MARKS.items():
            connection.execute(
                f"CREATE TRIGGER {table}_{change} AFTER {change} ON {table} BEGIN "
                f"UPDATE balances SET changes = changes + 1 WHERE account IN ({accounts}); END"
            )
    connection.execute("INSERT INTO keys VALUES ('draw identity', ?)", (os.urandom(32),))


def make_tables(connection: sqlite3.Connection) -> None:
    """Lay out an empty ledger of the present version."""
    for statement in _statements(SCHEMA_2):
        connection.execute(statement)
    migrate_2_to_3(connection)


def _statements(script: str) -> list[str]:
    """Split a schema into statements; `executescript` would commit the open transaction."""
    return [part.strip() for part in script.split(";") if part.strip()]


MIGRATIONS = {2: migrate_2_to_3}
