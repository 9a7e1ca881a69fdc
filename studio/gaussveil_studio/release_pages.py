"""Release: choose, see what it will be like, release once, look at the result."""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.responses import Response

from gaussveil.errors import ParameterError
from gaussveil_studio.answers import (
    A_FILE,
    REFUSALS,
    answered,
    wants_piece,
)
from gaussveil_studio.context import Context, Studio, given_work, page
from gaussveil_studio.guidance import PUBLISHED
from gaussveil_studio.jobs import CERTIFICATE, JobStatus
from gaussveil_studio.offers.kinds import JOBS, KINDS, job_of
from gaussveil_studio.offers.orders import (
    KEY,
    ORDERS,
    PreviewRequest,
    ReleaseRequest,
)
from gaussveil_studio.release_forms import About, Preview, Releases, ReleaseStatus
from gaussveil_studio.release_records import (
    handed_facts,
    listed,
    made_again,
    paid_elsewhere,
    shown_release,
)
from gaussveil_studio.sample_table import ORDER
from gaussveil_studio.settings import MEBIBYTE
from gaussveil_studio.shown import require_shown
from gaussveil_studio.table_catalogue import ENDINGS
from gaussveil_studio.verify_pages import CertificateVerdict

router = APIRouter()
MOST_LISTED = 100
PAGE_SIZE = 25

Key = Annotated[str, Path(pattern=KEY, description="Idempotency key of the release.")]


@router.get("/release", include_in_schema=False)
async def release(
    context: Context,
    mechanism: str = "table",
    like: str = "",
    account: str = "",
    job: str = "",
) -> Response:
    """A new form; its key is in the address, so that coming back to it finds what was started from it."""
    if re.fullmatch(KEY, like) and context.jobs.exists(like):
        mechanism = (
            context.jobs.request(like)
            .get("request", {})
            .get("order", {})
            .get("mechanism", "")
        )
    if mechanism in ORDERS:
        wanted = mechanism
    else:
        wanted = "table"
    known = {
        "mechanism": wanted,
        "like": like if re.fullmatch(KEY, like) else "",
        "account": account,
        "job": job,
    }
    rest = urlencode({name: value for name, value in known.items() if value})
    return RedirectResponse(f"/release/{secrets.token_hex(16)}?{rest}", 303)


