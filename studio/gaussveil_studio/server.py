"""Runs the application: one process, one event loop, our own log."""

from __future__ import annotations

import socket

import uvicorn

from gaussveil.logs import log_to_stderr
from gaussveil_studio.application import make_application
from gaussveil_studio.connections import BoundedProtocol
from gaussveil_studio.settings import Settings


def serve(settings: Settings, listener: socket.socket) -> None:
    """Serve on an open socket until the process is told to stop."""
    log_to_stderr()
    config = uvicorn.Config(
        make_application(settings),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=1 << 16,
        ws="none",
        http=BoundedProtocol,
        # Whoever can name another sender in a header would have as many guesses of the password as addresses.
        proxy_headers=settings.proxy is not None,
        forwarded_allow_ips=settings.proxy,
        ssl_certfile=None
        if settings.tls_certificate is None
        else str(settings.tls_certificate),
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
    )
    uvicorn.Server(config).run(sockets=[listener])
