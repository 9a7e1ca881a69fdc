"""Release: choose, see what it will be like, release once, look at the result."""

from __future__ import annotations

import re
import secrets
import tempfile
import time
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from gaussveil.errors import ParameterError
from gaussveil.studio.answers import A_FILE, REFUSALS, answered, environment, wants_piece
from gaussveil.studio.context import Context, Studio, given_work, page
from gaussveil.studio.jobs import CERTIFICATE, JobStatus
from gaussveil.studio.offers.orders import KEY, ORDERS, PreviewRequest, ReleaseRequest
from gaussveil.studio.shown import require_shown
from gaussveil.studio.table_catalogue import ENDINGS
from gaussveil.studio.verify_pages import CertificateVerdict

router = APIRouter()
MOST_LISTED = 100
PAGE_SIZE = 25

Key = Annotated[str, Path(pattern=KEY, description="Idempotency key of the release.")]


class Budget(BaseModel):
    """The account before and after; null where unbounded or not known before the release."""

    account: str
    epsilon: float
    delta: float
    before: float | None
    after: float | None
    used_before: float = Field(description="Share of the account that is used, by its own rule.")
    used_after: float | None
    largest_epsilon: float | None = Field(description="About the largest epsilon that it can still pay for.")
    allowed: bool | None
    reason: str


class Preview(BaseModel):
    """What a release would be like, from public quantities only."""

    facts: list[tuple[str, str]]
    accuracy: dict[str, Any] | None
    simulated: dict[str, Any] | None = Field(description="The answer with its band on a simulated table.")
    guessed_right: int = Field(description="Of 100 guesses who is in the data; 50 are right by chance.")
    promised: float
    budget: Budget | None
    digest: str | None = Field(description="What to send as `shown`; null where the account does not allow it.")


class ReleaseStatus(BaseModel):
    """Where a release stands. `result` holds released values only."""

    key: str
    state: str = Field(description="running, released, refused, cancelled or interrupted")
    message: str
    stage: int
    stages: int
    account: str
    mechanism: str
    table: str
    title: str
    asked_at: float = Field(description="When, in seconds since 1970.")
    elapsed: float = Field(description="Seconds since it was asked for, while it is under way.")
    ledger_state: str | None = Field(description="The ledger's entry: debited, drawing, released, void; null if none")
    result: dict[str, Any] | None


class Releases(BaseModel):
    """Releases of this studio, the latest first."""

    releases: list[ReleaseStatus]


@router.get("/release", include_in_schema=False)
async def release(context: Context, mechanism: str = "table", like: str = "") -> Response:
    """A new form; its key is in the address, so that coming back to it finds what was started from it."""
    if re.fullmatch(KEY, like) and context.jobs.exists(like):
        mechanism = context.jobs.request(like).get("request", {}).get("order", {}).get("mechanism", "")
    wanted = mechanism if mechanism in ORDERS else "table"
    rest = f"&like={like}" if re.fullmatch(KEY, like) else ""
    return RedirectResponse(f"/release/{secrets.token_hex(16)}?mechanism={wanted}{rest}", 303)


@router.get("/release/{key}", include_in_schema=False)
def form_or_result(request: Request, context: Context, key: Key, mechanism: str = "table", like: str = "") -> Response:
    """The form of a key that is still free, or what became of the release under it."""
    if context.jobs.exists(key):
        return page(request, "release_result.html", here="/releases", **_known(context, context.jobs.status(key)))
    if mechanism not in ORDERS:
        raise ParameterError(f"mechanism must be one of {', '.join(ORDERS)}")
    context.worker.begin("warm", mechanism=mechanism)
    properties = ORDERS[mechanism].model_json_schema()["properties"]
    before = context.jobs.request(like).get("request", {}) if re.fullmatch(KEY, like) else {}
    return page(
        request,
        "release_form.html",
        key=key,
        mechanism=mechanism,
        jobs=[(name, kind.title, kind.__doc__) for name, kind in ORDERS.items()],
        fields={name: asked for name, asked in properties.items() if name != "mechanism"},
        values=before.get("order", {}),
        tables=[vars(table) for table in context.catalogue.tables()],
        chosen=before.get("table"),
        account=before.get("account"),
        accounts=context.accounts(),
        needs_table=mechanism != "stream",
        endings=",".join(ENDINGS),
    )


