"""Releases, and what goes wrong with them: the account is debited once, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.timeseries import simulate_households

from .conftest import write_tables

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("studio")

Come = Callable[..., "Visit"]
SECRET = "77777.125"


def test_a_lost_connection_debits_once(studio: Running) -> None:
    account = studio.account()
    order = studio.order(account)
    body = json.dumps(order).encode()
    host, port = studio.address.removeprefix("http://").split(":")
    head = (
        f"POST /api/releases HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {studio.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for cut in (len(body) - 5, len(body), len(body)):  # broken off while sending, then before the answer, twice
        with socket.create_connection((host, int(port)), timeout=30) as line:
            line.sendall(head.encode() + body[:cut])
        if cut < len(body):
            time.sleep(0.3)
            assert studio.client.get(f"/api/releases/{order['key']}").status_code == 422  # nothing was started
    assert studio.client.post("/api/releases", json=order).status_code == 202
    assert studio.finished(order["key"])["state"] == "released"
    assert studio.client.post("/api/releases", json=order).status_code == 202
    assert studio.entries(account) == [(order["key"], "released")]


def test_a_key_serves_one_request_only(studio: Running) -> None:
    account = studio.account()
    order = studio.order(account, "stream", None)
    assert studio.client.post("/api/releases", json=order).status_code == 202
    other = {**order, "order": {"mechanism": "stream", "epsilon": 2.0}}  # whatever digest it carries
    assert studio.client.post("/api/releases", json=other).status_code == 409
    assert studio.finished(order["key"])["state"] == "released"
    assert studio.entries(account) == [(order["key"], "released")]


def test_cancel_stops_before_the_debit_and_never_undoes_one(studio: Running) -> None:
    account = studio.account()
    order = studio.order(account)
    studio.client.post("/api/releases", json=order)
    stopped = studio.client.post(f"/api/releases/{order['key']}/cancel").json()
    assert stopped["state"] == "cancelled"
    assert "nothing was spent" in stopped["message"]
    assert studio.client.post("/api/releases", json=order).json()["state"] == "cancelled"  # not started again
    assert studio.entries(account) == []
    done = studio.order(account)
    studio.client.post("/api/releases", json=done)
    assert studio.finished(done["key"])["state"] == "released"
    assert studio.client.post(f"/api/releases/{done['key']}/cancel").json()["state"] == "released"
    assert studio.entries(account) == [(done["key"], "released")]


def test_a_killed_release_says_what_the_ledger_says(studio: Running) -> None:
    account = studio.account()
    order = studio.order(account)
    studio.client.post("/api/releases", json=order)
    progress = studio.folder / "home.ledger.studio" / "releases" / order["key"] / "progress.json"
    until = time.monotonic() + 60
    while not progress.exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(json.loads(progress.read_text())["pid"], signal.SIGKILL)
    found = studio.finished(order["key"])
    words = {"interrupted": "", "released": "released"}
    assert found["state"] in words
    assert ("nothing was spent" in found["message"]) == (studio.entries(account) == [])
    assert len(studio.entries(account)) <= 1
    assert studio.client.post("/api/releases", json=order).json()["state"] == found["state"]
    assert len(studio.entries(account)) <= 1


def test_every_mechanism_previews_from_public_numbers_and_releases(studio: Running, full: bool) -> None:
    homes = simulate_households(6, 15, step_minutes=60, seed=1)
    lines = [
        f"{home},{str(time).replace('T', ' ')}:00,{kw!r}"
        for home, row in zip(homes.households, homes.values.tolist())
        for time, kw in zip(homes.times.astype("datetime64[m]"), row)
    ]
    table = studio.folder / "tables" / "homes.csv"
    table.write_text("\n".join(["household,time,kw", *lines]) + "\n", encoding="utf-8")
    meter = "\n".join(["time,kw", *(line.split(",", 1)[1] for line in lines[: len(homes.times)])])
    (studio.folder / "tables" / "meter.csv").write_text(meter + "\n", encoding="utf-8")
    profiles = "name,night,day,evening\nflat,1,1,1\nzephyr,1,3,1\nlate,1,1,3\n"
    (studio.folder / "tables" / "profiles.csv").write_text(profiles, encoding="utf-8")
    kinds, asked = "folder-0/kinds.csv", {"clusters": 1, "horizon": "2h", "delta": 1e-5}
    all_of_them: list[tuple[str, str | None, dict[str, Any]]] = [
        ("vector", "folder-0/small.csv", {}),
        ("sketch", "folder-0/small.csv", {"row_norm": 2.0, "components": 8}),
        ("mixture", kinds, {"radius": 3.0, "label": "kind", "classes": "a,b", "nominal_size": 400}),
        ("regression", kinds, {"target": "y", "columns": "x", "low": -3, "high": 3}),
        ("logistic", kinds, {"target": "kind", "classes": "a,b"}),
        ("pca", kinds, {}),
        ("process", kinds, {"target": "y", "column": "x", "first": -1, "scatter": 20}),
        ("spectrum", "folder-0/meter.csv", {"column": "kw", "order": "time", "minutes": 60, "points": 12}),
        ("label", "folder-0/profiles.csv", {"label": "name", "secret": "zephyr"}),
        ("forecast", "folder-0/homes.csv", {"home": homes.households[2], **asked}),
        ("stream", None, {}),
        ("synthetic", kinds, {"label": "kind", "rows": 400}),
    ]
    from gaussveil_studio.offers.orders import ORDERS

    assert {"table", *(kind for kind, _, _ in all_of_them)} == set(ORDERS)
    orders: list[dict[str, Any]] = []
    for kind, table_id, more in all_of_them:
        asked = {"account": studio.account(), "table": table_id, "order": {"mechanism": kind, **more}}
        found = studio.client.post("/api/preview", json=asked)
        assert found.status_code == 200, found.text
        order = {"key": token_hex(16), **asked, "shown": found.json()["digest"]}
        orders.append(order)
        assert SECRET not in found.text
        # The noise of a forecast is designed from readings: the preview says so instead of telling its size.
        assert ("not shown yet" in found.text) == (order["order"]["mechanism"] == "forecast")
        assert studio.entries(order["account"]) == []
        known = found.json()
        assert known["budget"]["largest_epsilon"] > 0.5
        rehearsed = known["simulated"]
        assert [one["of"] for one in rehearsed["bands"]] == list(range(len(rehearsed["series"])))
        for one in rehearsed["bands"]:  # no impossible interval anywhere
            values = rehearsed["series"][one["of"]][1]
            assert len(values) == len(one["low"]) == len(rehearsed["x"])
            assert all(low <= high for low, high in zip(one["low"], one["high"]))
    # All of them are released at full size; in between the four whose results are looked at below, and the last.
    chosen = orders if full else orders[2:5] + orders[8:9] + orders[-1:]
    for place, order in enumerate(chosen):
        if place % 4 == 0:  # as many as run at once
            for one in chosen[place : place + 4]:
                assert studio.client.post("/api/releases", json=one).status_code == 202
            for one in chosen[place : place + 4]:
                studio.finished(one["key"])
        found = studio.finished(order["key"])
        assert found["state"] == "released", found["message"]
        assert studio.entries(order["account"]) == [(order["key"], "released")]
        body = studio.client.get(f"/api/releases/{order['key']}/files/{found['result']['file']}")
        assert body.status_code == 200
        assert body.headers["content-disposition"].startswith("attachment")
        text = studio.client.get(f"/api/releases/{order['key']}/files/certificate.json").text
        assert verify(Certificate.from_json(text)).private
        drawn = found["result"]["picture"]
        assert drawn is None or all(low <= high for one in drawn["bands"] for low, high in zip(one["low"], one["high"]))
    assert SECRET not in studio.log
    for order in chosen[:9]:
        compared = studio.client.post("/api/diagnostics/release", json={"key": order["key"]})
        if order["order"]["mechanism"] in ("sketch", "process"):
            assert compared.status_code == 422
            continue
        assert compared.json()["warning"] == "contains private data, do not share"
        assert len(compared.json()["pictures"]) >= 1
    sampled = studio.client.get(f"/api/releases/{orders[2]['key']}/files/sample.csv", params={"rows": 50})
    assert sampled.text.splitlines()[0] == '"x","y","kind"'
    assert len(sampled.text.splitlines()) == 51
    assert studio.entries(orders[2]["account"]) == [(orders[2]["key"], "released")]  # rows cost nothing
    assert studio.client.get(f"/api/releases/{orders[3]['key']}/files/sample.csv").status_code == 422


def test_releases_go_on_when_the_studio_stops_and_when_it_is_killed(tmp_path: Path, started_studio: Any) -> None:
    (tmp_path / "tables").mkdir()
    Ledger.create(tmp_path / "home.ledger")
    uploads = tmp_path / "home.ledger.studio" / "uploads"
    with started_studio(tmp_path) as first:
        account = first.account()
        table = first.client.post("/api/tables", files={"file": ("up.csv", b"a,b\n1,2\n3,4\n")}).json()["id"]
        order = first.order(account, "sketch", table)
        first.client.post("/api/releases", json=order)
        progress = tmp_path / "home.ledger.studio" / "releases" / order["key"] / "progress.json"
        worker = int(json.loads(progress.read_text(encoding="utf-8"))["pid"])
        assert "Umask:\t0077" in Path(f"/proc/{worker}/status").read_text(encoding="utf-8")
        os.kill(worker, signal.SIGSTOP)  # as long as it takes the server to stop
        try:
            first.process.terminate()
            first.process.wait(60)
            assert [path.stem for path in uploads.iterdir()] == [table]  # what it reads stays
        finally:
            os.kill(worker, signal.SIGCONT)
    with started_studio(tmp_path) as second:
        assert second.finished(order["key"])["state"] == "released"
        assert second.entries(account) == [(order["key"], "released")]
        assert second.client.post(f"/api/releases/{order['key']}/sign").status_code == 422  # no key was given
        upload = second.client.post("/api/tables", files={"file": ("mine.csv", b"a\n1\n2\n")}).json()
        order = second.order(second.account(), table=upload["id"])
        assert second.client.post("/api/releases", json=order).status_code == 202
        second.process.kill()
        second.process.wait(30)
    with started_studio(tmp_path) as third:
        # The release went on by itself. If the new server took its upload away before it was read, nothing was spent.
        found = third.finished(order["key"])
        assert found["state"] in ("released", "refused")
        spent = [(order["key"], "released")] if found["state"] == "released" else []
        again = third.client.post("/api/releases", json=order)
        assert (again.status_code, again.json()["state"]) == (202, found["state"])
        assert third.entries(order["account"]) == spent
        assert third.client.get("/api/columns", params={"table": upload["id"]}).status_code == 422


def test_kills_at_random_moments_debit_once_at_most_and_lose_nothing(
    tmp_path: Path, started_studio: Any, full: bool
) -> None:
    """kill -9 of the release's process, and every third time of the server too; then all of it is asked for again."""
    write_tables(tmp_path)
    Ledger.create(tmp_path / "home.ledger")
    moments = np.random.default_rng(7).uniform(0.0, 3.0, size=50 if full else 5)
    orders: list[dict[str, Any]] = []

    def look(running: Running) -> None:
        for order in orders:
            found = running.finished(order["key"])
            entries = running.entries(order["account"])
            assert len(entries) <= 1
            assert found["state"] in ("released", "interrupted")
            assert ("nothing was spent" in found["message"]) == (entries == [])
            again = running.client.post("/api/releases", json=order)
            assert (again.status_code, again.json()["state"]) == (202, found["state"])
            assert running.entries(order["account"]) == entries
            if found["state"] == "released":
                text = running.client.get(f"/api/releases/{order['key']}/files/certificate.json").text
                assert verify(Certificate.from_json(text)).private
        listed = {one["key"] for one in running.client.get("/api/releases").json()["releases"]}
        assert listed == {order["key"] for order in orders}
        running.ledger.check()

    remaining = list(enumerate(moments))
    while remaining:
        with started_studio(tmp_path) as running:
            while remaining:
                number, moment = remaining.pop(0)
                order = running.order(running.account())
                orders.append(order)
                assert running.client.post("/api/releases", json=order).status_code == 202
                time.sleep(moment)
                progress = tmp_path / "home.ledger.studio" / "releases" / order["key"] / "progress.json"
                identifier = json.loads(progress.read_text(encoding="utf-8"))["pid"]
                if number % 3 == 2:
                    running.process.kill()
                    running.process.wait(30)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(identifier, signal.SIGKILL)
                if number % 3 == 2:
                    break
            else:
                look(running)


