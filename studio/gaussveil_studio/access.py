"""Who may talk to the studio: the bearer of the token in the link, or of the password.

One person, one session: the cookie and the token against forged requests (CSRF) are derived from a secret that is drawn
when the server starts and forgotten when it stops.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv6Address, ip_address
from typing import Any

from gaussveil_studio.settings import Settings

FREE_ATTEMPTS = 5
LONGEST_WAIT = 60.0
MOST_GUESSERS = 4096  # that are remembered


class Access:
    """Checks tokens, passwords, cookies and origins, always in constant time."""

    def __init__(self, settings: Settings) -> None:
        self._secret = secrets.token_bytes(32)
        if settings.password is not None:
            self._word = settings.password
        else:
            self._word = settings.token
        self._guesses: dict[
            str, tuple[int, float]
        ] = {}  # by address: failures, and until when to wait
        self.asks_for_password = settings.password is not None
        self.cookie_name = f"gaussveil_{settings.port}"
        self.secure = settings.scheme == "https"
        self.pages = settings.pages
        self._page_hosts = frozenset(settings.page_hosts)
        self._page_origins = frozenset(settings.origins(settings.page_hosts))
        self._origins = frozenset(settings.origins(settings.hosts))
        self.session = self._derived("session")
        self.csrf = self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self._secret, purpose.encode(), hashlib.sha256).hexdigest()

    def opens(self, word: str) -> bool:
        """Whether this is the token or the password."""
        return hmac.compare_digest(word.encode(), self._word.encode())

    def has_pages(self, host: str) -> bool:
        """Whether a Host header names a host of pages; a session is given and taken there alone."""
        return host.rpartition(":")[0] in self._page_hosts or host in self._page_hosts

    def knows(self, cookies: str, host: str) -> bool:
        """Whether a Cookie header holds the session, at a host of pages."""
        if not self.has_pages(host):
            return False
        try:
            found = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            found.value.encode(), self.session.encode()
        )

    def bears(self, authorization: str, who: str = "") -> bool:
        """Whether an Authorization header holds the token or the password; a wrong password is an attempt."""
        kind, _, word = authorization.partition(" ")
        if kind.lower() != "bearer":
            return False
        right = self.opens(word.strip())
        if self.asks_for_password:
            self.note(right, who)
        return right

    def is_ours(self, headers: Mapping[str, str], by_cookie: bool) -> bool:
        """Whether a request that changes something comes from our own pages.

        A browser says where a request comes from; programs that send the token themselves need not. With a session it
        must be a page of ours, at the host of pages.
        """
        origin = headers.get("origin")
        if origin is not None:
            return origin in (self._page_origins if by_cookie else self._origins)
        return not by_cookie or headers.get("sec-fetch-site") == "same-origin"

    def is_csrf(self, token: str) -> bool:
        """Whether the token against forged requests is right."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())

    @property
    def cookie(self) -> str:
        """The Set-Cookie header of a session."""
        return f"{self.cookie_name}={self.session}; Path=/; HttpOnly; SameSite=Lax" + (
            "; Secure" * self.secure
        )

    def wait(self, who: str = "") -> float:
        """Seconds until the next password from an address may be tried."""
        return max(0.0, self._guesses.get(who, (0, 0.0))[1] - time.monotonic())

    def note(self, success: bool, who: str = "") -> None:
        """Remember an attempt: after a few failures from one address each one doubles its wait, and nobody else's."""
        failures = self._guesses.pop(who, (0, 0.0))[0] + 1
        if success:
            return
        excess = failures - FREE_ATTEMPTS
        until = 0.0
        if excess >= 0:
            # The exponent is bounded too: an overflow after a thousand guesses would let all further ones through.
            until = time.monotonic() + min(2.0 ** min(excess, 30), LONGEST_WAIT)
        self._guesses[who] = failures, until
        if len(self._guesses) > MOST_GUESSERS:
            del self._guesses[next(iter(self._guesses))]


def guesser(scope: Mapping[str, Any]) -> str:
    """Whom a guess is held against: an address, of IPv6 the network, since one machine has all of it."""
    host = str((scope.get("client") or ("",))[0]).partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and not address.ipv4_mapped:
        return address.exploded[:19]
    return host


def spoken_wait(seconds: float) -> str:
    """How long to wait, in words."""
    whole = math.ceil(seconds)
    if whole == 1:
        return "one second"
    return f"{whole} seconds"


def retry_after(seconds: float) -> dict[str, str]:
    """How long to wait, for programs."""
    return {"retry-after": str(math.ceil(seconds))}
