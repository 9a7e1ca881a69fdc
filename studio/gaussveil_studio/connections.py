"""Connections that say nothing, or are too many from one address, end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from gaussveil_studio.access import guesser

HEADER_SECONDS = 15.0  # from the first to the last byte of a request's headers, and for the first byte at all
MOST_FROM_ONE_ADDRESS = 64  # a browser opens six


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with an end to waiting for headers. Bodies are waited for by the guard."""

    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; one too many of an address is closed before it is read."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._who = guesser({"client": self.client})
        self._waiting: asyncio.TimerHandle | None = None
        self._open[self._who] += 1
        if self._open[self._who] > MOST_FROM_ONE_ADDRESS:
            transport.close()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._headers_came()
        self._open[self._who] -= 1
        if self._open[self._who] <= 0:
            del self._open[self._who]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request that has begun has so long to say its headers, and uvicorn ends idle connections."""
        super().data_received(data)
        if self._at_work():
            self._headers_came()
        else:
            self._wait_for_headers()

    def _at_work(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_headers(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _headers_came(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._at_work() and not self.transport.is_closing():
            self.transport.close()
