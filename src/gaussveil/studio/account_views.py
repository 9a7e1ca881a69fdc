"""What the ledger says, for the page Budgets: composed below, read here. Runs in the worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gaussveil.accounting import Ledger
from gaussveil.accounting.ledger.export import account_csv, account_json
from gaussveil.accounting.ledger.records import Statement
from gaussveil.errors import AccountNotFoundError

MOST_POINTS = 60


def statements(ledger: str) -> dict[str, Any]:
    """Every account and what it has spent; none where there is no ledger yet."""
    if not Path(ledger).exists():
        return {"accounts": []}
    book = Ledger(ledger)
    return {"accounts": [book.statement(name).to_dict() for name in book.accounts()]}


def history(ledger: str, account: str) -> dict[str, Any]:
    """One account: statement, entries, and what was spent over time."""
    book = _book(ledger)
    statement, entries = book.statement(account), book.entries(account)
    times, spent = _over_time(statement, [(one.charge, one.debited_at) for one in entries if one.state != "void"])
    listed = [
        {"id": one.id, "state": one.state, "what": one.what, "debited_at": one.debited_at, "guarantee": one.guarantee}
        for one in entries
    ]
    return {"statement": statement.to_dict(), "entries": listed, "times": times, "spent": spent}


def exported(ledger: str, account: str, form: str) -> dict[str, Any]:
    """An account as the text of a file."""
    return {"text": (account_csv if form == "csv" else account_json)(_book(ledger), account)}


def _book(ledger: str) -> Ledger:
    if not Path(ledger).exists():
        raise AccountNotFoundError("there is no ledger yet: open an account first")
    return Ledger(ledger)


def _over_time(statement: Statement, debits: list[tuple[str, str]]) -> tuple[list[str], list[float]]:
    """Epsilon at the account's delta after some of the debits, each the exact composition of all before it."""
    charges = {charge.digest: charge for charge, _ in statement.charges}
    step = max(1, -(-len(debits) // MOST_POINTS))
    ends = sorted({*range(step, len(debits) + 1, step), len(debits)} - {0})
    times, spent = [statement.terms.opened_at], [0.0]
    for end in ends:
        counts: dict[str, int] = {}
        for digest, _ in debits[:end]:
            counts[digest] = counts.get(digest, 0) + 1
        # A release of another process may come between the two readings.
        folded = tuple((charges[digest], count) for digest, count in counts.items() if digest in charges)
        times.append(debits[end - 1][1])
        spent.append(replace(statement, charges=folded).spent_epsilon)
    return times, spent
