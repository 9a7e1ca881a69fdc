"""What the ledger says, for the pages of accounts: composed below, read here. Runs in the worker."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gaussveil.accounting import Ledger
from gaussveil.accounting.ledger.export import account_csv, account_json
from gaussveil.accounting.ledger.statements import Statement
from gaussveil.errors import AccountNotFoundError
from gaussveil_studio.offers.affordability import gauge, more_like_the_last, notices

MOST_POINTS = 60


def cards(ledger: str, search: str, sort: str, page: int, size: int) -> dict[str, Any]:
    """One page of accounts, each with its one gauge; none where there is no ledger yet."""
    if not Path(ledger).exists():
        return {"accounts": [], "found": 0, "pages": 1, "total": 0}
    with Ledger.held(ledger) as book:
        names = book.accounts()
        found = [name for name in names if search.casefold() in name.casefold()]
        if sort == "fullest":
            used = _gauges(ledger, tuple(_stamp(ledger)))
            found.sort(key=lambda name: -used[name])
        else:
            if sort == "name":
                found = sorted(found, key=str.casefold)
            else:
                found = found[::-1]
        shown = found[(page - 1) * size :][:size]
        listed = [_card(book, name) for name in shown]
    return {
        "accounts": listed,
        "found": len(found),
        "pages": max(1, -(-len(found) // size)),
        "total": len(names),
    }


def _card(book: Ledger, name: str) -> dict[str, Any]:
    statement = book.statement(name)
    entries = book.entries(name)
    terms = statement.terms
    return {
        "account": name,
        "dataset": terms.dataset,
        "people": terms.people,
        "notices": notices(statement),
        "epsilon": terms.budget.epsilon,
        "delta": terms.budget.delta,
        "used": gauge(statement),
        "more": more_like_the_last(statement, entries),
        "releases": sum(one.state != "void" for one in entries),
        "last": entries[-1].debited_at if entries else None,
        "unfinished": statement.unfinished,
    }


@lru_cache(maxsize=2)
def _gauges(ledger: str, _stamp: object) -> dict[str, float]:
    """How full every account is; kept until the ledger is written."""
    with Ledger.held(ledger) as book:
        return {name: gauge(book.statement(name)) for name in book.accounts()}


def _stamp(ledger: str) -> list[int]:
    files = (Path(ledger), Path(f"{ledger}-wal"))
    return [
        number
        for file in files
        if file.exists()
        for number in (file.stat().st_size, file.stat().st_mtime_ns)
    ]


def history(ledger: str, account: str) -> dict[str, Any]:
    """One account: statement, entries, and what was spent over time."""
    book = _book(ledger)
    statement = book.statement(account)
    entries = book.entries(account)
    times, spent, used = _over_time(
        statement,
        [(one.charge, one.debited_at) for one in entries if one.state != "void"],
    )
    listed = [
        {
            "id": one.id,
            "state": one.state,
            "what": one.what,
            "debited_at": one.debited_at,
            "guarantee": one.guarantee,
        }
        for one in entries
    ]
    about = {
        **statement.to_dict(),
        "used": gauge(statement),
        "more": more_like_the_last(statement, entries),
    }
    return {
        "statement": about,
        "entries": listed,
        "times": times,
        "spent": spent,
        "used": used,
    }


def exported(ledger: str, account: str, form: str) -> dict[str, Any]:
    """An account as the text of a file."""
    return {
        "text": (account_csv if form == "csv" else account_json)(_book(ledger), account)
    }


def _book(ledger: str) -> Ledger:
    if not Path(ledger).exists():
        raise AccountNotFoundError("there is no ledger yet: open an account first")
    return Ledger(ledger)


def _over_time(
    statement: Statement, debits: list[tuple[str, str]]
) -> tuple[list[str], list[float], list[float]]:
    """After some of the debits: epsilon at the account's delta, exactly composed, and the share of the budget."""
    charges = {charge.digest: charge for charge, _ in statement.charges}
    step = max(1, -(-len(debits) // MOST_POINTS))
    ends = sorted({*range(step, len(debits) + 1, step), len(debits)} - {0})
    times = [statement.terms.opened_at]
    spent = [0.0]
    used = [0.0]
    for end in ends:
        counts: dict[str, int] = {}
        for digest, _ in debits[:end]:
            counts[digest] = counts.get(digest, 0) + 1
        # A release of another process may come between the two readings.
        folded = tuple(
            (charges[digest], count)
            for digest, count in counts.items()
            if digest in charges
        )
        times.append(debits[end - 1][1])
        then = replace(statement, charges=folded)
        spent.append(then.spent_epsilon)
        used.append(gauge(then))
    return times, spent, used
