"""What an operator watches: health and metrics over HTTP, and the same figures in the log. Never a value of a reading.

`/metrics` is Prometheus text, `/healthz` answers 200 or 503 with reasons. Figures are of the whole gateway: those of
a meter would tell when it sends.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gaussveil.errors import SourceError
from gaussveil.streaming.broker import BrokerGateway
from gaussveil.streaming.gateway import REASONS, MessageGateway

LOGGER = logging.getLogger("gaussveil.gateway")
LEAST_DISK = 1 << 28  # a checkpoint and its log must fit

_FIGURES = {
    "accepted": (
        "readings_accepted_total",
        "counter",
        "Readings answered with fresh noise.",
    ),
    "substituted": (
        "readings_substituted_total",
        "counter",
        "Missing readings answered by the public substitute.",
    ),
    "repeated": (
        "readings_repeated_total",
        "counter",
        "Readings answered again, identically.",
    ),
    "late": (
        "readings_late_total",
        "counter",
        "Readings refused since their answer is no longer kept.",
    ),
    "unknown": (
        "messages_unknown_total",
        "counter",
        "Messages of meters that are not served.",
    ),
    "restarts": (
        "filter_restarts_total",
        "counter",
        "Filters started, at first or after a long gap.",
    ),
    "delivered": (
        "messages_delivered_total",
        "counter",
        "Messages whose answers were confirmed as delivered.",
    ),
    "unconfirmed": (
        "readings_unconfirmed",
        "gauge",
        "Readings committed whose delivery is not confirmed.",
    ),
    "readings_left": (
        "readings_left",
        "gauge",
        "Readings that certificates still cover, of the worst meter.",
    ),
    "meters": ("meters", "gauge", "Meters served."),
    "connected": ("broker_connected", "gauge", "Whether the broker is connected."),
    "connections": ("broker_connections_total", "counter", "Connections made."),
    "backlog": (
        "backlog_messages",
        "gauge",
        "Messages not answered, and answers not taken by the broker.",
    ),
    "disk_free_bytes": ("disk_free_bytes", "gauge", "Free space where the state lies."),
    "state_bytes": ("state_bytes", "gauge", "Size of the state's files."),
}


class Monitor:
    """Figures of a gateway and of the transport that serves it."""

    def __init__(
        self, gateway: MessageGateway, service: BrokerGateway | None = None
    ) -> None:
        self.gateway = gateway
        self.service = service
        self._folder = gateway.state.folder
        self._stopped = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    def figures(self) -> dict[str, int]:
        """All of them, by short name."""
        health = self.gateway.health()
        if self.service is not None:
            health["connected"] = int(self.service.connected)
            health["connections"], health["backlog"] = (
                self.service.connections,
                self.service.backlog,
            )
        health["disk_free_bytes"] = shutil.disk_usage(self._folder).free
        health["state_bytes"] = sum(
            path.stat().st_size for path in self._folder.glob("*-*")
        )
        return health

    def problems(self) -> list[str]:
        """Why the gateway cannot do its work now; empty if it can."""
        figures = self.figures()
        if figures.get("connected") == 0:
            problems = ["the broker is not connected"]
        else:
            problems = []
        if figures["disk_free_bytes"] < LEAST_DISK:
            problems.append("the disk is nearly full")
        if figures["readings_left"] <= 0:
            problems.append("a certificate covers no more readings")
        if self.gateway.broken:
            problems.append("the log could not be written")
        return problems

    def prometheus(self) -> str:
        """The figures as Prometheus reads them."""
        figures = self.figures()
        lines = []
        for short, (name, kind, what) in _FIGURES.items():
            if short in figures:
                lines += [
                    f"# HELP gaussveil_{name} {what}",
                    f"# TYPE gaussveil_{name} {kind}",
                ]
                lines.append(f"gaussveil_{name} {figures[short]}")
        lines += [
            "# HELP gaussveil_messages_malformed_total Messages refused.",
            "# TYPE gaussveil_messages_malformed_total counter",
        ]
        for reason in REASONS:
            lines.append(
                f'gaussveil_messages_malformed_total{{reason="{reason}"}} {figures[f"malformed_{reason}"]}'
            )
        return "\n".join(lines) + "\n"

    def serve(self, host: str, port: int) -> int:
        """Answer /metrics and /healthz from a thread of its own; the port."""
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as error:
            raise SourceError(
                f"{host}:{port} cannot be listened on: {error.strerror}"
            ) from None
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, name="gaussveil metrics", daemon=True
        ).start()
        return int(self._server.server_address[1])

    def log_every(self, seconds: float) -> None:
        """Log the figures at intervals."""

        def repeat() -> None:
            while not self._stopped.wait(seconds):
                LOGGER.info("metrics", extra={"facts": self.figures()})

        threading.Thread(target=repeat, name="gaussveil log", daemon=True).start()

    def stop(self) -> None:
        """End both, with a last line."""
        self._stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        LOGGER.info("stopped", extra={"facts": self.figures()})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10
            server_version = "gaussveil"
            sys_version = ""

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._reply(200, "text/plain; version=0.0.4", monitor.prometheus())
                elif self.path == "/healthz":
                    problems = monitor.problems()
                    body = json.dumps(
                        {
                            "status": "failing" if problems else "ok",
                            "problems": problems,
                        }
                    )
                    self._reply(
                        503 if problems else 200, "application/json", body + "\n"
                    )
                else:
                    self._reply(404, "text/plain", "/metrics and /healthz\n")

            def _reply(self, status: int, kind: str, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: whoever asks may ask often."""

        return Handler
