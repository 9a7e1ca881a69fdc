"""A real studio: the installed command in a process of its own, on a free port, with a real ledger and real tables.

Tests of this room belong to the xdist groups "browser", where pages are visited, and "studio", where programs ask: one
studio serves each of them all, and one page shows all that is visited.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import requests  # which schemathesis brings

from gaussveil.accounting import Ledger
from gaussveil.accounting.certificates.keys import new_key

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request

PATIENCE = 120.0  # seconds; machines that run tests are busy
SECRET = 77777.125  # a number of the tables that no page, log or error may ever show


class Client:
    """A program that talks to the API."""

    def __init__(self, address: str, token: str | None) -> None:
        self.address = address
        self.session = requests.Session()
        if token is not None:
            self.session.headers["authorization"] = f"Bearer {token}"

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.session.get(self.address + path, timeout=PATIENCE, **more)

    def post(self, path: str, **more: Any) -> requests.Response:
        return self.session.post(self.address + path, timeout=PATIENCE, **more)


@dataclass
class Running:
    """A studio at work."""

    folder: Path
    address: str
    pages: str
    link: str
    token: str
    process: subprocess.Popen[str]
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = Client(self.address, self.token)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "home.ledger")

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8")

    def account(self, epsilon: float = 3.0) -> str:
        """A new account."""
        name = f"account {token_hex(4)}"
        self.ledger.open_account(name, epsilon=epsilon, delta=1e-5)
        return name

    def order(
        self, account: str, mechanism: str = "vector", table: str | None = "folder-0/small.csv", **more: Any
    ) -> dict[str, Any]:
        """A request for a release under a new key, previewed; a preview that is refused showed nothing."""
        asked = {"account": account, "table": table, "order": {"mechanism": mechanism, **more}}
        shown = self.client.post("/api/preview", json=asked).json().get("digest")
        return {"key": token_hex(16), **asked, "shown": shown or "0" * 64}

    def finished(self, key: str) -> dict[str, Any]:
        """Wait until a release has ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found: dict[str, Any] = self.client.get(f"/api/releases/{key}").json()
            if found["state"] != "running":
                return found
            time.sleep(0.1)
        raise AssertionError("the release did not end")

    def entries(self, account: str) -> list[tuple[str, str]]:
        """Ids and states of an account's entries."""
        return [(entry.id, entry.state) for entry in self.ledger.entries(account)]


@contextmanager
def started(folder: Path, *options: str) -> Iterator[Running]:
    """Run the command; stop it at the end."""
    program = str(Path(sys.executable).parent / "gaussveil")
    arguments = [program, "studio", "--ledger", "home.ledger", "--data", "tables", "--no-browser", "--json", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            arguments, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        running = Running(folder, said["address"], said["pages"], said["link"], said["token"], process)
        try:
            yield running
        finally:
            running.client.session.close()
            process.terminate()
            process.wait(PATIENCE)
            process.stdout.close()


def write_tables(folder: Path) -> None:
    """Small tables with a number that must never be seen outside a release's file."""
    tables = folder / "tables"
    tables.mkdir()
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(size=(12, 2)), 3)
    rows[3, 1] = SECRET
    np.savetxt(tables / "small.csv", rows, delimiter=",", header="a,b", comments="", fmt="%.3f")
    kinds = generator.integers(2, size=400)
    points = generator.normal(size=(400, 2)) * 0.3 + np.where(kinds, 1.0, -1.0)[:, None]
    lines = [f"{x:.4f},{y:.4f},{'ab'[kind]}" for (x, y), kind in zip(points, kinds)]
    (tables / "kinds.csv").write_text("\n".join(["x,y,kind", *lines]) + "\n", encoding="utf-8")
    (tables / "words.csv").write_text("a,b\n1,2\n3,hidden77\n", encoding="utf-8")
    (folder / "outside.csv").write_text("a\n1\n", encoding="utf-8")
    (tables / "link.csv").symlink_to(folder / "outside.csv")


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A studio with everything: diagnostics, a key to sign with, databases, an address, a browser to open."""
    folder = tmp_path_factory.mktemp("studio")
    write_tables(folder)
    Ledger.create(folder / "home.ledger")
    new_key(folder / "owner.key")
    (folder / "open sesame.csv").write_text("home,kw\n1,0.5\n2,0.1\n", encoding="utf-8")
    program = folder / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$@" > "{folder}/told.txt"\n', encoding="utf-8")
    program.chmod(0o700)
    named = ("meters.sqlite#readings", "meters.duckdb#readings", f"file://{folder}/open sesame.csv")
    options = ["--diagnostics", "--upload-limit", "2", "--signing-key", "owner.key", "--browser"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROWSER", f"{program} %s")
        with started(folder, *options, *(part for address in named for part in ("--data", address))) as running:
            yield running


@dataclass
class Visit:
    """A page, and everything that must not happen in it."""

    page: Page
    problems: list[str]
    outside: list[str]


@pytest.fixture(scope="session")
def visitor(browser: Browser, pytestconfig: pytest.Config) -> Iterator[Page]:
    """The page of all visits: to open another, with a process of its own, takes longer than most of them."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE * 1000)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    if (slower := pytestconfig.getoption("--slow-pages")) > 1:
        slow_down(page, slower)
    yield page
    context.close()


def slow_down(page: Page, rate: float) -> None:
    """A page on a poor machine behind a slow line: a test that looks before what it looks for has come fails."""
    chromium = page.context.new_cdp_session(page)
    chromium.send("Emulation.setCPUThrottlingRate", {"rate": rate})
    line = {"offline": False, "latency": 20 * rate, "downloadThroughput": -1, "uploadThroughput": -1}
    chromium.send("Network.emulateNetworkConditions", line)


@pytest.fixture
def visit(visitor: Page, studio: Running) -> Iterator[Callable[..., Visit]]:
    """Open a page of a studio; at the end nothing may have gone wrong and nothing may have left the machine."""
    made = Visit(visitor, [], [])
    ours: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        # Chromium reports every answer of 400 and above; those that a test provokes are no fault of the page.
        if message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text:
            made.problems.append(message.text)

    def fail(error: Error) -> None:
        made.problems.append(str(error))

    def ask(request: Request) -> None:
        if not request.url.startswith(tuple(ours)):
            made.outside.append(request.url)

    def come(
        path: str = "/explore", at: Running = studio, width: int = 1280, height: int = 720, scheme: Any = "light"
    ) -> Visit:
        ours.append(at.pages)
        visitor.set_viewport_size({"width": width, "height": height})
        visitor.emulate_media(color_scheme=scheme)
        port = at.address.rsplit(":", 1)[1]
        if not any(cookie["name"].endswith(port) for cookie in visitor.context.cookies()):
            visitor.goto(at.link)
        visitor.goto(at.pages + path)
        return made

    visitor.on("console", hear)
    visitor.on("pageerror", fail)
    visitor.on("request", ask)
    yield come
    visitor.evaluate("sessionStorage.clear()")
    visitor.remove_listener("console", hear)
    visitor.remove_listener("pageerror", fail)
    visitor.remove_listener("request", ask)
    assert made.problems == []
    assert made.outside == []


@pytest.fixture
def started_studio() -> Callable[..., Any]:
    """Run another studio, with options of its own."""
    return started
