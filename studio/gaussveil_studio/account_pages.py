"""Accounts: all of them, the history of one, what is left under exact composition, a chart over time, export."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from gaussveil.accounting import Adjacency, Ledger
from gaussveil.errors import ParameterError
from gaussveil_studio.answers import A_FILE, REFUSALS, answered, wants_piece
from gaussveil_studio.context import Context, Studio, books, page
from gaussveil_studio.offers.kinds import title_of
from gaussveil_studio.offers.orders import Asked, Text

router = APIRouter()

Name = Annotated[
    str, Path(min_length=1, max_length=200, description="Name of the account.")
]


class NewAccount(Asked):
    """A budget; it never changes once it is open."""

    name: Text = Field(
        min_length=1, title="Name", description="What the account is called."
    )
    epsilon: float = Field(
        gt=0, le=50, title="Epsilon", description="Budget over all releases together."
    )
    delta: float = Field(
        ge=0,
        lt=1,
        title="Delta",
        description="Budget over all releases together; 0 takes Laplace noise alone.",
    )
    people: Text = Field(
        default="",
        title="The people it protects",
        description="A population: the account then pays for every table of theirs, whatever its columns are called.",
    )
    dataset: Text = Field(
        default="",
        title="Data",
        description="Name of the data that the account protects.",
    )
    adjacency: Literal["", "add-remove", "replace"] = Field(
        default="",
        title="Neighbours",
        description="Leave it open and the first release fixes it.",
    )
    unit: Text = Field(
        default="record",
        min_length=1,
        title="Who is protected",
        description="record, household, ...",
    )
    filter: Literal["auto", "mean-shift", "renyi"] = Field(
        default="auto",
        title="Releases that share it",
        description="mean-shift: vectors, mixtures and streams, nothing lost; renyi: any, sketches too, a little lost; "
        "auto: the first release decides.",
    )


class Planned(Asked):
    """So many releases at one promise, with Gaussian noise."""

    epsilon: float = Field(gt=0, le=50)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    count: int = Field(default=1, ge=1, le=10**6)


class WhatIf(Asked):
    """Releases that an account might pay for, several kinds of them."""

    account: Text = Field(min_length=1)
    releases: list[Planned] = Field(min_length=1, max_length=12)


class WhatIfAnswer(BaseModel):
    """The account before and after, composed exactly; `fitting` of the first kind fit alone."""

    model_config = ConfigDict(extra="allow")

    account: str
    after: float | None
    allowed: bool
    fitting: int


class AccountStatement(BaseModel):
    """What an account has spent, composed exactly; null means unbounded."""

    model_config = ConfigDict(extra="allow")

    account: str
    epsilon: float
    delta: float
    spent_epsilon: float | None
    spent_delta: float
    used: float
    more: int | None
    guarantee: str
    unfinished: int


class Accounts(BaseModel):
    """One page of accounts: for each the share `used` by its own rule, and how many `more` like its last fit in."""

    accounts: list[dict[str, Any]]
    found: int
    pages: int
    total: int


Search = Annotated[str, Query(max_length=200, description="Part of the name.")]
Sort = Annotated[Literal["newest", "name", "fullest"], Query()]
PageNumber = Annotated[int, Query(ge=1, le=10**6)]


class AccountHistory(BaseModel):
    """Entries of an account, oldest first, and what was spent after each (at most 60 of them); `used` is the share."""

    statement: AccountStatement
    entries: list[dict[str, str]]
    times: list[str]
    spent: list[float | None]
    used: list[float]


@router.get("/accounts", include_in_schema=False)
@books
def account_list(
    request: Request,
    context: Context,
    q: Search = "",
    sort: Sort = "newest",
    p: PageNumber = 1,
) -> Response:
    """All accounts: searched, sorted, a page at a time."""
    ledger = context.settings.ledger.name
    known = cards(context, q, sort, p)
    pages = known.pop("pages")
    return page(
        request,
        "accounts.html",
        **known,
        pages_count=pages,
        q=q,
        sort=sort,
        number=p,
        ledger=ledger,
    )


@router.get("/accounts/{name:path}", include_in_schema=False)
@books
def account(request: Request, context: Context, name: Name) -> Response:
    """One account."""
    found = _history(context, name)
    made_here = {
        one["key"]: title_of(one["order"], one["table"])
        for one in context.jobs.summaries()
    }
    shares = [100 * one for one in found["used"]]
    return page(request, "account.html", **found, made_here=made_here, shares=shares)


@router.get(
    "/api/accounts", responses=REFUSALS, response_model=Accounts, tags=["accounts"]
)
@books
def accounts(
    request: Request,
    context: Context,
    q: Search = "",
    sort: Sort = "newest",
    p: PageNumber = 1,
) -> Response:
    """A page of accounts and how full they are."""
    return answered(request, "piece_accounts.html", cards(context, q, sort, p))


@router.post(
    "/api/accounts",
    responses=REFUSALS,
    response_model=AccountStatement,
    tags=["accounts"],
    status_code=201,
)
@books
def open_account(request: Request, context: Context, asked: NewAccount) -> Response:
    """Open an account; the ledger is made with the first one."""
    relations = {"add-remove": Adjacency.add_remove, "replace": Adjacency.replace_one}
    if asked.adjacency:
        relation = relations[asked.adjacency](asked.unit)
    else:
        relation = None
    terms: dict[str, Any] = {
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "adjacency": relation,
        "filter": asked.filter,
    }
    Ledger.check_terms(asked.name, **terms)[0].require_usable()
    path = context.settings.ledger
    if path.exists():
        book = Ledger(path)
    else:
        book = Ledger.create(path)
    book.open_account(asked.name, dataset=asked.dataset, people=asked.people, **terms)
    if wants_piece(request):
        return answered(request, "piece_accounts.html", cards(context), 201)
    return JSONResponse(_history(context, asked.name)["statement"], 201)


@router.post(
    "/api/entries/{key}/void",
    responses=REFUSALS,
    response_model=AccountStatement,
    tags=["accounts"],
)
@books
def void(
    request: Request,
    context: Context,
    key: Annotated[str, Path(min_length=1, max_length=200)],
) -> Response:
    """Give back a debit whose draw never began; the ledger refuses any other, and its log says so for good."""
    if context.settings.ledger.exists():
        entry = Ledger(context.settings.ledger).entry(key)
    else:
        entry = None
    if entry is None:
        raise ParameterError("the ledger has no such entry")
    Ledger(context.settings.ledger).void(key, "given back in the studio")
    reply = JSONResponse(_history(context, entry.account)["statement"])
    if wants_piece(request):
        reply.headers["HX-Refresh"] = "true"
    return reply


@router.post(
    "/api/whatif", responses=REFUSALS, response_model=WhatIfAnswer, tags=["accounts"]
)
@books
def what_if(request: Request, context: Context, asked: WhatIf) -> Response:
    """Whether an account could pay for several releases, and what it would have spent then. Spends nothing."""
    if asked.account not in context.accounts():
        raise ParameterError("there is no such account; open one on the page Accounts")
    found = context.reader.ask(
        "what_if", ledger=str(context.settings.ledger), **asked.model_dump()
    )
    return answered(
        request,
        "piece_whatif.html",
        {**found, "releases": asked.model_dump()["releases"]},
    )


@router.get(
    "/api/history", responses=REFUSALS, response_model=AccountHistory, tags=["accounts"]
)
@books
def history(
    context: Context, account: Annotated[str, Query(min_length=1, max_length=200)]
) -> Response:
    """History of one account, with what was spent over time under exact composition."""
    return JSONResponse(_history(context, account))


@router.get("/api/export", responses=A_FILE, tags=["accounts"], response_class=Response)
@books
def export(
    context: Context,
    account: Annotated[str, Query(min_length=1, max_length=200)],
    form: Annotated[
        Literal["json", "csv"],
        Query(description="All of it in JSON, or the entries in CSV."),
    ] = "json",
) -> Response:
    """An account as a file."""
    text = context.reader.ask(
        "exported", ledger=str(context.settings.ledger), account=account, form=form
    )["text"]
    named = {"content-disposition": f'attachment; filename="account.{form}"'}
    return Response(text, media_type="application/octet-stream", headers=named)


def cards(
    context: Studio, q: str = "", sort: str = "newest", p: int = 1, size: int = 24
) -> dict[str, Any]:
    """A page of accounts."""
    ledger = str(context.settings.ledger)
    return context.reader.ask(
        "cards", ledger=ledger, search=q, sort=sort, page=p, size=size
    )


def _history(context: Studio, account: str) -> dict[str, Any]:
    return context.reader.ask(
        "history", ledger=str(context.settings.ledger), account=account
    )
