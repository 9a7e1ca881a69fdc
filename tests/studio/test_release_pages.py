"""The release flow in a real browser: a debit is told before, made once, and its result taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

from gaussveil.accounting import Certificate, verify

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

Come = Callable[..., "Visit"]


def fill(page: Any, account: str, table: str = "folder-0/small.csv") -> None:
    page.select_option("#table", table)
    page.select_option("#account", account)
    page.wait_for_selector("#release-button:enabled")


def key_of(page: Any) -> str:
    return str(page.url.split("/release/")[1].split("?")[0])


def test_double_click_refresh_and_back_debit_once(visit: Come, studio: Running) -> None:
    account = studio.account()
    page = visit("/release?mechanism=vector").page
    key = key_of(page)
    fill(page, account)
    page.wait_for_selector("#preview:has-text('standard deviation 4.22')")
    page.wait_for_selector("#preview .chart[data-drawn]")
    assert studio.entries(account) == []
    page.dblclick("#release-button")
    page.wait_for_selector("h2:text('Released')")
    assert studio.entries(account) == [(key, "released")]
    page.reload()
    page.wait_for_selector("h2:text('Released')")
    page.wait_for_selector(".chart[data-drawn]")
    page.goto(studio.pages + "/accounts")
    page.go_back()
    page.wait_for_selector("h2:text('Released')")
    page.goto(f"{studio.pages}/release/{key}?mechanism=vector")  # where the form was
    page.wait_for_selector("h2:text('Released')")
    expect(page.locator("#release-button")).to_have_count(0)
    assert studio.entries(account) == [(key, "released")]
    with page.expect_download() as found:
        page.click("text=Download release.csv")
    assert np.loadtxt(found.value.path(), delimiter=",", skiprows=1).shape == (12, 2)
    page.click("summary:text('Certificate')")
    with page.expect_download() as found:
        page.click("a:text('Certificate')")
    certificate = Certificate.from_json(Path(found.value.path()).read_text(encoding="utf-8"))
    assert (certificate.release_id, certificate.account) == (key, account)
    assert verify(certificate).private
    with page.expect_download() as found:
        page.click("a:text('Report')")
    assert key in Path(found.value.path()).read_text(encoding="utf-8")


def test_too_small_a_budget_is_told_before_and_refused_after(visit: Come, studio: Running) -> None:
    account = studio.account(epsilon=0.01)
    page = visit("/release?mechanism=vector").page
    page.select_option("#table", "folder-0/small.csv")
    page.select_option("#account", account)
    page.wait_for_selector("#preview .verdict.bad")
    expect(page.locator("#release-button")).to_be_disabled()
    expect(page.locator("#release-button")).to_have_text(f"{account} cannot pay for this")
    order = studio.order(account)  # a program that goes on all the same
    assert order["shown"] == "0" * 64
    refused = studio.client.post("/api/releases", json=order)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "GV404")
    assert studio.entries(account) == []


def test_a_bad_file_is_refused_without_showing_what_is_in_it(visit: Come, studio: Running, tmp_path: Path) -> None:
    account = studio.account()
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,hidden77\n", encoding="utf-8")
    page = visit("/release?mechanism=vector").page
    page.set_input_files("#file", str(bad))
    page.wait_for_selector("#table option:checked:has-text('bad.csv')", state="attached")
    page.select_option("#account", account)
    page.wait_for_selector("#preview .problem")
    expect(page.locator("#release-button")).to_be_disabled()
    assert "hidden77" not in page.content()
    assert "bad.csv" not in studio.log
    assert studio.entries(account) == []
    listed = studio.client.get("/api/tables").json()
    for name, body in (("worse.exe", b"MZ"), ("worse.parquet", b"PAR1 or not"), ("worse.csv.gz", b"half a gzip")):
        (tmp_path / name).write_bytes(body)
        page.set_input_files("#file", str(tmp_path / name))
        page.wait_for_selector("#upload-problem .problem")
        page.evaluate("document.getElementById('upload-problem').replaceChildren()")
        assert page.locator("#table option:checked").inner_text() == "bad.csv (uploaded)"
    assert studio.client.get("/api/tables").json() == listed  # no ghosts
