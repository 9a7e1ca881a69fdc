"""Studio: first chart at most 1 s, slider to redraw at most 100 ms for d <= 12, the server at most 150 MB resident;
a preview within 3 s and a release within 6; fifty sliders at once, half of them answered within .3 s; the page of 300
accounts within .3 s.

Measured in Debian's Chromium against the real command, each as the median over visits or movements. The peer of a
movement is the same curve computed in this process, without server and browser: the ratio is what the pages add.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from gaussveil.accounting import Ledger
from gaussveil_studio.curves import PairState, curve

VISITS, MOVEMENTS, SLIDERS, ACCOUNTS, TOURS = 7, 40, 50, 300, 5
# The moment of the first drawing, on the page's own clock, which starts with the visit.
WATCH = """new MutationObserver(() => {
  if (!window.firstDrawn && document.querySelector('#curve[data-drawn]')) window.firstDrawn = performance.now();
}).observe(document, {subtree: true, childList: true, attributes: true, attributeFilter: ['data-drawn']});"""
MOVE = """async (position) => {
  const slider = document.querySelector('#shift'), chart = document.querySelector('#curve');
  const began = performance.now();
  const redrawn = new Promise((done) => {
    const watch = new MutationObserver(() => { watch.disconnect(); done(performance.now() - began); });
    watch.observe(chart, {attributes: true, attributeFilter: ['data-drawn']});
  });
  slider.value = position;
  slider.dispatchEvent(new Event('input'));
  return redrawn;
}"""


def run() -> list[dict[str, Any]]:
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: apt-get install chromium"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        with Ledger.create(Path(folder) / "gaussveil.ledger").held(Path(folder) / "gaussveil.ledger") as book:
            for number in range(ACCOUNTS):
                book.open_account(f"town {number}", epsilon=3.0, delta=1e-5)
        command = [str(Path(sys.executable).parent / "gaussveil"), "studio", "--no-browser", "--json"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert server.stdout is not None
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            said = json.loads(server.stdout.readline())
            link = said["link"]  # pages have a host of their own, which programs do not know
            program_link = said["address"], said["token"]
            rows = [_first_chart(browser, link)]
            rows += [_redraw(browser, link, dimension) for dimension in (3, 12)]
            rows += _tours(browser, link)
            rows.append(_at_once(*program_link))
            rows.append(_accounts(*program_link))
            rows.append(_resident(browser, link, server.pid))
        finally:
            browser.close()
            server.terminate()
            server.wait(30)
    return rows


def _open(browser: Browser, link: str) -> Page:
    page = browser.new_context().new_page()
    page.add_init_script(WATCH)
    page.goto(link.replace("/?token", "/explore?token"))
    page.wait_for_selector("#tradeoff[data-drawn]", timeout=60_000)
    return page


def _first_chart(browser: Browser, link: str) -> dict[str, Any]:
    times = []
    for _ in range(VISITS + 1):
        page = _open(browser, link)
        times.append(float(page.evaluate("window.firstDrawn")) / 1e3)
        page.context.close()
    ours = statistics.median(times[1:])  # the first visit also starts Chromium's own processes
    note = f"median of {VISITS} visits with an empty cache; the first, while the server starts, took {times[0]:.1f} s"
    return _row("first chart, s", ours, None, 1.0, note)


def _redraw(browser: Browser, link: str, dimension: int) -> dict[str, Any]:
    state = f"/explore?r={','.join(['1.2'] * dimension)}&m={','.join(['0.5'] * dimension)}&k=1&d=0.000001"
    page = _open(browser, link)
    page.goto(link.split("/?")[0] + state)
    page.wait_for_selector("#tradeoff[data-drawn]", timeout=60_000)
    times, alone = [], []
    for step in range(MOVEMENTS):
        shift = 0.5 + 0.02 * step
        times.append(float(page.evaluate(MOVE, str(shift))))
        page.wait_for_timeout(20)
        pair = PairState(variance_ratio=[1.2] * dimension, mean_shift=[shift] * dimension)
        began = time.perf_counter()
        curve(pair.loss(), 61)
        alone.append(1e3 * (time.perf_counter() - began))
    page.context.close()
    slow = sorted(times)[int(0.95 * len(times))]
    note = f"median of {MOVEMENTS} movements, 95 % within {slow:.0f} ms; peer: the curve alone, in one process"
    return _row(
        f"slider to redraw, d = {dimension}, ms", statistics.median(times), statistics.median(alone), 100.0, note
    )


def _tours(browser: Browser, link: str) -> list[dict[str, Any]]:
    """A form filled with a table of 9,600 rows: to its first preview, and from the button to the numbers."""
    previews, releases = [], []
    for _ in range(TOURS + 1):
        page = _open(browser, link)
        began = time.perf_counter()
        page.goto(link.split("/?")[0] + "/tour")
        page.wait_for_selector("#release-button:enabled", timeout=120_000)
        previews.append(time.perf_counter() - began)
        began = time.perf_counter()
        page.click("#release-button")
        page.wait_for_selector(".numbers td", timeout=120_000)
        releases.append(time.perf_counter() - began)
        page.context.close()
    note = f"median of {TOURS} tours: 24 means of 200 homes; the first, which loads the engine, took"
    return [
        _row("preview, s", statistics.median(previews[1:]), None, 3.0, f"{note} {previews[0]:.1f} s"),
        _row("release, s", statistics.median(releases[1:]), None, 6.0, f"{note} {releases[0]:.1f} s"),
    ]


def _at_once(address: str, token: str) -> dict[str, Any]:
    """Fifty curves asked for together, each over a connection of its own."""
    host = address.removeprefix("http://")
    pairs = [{"variance_ratio": [1.2 + 0.01 * k, 1.0, 1.0], "mean_shift": [0.5, 0.1, 0.1]} for k in range(SLIDERS)]

    async def ask(pair: dict[str, Any]) -> float:
        body, began = json.dumps(pair).encode(), time.perf_counter()
        reader, writer = await asyncio.open_connection(*host.split(":"))
        head = f"POST /api/curve HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n"
        kind = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + kind).encode() + body)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        return time.perf_counter() - began

    async def all_of_them() -> list[float]:
        return list(await asyncio.gather(*map(ask, pairs)))

    def together() -> list[float]:  # in a thread: the browser has a loop in this one
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, all_of_them()).result()

    together()
    times = together()
    began = time.perf_counter()
    for pair in pairs:
        curve(PairState(**pair).loss(), 61)
    alone = (time.perf_counter() - began) / 2
    note = f"all within {max(times):.2f} s; peer: half of the curves alone, one after the other, in one process"
    return _row(f"{SLIDERS} sliders at once, s to the median answer", statistics.median(times), alone, 0.3, note)


def _accounts(address: str, token: str) -> dict[str, Any]:
    """The page of accounts, the fullest first, warm."""
    import requests

    headers, times = {"authorization": f"Bearer {token}"}, []
    for visit in range(2 * VISITS + 1):
        began = time.perf_counter()
        page = requests.get(
            f"{address}/accounts?sort={'fullest' if visit % 2 else 'newest'}", headers=headers, timeout=60
        )
        times.append(time.perf_counter() - began)
        assert f"{ACCOUNTS} accounts" in page.text
    note = f"median of {2 * VISITS} visits, the slowest {max(times[1:]):.2f} s; the first, cold, took {times[0]:.1f} s"
    return _row(f"page of {ACCOUNTS} accounts, s", statistics.median(times[1:]), None, 0.3, note)


def _resident(browser: Browser, link: str, process: int) -> dict[str, Any]:
    page = _open(browser, link)
    for path in ("/release", "/accounts", "/verify", "/api"):
        page.goto(link.split("/?")[0] + path)
    known = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    now, most = (int(known[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    note = f"after every page; at most {most:.0f} MB; previews and releases run in processes of their own that end"
    return _row("server resident, MB", now, None, 150.0, note)


def _row(name: str, ours: float, peer: float | None, goal: float, note: str) -> dict[str, Any]:
    ratio = None if peer is None else ours / peer
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": ours <= goal, "note": note}
