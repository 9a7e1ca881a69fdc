"""Release: choose, see what it will be like, release once, look at the result."""

from __future__ import annotations

import re
import secrets
import tempfile
import time
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from gaussveil import mechanisms
from gaussveil.errors import ParameterError
from gaussveil_studio.answers import (
    A_FILE,
    REFUSALS,
    answered,
    environment,
    moment,
    wants_piece,
)
from gaussveil_studio.context import Context, Studio, given_work, page
from gaussveil_studio.guidance import PUBLISHED
from gaussveil_studio.jobs import CERTIFICATE, JobStatus
from gaussveil_studio.offers.kinds import JOBS, job_of, title_of
from gaussveil_studio.offers.orders import (
    KEY,
    ORDERS,
    Asked,
    PreviewRequest,
    ReleaseRequest,
    Text,
)
from gaussveil_studio.offers.rounding import number_table
from gaussveil_studio.plain_words import paragraph
from gaussveil_studio.sample_table import ORDER
from gaussveil_studio.settings import MEBIBYTE
from gaussveil_studio.shown import require_shown
from gaussveil_studio.table_catalogue import ENDINGS
from gaussveil_studio.verify_pages import CertificateVerdict

router = APIRouter()
MOST_LISTED = 100
PAGE_SIZE = 25

Key = Annotated[str, Path(pattern=KEY, description="Idempotency key of the release.")]


class Budget(BaseModel):
    """The account before and after; null where unbounded or not known before the release."""

    model_config = ConfigDict(extra="allow")

    account: str
    largest_epsilon: float | None = Field(
        description="About the largest epsilon that it can still pay for."
    )
    allowed: bool | None
    reason: str


class Preview(BaseModel):
    """What a release would be like, from public quantities only."""

    facts: list[tuple[str, str]]
    simulated: dict[str, Any] | None = Field(
        description="The answer with its band on a simulated table."
    )
    doubt: str = Field(description="What a stranger can hardly tell.")
    guessed_right: int = Field(
        description="Of 100 guesses of that at most; 50 are right by chance."
    )
    promised: float
    budget: Budget | None
    notes: list[str] = Field(
        default=[],
        description="What else to know: that another account paid for this table.",
    )
    seconds: float | None = Field(
        default=None,
        description="About how long the release takes, where that is long.",
    )
    digest: str | None = Field(
        description="What to send as `shown`; null where the account does not allow it."
    )


class ReleaseStatus(BaseModel):
    """Where a release stands. `result` holds released values only."""

    model_config = ConfigDict(extra="allow")

    key: str
    state: str = Field(
        description="running, released, refused, cancelled or interrupted"
    )
    message: str
    ledger_state: str | None = Field(
        description="The ledger's entry: debited, drawing, released, void; null if none"
    )
    result: dict[str, Any] | None


class About(Asked):
    """What the owner says of a release to whoever gets it; it stands on the page that is handed on."""

    title: Text = Field(
        default="",
        title="Title",
        description="In place of the one that its columns make.",
    )
    purpose: Text = Field(
        default="", title="Purpose", description="What the numbers are for."
    )
    approver: Text = Field(
        default="",
        title="Approved by",
        description="Who approved that they are given away.",
    )


class Releases(BaseModel):
    """Releases of this studio, the latest first."""

    releases: list[ReleaseStatus]


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
            **_known(context, context.jobs.status(key)),
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


def listed(context: Studio, search: str = "") -> list[dict[str, Any]]:
    """Releases whose title, account or table holds all words of a search, the latest first."""
    rows = [
        {**one, "title": title_of(one["order"], one["table"])}
        for one in context.jobs.summaries()
    ]
    words = search.casefold().split()
    texts = (
        f"{one['title']} {one['account']} {one['state']} {one['key']}".casefold()
        for one in rows
    )
    return [
        one for one, text in zip(rows, texts) if all(word in text for word in words)
    ]


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
        {**found, "notes": _paid_elsewhere(context, asked, name)},
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
        _known(context, context.jobs.status(key))
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
            "handed_page", folder=folder, about=_handed(context, key), comma=comma
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
            "about": _handed(context, key),
            "comma": comma,
        }
        if name == "package.zip":
            task = ("package", _again(context, key))
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


