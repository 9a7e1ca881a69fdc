"""Budgets: accounts, their history, what is left under exact composition, a chart over time, export."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from gaussveil.accounting import Adjacency, Ledger
from gaussveil.checks import LARGEST_EPSILON
from gaussveil.studio.answers import A_FILE, REFUSALS, answered, wants_piece
from gaussveil.studio.context import Context, Studio, books, page
from gaussveil.studio.offers.orders import Asked, Text

router = APIRouter()

Name = Annotated[str, Path(min_length=1, max_length=200, description="Name of the account.")]


class NewAccount(Asked):
    """A budget; it never changes once it is open."""

    name: Text = Field(min_length=1, title="Name", description="What the account is called.")
    epsilon: float = Field(gt=0, le=LARGEST_EPSILON, title="Epsilon", description="Budget over all releases together.")
    delta: float = Field(gt=0, lt=1, title="Delta", description="Budget over all releases together.")
    dataset: Text = Field(default="", title="Data", description="Name of the data that the account protects.")
    adjacency: Literal["", "add-remove", "replace"] = Field(
        default="", title="Neighbours", description="Leave it open and the first release fixes it."
    )
    unit: Text = Field(default="record", min_length=1, title="Who is protected", description="record, household, ...")
    filter: Literal["auto", "mean-shift", "renyi"] = Field(
        default="auto",
        title="Releases that share it",
        description="mean-shift: vectors, mixtures and streams, nothing lost; renyi: any, sketches too, a little lost; "
        "auto: the first release decides.",
    )


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
@books
def budgets(request: Request, context: Context) -> Response:
    """All accounts."""
    return page(request, "budgets.html", **_statements(context), ledger=context.settings.ledger.name)


@router.get("/budgets/{name:path}", include_in_schema=False)
@books
def budget(request: Request, context: Context, name: Name) -> Response:
    """One account."""
    return page(request, "budget.html", **_history(context, name))


@router.get("/api/accounts", responses=REFUSALS, response_model=Accounts, tags=["budgets"])
@books
def accounts(request: Request, context: Context) -> Response:
    """All accounts and what they have spent."""
    return answered(request, "piece_accounts.html", _statements(context))


@router.post("/api/accounts", responses=REFUSALS, response_model=AccountStatement, tags=["budgets"], status_code=201)
@books
def open_account(request: Request, context: Context, asked: NewAccount) -> Response:
    """Open an account; the ledger is made with the first one."""
    relations = {"add-remove": Adjacency.add_remove, "replace": Adjacency.replace_one}
    relation = relations[asked.adjacency](asked.unit) if asked.adjacency else None
    terms: dict[str, Any] = {
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "adjacency": relation,
        "filter": asked.filter,
    }
    Ledger.check_terms(asked.name, **terms)
    path = context.settings.ledger
    book = Ledger(path) if path.exists() else Ledger.create(path)
    book.open_account(asked.name, dataset=asked.dataset, **terms)
    if wants_piece(request):
        return answered(request, "piece_accounts.html", _statements(context), 201)
    return JSONResponse(_history(context, asked.name)["statement"], 201)


@router.get("/api/history", responses=REFUSALS, response_model=AccountHistory, tags=["budgets"])
@books
def history(context: Context, account: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
    """History of one account, with what was spent over time under exact composition."""
    return JSONResponse(_history(context, account))


@router.get("/api/export", responses=A_FILE, tags=["budgets"], response_class=Response)
@books
def export(
    context: Context,
    account: Annotated[str, Query(min_length=1, max_length=200)],
    form: Annotated[Literal["json", "csv"], Query(description="All of it in JSON, or the entries in CSV.")] = "json",
) -> Response:
    """An account as a file."""
    text = context.reader.ask("exported", ledger=str(context.settings.ledger), account=account, form=form)["text"]
    named = {"content-disposition": f'attachment; filename="account.{form}"'}
    return Response(text, media_type="application/octet-stream", headers=named)


def _statements(context: Studio) -> dict[str, Any]:
    return context.reader.ask("statements", ledger=str(context.settings.ledger))


def _history(context: Studio, account: str) -> dict[str, Any]:
    return context.reader.ask("history", ledger=str(context.settings.ledger), account=account)
