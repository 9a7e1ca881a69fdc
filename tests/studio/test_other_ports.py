"""Cookies ignore ports: what another server on this machine is sent by the same browser opens nothing here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import requests

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

# What a page of the other server tries in the browser of somebody whose studio is open in another tab.
ATTACK = """async (targets) => {
    const told = [];
    for (const target of targets) {
        for (const credentials of ['include', 'same-origin']) {
            const sent = {credentials, headers: {'Content-Type': 'text/plain'}};
            const body = JSON.stringify({name: 'opened by another port', epsilon: 5, delta: 1e-5});
            told.push(await fetch(target + '/api/tables', {credentials}).then((one) => one.text()).catch(() => ''));
            await fetch(target + '/api/accounts', {...sent, method: 'POST', body, mode: 'no-cors'}).catch(() => '');
        }
    }
    return told.join(' ') + document.cookie;
}"""


@contextmanager
def other_server() -> Iterator[tuple[int, list[dict[str, str]]]]:
    """A server of somebody else on this machine, and the headers that it was sent."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(dict(self.headers.items()))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title><p>another server</p>")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def test_nothing_that_another_port_receives_opens_the_studio(visit: Callable[..., Visit], studio: Running) -> None:
    page = visit("/").page  # the session is there
    before = studio.ledger.accounts()
    port = studio.address.rsplit(":", 1)[1]
    targets = [f"http://{name}:{port}" for name in ("127.0.0.1", "localhost")]
    with other_server() as (elsewhere, received):
        other = page.context.new_page()
        for name in ("127.0.0.1", "localhost", "studio.localhost"):
            other.goto(f"http://{name}:{elsewhere}/")
            assert "folder-0" not in other.evaluate(ATTACK, targets)
        # A link from a page of ours to the other server tells it neither the session nor where our pages are.
        other.goto(studio.pages + "/accounts")
        other.evaluate("to => location.assign(to)", f"http://127.0.0.1:{elsewhere}/")
        other.wait_for_selector("text=another server")
        other.close()
        session = next(one["value"] for one in page.context.cookies() if one["name"].endswith(port))
        told = repr(received)
        assert len(received) >= 4
        assert session not in told
        assert studio.pages.removeprefix("http://").partition(":")[0] not in told
        # Whatever it was sent, replayed by a program at every name that it knows, opens nothing.
        for headers in received:
            for host in ("127.0.0.1", "localhost"):
                sent = {"Cookie": headers.get("Cookie", ""), "Host": f"{host}:{port}"}
                answer = requests.get(studio.address + "/api/tables", headers=sent, timeout=60)
                assert answer.status_code == 401
    # And the session itself is worth nothing but at the host of pages.
    jar = {f"gaussveil_{port}": session}
    assert requests.get(studio.address + "/api/tables", cookies=jar, timeout=60).status_code == 401
    assert studio.ledger.accounts() == before
