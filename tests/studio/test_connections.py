"""Connections that say nothing, or are too many from one address, end; small answers leave at once."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from starlette.exceptions import HTTPException

from gaussveil_studio import guard
from gaussveil_studio.command import listening
from gaussveil_studio.connections import HEADER_SECONDS, MOST_FROM_ONE_ADDRESS

if TYPE_CHECKING:
    from .conftest import Running

pytestmark = pytest.mark.xdist_group("studio")


def connected(studio: Running) -> socket.socket:
    host, port = studio.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_silent_connections_and_endless_headers_end(studio: Running) -> None:
    silent, half = connected(studio), connected(studio)
    with silent, half:
        half.sendall(b"GET /explore HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        until = time.monotonic() + 60
        for _second in range(int(HEADER_SECONDS) + 30):
            assert time.monotonic() < until
            try:
                half.sendall(b"a")  # a byte now and then prolongs nothing
            except OSError:
                break
            time.sleep(1)
        else:
            raise AssertionError("the connection stayed open")
        assert silent.recv(1) == b""


def test_one_address_has_so_many_connections(studio: Running) -> None:
    opened = [connected(studio) for _ in range(MOST_FROM_ONE_ADDRESS + 8)]
    try:
        refused = 0
        for connection in opened[-8:]:
            refused += connection.recv(1) == b""
        assert refused == 8
    finally:
        for connection in opened:
            connection.close()
    assert studio.client.get("/api/tables").status_code == 200


def test_a_body_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_PAUSE", 0.05)

    async def never() -> Any:
        await asyncio.Event().wait()

    async def wait_for_body() -> None:
        with pytest.raises(HTTPException) as refused:
            await guard._limited(never, 100)()
        assert refused.value.status_code == 408

    with ThreadPoolExecutor(1) as apart:  # the browser's fixture keeps a loop running in this thread
        apart.submit(asyncio.run, wait_for_body()).result(timeout=60)


def test_small_answers_leave_at_once() -> None:
    with listening(socket.AF_INET, "127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # by which asyncio knows that it may set the option, too
        with socket.create_connection(listener.getsockname(), timeout=60), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_table_of_very_many_columns_is_refused_and_leaves_no_trace(studio: Running) -> None:
    header = ",".join(f"c{number}" for number in range(20_000))
    before = {table["id"] for table in studio.client.get("/api/tables").json()["tables"]}
    answer = studio.client.post("/api/tables", files={"file": ("wide.csv", f"{header}\n".encode())})
    assert answer.status_code in (400, 422)
    assert "more than 5000 columns" in answer.text
    assert {table["id"] for table in studio.client.get("/api/tables").json()["tables"]} == before
