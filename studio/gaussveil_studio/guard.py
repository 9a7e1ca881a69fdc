"""The door of the studio: every request passes here before any of our code sees it.

Host, session, origin and forgery checks, limits on what is sent, headers that forbid the browser everything we do not
need, and a log without queries, bodies or values.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaussveil_studio.access import Access, guesser, retry_after, spoken_wait
from gaussveil_studio.answers import environment
from gaussveil_studio.settings import Settings

LOGGER = logging.getLogger("gaussveil_studio")
BODY_LIMIT = 1 << 20
LARGE = {
    "/api/tables": None,
    "/api/certificate": 64 << 20,
}  # a certificate as large as the command line reads
OPEN_TO_ALL = ("/static/", "/login")
SAFE = ("GET", "HEAD", "OPTIONS")
BODY_PAUSE = 30.0  # seconds between two pieces of a body
BODY_SECONDS = 900.0  # for all of it
LONGEST_FORM = 1 << 16  # boundaries and names around an uploaded file

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class UnexpectedError(Exception):
    """Goes on to the server in place of an unexpected error, whose words may hold values of the data."""


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access) -> None:
        self.app = app
        self.settings = settings
        self.access = access
        self.known_hosts = TrustedHostMiddleware(
            self._admit, settings.hosts, www_redirect=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {
                    **message,
                    "headers": [*message["headers"], *_headers(scope["path"])],
                }
            await send(message)

        try:
            await self.known_hosts(scope, receive, answer)
        except Exception as error:
            if status == 0:
                await _reply(
                    answer,
                    Headers(scope=scope),
                    500,
                    "the studio made a mistake; see Accounts for what is spent",
                    {},
                )
            raise UnexpectedError(f"{type(error).__name__} at the door") from None
        finally:
            took = round(1e3 * (time.perf_counter() - started), 1)
            path = quote(scope["path"][:200])
            facts = {
                "method": scope["method"],
                "path": path,
                "status": status,
                "milliseconds": took,
            }
            LOGGER.info("request", extra={"facts": facts})

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _reply(send, headers, *refused)
        else:
            await self.app(scope, _limited(receive, self._limit(scope["path"])), send)

    def _limit(self, path: str) -> int:
        if path in LARGE:
            most = LARGE[path] or self.settings.upload_limit
        else:
            most = BODY_LIMIT
        if path in LARGE:
            return most + LONGEST_FORM
        return most

    def _refusal(
        self, scope: Scope, headers: Mapping[str, str]
    ) -> tuple[int, str, dict[str, str]] | None:
        path = scope["path"]
        method = scope["method"]
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._limit(path):
            return 413, "the request is too large", {}
        by_cookie = self.access.knows(
            headers.get("cookie", ""), headers.get("host", "")
        )
        if not by_cookie and not path.startswith(OPEN_TO_ALL):
            who = guesser(scope)
            if (left := self.access.wait(who)) > 0:
                return (
                    429,
                    f"the password was tried too often from here: wait {spoken_wait(left)}",
                    retry_after(left),
                )
            if not self.access.bears(headers.get("authorization", ""), who):
                return self._stranger(scope, headers)
        if method in SAFE:
            return None
        if (
            path == "/login"
            and self.access.asks_for_password
            and not self.access.has_pages(headers.get("host", ""))
        ):
            return (
                403,
                "pages have an address of their own: open the link that the studio printed",
                {},
            )
        if not self.access.is_ours(headers, by_cookie):
            return 403, "the request does not come from this server's own pages", {}
        if (
            by_cookie
            and path != "/login"
            and not self.access.is_csrf(headers.get("x-csrf-token", ""))
        ):
            return (
                403,
                "the token against forged requests is missing or wrong: reload the page",
                {},
            )
        return None

    def _stranger(
        self, scope: Scope, headers: Mapping[str, str]
    ) -> tuple[int, str, dict[str, str]]:
        path = scope["path"]
        query = parse_qs(
            scope["query_string"].decode("latin-1"), keep_blank_values=True
        )
        tokens = query.pop("token", [])
        at_home = self.access.has_pages(headers.get("host", ""))
        if (
            not self.access.asks_for_password
            and scope["method"] == "GET"
            and tokens
            and self.access.opens(tokens[0])
        ):
            if not at_home:  # whoever has the token may know where the pages are
                query["token"] = tokens
            rest = urlencode(query, doseq=True)
            # Two slashes at the beginning would lead to another server.
            target = "/" + quote(path.lstrip("/")) + (f"?{rest}" if rest else "")
            if not at_home:
                return 303, "", {"location": self.access.pages + target}
            return 303, "", {"location": target, "set-cookie": self.access.cookie}
        may_log_in = at_home and self.access.asks_for_password
        if (
            may_log_in
            and "text/html" in headers.get("accept", "")
            and scope["method"] == "GET"
        ):
            return 303, "", {"location": "/login"}
        if self.access.asks_for_password:
            word = "password"
        else:
            word = "token: open the link that the studio printed"
        return 401, f"needs the {word}", {"www-authenticate": "Bearer"}


def _headers(path: str) -> list[tuple[bytes, bytes]]:
    # Our files change with the version only, and vendored ones have it in their names.
    if path.startswith("/static/"):
        kept = "private, max-age=3600"
    else:
        kept = "no-store"
    return [
        (name.encode(), value.encode())
        for name, value in {**HEADERS, "cache-control": kept}.items()
    ]


def _limited(receive: Receive, limit: int) -> Receive:
    """Count what really arrives, a length may be left out or be a lie, and wait for it so long and no longer."""
    left = limit
    until = time.monotonic() + BODY_SECONDS
    complete = False

    async def counted() -> Message:
        nonlocal left, complete
        if complete:  # what is waited for now is the end of the connection
            return await receive()
        try:
            message = await asyncio.wait_for(
                receive(), min(BODY_PAUSE, max(0.0, until - time.monotonic()))
            )
        except TimeoutError:
            raise HTTPException(
                408, "the rest of the request did not come in time"
            ) from None
        complete = message["type"] != "http.request" or not message.get(
            "more_body", False
        )
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, "the request is too large")
        return message

    return counted


async def _reply(
    send: Send, asked: Mapping[str, str], status: int, words: str, more: dict[str, str]
) -> None:
    known = {"code": f"HTTP{status}", "message": words}
    if words:
        body = json.dumps({"error": known}).encode()
    else:
        body = b""
    kind = "application/json"
    if words and "text/html" in asked.get("accept", ""):
        if asked.get("hx-request") == "true":
            name = "piece_problem.html"
        else:
            name = "door.html"
        body = environment().get_template(name).render(**known).encode()
        kind = "text/html; charset=utf-8"
    described = {"content-type": kind, "content-length": str(len(body)), **more}
    listed = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in described.items()
    ]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