def _paid_elsewhere(context: Studio, asked: PreviewRequest, table: str) -> list[str]:
    """That releases of the same table were paid from other accounts: the same people have several budgets then."""
    if asked.account is None or not table:
        return []
    paid = {
        one["account"]
        for one in context.jobs.summaries()
        if one["table"] == table and one["state"] == "released"
    }
    others = sorted(
        name for name in paid - {asked.account} if not context.is_of_tour(name)
    )
    if not others:
        return []
    named = ", ".join(f"“{name}”" for name in others[:3]) + (
        f" and {len(others) - 3} more" if len(others) > 3 else ""
    )
    return [
        f"releases of {table} were paid from {named}: what its people are promised by several accounts adds up, so pay "
        "from the same account unless these are others"
    ]


def _known(context: Studio, found: JobStatus) -> dict[str, Any]:
    if found.done is None or found.state != "released":
        result = None
    else:
        result = found.done
    known = {name: value for name, value in vars(found).items() if name != "done"}
    order = context.jobs.request(found.key).get("request", {}).get("order", {})
    known |= {
        "about": context.jobs.about(found.key),
        "tour": context.is_of_tour(found.account),
    }
    if result is not None:
        result = {
            **result,
            "signs": context.settings.signing_key is not None,
            **_for_people(context, found, order),
        }
        result |= {"script": _again(context, found.key)} if "python" in result else {}
    if found.asked_at and not found.finished:
        elapsed = max(0.0, time.time() - found.asked_at)
    else:
        elapsed = 0.0
    return {
        **known,
        "result": result,
        "title": title_of(order, found.table),
        "elapsed": elapsed,
    }


def _for_people(
    context: Studio, found: JobStatus, order: dict[str, Any]
) -> dict[str, Any]:
    """What the page of a release says beside what was stored with it: a paragraph, and its numbers as a table."""
    done = found.done or {}
    picture = done.get("picture")
    title = context.jobs.about(found.key)["title"] or title_of(order, found.table)
    stem, _, ending = done["file"].rpartition(".")
    return {
        "paragraph": paragraph(title, moment(found.asked_at), done["certificate"]),
        "picture": picture and {"holds": "", **picture},
        "table": number_table(picture) if picture else None,
        "stem": stem if ending in ("csv", "parquet") else "",
    }


def _handed(context: Studio, key: str) -> dict[str, str]:
    """What stands at the head of the page that is handed on."""
    found = context.jobs.status(key)
    order = context.jobs.request(key).get("request", {}).get("order", {})
    said = context.jobs.about(key)
    told = {
        "title": said["title"] or title_of(order, found.table),
        "released_on": moment(found.asked_at),
    }
    return {**said, **told, "table": found.table}


def _again(context: Studio, key: str) -> dict[str, Any]:
    """The script and the command that make such a release again; no command where there is none."""
    asked = context.jobs.request(key)
    done = context.jobs.status(key).done or {}
    about = {
        **asked["request"],
        "table": asked["table_name"],
        "out": done["file"],
        "line": done["python"],
    }
    about |= {
        "columns": done.get("columns"),
        "named": done.get("named") or {},
        "shell": done.get("shell", ("", about["table"])),
    }
    about["ledger"] = FilePath(asked["ledger"]).name
    # Not all of them: that would take seconds to load.
    about["mechanisms"] = sorted(
        {*dir(mechanisms)} & {*re.findall(r"\w+", about["line"])}
    )
    rendered = [
        environment().get_template(name).render(about).strip()
        for name in ("again.py.txt", "again.txt")
    ]
    return dict(zip(("python", "command"), rendered))


def _answer(
    request: Request, context: Studio, found: JobStatus, code: int = 200
) -> Response:
    return answered(request, "piece_release.html", _known(context, found), code)
