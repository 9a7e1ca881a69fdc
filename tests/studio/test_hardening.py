"""What a stranger tried on the studio: guessing for days, errors with values in them, odd names, a stop in between."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from gaussveil.studio.access import LONGEST_WAIT, Access
from gaussveil.studio.guard import Guard
from gaussveil.studio.settings import Settings

if TYPE_CHECKING:
    from tests.studio.conftest import Running  # type: ignore[import-not-found]

pytestmark = pytest.mark.xdist_group("browser")


def settings_in(folder: Path, **more: Any) -> Settings:
    return Settings(port=1, ledger=folder / "home.ledger", state=folder / "state", **more)


def test_guessing_is_slowed_however_long_it_lasts(tmp_path: Path) -> None:
    access = Access(settings_in(tmp_path, password="correct horse battery"))
    for _ in range(1100):  # two to this power is no float
        access.note(False)
    assert LONGEST_WAIT - 5 < access.wait() <= LONGEST_WAIT


def test_nobody_is_locked_out_where_there_is_no_password(studio: Running) -> None:
    for _ in range(8):
        tried = requests.post(studio.address + "/login", data={"password": "guess"}, timeout=60, allow_redirects=False)
        assert tried.status_code == 303
        assert "set-cookie" not in tried.headers
    assert studio.client.get("/api/about").status_code == 200


def test_an_unexpected_error_keeps_its_words_from_the_server_and_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ValueError("cell 77777.125 of the table")

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    settings = settings_in(tmp_path)
    access = Access(settings)
    headers = [(b"host", b"127.0.0.1:1"), (b"authorization", f"Bearer {settings.token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/explore", "query_string": b"", "headers": headers}
    with caplog.at_level(logging.INFO):
        asyncio.run(Guard(broken, settings, access)(scope, receive, send))  # what is raised here, the server prints
    assert sent[0]["status"] == 500
    assert "77777" not in repr(sent) + caplog.text
