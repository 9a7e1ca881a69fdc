"""Rows of the ledger, read and written: accounts, entries, draws, plans and balances."""

from __future__ import annotations

import hmac
import sqlite3
from functools import lru_cache
from typing import Any

from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import canonical_json, parse_json
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.ledger import journal
from gaussveil.accounting.ledger.charges import Folded, load_charge, store_charge
from gaussveil.accounting.ledger.filters import Balance, Budget
from gaussveil.accounting.ledger.journal import (
    TERMS,
    check_account,
)
from gaussveil.accounting.ledger.rules import Rules, Slot
from gaussveil.accounting.ledger.statements import Entry, Event
from gaussveil.accounting.names import listed, one_spelling, shown
from gaussveil.errors import (
    AccountNotFoundError,
    FormatError,
    LedgerCorruptError,
    ParameterError,
)

_TERMS = ", ".join(TERMS)
_ENTRY = (
    "SELECT e.id, a.name, e.charge, e.state, e.guarantee, e.what, e.debited_at "
    "FROM entries e JOIN accounts a ON a.id = e.account"
)


def insert_account(
    connection: sqlite3.Connection, row: tuple[object, ...], plan: Folded
) -> None:
    """Store an account and its plan."""
    made = connection.execute(
        f"INSERT INTO accounts (name, {_TERMS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    connection.execute("INSERT INTO balances VALUES (?, 0, NULL)", (made.lastrowid,))
    for charge, count in plan:
        store_charge(connection, charge)
        connection.execute(
            "INSERT INTO plan VALUES (?, ?, ?, 0)",
            (made.lastrowid, charge.digest, count),
        )


def insert_entry(
    connection: sqlite3.Connection, row: tuple[object, ...], charge: Charge
) -> None:
    """Store an entry and, once, its charge."""
    store_charge(connection, charge)
    connection.execute(
        "INSERT INTO entries (id, account, charge, slot, state, guarantee, what, debited_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    if row[3] is not None:
        connection.execute(
            "UPDATE plan SET used = used + 1 WHERE account = ? AND charge = ?",
            (row[1], row[3]),
        )
    named = [(row[0], row[1], identity) for identity in charge.draw_identities]
    connection.executemany(
        "INSERT INTO draws (entry, account, identity) VALUES (?, ?, ?)", named
    )


def draws_of(connection: sqlite3.Connection, identifier: str) -> tuple[str, ...]:
    """Identities of what an entry was drawn from."""
    rows = connection.execute(
        "SELECT identity FROM draws WHERE entry = ? ORDER BY identity", (identifier,)
    )
    return tuple(identity for (identity,) in rows)


def entry_of_draw(connection: sqlite3.Connection, charge: Charge) -> str | None:
    """An entry of any account that pays for something that the charge was drawn from; None if there is none."""
    query = (
        "SELECT e.id FROM draws d JOIN entries e ON e.id = d.entry "
        "WHERE d.account IN (SELECT id FROM accounts) AND d.identity = ? AND e.state <> 'void'"
    )
    found = (
        connection.execute(query, (identity,)).fetchone()
        for identity in charge.draw_identities
    )
    return next((row[0] for row in found if row is not None), None)


def draw_key(connection: sqlite3.Connection) -> bytes:
    """The secret key that makes identities of draws."""
    row = connection.execute(
        "SELECT value FROM keys WHERE purpose = 'draw identity'"
    ).fetchone()
    if row is None:
        raise LedgerCorruptError(
            "the ledger has lost the key of its draw identities; restore a backup"
        )
    return bytes(row[0])


def sealed(connection: sqlite3.Connection, content: bytes) -> str:
    """Keyed digest of what belongs to an entry: nobody without the ledger can make it, or confirm a guess by it."""
    return hmac.digest(draw_key(connection), b"content " + content, "sha256").hex()


def find_account(connection: sqlite3.Connection, name: str) -> tuple[int, Rules]:
    """Row number and terms of an account, which must be as its last line in the log left it."""
    name = _stored_name(connection, name)
    row = connection.execute(
        f"SELECT id, {_TERMS} FROM accounts WHERE name = ?", (name,)
    ).fetchone()
    check_account(connection, name)
    return row[0], _terms(name, row[1:], journal.people_of(connection, name))


def account_names(connection: sqlite3.Connection) -> list[str]:
    """Names of all accounts, in the order of opening."""
    return [
        name for (name,) in connection.execute("SELECT name FROM accounts ORDER BY id")
    ]


def _stored_name(connection: sqlite3.Connection, name: str) -> str:
    """The account's name as the file has it; ledgers made before names had one spelling may hold others."""
    if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
        return name
    names = account_names(connection)
    spelling = one_spelling(name)
    same = [other for other in names if one_spelling(other) == spelling]
    if len(same) == 1:
        return same[0]
    raise AccountNotFoundError(
        f"the ledger has no account {shown(name)}; it has {', '.join(map(listed, names[:10])) or 'none'}"
    )


@lru_cache(maxsize=256)
def _terms(name: str, row: tuple[Any, ...], people: str) -> Rules:
    (
        dataset,
        adjacency,
        epsilon,
        delta,
        share,
        rule,
        chosen,
        active,
        chosen_order,
        active_order,
        opened_at,
    ) = row
    try:
        budget = Budget(epsilon, delta, share)
        if adjacency is not None:
            relation = Adjacency.from_dict(parse_json(adjacency, "an adjacency"))
        else:
            relation = None
    except (ParameterError, FormatError) as error:
        raise LedgerCorruptError(
            f"the terms of account {shown(name)} are damaged: {error}; restore a backup"
        ) from error
    filters = (chosen, active, chosen_order, active_order)
    return Rules(name, dataset, relation, budget, rule, *filters, opened_at, people)


def settle(
    connection: sqlite3.Connection, number: int, terms: Rules, adjacency: Adjacency
) -> None:
    """Store what a debit settles of the terms."""
    connection.execute(
        "UPDATE accounts SET active_filter = ?, active_order = ?, adjacency = ? WHERE id = ?",
        (
            terms.active_filter,
            terms.active_order,
            canonical_json(adjacency.to_dict()),
            number,
        ),
    )


def enter(connection: sqlite3.Connection, identifier: str, state: str) -> None:
    """Bring an entry into a state; a void one frees its place in its plan or filter."""
    connection.execute("UPDATE entries SET state = ? WHERE id = ?", (state, identifier))
    if state != "void":
        return
    number, slot = connection.execute(
        "SELECT account, slot FROM entries WHERE id = ?", (identifier,)
    ).fetchone()
    connection.execute(
        "UPDATE plan SET used = used - 1 WHERE account = ? AND charge = ?",
        (number, slot),
    )
    connection.execute(
        "UPDATE balances SET used = NULL WHERE account = ?", (number,)
    )  # to be added up again
    if not connection.execute(
        "SELECT 1 FROM entries WHERE account = ? AND state <> 'void'", (number,)
    ).fetchone():
        # With nothing drawn or pending, no output can have influenced anything: the filter is open again.
        connection.execute(
            "UPDATE accounts SET active_filter = NULL, active_order = NULL WHERE id = ?",
            (number,),
        )


def find_balance(
    connection: sqlite3.Connection, number: int
) -> tuple[int, Balance | None]:
    """How many changes the account's rows have seen, and what its filter used; None where it must be added up."""
    changes, used = connection.execute(
        "SELECT changes, used FROM balances WHERE account = ?", (number,)
    ).fetchone()
    return changes, Balance.from_bytes(used) if used is not None else None


def store_balance(connection: sqlite3.Connection, number: int, used: Balance) -> None:
    """Keep what the filter has used."""
    connection.execute(
        "UPDATE balances SET used = ? WHERE account = ?", (used.to_bytes(), number)
    )


def find_entry(connection: sqlite3.Connection, identifier: str) -> Entry | None:
    """Give the entry of that id."""
    row = connection.execute(f"{_ENTRY} WHERE e.id = ?", (identifier,)).fetchone()
    if row:
        return Entry(*row)
    return None


def list_entries(connection: sqlite3.Connection, number: int, name: str) -> list[Entry]:
    """Every entry of an account, oldest first."""
    return [
        Entry(*row)
        for row in connection.execute(
            f"{_ENTRY} WHERE e.account = ? ORDER BY e.seq", (number,)
        )
    ]


def list_events(connection: sqlite3.Connection, name: str | None) -> list[Event]:
    """Give the log, oldest first."""
    query = "SELECT at, account, entry, event, detail FROM events WHERE :name IS NULL OR account = :name ORDER BY seq"
    return [Event(*row) for row in connection.execute(query, {"name": name})]


def spent(connection: sqlite3.Connection, number: int) -> Folded:
    """Everything that counts as spent, identical charges folded; void entries alone do not count."""
    rows = connection.execute(
        "SELECT charge, COUNT(*) FROM entries WHERE account = ? AND state <> 'void' GROUP BY charge ORDER BY charge",
        (number,),
    ).fetchall()
    return [(load_charge(connection, digest), count) for digest, count in rows]


def slots(connection: sqlite3.Connection, number: int) -> list[Slot]:
    """Give an account's plan and what is used of it."""
    rows = connection.execute(
        "SELECT charge, count, used FROM plan WHERE account = ?", (number,)
    ).fetchall()
    return [
        Slot(load_charge(connection, digest), count, used)
        for digest, count, used in rows
    ]


def state_counts(connection: sqlite3.Connection, number: int) -> dict[str, int]:
    """How many entries are in each state."""
    rows = connection.execute(
        "SELECT state, COUNT(*) FROM entries WHERE account = ? GROUP BY state ORDER BY state",
        (number,),
    )
    return dict(rows.fetchall())


def weakest_guarantee(connection: sqlite3.Connection, number: int) -> str:
    """Kind of guarantee that the account as a whole can give: that of its weakest entry."""
    rows = connection.execute(
        "SELECT DISTINCT guarantee FROM entries WHERE account = ? AND state <> 'void'",
        (number,),
    )
    kinds = {kind for (kind,) in rows}
    return next(
        (kind for kind in ("none", "model-based") if kind in kinds), "worst case"
    )
