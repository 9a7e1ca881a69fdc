"""What the log keeps of each event, so that every row that matters can be rebuilt from it and compared.

Lines are canonical JSON. Lines of older versions say less; what they do not say is not compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from gaussveil.accounting.canonical import canonical_json

TERMS = (
    "dataset",
    "adjacency",
    "epsilon",
    "delta",
    "sampler_share",
    "rule",
    "chosen_filter",
    "active_filter",
    "chosen_order",
    "active_order",
    "opened_at",
)
SETTLED = ("adjacency", "active_filter", "active_order")  # what a debit may settle
ENTRY = ("charge", "slot", "guarantee", "what", "debited_at", "draws")
_DRAWS = "(SELECT json_group_array(identity) FROM (SELECT identity FROM draws WHERE entry = e.id ORDER BY identity))"
_COLUMNS = ", ".join(_DRAWS if name == "draws" else f"e.{name}" for name in ENTRY)

Row = Mapping[str, object]


def accounts(connection: sqlite3.Connection) -> dict[str, dict[str, object]]:
    """Terms of every account by name, its plan among them."""
    plans: dict[str, dict[str, int]] = {}
    query = "SELECT a.name, p.charge, p.count FROM plan p JOIN accounts a ON a.id = p.account ORDER BY p.charge"
    for name, charge, count in connection.execute(query):
        plans.setdefault(name, {})[charge] = count
    return {
        name: {**dict(zip(TERMS, terms, strict=True)), "plan": plans.get(name, {})}
        for name, *terms in connection.execute(f"SELECT name, {', '.join(TERMS)} FROM accounts ORDER BY id")
    }


def entries(connection: sqlite3.Connection) -> dict[str, dict[str, object]]:
    """Every entry by id, less its state, which the order of events tells."""
    rows = connection.execute(f"SELECT e.id, a.name, {_COLUMNS} FROM entries e JOIN accounts a ON a.id = e.account")
    return {identifier: dict(zip(("account", *ENTRY), values, strict=True)) for identifier, *values in rows}


def opened(connection: sqlite3.Connection, name: str) -> str:
    """Line of a new account: all its terms and its plan."""
    return canonical_json(accounts(connection)[name])


def debited(connection: sqlite3.Connection, name: str, identifier: str) -> str:
    """Line of a debit: the entry, and what is settled of the account's terms."""
    settled = connection.execute(f"SELECT {', '.join(SETTLED)} FROM accounts WHERE name = ?", (name,)).fetchone()
    row = connection.execute(f"SELECT {_COLUMNS} FROM entries e WHERE id = ?", (identifier,)).fetchone()
    return canonical_json({**dict(zip(ENTRY, row, strict=True)), "terms": dict(zip(SETTLED, settled, strict=True))})


class Replay:
    """The log read from its beginning: what every account and entry must look like by now."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, object]] = {}
        self.entries: dict[str, dict[str, object]] = {}
        self.states: dict[str, str] = {}
        self._live: dict[str, int] = {}

    def read(self, account: str, entry: str, event: str, detail: str) -> None:
        """Take in the next line."""
        if entry:
            self.states[entry] = event
        if event == "opened":
            self.accounts[account] = json.loads(detail)
        elif event == "debited":
            self._debit(account, entry, json.loads(detail))
        elif event == "void":
            self._live[account] = self._live.get(account, 0) - 1
            if not self._live[account] and account in self.accounts:
                self.accounts[account].update(active_filter=None, active_order=None)

    def _debit(self, account: str, entry: str, said: dict[str, object]) -> None:
        settled = said.pop("terms", None)
        if isinstance(settled, dict) and account in self.accounts:
            self.accounts[account].update(settled)
        self.entries[entry] = {"account": account, **said}
        self._live[account] = self._live.get(account, 0) + 1

    def contradiction(self, connection: sqlite3.Connection) -> str | None:
        """Which part of the file says something else than the log; None if none does."""
        found = entries(connection)
        states = dict(connection.execute("SELECT id, state FROM entries").fetchall())
        if states != self.states or any(not _fits(found[entry], said) for entry, said in self.entries.items()):
            return "entries"
        terms = accounts(connection)
        if terms.keys() != self.accounts.keys() or any(not _fits(terms[name], self.accounts[name]) for name in terms):
            return "accounts"
        return None


def _fits(row: Row, said: Row) -> bool:
    """Whether a row is what its line says; lines of older versions say less."""
    return all(row.get(name) == value for name, value in said.items())
