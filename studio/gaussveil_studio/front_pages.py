"""The way in: the first page, the login, the page about the API, and the tables there are."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from gaussveil_studio.access import guesser, retry_after, spoken_wait
from gaussveil_studio.account_pages import cards
from gaussveil_studio.answers import REFUSALS, answered, html, wants_piece
from gaussveil_studio.context import Context, Studio, books, describing, page
from gaussveil_studio.release_records import listed
from gaussveil_studio.sample_table import HOMES
from gaussveil_studio.table_catalogue import ListedTable

router = APIRouter()
MOST_CARDS = 9
MOST_RECENT = 8


class Table(BaseModel):
    """A table that may be released."""

    model_config = ConfigDict(from_attributes=True)

    id: str = Field(description="What to send as `table`.")
    name: str
    uploaded: bool


class Tables(BaseModel):
    """All of them."""

    tables: list[Table]


class Column(BaseModel):
    """A column, whose name and type count as public."""

    name: str
    type: str


class Columns(BaseModel):
    """Columns of a table, and how its file is written where that is unusual."""

    columns: list[Column]
    rows: list[Column] = Field(
        default=[],
        description="As rows, where it has a column of readings for each home.",
    )
    written: str = ""
    guessed: bool = Field(
        default=False, description="Whether that was found in the file's first lines."
    )
    kept: bool = Field(
        default=False, description="Whether its owner has kept the form."
    )
    proposed: dict[str, str] = Field(
        default={},
        description="Which columns probably say whose row it is, when, how much.",
    )
    said: dict[str, int] = Field(
        default={},
        description="About how many there are, as somebody said for its last release; of the sample, truly.",
    )


@router.get("/", include_in_schema=False)
@books
def home(request: Request, context: Context) -> Response:
    """Accounts with their gauges, the latest releases, and the way to a new one."""
    return page(
        request,
        "home.html",
        **cards(context, size=MOST_CARDS),
        releases=listed(context)[:MOST_RECENT],
    )


@router.get("/login", include_in_schema=False)
async def login_page(context: Context) -> Response:
    """Ask for the password."""
    if context.access.asks_for_password:
        return html("login.html", wrong="")
    return RedirectResponse("/", 303)


@router.post("/login", include_in_schema=False)
async def login(
    request: Request, context: Context, password: Annotated[str, Form(max_length=1000)]
) -> Response:
    """Let the bearer of the password in; after a few failures from one address, that one waits."""
    if (
        not context.access.asks_for_password
    ):  # nothing to guess here, and nobody to be locked out by guessing
        return RedirectResponse("/", 303)
    who = guesser(request.scope)
    if (left := context.access.wait(who)) > 0:
        await anyio.sleep(0.2)
        return _turned_away(429, "It was tried too often from here", left)
    right = context.access.opens(password)
    context.access.note(right, who)
    if not right:
        return _turned_away(401, "That is not the password", context.access.wait(who))
    return RedirectResponse("/", 303, headers={"set-cookie": context.access.cookie})


def _turned_away(status: int, words: str, left: float) -> Response:
    reply = html(
        "login.html",
        status,
        wrong=f"{words}: wait {spoken_wait(left)}." if left > 0 else f"{words}.",
    )
    reply.headers.update(retry_after(left) if left > 0 else {})
    return reply


@router.get("/api", include_in_schema=False)
async def api_page(request: Request) -> Response:
    """The API for people."""
    operations = [
        (method.upper(), path, found)
        for path, methods in request.app.openapi()["paths"].items()
        for method, found in methods.items()
    ]
    return page(request, "api.html", operations=operations)


@router.get("/api/tables", responses=REFUSALS, response_model=Tables, tags=["release"])
def tables(request: Request, context: Context) -> Response:
    """Tables that may be released."""
    known = [
        Table.model_validate(table).model_dump() for table in context.catalogue.tables()
    ]
    return answered(request, "piece_tables.html", {"tables": known, "chosen": None})


@router.post(
    "/api/tables",
    responses=REFUSALS,
    response_model=Table,
    tags=["release"],
    status_code=201,
)
async def upload(
    request: Request,
    context: Context,
    file: Annotated[UploadFile, File(description="A table, as on the command line.")],
) -> Response:
    """Upload a table; it stays on this machine, readable by its owner only, until the studio stops."""
    added = await run_in_threadpool(
        context.catalogue.add, file.filename or "", file.file
    )
    is_readable = False
    try:
        await describing(_described)(context, added)
        is_readable = True
    finally:
        if not is_readable:
            context.catalogue.remove(
                added.id
            )  # what cannot be read leaves no trace, however it failed
    known = Table.model_validate(added).model_dump()
    if wants_piece(request):
        tables = [vars(table) for table in context.catalogue.tables()]
        return html("piece_tables.html", 201, tables=tables, chosen=added.id)
    return answered(request, "piece_tables.html", known, 201)


@router.get(
    "/api/columns", responses=REFUSALS, response_model=Columns, tags=["release"]
)
@describing
def columns(request: Request, context: Context, table: str) -> Response:
    """Columns of a table, read from its schema."""
    return answered(
        request,
        "piece_columns.html",
        _described(context, context.catalogue.find(table)),
    )


@router.post(
    "/api/columns", responses=REFUSALS, response_model=Columns, tags=["release"]
)
@describing
def keep_form(request: Request, context: Context, table: str) -> Response:
    """Keep the form that a table was found to have: from now on every cell is read by itself, as it says."""
    found = context.catalogue.find(table)
    called = {found.address: found.name}
    context.describer.ask("keep_form", called=called, address=found.address)
    return answered(request, "piece_columns.html", _described(context, found))


def _described(context: Studio, table: ListedTable) -> dict[str, Any]:
    called = {table.address: table.name}
    found = context.describer.ask(
        "describe_table", called=called, address=table.address
    )
    return {**found, "said": _said_of(context, table)}


def _said_of(context: Studio, table: ListedTable) -> dict[str, int]:
    """About how many there are, where that is public: of rows of nobody, or as somebody said of the table before."""
    if table.sample:
        return {"units": HOMES}
    orders = (
        one["order"]
        for one in context.jobs.summaries()
        if one["table"] == table.name and one["state"] == "released"
    )
    latest: dict[str, Any] = next(orders, {})
    return {name: latest[name] for name in ("units", "rows") if latest.get(name)}
