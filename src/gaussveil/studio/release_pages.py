"""Release: choose, see what it will be like, release once, look at the result."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from gaussveil.errors import ParameterError
from gaussveil.studio.answers import A_FILE, REFUSALS, answered, wants_piece
from gaussveil.studio.context import Context, Studio, given_work, page
from gaussveil.studio.jobs import CERTIFICATE, JobStatus
from gaussveil.studio.offers.form_fields import form_fields
from gaussveil.studio.offers.orders import KEY, ORDERS, PreviewRequest, ReleaseRequest

router = APIRouter()
MOST_LISTED = 100

Key = Annotated[str, Path(pattern=KEY, description="Idempotency key of the release.")]


class Budget(BaseModel):
    """The account before and after; null where unbounded or not known before the release."""

    account: str
    epsilon: float
    delta: float
    before: float | None
    after: float | None
    allowed: bool | None
    reason: str


class Preview(BaseModel):
    """What a release would be like, from public quantities only."""

    facts: list[tuple[str, str]]
    accuracy: dict[str, Any] | None
    budget: Budget | None


class ReleaseStatus(BaseModel):
    """Where a release stands. `result` holds released values only."""

    key: str
    state: str = Field(description="running, released, refused, cancelled or interrupted")
    message: str
    stage: int
    stages: int
    account: str
    mechanism: str
    ledger_state: str | None = Field(description="The ledger's entry: debited, drawing, released, void; null if none")
    result: dict[str, Any] | None


class Releases(BaseModel):
    """Releases of this studio, the latest first."""

    releases: list[ReleaseStatus]


@router.get("/release", include_in_schema=False)
async def release(mechanism: str = "vector") -> Response:
    """A new form; its key is in the address, so that coming back to it finds what was started from it."""
    wanted = mechanism if mechanism in ORDERS else "vector"
    return RedirectResponse(f"/release/{secrets.token_hex(16)}?mechanism={wanted}", 303)


@router.get("/release/{key}", include_in_schema=False)
def form_or_result(request: Request, context: Context, key: Key, mechanism: str = "vector") -> Response:
    """The form of a key that is still free, or what became of the release under it."""
    if context.jobs.exists(key):
        return page(request, "release_result.html", **_known(context.jobs.status(key)))
    if mechanism not in ORDERS:
        raise ParameterError(f"mechanism must be one of {', '.join(ORDERS)}")
    return page(
        request,
        "release_form.html",
        key=key,
        mechanism=mechanism,
        titles={name: kind.title for name, kind in ORDERS.items()},
        about=ORDERS[mechanism].__doc__,
        fields=form_fields(mechanism),
        tables=[vars(table) for table in context.catalogue.tables()],
        chosen=None,
        accounts=context.accounts(),
        needs_table=mechanism != "stream",
    )


@router.post("/api/preview", responses=REFUSALS, response_model=Preview, tags=["release"])
@given_work
def preview(request: Request, context: Context, asked: PreviewRequest) -> Response:
    """What a release would be like: noise, accuracy against epsilon, the account before and after. Spends nothing."""
    address, name = _table(context, asked.table)
    found = context.worker.ask(
        "preview",
        order=asked.order.model_dump(),
        address=address,
        table_name=name,
        account=asked.account,
        ledger=str(context.settings.ledger),
        called={} if address is None else {address: name},
    )
    return answered(request, "piece_preview.html", found)


@router.post("/api/releases", responses=REFUSALS, response_model=ReleaseStatus, tags=["release"], status_code=202)
def start(request: Request, context: Context, asked: ReleaseRequest) -> Response:
    """Release once. The same key again, whatever happened in between, gives the same release and debits nothing."""
    if context.jobs.exists(asked.key):  # whatever has changed since, an upload that is gone for example
        context.jobs.require_same(asked.key, asked.model_dump())
    else:
        if asked.account not in context.accounts():
            raise ParameterError("there is no such account; open one on the page Budgets")
        if asked.table is None and asked.order.mechanism != "stream":
            raise ParameterError("choose a table, or upload one")
        address, name = _table(context, asked.table)
        context.jobs.start(asked.key, asked.model_dump(), address, name)
    reply = _answer(request, context.jobs.status(asked.key), 202)
    if wants_piece(request):
        reply.headers["HX-Redirect"] = f"/release/{asked.key}"
    return reply


@router.get("/api/releases", responses=REFUSALS, response_model=Releases, tags=["release"])
def releases(context: Context) -> Response:
    """The latest releases of this studio."""
    listed = [_known(context.jobs.status(key)) for key in context.jobs.keys()[:MOST_LISTED]]
    return JSONResponse({"releases": listed})


@router.get("/api/releases/{key}", responses=REFUSALS, response_model=ReleaseStatus, tags=["release"])
def status(request: Request, context: Context, key: Key) -> Response:
    """Where a release stands."""
    return _answer(request, context.jobs.status(key))


@router.post("/api/releases/{key}/cancel", responses=REFUSALS, response_model=ReleaseStatus, tags=["release"])
def cancel(request: Request, context: Context, key: Key) -> Response:
    """Stop a release that is not debited yet. A debit is never undone here."""
    return _answer(request, context.jobs.cancel(key))


@router.get(
    "/api/releases/{key}/files/{name}",
    responses=A_FILE,
    tags=["release"],
    response_class=FileResponse,
)
def download(context: Context, key: Key, name: Annotated[str, Path(pattern=r"^[a-z]+\.[a-z]+$")]) -> Response:
    """The released file, its certificate (certificate.json) or a page about it (report.html)."""
    # Always a download: a page of its own would run under this server's name.
    if name == "report.html":
        made = context.reader.ask("report_page", path=str(context.jobs.file(key, CERTIFICATE)))["page"]
        named = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(made, media_type="application/octet-stream", headers=named)
    return FileResponse(context.jobs.file(key, name), media_type="application/octet-stream", filename=name)


def _table(context: Studio, identifier: str | None) -> tuple[str | None, str]:
    if identifier is None:
        return None, ""
    found = context.catalogue.find(identifier)
    return found.address, found.name


def _known(found: JobStatus) -> dict[str, Any]:
    result = None if found.done is None or found.state != "released" else found.done
    known = {name: value for name, value in vars(found).items() if name != "done"}
    return {**known, "result": result}


def _answer(request: Request, found: JobStatus, code: int = 200) -> Response:
    return answered(request, "piece_release.html", _known(found), code)
