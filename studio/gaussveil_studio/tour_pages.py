"""The tour: one release on rows of nobody, paid from an account that is made for it, so that nothing is spent."""

from __future__ import annotations

import secrets
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from gaussveil.accounting import Ledger
from gaussveil_studio.answers import REFUSALS, answered, html, wants_piece
from gaussveil_studio.context import Context, Studio
from gaussveil_studio.front_pages import Table

router = APIRouter()
EPSILON = 3.0
DELTA = 1e-5


@router.get("/tour", include_in_schema=False)
async def tour(context: Context) -> Response:
    """A form that is filled with the sample table and an account of the tour's own."""
    table = await run_in_threadpool(context.catalogue.sample)
    account = await run_in_threadpool(_fresh_account, context)
    known = {
        "mechanism": "table",
        "job": "averages",
        "table": table.id,
        "account": account,
        "tour": "yes",
    }
    return RedirectResponse(f"/release/{secrets.token_hex(16)}?{urlencode(known)}", 303)


@router.post(
    "/api/tables/sample",
    responses=REFUSALS,
    response_model=Table,
    tags=["release"],
    status_code=201,
)
def sample(request: Request, context: Context) -> Response:
    """A table of nobody to try things on."""
    table = context.catalogue.sample()
    if wants_piece(request):
        tables = [vars(one) for one in context.catalogue.tables()]
        return html("piece_tables.html", 201, tables=tables, chosen=table.id)
    return answered(
        request, "piece_tables.html", Table.model_validate(table).model_dump(), 201
    )


def _fresh_account(context: Studio) -> str:
    """An account from which nothing was paid yet, in a ledger that no real account is in."""
    path = context.settings.tour_ledger
    if path.exists():
        book = Ledger(path)
    else:
        book = Ledger.create(path)
    known = book.accounts()
    unused = [name for name in known if not book.entries(name)]
    if unused:
        return unused[0]
    taken = {*known, *context.accounts()}
    name = next(
        name
        for number in range(1, len(taken) + 2)
        if (name := f"Tour {number}") not in taken
    )
    book.open_account(name, epsilon=EPSILON, delta=DELTA)
    return name
