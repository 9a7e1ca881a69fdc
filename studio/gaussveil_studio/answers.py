"""How the studio answers: JSON to programs, pieces of pages to HTMX, pages to people; and every error in one form.

An error says its code, the rule and what to do. It never repeats what was sent, since that may be private.
"""

from __future__ import annotations

import logging
import shlex
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gaussveil import errors
from gaussveil.files import json_values
from gaussveil_studio.offers.kinds import EVERY, KINDS
from gaussveil_studio.offers.rounding import rounded_down, rounded_up, shown_cell
from gaussveil_studio.spoken import FormRefusal, is_plain, plain, rule

LOGGER = logging.getLogger("gaussveil_studio")
TITLES = {  # of what is sent beside orders
    "name": "Name",
    "people": "The people it protects",
    "epsilon": "Epsilon",
    "delta": "Delta",
    "dataset": "Data it protects",
    "unit": "Who is protected",
    "adjacency": "Neighbours",
    "filter": "Releases that share it",
    "account": "Account that pays",
    "table": "Table",
    "count": "Releases",
    "times": "Repetitions",
    "file": "File",
    "password": "Password",
    "rows": "Rows",
    "variance": "Noise variance",
    "q": "Search",
    "p": "Page",
}

_STATUS: tuple[tuple[type[errors.GaussveilError], int], ...] = (
    (errors.AccountNotFoundError, 404),
    (errors.LedgerUnavailableError, 503),
    (errors.LedgerError, 409),
    (errors.PrivacyError, 409),
    (errors.InputError, 422),
    (errors.SourceError, 422),
    (errors.NumericalError, 422),
)


class ProblemDetail(BaseModel):
    """What went wrong."""

    field: str = Field(
        default="",
        description="The field that it is about, as it is sent: order.epsilon.",
    )
    code: str = Field(
        description="Stable code: GV..., as in docs/exit-codes.md, or HTTP..."
    )
    message: str = Field(
        description="The rule and what to do; never a value of the data."
    )


class Problem(BaseModel):
    """Every error's form."""

    error: ProblemDetail


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in (
        (400, "Not our name"),
        (401, "No token, or a wrong one"),
        (403, "Not from our own pages, or without the token against forged requests"),
        (404, "There is no such thing"),
        (409, "The ledger or a promise does not allow it; nothing was spent"),
        (413, "Too large"),
        (422, "The request breaks a rule"),
        (503, "The ledger cannot be read or written now"),
    )
}
A_FILE: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    200: {
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"}
            }
        }
    },
}


