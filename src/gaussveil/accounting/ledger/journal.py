"""The log: a hash chain of every event, from which each row that matters can be rebuilt and compared.

Each line's hash covers the line before it, so that a removed or altered line shows. A line also keeps a digest of its
account as it left it (terms, what the filter used, how many changes its rows have seen): reading the last line suffices
to know that nobody else changed the account since. Lines of version 2 say less; what they do not say is not compared.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.names import shown
from gaussveil.errors import LedgerCorruptError

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
STATES = (
    "debited",
    "drawing",
    "released",
    "void",
)  # events that move an entry; others are notes about it
PEOPLE = "people"  # note about an account: the population that it is kept for
SAVED = "saved"
CONTINUED = "continued"
VALUE = "value"
ENTRY = ("charge", "slot", "guarantee", "what", "debited_at", "draws")
_DRAWS = "(SELECT json_group_array(identity) FROM (SELECT identity FROM draws WHERE entry = e.id ORDER BY identity))"
_COLUMNS = ", ".join(_DRAWS if name == "draws" else f"e.{name}" for name in ENTRY)
LINE = "at, account, entry, event, detail, account_state"

LogRow = Mapping[str, object]


def now() -> str:
    """Give the current time, UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class LogHead:
    """Where the log stands: how it begins, and the number, link and time of its last line."""

    begins: str
    line: int
    link: str
    at: str


