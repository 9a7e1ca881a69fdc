"""What the log keeps of each event, so that every row that matters can be rebuilt from it and compared.

Lines are canonical JSON. Lines of older files say less (a digest alone, or the budget in words); what they do not say
is not compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from gaussveil.accounting.canonical import canonical_json, digest

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
ENTRY = ("charge", "slot", "guarantee", "what", "debited_at")

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
    names = ", ".join(f"e.{name}" for name in ENTRY)
    rows = connection.execute(f"SELECT e.id, a.name, {names} FROM entries e JOIN accounts a ON a.id = e.account")
    return {identifier: dict(zip(("account", *ENTRY), values, strict=True)) for identifier, *values in rows}


def opened(connection: sqlite3.Connection, name: str) -> str:
    """Line of a new account: all its terms and its plan."""
    return canonical_json(accounts(connection)[name])


def debited(connection: sqlite3.Connection, name: str, identifier: str) -> str:
    """Line of a debit: the entry, and what is settled of the account's terms."""
    settled = connection.execute(f"SELECT {', '.join(SETTLED)} FROM accounts WHERE name = ?", (name,)).fetchone()
    row = connection.execute(f"SELECT {', '.join(ENTRY)} FROM entries WHERE id = ?", (identifier,)).fetchone()
    return canonical_json({**dict(zip(ENTRY, row, strict=True)), "terms": dict(zip(SETTLED, settled, strict=True))})


def migrated(connection: sqlite3.Connection, before: int) -> str:
    """Line of a migration: all terms, and a digest of the entries from before the log."""
    live = connection.execute(
        "SELECT a.name, COUNT(*) FROM entries e JOIN accounts a ON a.id = e.account WHERE e.state <> 'void' GROUP BY 1"
    )
    found = entries(connection)
    return canonical_json(
        {
            "from": before,
            "to": before + 1,
            "accounts": accounts(connection),
            "live": dict(live.fetchall()),
            "entries": digest_of(found, list(found)),
        }
    )


def digest_of(found: Mapping[str, Row], identifiers: Sequence[str]) -> str:
    """Digest of some entries."""
    return digest([[identifier, found[identifier]] for identifier in sorted(identifiers)])


class Replay:
    """The log read from its beginning: what every account and entry must look like by now."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, object]] = {}
        self.entries: dict[str, dict[str, object]] = {}
        self.states: dict[str, str] = {}
        self.migrated = False
        self.earlier: str | None = None
        self._live: dict[str, int] = {}

    def read(self, account: str, entry: str, event: str, detail: str) -> None:
        """Take in the next line."""
        said = json.loads(detail) if detail.startswith("{") and event in ("opened", "debited", "migrated") else None
        if entry:
            self.states[entry] = event
        if event == "opened":
            self.accounts[account] = said if said is not None else {"words": detail}
        elif event == "debited":
            self._debit(account, entry, said if said is not None else {"charge": detail})
        elif event == "void":
            self._live[account] = self._live.get(account, 0) - 1
            if not self._live[account] and account in self.accounts:
                self.accounts[account].update(active_filter=None, active_order=None)
        elif event == "migrated":
            self.migrated = True
            if said is not None:
                self.accounts, self._live, self.earlier = said["accounts"], said["live"], said["entries"]

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
        unlogged = [identifier for identifier in found if identifier not in self.entries]
        # Entries from before the log existed have no line of their own.
        if any(states.get(entry) != state for entry, state in self.states.items()) or (unlogged and not self.migrated):
            return "entries"
        if any(found.get(entry) is None or not _fits(found[entry], said) for entry, said in self.entries.items()):
            return "entries"
        if self.earlier is not None and digest_of(found, unlogged) != self.earlier:
            return "entries"
        terms = accounts(connection)
        logged = self.accounts.keys() == terms.keys() or (self.migrated and self.earlier is None)
        if not logged or any(not _fits(terms.get(name, {}), said) for name, said in self.accounts.items()):
            return "accounts"
        return None


def _fits(row: Row, said: Row) -> bool:
    words = f"epsilon {row.get('epsilon')!r}, delta {row.get('delta')!r}, {row.get('rule')}"
    return all((words if name == "words" else row.get(name)) == value for name, value in said.items())