@cache
def environment() -> Environment:
    """The templates of the pages; everything in them is escaped."""
    # As the reports make theirs, whose module would load what draws figures: the server needs none of it.
    made = Environment(
        loader=PackageLoader("gaussveil_studio"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "short": short,
        "up": rounded_up,
        "down": rounded_down,
        "sentence": sentence,
        "moment": moment,
        "lasting": lasting,
        "shown_cell": shown_cell,
    }
    made.filters |= {"python": repr, "shell": lambda text: shlex.quote(str(text))}
    return made


def short(value: object) -> str:
    """A number for people: six digits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        if value is None:
            return "unbounded"
        return str(value)
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")


def moment(seconds: float) -> str:
    """When something was asked for."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def lasting(seconds: float) -> str:
    """About how long, as people say it."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} seconds"
    return f"{round(seconds / 60)} minutes"


def sentence(text: str) -> str:
    """A message as a sentence begins: names and numbers in it stay as they are."""
    return text[:1].upper() + text[1:]


def html(name: str, status: int = 200, **known: object) -> HTMLResponse:
    """A page or a piece of one."""
    return HTMLResponse(environment().get_template(name).render(**known), status)


def wants_piece(request: Request) -> bool:
    """Whether HTMX asks, which puts a piece of HTML into the page."""
    return request.headers.get("hx-request") == "true"


def answered(
    request: Request, template: str, value: Mapping[str, Any], status: int = 200
) -> Response:
    """The same answer to everybody: a piece of HTML for HTMX, else JSON."""
    if wants_piece(request):
        return html(template, status, **value)
    return JSONResponse(json_values(value, not_finite_as_null=True), status)


def status_of(error: type[errors.GaussveilError]) -> int:
    """The HTTP status that stands for a kind of error."""
    return next((status for kind, status in _STATUS if issubclass(error, kind)), 422)


def problem(
    request: Request, status: int, code: str, message: str, field: str = ""
) -> Response:
    """An error in the form that the asker can show; pages have sentences and fields, programs the code as well."""
    if not is_plain(message):
        message = plain(message)
    if wants_piece(request):
        return html("piece_problem.html", status, message=message, field=field)
    if "text/html" in request.headers.get(
        "accept", ""
    ) and not request.url.path.startswith("/api/"):
        known = {
            "message": message,
            "here": request.url.path,
            "version": request.app.version,
        }
        studio = request.app.state.studio
        known |= {
            "csrf": studio.access.csrf,
            "diagnostics": studio.settings.diagnostics,
        }
        return html("problem.html", status, **known)
    return JSONResponse(
        {"error": {"code": code, "message": message, "field": field}}, status
    )


async def on_our_error(request: Request, error: Exception) -> Response:
    """One of our own errors: its message holds no value of the data."""
    assert isinstance(error, errors.GaussveilError)
    if isinstance(error, FormRefusal):
        return problem(
            request, status_of(error.kind), error.code, str(error), error.field
        )
    return problem(request, status_of(type(error)), error.code, str(error))


async def on_http_error(request: Request, error: Exception) -> Response:
    """An unknown page, a wrong method, a request that is too large."""
    assert isinstance(error, HTTPException)
    words = {404: "there is no such page", 405: "this cannot be asked in that way"}
    words[400] = "what was sent cannot be read"
    said = words.get(error.status_code, str(error.detail))
    reply = problem(request, error.status_code, f"HTTP{error.status_code}", said)
    reply.headers.update(error.headers or {})
    return reply


async def on_bad_request(request: Request, error: Exception) -> Response:
    """A request that does not fit the documented form; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    broken = {found["loc"][0] for found in error.errors()[:5]}
    if "path" in broken and not request.url.path.startswith("/api/"):
        return problem(request, 404, "HTTP404", "there is no such page")
    told = dict(_rule(found) for found in error.errors()[:5])
    return problem(request, 422, "GV100", "; ".join(told.values()), next(iter(told)))


def _rule(found: Mapping[str, Any]) -> tuple[str, str]:
    """The field and the rule that it breaks; names of unknown fields and of unknown kinds were sent, so they go."""
    kind = found["type"]
    place = [str(part) for part in found["loc"][1:]]
    if kind == "json_invalid":
        return "", "what was sent is not valid JSON"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return "", "the kind of release is not known"
    if kind == "extra_forbidden":
        return "", "something was sent that is not known here"
    if place[0:1] == ["order"] and place[1:2] and place[1] in KINDS:
        asked = KINDS[place[1]]["fields"] | EVERY
    else:
        asked = {}
    if asked and len(place) > 2:
        name = place[2]
    elif place:
        name = place[-1]
    else:
        name = ""
    if name in asked:
        title = asked[name]["title"]
    else:
        title = TITLES.get(name, "")
    if name in asked:
        field = f"order.{name}"
    elif place:
        field = place[0]
    else:
        field = ""
    return field, rule(kind, found.get("ctx", {}), title)


async def on_surprise(request: Request, error: Exception) -> Response:
    """A mistake of ours: the log gets its kind and place, nobody gets its words, which may hold values."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    LOGGER.error(
        "unexpected %s at %s:%s", type(error).__name__, last.filename, last.lineno
    )
    return problem(
        request,
        500,
        "GV000",
        "the studio made a mistake; nothing is known to be spent: see Accounts",
    )