@router.get("/releases", include_in_schema=False)
def release_list(
    request: Request,
    context: Context,
    q: Annotated[str, Query(max_length=200)] = "",
    p: Annotated[int, Query(ge=1, le=10**6)] = 1,
) -> Response:
    """All releases of this studio, searched, a page at a time."""
    found = listed(context, q)
    shown = found[(p - 1) * PAGE_SIZE :][:PAGE_SIZE]
    pages = max(1, -(-len(found) // PAGE_SIZE))
    return page(request, "releases.html", releases=shown, found=len(found), pages_count=pages, q=q, number=p)


def listed(context: Studio, search: str = "") -> list[dict[str, Any]]:
    """Releases whose title, account or table holds all words of a search, the latest first."""
    rows = [{**one, "title": title_of(one["order"], one["table"])} for one in context.jobs.summaries()]
    words = search.casefold().split()
    texts = (f"{one['title']} {one['account']} {one['state']} {one['key']}".casefold() for one in rows)
    return [one for one, text in zip(rows, texts) if all(word in text for word in words)]


def title_of(order: dict[str, Any], table: str) -> str:
    """What a release is called on pages."""
    kind = ORDERS.get(order.get("mechanism", ""))
    words = kind.title if kind is not None else "Release"
    if order.get("mechanism") == "table":
        words = order["answer"] if order["answer"] == "count" else f"{order['answer']} of {order['column']}"
        words = {"nothing": words, "values": f"{words} by {order['by_column']}"}.get(
            order["by"], f"{words} by {order['by']}"
        )
    if order.get("mechanism") == "regression":
        words = f"{order['target']} explained"
    return f"{words[:1].upper()}{words[1:]}, {table}" if table else words


@router.post("/api/preview", responses=REFUSALS, response_model=Preview, tags=["release"])
@given_work
def preview(request: Request, context: Context, asked: PreviewRequest) -> Response:
    """What a release would be like: noise, accuracy against epsilon, the account before and after. Spends nothing."""
    address, name = _table(context, asked.table)
    if asked.account is not None and asked.account not in context.accounts():
        raise ParameterError("there is no such account; open one on the page Accounts")
    found = context.worker.ask(
        "preview",
        request=asked.model_dump(),
        address=address,
        table_name=name,
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
            raise ParameterError("there is no such account; open one on the page Accounts")
        if asked.table is None and asked.order.mechanism != "stream":
            raise ParameterError("choose a table, or upload one")
        address, name = _table(context, asked.table)
        require_shown(asked.model_dump(), address, str(context.settings.ledger))
        context.jobs.start(asked.key, asked.model_dump(), address, name)
    reply = _answer(request, context, context.jobs.status(asked.key), 202)
    if wants_piece(request):
        reply.headers["HX-Redirect"] = f"/release/{asked.key}"
    return reply


@router.get("/api/releases", responses=REFUSALS, response_model=Releases, tags=["release"])
def releases(context: Context) -> Response:
    """The latest releases of this studio."""
    listed = [_known(context, context.jobs.status(key)) for key in context.jobs.keys()[:MOST_LISTED]]
    return JSONResponse({"releases": listed})


@router.get("/api/releases/{key}", responses=REFUSALS, response_model=ReleaseStatus, tags=["release"])
def status(request: Request, context: Context, key: Key) -> Response:
    """Where a release stands."""
    return _answer(request, context, context.jobs.status(key))


@router.post("/api/releases/{key}/cancel", responses=REFUSALS, response_model=ReleaseStatus, tags=["release"])
def cancel(request: Request, context: Context, key: Key) -> Response:
    """Stop a release that is not debited yet. A debit is never undone here."""
    return _answer(request, context, context.jobs.cancel(key))


@router.post("/api/releases/{key}/verify", responses=REFUSALS, response_model=CertificateVerdict, tags=["release"])
@given_work
def verify(request: Request, context: Context, key: Key) -> Response:
    """Recompute the certificate of a release."""
    path = str(context.jobs.file(key, CERTIFICATE))
    return answered(request, "piece_certificate.html", context.worker.ask("verify_certificate", path=path))


@router.get("/api/releases/{key}/files/{name}", responses=A_FILE, tags=["release"], response_class=FileResponse)
def download(context: Context, key: Key, name: Annotated[str, Path(pattern=r"^[a-z]+\.[a-z]+$")]) -> Response:
    """The released file, its certificate (certificate.json), a page about it (report.html), or all (package.zip)."""
    # Always a download: a page of its own would run under this server's name.
    if name == "report.html":
        made = context.reader.ask("report_page", path=str(context.jobs.file(key, CERTIFICATE)))["page"]
        named = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(made, media_type="application/octet-stream", headers=named)
    if name == "package.zip":
        folder = context.jobs.file(key, CERTIFICATE).parent
        with tempfile.TemporaryDirectory(dir=context.catalogue.store) as place:
            context.reader.ask("package", folder=str(folder), out=f"{place}/{name}", **_again(context, key))
            body = FilePath(f"{place}/{name}").read_bytes()
        named = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="application/octet-stream", headers=named)
    return FileResponse(context.jobs.file(key, name), media_type="application/octet-stream", filename=name)


def _table(context: Studio, identifier: str | None) -> tuple[str | None, str]:
    if identifier is None:
        return None, ""
    found = context.catalogue.find(identifier)
    return found.address, found.name


def _known(context: Studio, found: JobStatus) -> dict[str, Any]:
    result = None if found.done is None or found.state != "released" else found.done
    known = {name: value for name, value in vars(found).items() if name != "done"}
    order = context.jobs.request(found.key).get("request", {}).get("order", {})
    if result is not None:
        result = {**result, "script": _again(context, found.key)} if "python" in result else result
    elapsed = max(0.0, time.time() - found.asked_at) if found.asked_at and not found.finished else 0.0
    return {**known, "result": result, "title": title_of(order, found.table), "elapsed": elapsed}


def _again(context: Studio, key: str) -> dict[str, Any]:
    """The script and the command that make such a release again; no command where there is none."""
    asked, done = context.jobs.request(key), context.jobs.status(key).done or {}
    about = {**asked["request"], "table": asked["table_name"], "out": done["file"], "line": done["python"]}
    about["ledger"] = FilePath(asked["ledger"]).name
    rendered = [environment().get_template(name).render(about).strip() for name in ("again.py.txt", "again.txt")]
    return dict(zip(("python", "command"), rendered))


def _answer(request: Request, context: Studio, found: JobStatus, code: int = 200) -> Response:
    return answered(request, "piece_release.html", _known(context, found), code)
