"""Budgets: accounts, their history, what is left under exact composition, a chart over time, export."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from gaussveil.accounting import Adjacency, Ledger
from gaussveil.accounting.export import account_csv, account_json
from gaussveil.accounting.records import Statement
from gaussveil.errors import AccountNotFoundError
from gaussveil.studio.answers import REFUSALS, answered, wants_piece
from gaussveil.studio.offers.orders import Text
from gaussveil.studio.parts import Parts, Studio, page
from gaussveil.studio.plain_json import finite

router = APIRouter()
MOST_POINTS = 60

Name = Annotated[str, Path(min_length=1, max_length=200, description="Name of the account.")]


class NewAccount(BaseModel):
    """A budget; it never changes once it is open."""

    model_config = ConfigDict(extra="forbid")

    name: Text = Field(min_length=1, title="Name", description="What the account is called.")
    epsilon: float = Field(gt=0, le=1000, title="Epsilon", description="Budget over all releases together.")
    delta: float = Field(gt=0, lt=1, title="Delta", description="Budget over all releases together.")
    dataset: Text = Field(default="", title="Data", description="Name of the data that the account protects.")
    adjacency: Literal["", "add-remove", "replace"] = Field(
        default="", title="Neighbours", description="Leave it open and the first release fixes it."
    )
    unit: Text = Field(default="record", min_length=1, title="Who is protected", description="record, household, ...")


class AccountStatement(BaseModel):
    """What an account has spent, composed exactly; null means unbounded."""

    model_config = ConfigDict(extra="allow")

    account: str
    epsilon: float
    delta: float
    spent_epsilon: float | None
    spent_delta: float
    guarantee: str
    unfinished: int


class Accounts(BaseModel):
    """All accounts of the ledger."""

    accounts: list[AccountStatement]


class AccountHistory(BaseModel):
    """Entries of an account, oldest first, and what was spent after each (at most 60 of them)."""

    statement: AccountStatement
    entries: list[dict[str, str]]
    times: list[str]
    spent: list[float | None]


@router.get("/budgets", include_in_schema=False)
def budgets(request: Request, parts: Parts) -> Response:
    """All accounts."""
    return page(request, "budgets.html", accounts=_statements(parts), ledger=parts.settings.ledger.name)


@router.get("/budgets/{name:path}", include_in_schema=False)
def budget(request: Request, parts: Parts, name: Name) -> Response:
    """One account."""
    return page(request, "budget.html", **_history(parts, name))


@router.get("/api/accounts", responses=REFUSALS, response_model=Accounts, tags=["budgets"])
def accounts(request: Request, parts: Parts) -> Response:
    """All accounts and what they have spent."""
    return answered(request, "piece_accounts.html", {"accounts": _statements(parts)})


@router.post("/api/accounts", responses=REFUSALS, response_model=AccountStatement, tags=["budgets"], status_code=201)
def open_account(request: Request, parts: Parts, asked: NewAccount) -> Response:
    """Open an account; the ledger is made with the first one."""
    relations = {"add-remove": Adjacency.add_remove, "replace": Adjacency.replace_one}
    relation = relations[asked.adjacency](asked.unit) if asked.adjacency else None
    Ledger.check_terms(asked.name, epsilon=asked.epsilon, delta=asked.delta, adjacency=relation)
    path = parts.settings.ledger
    book = Ledger(path) if path.exists() else Ledger.create(path)
    book.open_account(asked.name, epsilon=asked.epsilon, delta=asked.delta, dataset=asked.dataset, adjacency=relation)
    if wants_piece(request):
        return answered(request, "piece_accounts.html", {"accounts": _statements(parts)}, 201)
    return JSONResponse(finite(book.statement(asked.name).to_dict()), 201)


@router.get("/api/history", responses=REFUSALS, response_model=AccountHistory, tags=["budgets"])
def history(parts: Parts, account: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
    """History of one account, with what was spent over time under exact composition."""
    return JSONResponse(_history(parts, account))


@router.get("/api/export", responses=REFUSALS, tags=["budgets"], response_class=Response)
def export(
    parts: Parts,
    account: Annotated[str, Query(min_length=1, max_length=200)],
    form: Annotated[Literal["json", "csv"], Query(description="All of it in JSON, or the entries in CSV.")] = "json",
) -> Response:
    """An account as a file."""
    text = (account_csv if form == "csv" else account_json)(_book(parts), account)
    named = {"content-disposition": f'attachment; filename="account.{form}"'}
    return Response(text, media_type="application/octet-stream", headers=named)


def _book(parts: Studio) -> Ledger:
    if not parts.settings.ledger.exists():
        raise AccountNotFoundError("there is no ledger yet: open an account first")
    return Ledger(parts.settings.ledger)


def _statements(parts: Studio) -> list[dict[str, Any]]:
    if not parts.settings.ledger.exists():
        return []
    book = _book(parts)
    return [finite(book.statement(name).to_dict()) for name in book.accounts()]


def _history(parts: Studio, name: str) -> dict[str, Any]:
    book = _book(parts)
    statement, entries = book.statement(name), book.entries(name)
    times, spent = _over_time(statement, [(one.charge, one.debited_at) for one in entries if one.state != "void"])
    listed = [
        {"id": one.id, "state": one.state, "what": one.what, "debited_at": one.debited_at, "guarantee": one.guarantee}
        for one in entries
    ]
    found: dict[str, Any] = finite(
        {"statement": statement.to_dict(), "entries": listed, "times": times, "spent": spent}
    )
    return found


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