def test_a_preview_has_the_noise_that_the_account_will_choose(studio: Running) -> None:
    """Two groups would have Laplace noise by themselves; an account of many releases takes Gaussian noise, which it
    adds up to less, and one of delta 0 the other."""
    order = {"unit": "b", "answer": "count", "by": "values", "by_column": "a", "by_values": "1,2"}
    lines = [f"{1 + row % 2},{row}" for row in range(300)]
    (studio.folder / "tables" / "two.csv").write_text("\n".join(["a,b", *lines]) + "\n", encoding="utf-8")
    account, pure = studio.account(), studio.account()
    studio.ledger.open_account(f"pure {pure}", epsilon=3.0, delta=0.0)
    for payer, law in ((account, "gaussian"), (account, "gaussian"), (f"pure {pure}", "laplace")):
        asked = studio.order(payer, "table", "folder-0/two.csv", **order)
        told = studio.client.post("/api/preview", json={name: asked[name] for name in ("account", "table", "order")})
        budget = told.json()["budget"]
        assert budget["allowed"] is True
        before = studio.ledger.statement(payer)
        studio.client.post("/api/releases", json=asked)
        found = studio.finished(asked["key"])
        assert found["state"] == "released", found["message"]
        after = studio.ledger.statement(payer)
        assert after.spent_epsilon == pytest.approx(budget["after"], rel=1e-9)
        assert len(after.charges) == len(before.charges) + 1 or after.charges[-1][1] > before.charges[-1][1]
        certificate = studio.client.get(f"/api/releases/{asked['key']}/files/certificate.json").json()
        assert certificate["parameters"]["law"] == law
