"""The ledger's tables, version by version. A version, once released, never changes; a new one comes with its step.

Version 1 kept each charge inside its entry and had no log. Version 2 stores each distinct charge once, so that 10^5
entries fold by digest, keeps a hash-chained log of every event and the kind of each guarantee, and lets an account fix
its filter.
"""

from __future__ import annotations

import sqlite3

from gaussveil.accounting.charge import Charge

APPLICATION_ID = 0x47564C31  # "GVL1", tells a ledger from any other SQLite file
VERSION = 2

SCHEMA_1 = """
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dataset TEXT NOT NULL,
  adjacency TEXT,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  opened_at TEXT NOT NULL
) STRICT;
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (id),
  charge TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('debited', 'drawing', 'released', 'void')),
  what TEXT NOT NULL,
  debited_at TEXT NOT NULL
) STRICT;
"""

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


def statements(script: str) -> list[str]:
    """Split a schema into statements; `executescript` would commit the open transaction."""
    return [part.strip() for part in script.split(";") if part.strip()]


def migrate_1_to_2(connection: sqlite3.Connection) -> None:
    """Move every account and entry to version 2, inside the caller's transaction."""
    accounts = connection.execute(
        "SELECT id, name, dataset, adjacency, epsilon, delta, opened_at FROM accounts"
    ).fetchall()
    entries = connection.execute("SELECT seq, id, account, charge, state, what, debited_at FROM entries").fetchall()
    connection.execute("DROP TABLE entries")
    connection.execute("DROP TABLE accounts")
    for statement in statements(SCHEMA_2):
        connection.execute(statement)
    for row in accounts:
        number, name, dataset, adjacency, epsilon, delta, opened_at = row
        # Version 1 knew one rule: the filter on squared mean shifts.
        used = "mean-shift" if any(entry[2] == number and entry[4] != "void" for entry in entries) else None
        connection.execute(
            "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, 1e-3, 'adaptive', 'mean-shift', ?, NULL, NULL, ?)",
            (number, name, dataset, adjacency, epsilon, delta, used, opened_at),
        )
    for sequence, entry, account, body, state, what, debited_at in entries:
        charge = Charge.from_json(body)
        connection.execute("INSERT OR IGNORE INTO charges VALUES (?, ?)", (charge.digest, charge.to_json()))
        connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, NULL, ?, 'worst case', ?, ?)",
            (sequence, entry, account, charge.digest, state, what, debited_at),
        )


MIGRATIONS = {1: migrate_1_to_2}