def head(connection: sqlite3.Connection) -> LogHead | None:
    """Where the log stands; None before its first line."""
    last = connection.execute(
        "SELECT seq, chain, at FROM events ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if last is not None:
        return LogHead(_begins(connection), *last)
    return None


def link(connection: sqlite3.Connection, line: int) -> str | None:
    """The link of the chain at a line; None where there is no such line."""
    row = connection.execute(
        "SELECT chain FROM events WHERE seq = ?", (line,)
    ).fetchone()
    if row is not None:
        return str(row[0])
    return None


def _begins(connection: sqlite3.Connection) -> str:
    return str(
        connection.execute("SELECT chain FROM events ORDER BY seq LIMIT 1").fetchone()[
            0
        ]
    )


def chained(before: str, line: tuple[str, ...]) -> str:
    """Give the next link of the chain; lines of version 2 have no state of an account."""
    if line[-1]:
        fields = line
    else:
        fields = line[:-1]
    return hashlib.sha256(json.dumps([before, *fields]).encode()).hexdigest()


def record_event(
    connection: sqlite3.Connection,
    account: str,
    entry: str,
    event: str,
    detail: str = "",
) -> tuple[int | None, str]:
    """Append to the log, after everything that the event changes; number and link of the line."""
    last = connection.execute(
        "SELECT chain FROM events ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    line = (
        now(),
        account,
        entry,
        event,
        detail,
        account_state(connection, account) if account else "",
    )
    link = chained(last[0] if last else "", line)
    query = f"INSERT INTO events ({LINE}, chain) VALUES (?, ?, ?, ?, ?, ?, ?)"
    return connection.execute(query, (*line, link)).lastrowid, link


def account_state(connection: sqlite3.Connection, name: str) -> str:
    """Digest of an account's terms, of what its filter used and of how often its rows were changed."""
    row = connection.execute(
        f"SELECT {', '.join(TERMS)}, changes, used FROM accounts JOIN balances ON account = id WHERE name = ?",
        (name,),
    ).fetchone()
    *terms, used = row if row is not None else ("missing", None)
    return hashlib.sha256(
        json.dumps([name, *terms]).encode() + b" " + (used or b"")
    ).hexdigest()


def check_account(connection: sqlite3.Connection, name: str) -> None:
    """Raise unless the account is as its last line left it, and that line follows from the one before."""
    last_line = connection.execute(
        f"SELECT seq, chain, {LINE} FROM events WHERE account = ? ORDER BY seq DESC LIMIT 1",
        (name,),
    ).fetchone()
    if last_line is None:
        raise LedgerCorruptError(
            f"the account {shown(name)} has no line in the log; restore a backup"
        )
    number, link, *line = last_line
    before = connection.execute(
        "SELECT chain FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1", (number,)
    ).fetchone()
    if chained(before[0] if before else "", tuple(line)) != link:
        raise LedgerCorruptError(
            f"the log was altered near {line[0]}; restore a backup"
        )
    if line[-1] != account_state(connection, name):
        raise LedgerCorruptError(
            f"the account {shown(name)} and its entries do not agree with the log: somebody else changed them; "
            "restore a backup"
        )


def anchor(
    connection: sqlite3.Connection,
    identifier: str,
    made: tuple[int | None, str] | None = None,
) -> LogRow:
    """Where the log holds a debit: how the log begins, the number of the line and its link of the chain."""
    query = "SELECT seq, chain FROM events WHERE entry = ? AND event = 'debited'"
    line, link = made or connection.execute(query, (identifier,)).fetchone()
    return {"begins": _begins(connection), "line": line, "link": link}


def last_note(connection: sqlite3.Connection, identifier: str) -> tuple[str, str]:
    """Whether a release that goes on was last saved or continued, and in which state; empty where neither."""
    query = "SELECT event, detail FROM events WHERE entry = ? AND event IN (?, ?) ORDER BY seq DESC LIMIT 1"
    row = connection.execute(query, (identifier, SAVED, CONTINUED)).fetchone()
    if row is not None:
        return (str(row[0]), str(row[1]))
    return ("", "")


def value_of(connection: sqlite3.Connection, identifier: str) -> str | None:
    """The seal of the value that an entry is bound to; None where it is bound to none."""
    query = (
        "SELECT detail FROM events WHERE entry = ? AND event = ? ORDER BY seq LIMIT 1"
    )
    row = connection.execute(query, (identifier, VALUE)).fetchone()
    if row is not None:
        return str(row[0])
    return None


def people_of(connection: sqlite3.Connection, name: str) -> str:
    """The population that an account was opened for; empty where it names none.

    It stands in the line after the account's first one: whoever looked for it further on would read every release.
    """
    query = "SELECT event, detail FROM events WHERE account = ? ORDER BY seq LIMIT 2"
    for event, detail in connection.execute(query, (name,)):
        if event == PEOPLE:
            return str(detail)
    return ""


def accounts_of_people(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Populations, and the names of their accounts in the order of opening."""
    accounts: dict[str, list[str]] = {}
    names = connection.execute("SELECT name FROM accounts ORDER BY id").fetchall()
    for (name,) in names:
        if people := people_of(connection, name):
            accounts.setdefault(people, []).append(name)
    return accounts


def accounts(connection: sqlite3.Connection) -> dict[str, dict[str, object]]:
    """Terms of every account by name, its plan among them."""
    plans: dict[str, dict[str, int]] = {}
    query = "SELECT a.name, p.charge, p.count FROM plan p JOIN accounts a ON a.id = p.account ORDER BY p.charge"
    for name, charge, count in connection.execute(query):
        plans.setdefault(name, {})[charge] = count
    return {
        name: {**dict(zip(TERMS, terms, strict=True)), "plan": plans.get(name, {})}
        for name, *terms in connection.execute(
            f"SELECT name, {', '.join(TERMS)} FROM accounts ORDER BY id"
        )
    }


def entries(connection: sqlite3.Connection) -> dict[str, dict[str, object]]:
    """Every entry by id, less its state, which the order of events tells."""
    rows = connection.execute(
        f"SELECT e.id, a.name, {_COLUMNS} FROM entries e JOIN accounts a ON a.id = e.account"
    )
    return {
        identifier: dict(zip(("account", *ENTRY), values, strict=True))
        for identifier, *values in rows
    }


def opened(connection: sqlite3.Connection, name: str) -> str:
    """Line of a new account: all its terms and its plan."""
    return canonical_json(accounts(connection)[name])


def debited(connection: sqlite3.Connection, name: str, identifier: str) -> str:
    """Line of a debit: the entry, and what is settled of the account's terms."""
    settled = connection.execute(
        f"SELECT {', '.join(SETTLED)} FROM accounts WHERE name = ?", (name,)
    ).fetchone()
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM entries e WHERE id = ?", (identifier,)
    ).fetchone()
    return canonical_json(
        {
            **dict(zip(ENTRY, row, strict=True)),
            "terms": dict(zip(SETTLED, settled, strict=True)),
        }
    )


class Replay:
    """The log read from its beginning: what every account and entry must look like by now."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, object]] = {}
        self.entries: dict[str, dict[str, object]] = {}
        self.states: dict[str, str] = {}
        self._live: dict[str, int] = {}

    def read(self, account: str, entry: str, event: str, detail: str) -> None:
        """Take in the next line."""
        if entry and event in STATES:
            self.states[entry] = event
        if event == "opened":
            self.accounts[account] = json.loads(detail)
        elif event == "debited":
            stated = json.loads(detail)
            settled = stated.pop("terms", None)
            if isinstance(settled, dict) and account in self.accounts:
                self.accounts[account].update(settled)
            self.entries[entry] = {"account": account, **stated}
            self._live[account] = self._live.get(account, 0) + 1
        elif event == "void":
            self._live[account] = self._live.get(account, 0) - 1
            if not self._live[account] and account in self.accounts:
                self.accounts[account].update(active_filter=None, active_order=None)

    def contradiction(self, connection: sqlite3.Connection) -> str | None:
        """Which part of the file says something else than the log; None if none does."""
        kept = entries(connection)
        states = dict(connection.execute("SELECT id, state FROM entries").fetchall())
        if states != self.states or any(
            not _fits(kept[entry], logged) for entry, logged in self.entries.items()
        ):
            return "entries"
        terms = accounts(connection)
        if terms.keys() != self.accounts.keys() or any(
            not _fits(terms[name], self.accounts[name]) for name in terms
        ):
            return "accounts"
        return None


def _fits(row: LogRow, said: LogRow) -> bool:
    return all(row.get(name) == value for name, value in said.items())