@router.get("/release/{key}", include_in_schema=False)
def form_or_result(
    request: Request,
    context: Context,
    key: Key,
    mechanism: str = "table",
    like: str = "",
    account: str = "",
    job: str = "",
    table: str = "",
    tour: str = "",
) -> Response:
    """The form of a key that is still free, or what became of the release under it."""
    if context.jobs.exists(key):
        return page(
            request,
            "release_result.html",
            here="/releases",
            **shown_release(context, context.jobs.status(key)),
        )
    if mechanism not in ORDERS:
        raise ParameterError(f"mechanism must be one of {', '.join(ORDERS)}")
    context.worker.begin("warm", mechanism=mechanism)
    properties = ORDERS[mechanism].model_json_schema()["properties"]
    if re.fullmatch(KEY, like):
        before = context.jobs.request(like).get("request", {})
    else:
        before = {}
    wanted = job_of(mechanism, job)
    accounts = context.people()
    chosen = before.get("account", account)
    if context.is_of_tour(chosen):
        accounts |= {chosen: ""}
    return page(
        request,
        "release_form.html",
        key=key,
        mechanism=mechanism,
        jobs=JOBS,
        job=wanted,
        fields={
            name: asked for name, asked in properties.items() if name != "mechanism"
        },
        values=before.get("order") or (ORDER if tour else {}) | JOBS[wanted]["order"],
        tables=[vars(one) for one in context.catalogue.tables()],
        chosen=before.get("table", table),
        account=chosen,
        accounts=accounts,
        tour=bool(tour),
        needs_table=mechanism != "stream",
        hides_less=KINDS[mechanism].get("hides_less", False),
        endings=",".join(ENDINGS),
        most_mebibytes=context.settings.upload_limit // MEBIBYTE,
        published=PUBLISHED,
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
    return page(
        request,
        "releases.html",
        releases=shown,
        found=len(found),
        pages_count=pages,
        q=q,
        number=p,
    )


@router.post(
    "/api/preview", responses=REFUSALS, response_model=Preview, tags=["release"]
)
@given_work
def preview(request: Request, context: Context, asked: PreviewRequest) -> Response:
    """What a release would be like: the answer on a simulated table, the account before and after. Spends nothing."""
    address, name = _table(context, asked.table)
    ledger = context.ledger_of(asked.account, asked.table)
    found = context.worker.ask(
        "preview",
        request=asked.model_dump(),
        address=address,
        table_name=name,
        ledger=str(ledger),
        called={} if address is None else {address: name},
    )
    return answered(
        request,
        "piece_preview.html",
        {**found, "notes": [*found["notes"], *paid_elsewhere(context, asked, name)]},
    )


@router.post(
    "/api/releases",
    responses=REFUSALS,
    response_model=ReleaseStatus,
    tags=["release"],
    status_code=202,
)
def start(request: Request, context: Context, asked: ReleaseRequest) -> Response:
    """Release once. The same key again, whatever happened in between, gives the same release and debits nothing."""
    if context.jobs.exists(
        asked.key
    ):  # whatever has changed since, an upload that is gone for example
        context.jobs.require_same(asked.key, asked.model_dump())
    else:
        ledger = context.ledger_of(asked.account, asked.table)
        if asked.table is None and asked.order.mechanism != "stream":
            raise ParameterError("choose a table, or upload one")
        address, name = _table(context, asked.table)
        require_shown(asked.model_dump(), address, str(ledger))
        context.jobs.start(asked.key, asked.model_dump(), address, name, ledger)
    reply = _answer(request, context, context.jobs.status(asked.key), 202)
    if wants_piece(request):
        reply.headers["HX-Redirect"] = f"/release/{asked.key}"
    return reply


@router.get(
    "/api/releases", responses=REFUSALS, response_model=Releases, tags=["release"]
)
def releases(context: Context) -> Response:
    """The latest releases of this studio."""
    listed = [
        shown_release(context, context.jobs.status(key))
        for key in context.jobs.keys()[:MOST_LISTED]
    ]
    return JSONResponse({"releases": listed})


@router.get(
    "/api/releases/{key}",
    responses=REFUSALS,
    response_model=ReleaseStatus,
    tags=["release"],
)
def status(request: Request, context: Context, key: Key) -> Response:
    """Where a release stands."""
    return _answer(request, context, context.jobs.status(key))


@router.post(
    "/api/releases/{key}/cancel",
    responses=REFUSALS,
    response_model=ReleaseStatus,
    tags=["release"],
)
def cancel(request: Request, context: Context, key: Key) -> Response:
    """Stop a release that is not debited yet. A debit is never undone here."""
    return _answer(request, context, context.jobs.cancel(key))


@router.post(
    "/api/releases/{key}/verify",
    responses=REFUSALS,
    response_model=CertificateVerdict,
    tags=["release"],
)
@given_work
def verify(request: Request, context: Context, key: Key) -> Response:
    """Recompute the certificate of a release, and hold its numbers against it."""
    folder = str(context.jobs.file(key, CERTIFICATE).parent)
    return answered(
        request,
        "piece_certificate.html",
        context.worker.ask("verify_release", folder=folder),
    )


@router.post(
    "/api/releases/{key}/sign",
    responses=REFUSALS,
    response_model=CertificateVerdict,
    tags=["release"],
)
@given_work
def sign(request: Request, context: Context, key: Key) -> Response:
    """Sign the certificate of a release with the key that the studio was started with, and recompute it."""
    path = str(context.jobs.file(key, CERTIFICATE))
    signer = context.settings.signing_key
    if signer is None:
        raise ParameterError(
            "start the studio with --signing-key to sign; `gaussveil key new` makes a key"
        )
    found = context.worker.ask(
        "sign", path=path, key=str(signer), called={str(signer): "the signing key"}
    )
    return answered(request, "piece_certificate.html", found)


@router.post(
    "/api/releases/{key}/about",
    responses=REFUSALS,
    response_model=ReleaseStatus,
    tags=["release"],
)
def about(request: Request, context: Context, key: Key, said: About) -> Response:
    """Say what a release is for and who approved it, for the page that is handed on. The release stays as it is."""
    context.jobs.note(key, said.model_dump())
    return _answer(request, context, context.jobs.status(key))


@router.get(
    "/api/releases/{key}/files/{name}",
    responses=A_FILE,
    tags=["release"],
    response_class=Response,
)
def download(
    context: Context,
    key: Key,
    name: Annotated[str, Path(pattern=r"^[a-z]+\.[a-z]+$")],
    rows: Annotated[int, Query(ge=1, le=100_000, description="Of sample.csv.")] = 1000,
    decimal: Annotated[
        Literal["point", "comma"], Query(description="How page and CSV write numbers.")
    ] = "point",
) -> Response:
    """The released file, its certificate (certificate.json), a page to hand on (report.html), or all (package.zip).

    A table also with decimal commas or for Excel (.csv, .xlsx, .parquet); of a mixture also rows drawn from it
    (sample.csv), which costs nothing.
    """
    ask = context.reader.ask
    certificate = context.jobs.file(key, CERTIFICATE)
    folder = str(certificate.parent)
    comma = decimal == "comma"
    file = context.jobs.status(key).done or {}
    if name == "report.html":
        body: bytes | str = ask(
            "handed_page", folder=folder, about=handed_facts(context, key), comma=comma
        )["page"]
    elif name == "sample.csv":
        body = ask(
            "sampled", path=str(context.jobs.file(key, "mixture.json")), rows=rows
        )["page"]
    elif name in (CERTIFICATE, file.get("file")) and not comma:
        body = context.jobs.file(key, name).read_bytes()
    else:
        told: dict[str, Any] = {
            "folder": folder,
            "about": handed_facts(context, key),
            "comma": comma,
        }
        if name == "package.zip":
            task = ("package", made_again(context, key))
        else:
            task = ("converted", {"name": name})
        with tempfile.TemporaryDirectory(dir=context.catalogue.store) as place:
            ask(task[0], out=f"{place}/{name}", **told, **task[1])
            body = FilePath(f"{place}/{name}").read_bytes()
    # Always a download: a page of its own would run under this server's name.
    named = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type="application/octet-stream", headers=named)


def _table(context: Studio, identifier: str | None) -> tuple[str | None, str]:
    if identifier is None:
        return None, ""
    found = context.catalogue.find(identifier)
    return found.address, found.name


def _answer(
    request: Request, context: Studio, found: JobStatus, code: int = 200
) -> Response:
    return answered(request, "piece_release.html", shown_release(context, found), code)
