"""Who may talk to the studio: the bearer of the token in the link, or of the password.

One person, one session: the cookie and the token against forged requests (CSRF) are derived from a secret that is drawn
when the server starts and forgotten when it stops.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from gaussveil.studio.settings import Settings

FREE_ATTEMPTS = 5
LONGEST_WAIT = 60.0


class Access:
    """Checks tokens, passwords, cookies and origins, always in constant time."""

    def __init__(self, settings: Settings) -> None:
        self._secret = secrets.token_bytes(32)
        self._word = settings.password if settings.password is not None else settings.token
        self._failures = 0
        self._locked_until = 0.0
        self.asks_for_password = settings.password is not None
        self.cookie_name = f"gaussveil_{settings.port}"
        self.secure = settings.scheme == "https"
        self.origins = frozenset(f"{settings.scheme}://{name}" for name in settings.names)
        self.session = self._derived("session")
        self.csrf = self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self._secret, purpose.encode(), hashlib.sha256).hexdigest()

    def opens(self, word: str) -> bool:
        """Whether this is the token or the password."""
        return hmac.compare_digest(word.encode(), self._word.encode())

    def knows(self, cookies: str) -> bool:
        """Whether a Cookie header holds the session."""
        try:
            found = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.session.encode())

    def bears(self, authorization: str) -> bool:
        """Whether an Authorization header holds the token or the password; a wrong password is an attempt."""
        kind, _, word = authorization.partition(" ")
        if kind.lower() != "bearer":
            return False
        right = self.opens(word.strip())
        if self.asks_for_password:
            self.note(right)
        return right

    def is_ours(self, headers: Mapping[str, str], by_cookie: bool) -> bool:
        """Whether a request that changes something comes from our own pages.

        A browser says where a request comes from; programs that send the token themselves need not.
        """
        origin = headers.get("origin")
        if origin is not None:
            return origin in self.origins
        return not by_cookie or headers.get("sec-fetch-site") == "same-origin"

    def is_csrf(self, token: str) -> bool:
        """Whether the token against forged requests is right."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())

    @property
    def cookie(self) -> str:
        """The Set-Cookie header of a session."""
        return f"{self.cookie_name}={self.session}; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" * self.secure)

    def wait(self) -> float:
        """Seconds until the next password may be tried."""
        return max(0.0, self._locked_until - time.monotonic())

    def note(self, success: bool) -> None:
        """Remember an attempt: after a few failures each one doubles the wait."""
        self._failures = 0 if success else self._failures + 1
        excess = self._failures - FREE_ATTEMPTS
        if excess >= 0:
            # The exponent is bounded too: an overflow after a thousand guesses would let all further ones through.
            self._locked_until = time.monotonic() + min(2.0 ** min(excess, 30), LONGEST_WAIT)
