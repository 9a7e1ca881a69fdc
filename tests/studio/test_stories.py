"""What a privacy officer does, in a real browser: nothing unseen is spent, and nothing that was typed is lost."""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from gaussveil.accounting import Adjacency, Certificate, Charge, verify
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import BudgetExceededError
from gaussveil.spectrum import GaussianPair

from ..engines.test_written_files import cells, sheet

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

PICTURES = "all => all.map(one => one.dataset.picture)"
Come = Callable[..., "Visit"]


@pytest.fixture(scope="module")
def day(studio: Running) -> str:
    """Readings of 404 homes over a day."""
    generator = np.random.default_rng(3)
    lines = [
        f"home {home},2024-01-01 {hour:02}:00:00,{generator.gamma(2.0, 0.4):.4f}"
        for home in range(404)
        for hour in range(24)
    ]
    path = studio.folder / "tables" / "day.csv"
    path.write_text("\n".join(["household,time,kw", *lines]) + "\n", encoding="utf-8")
    return "folder-0/day.csv"


def answer(page: Any, account: str, table: str) -> None:
    """The three questions, for the average day."""
    page.select_option("#table", table)
    page.wait_for_selector("#columns summary:has-text('3 columns')")
    page.fill("#field-low", "0")
    page.fill("#field-high", "4")
    page.fill("#field-measured_in", "kW")
    page.select_option("#account", account)
    page.wait_for_selector("#release-button:enabled")


def test_the_average_day_from_the_start_page_alone(visit: Come, studio: Running, day: str) -> None:
    account = studio.account()
    page = visit("/").page
    page.click("a.tile:has-text('New release')")
    answer(page, account, day)
    # Columns were found by their types; bounds are asked for in words.
    assert [page.input_value(f"#field-{name}") for name in ("column", "unit", "by_column")] == [
        "kw",
        "household",
        "time",
    ]
    assert "must not come from the data" in page.inner_text("[data-field=high]")
    assert "kw of one household be in an hour at most, in kW" in page.inner_text("[data-field=high]")
    told = re.fullmatch(rf"Debit (\d+) % of {account}", page.inner_text("#release-button"))
    assert told is not None
    in_all = re.search(r"so (\d+) at epsilon 1 together keep the account.s promise of 3", page.inner_text("#preview"))
    assert in_all is not None  # why the shares of several add up while their epsilons do not
    page.wait_for_selector("#preview .chart[data-drawn]")
    assert "at most 55" in page.inner_text("#preview")
    expect(page.locator(".figures i.more")).to_have_count(5)
    page.click("#release-button")
    page.wait_for_selector("h2:text('Released')")
    expect(page.locator("h1")).to_have_text("Average of kw by hour of the day, day.csv")
    used = studio.ledger.statement(account).filter_used
    assert used is not None
    assert int(told[1]) == round(100 * used)
    assert int(in_all[1]) == int(1 / used + 1e-9)
    page.hover(".chart[data-drawn]")
    expect(page.locator(".tip:has-text('average of kw')")).to_contain_text(" to ")  # the band, in numbers
    expect(page.locator(".chart .name")).to_have_text(["hour of the day", "average of kw, kW"])
    page.click("text=Verify this")
    page.wait_for_selector("#verified .verdict.good")
    page.click("a:text('Explore its privacy')")
    page.wait_for_selector("#reading:has-text('exactly')")
    (shown,) = re.findall(r"epsilon (\S+) exactly", page.inner_text("#reading"))
    assert float(shown) == pytest.approx(1.0, rel=1e-2)
    # Found again, by search and from Home.
    page.goto(studio.pages + "/releases?q=kw+day")
    page.click("a:has-text('Average of kw by hour')")
    page.wait_for_selector("h2:text('Released')")
    page.goto(studio.pages + "/")
    expect(page.locator(f"a.card:has-text('{account}')")).to_contain_text("more like the last")


def test_a_table_with_a_column_for_each_home_needs_no_preparation(visit: Come, studio: Running, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    kw = generator.gamma(2.0, 0.4, size=(24, 30))
    lines = [f"2024-01-01 {hour:02}:00:00,{','.join(f'{v:.4f}' for v in row)}" for hour, row in enumerate(kw)]
    wide = tmp_path / "wide.csv"
    head = ",".join(["time", *(f"ch{home}" for home in range(30))])
    wide.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    page = visit("/").page
    page.click("a.tile:has-text('New release')")
    page.set_input_files("#file", str(wide))
    page.wait_for_selector("#columns summary:has-text('30 homes')")
    page.wait_for_selector("#preview .hint:has-text('still empty')")  # bounds: in words, no error
    page.fill("#field-low", "0")
    page.fill("#field-high", "4")
    # An account is opened on the way, and a link leads back to what was begun.
    page.click("a:text('Open an account')")
    name = f"opened {page.url.rsplit('/', 1)[-1]} {wide.parent.name}"
    page.fill("#new-name", name)
    page.click("button:text('Open')")
    page.wait_for_selector(f"th:has-text('{name}')")
    page.click("text=Back to the release that you began")
    page.select_option("#account", name)
    page.wait_for_selector("#release-button:enabled")
    found = [page.input_value(f"#field-{field}") for field in ("column", "unit", "by_column", "units", "high")]
    assert found == ["reading", "household", "time", "30", "4"]
    page.fill("#field-epsilon", "2.5")
    page.wait_for_selector("#release-button:enabled")
    page.click("#release-button")
    page.wait_for_selector("h2:text('Released')")
    expect(page.locator("h1")).to_have_text("Average of reading by hour of the day, wide.csv")
    (picture,) = [json.loads(one) for one in page.locator(".chart").evaluate_all(PICTURES)]
    (band,) = picture["bands"]
    inside = [low <= v <= high for low, v, high in zip(band["low"], kw.mean(axis=1), band["high"])]
    assert sum(inside) >= 18  # of 24 at 95 %: fewer have a chance of 3e-4
    page.goto(studio.pages + "/")
    expect(page.locator("#begun")).to_be_hidden()


def test_a_forecast_of_a_sheet_as_it_is_has_no_dead_end(visit: Come, studio: Running) -> None:
    """Titles above, semicolons, decimal commas, "Zeit": what was proposed for averages does not stand in its way."""
    generator = np.random.default_rng(6)
    lines = ["Lastgang;" + 11 * ";", "Zeit;" + ";".join(f"Haus {home}" for home in range(12))]
    for hour in range(14 * 24):
        kw = generator.gamma(4.0, 0.1, size=12)
        when = f"{1 + hour // 24:02}.01.2024 {hour % 24:02}:00"
        lines.append(";".join([when, *(f"{one:.3f}".replace(".", ",") for one in kw)]))
    (studio.folder / "tables" / "Lastgang.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    account = studio.account(5.0)
    page = visit("/release").page
    page.select_option("#table", "folder-0/Lastgang.csv")
    page.wait_for_selector("#columns summary:has-text('12 homes')")
    assert page.input_value("#field-unit") == "household"
    page.click(".jobs a:has-text('A forecast for a home')")
    page.wait_for_selector("#preview .hint:has-text('Home: this is still empty')")
    expect(page.locator("#homes option")).to_have_count(12)
    assert [page.input_value(f"#field-{name}") for name in ("unit", "time", "reading")] == ["", "Zeit", ""]
    page.fill("#field-home", "Haus 3")
    page.fill("#field-clusters", "1")
    page.select_option("#account", account)
    page.wait_for_selector("#release-button:enabled")
    assert re.search(r"Takes\s+about \d+ seconds once the button is pressed", page.inner_text("#preview"))


def test_what_is_taken_away_makes_the_same_release_again(
    visit: Come, studio: Running, day: str, tmp_path: Path
) -> None:
    account = studio.account(epsilon=10.0)
    order = studio.order(
        account, "table", day, unit="household", column="kw", low=0, high=4, by="hour", by_column="time"
    )
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    page = visit(f"/release/{order['key']}").page
    with page.expect_download() as found:
        page.click("text=Download package")
    with zipfile.ZipFile(found.value.path()) as parcel:
        assert parcel.testzip() is None
        names = set(parcel.namelist())
        tables = {f"answers.{ending}" for ending in ("csv", "parquet", "xlsx")}
        assert names == {*tables, "certificate.json", "report.html", "again.py", "again.txt"}
        parcel.extractall(tmp_path)
    rows = np.genfromtxt(tmp_path / "answers.csv", delimiter=",", names=True)
    assert pq.read_table(tmp_path / "answers.parquet")["mean_kw"].to_pylist() == rows["mean_kw"].tolist()
    first = Certificate.read(tmp_path / "certificate.json")
    for name, body in (
        ("day.csv", studio.folder / "tables" / "day.csv"),
        ("home.ledger", studio.folder / "home.ledger"),
    ):
        (tmp_path / name).symlink_to(body)
    command = (tmp_path / "again.txt").read_text(encoding="utf-8").strip()
    program = str(Path(sys.executable).parent / "gaussveil")
    line = command.replace("gaussveil ", f"{program} ", 1).replace("--out answers.csv", "--out second.csv")
    for run in ([sys.executable, "again.py"], ["/bin/sh", "-c", line]):
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    again = [Certificate.read(tmp_path / name) for name in ("certificate.json", "second.csv.certificate.json")]
    for one in again:
        assert verify(one).private
        assert (one.charge, one.adjacency, one.account) == (first.charge, first.adjacency, account)
    assert len(studio.entries(account)) == 3  # each of them was debited


def test_nothing_is_spent_that_no_preview_showed(visit: Come, studio: Running, day: str) -> None:
    account = studio.account()
    page = visit("/release").page
    answer(page, account, day)
    before = page.inner_text("#release-button")
    page.fill("#field-epsilon", "2.5")
    assert page.is_disabled("#release-button")  # at once, before the server has answered
    page.wait_for_selector("#release-button:enabled")
    assert page.inner_text("#release-button") != before
    for name, wrong, words in (
        ("epsilon", "", "Epsilon: this is still empty"),
        ("column", "kilowatts", "the table has no column “kilowatts”"),
        ("unit", "", "Whom to hide: this is still empty"),
    ):
        right = page.input_value(f"#field-{name}")
        page.fill(f"#field-{name}", wrong)
        page.wait_for_selector(f"#preview:has-text('{words}')")
        assert page.is_disabled("#release-button")
        page.fill(f"#field-{name}", right)
        page.wait_for_selector("#release-button:enabled")
    # What another did meanwhile changes what this debit would mean.
    studio.ledger.debit(account, Charge(GaussianPair.mean_shift(0.1)), Adjacency.add_remove("household"))
    page.click("#release-button")
    page.wait_for_selector("#outcome:has-text('not what the preview showed')")
    assert len(studio.entries(account)) == 1
    page.wait_for_selector("#release-button:enabled")  # with a new preview
    assert re.search(r"[1-9]\d* % is used now", page.inner_text("#receipt")) or "< 1 %" in page.inner_text("#receipt")


def test_a_digest_covers_order_table_and_account(studio: Running, day: str) -> None:
    account, other = studio.account(), studio.account()
    order = studio.order(account)
    changed: list[dict[str, Any]] = [
        {"order": {"mechanism": "vector", "epsilon": 2.0}},
        {"order": {"mechanism": "vector", "l2_sensitivity": 0.5}},
        {"account": other},
        {"table": day},
        {"shown": "f" * 64},
    ]
    for one in changed:
        refused = studio.client.post("/api/releases", json={**order, **one})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "GV404")
    path = studio.folder / "tables" / "small.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "1,2\n", encoding="utf-8")  # the file itself
    assert studio.client.post("/api/releases", json=order).status_code == 409
    path.write_text(text, encoding="utf-8")
    missing = {name: value for name, value in order.items() if name != "shown"}
    assert studio.client.post("/api/releases", json=missing).status_code == 422
    assert studio.entries(account) == studio.entries(other) == []


def test_nothing_that_was_typed_is_lost(visit: Come, studio: Running, day: str) -> None:
    account = studio.account()
    page = visit("/release").page
    answer(page, account, day)
    page.fill("#field-epsilon", "0.7")
    form = page.url

    def kept() -> None:
        said = {"field-epsilon": "0.7", "field-high": "4", "field-measured_in": "kW", "field-unit": "household"}
        for name, value in {**said, "table": day, "account": account}.items():
            expect(page.locator(f"#{name}")).to_have_value(value)
        page.wait_for_selector("#release-button:enabled")

    kept()
    page.reload()
    kept()
    page.click("#rarer summary")
    page.click(".kinds a:has-text('Numbers that you computed')")  # another kind, and back
    page.wait_for_selector("#field-l2_sensitivity")
    expect(page.locator("#field-epsilon")).to_have_value("0.7")
    page.click(".kinds a:has-text('Averages')")
    kept()
    page.click("a:text('Open an account')")
    page.fill("#new-name", f"second {account}")
    page.click("button:text('Open')")
    page.wait_for_selector(f"th:has-text('second {account}')")
    page.goto(form)
    kept()
    # A refusal and a cancelled release lead back to a form that is filled in.
    order = studio.order(
        account, "table", day, unit="household", column="kw", low=0, high=4, by="hour", by_column="time"
    )
    studio.client.post("/api/releases", json=order)
    stopped = studio.client.post(f"/api/releases/{order['key']}/cancel").json()["state"]
    page.goto(f"{studio.pages}/release/{order['key']}")
    page.click("a:text('Change and try again')" if stopped == "cancelled" else "a:text('Repeat')")
    page.wait_for_selector("#release-button:enabled")
    expect(page.locator("#field-high")).to_have_value("4")
    expect(page.locator("#account")).to_have_value(account)


def test_every_format_of_the_command_line_can_be_uploaded_or_named(
    visit: Come, studio: Running, tmp_path: Path
) -> None:
    """The same ten rows in each; a database holds many tables, so the studio is started with one of them."""
    homes, kw = [f"home {place % 5}" for place in range(10)], [place / 4 for place in range(10)]
    table = pa.table({"household": homes, "kw": kw, "hour": [place // 5 for place in range(10)]})
    rows = [",".join(map(str, row.values())) for row in table.to_pylist()]
    body = "\n".join([",".join(table.column_names), *rows]).encode()
    (tmp_path / "up.csv").write_bytes(body)
    (tmp_path / "up.csv.gz").write_bytes(gzip.compress(body))
    pq.write_table(table, tmp_path / "up.parquet")
    feather.write_feather(table, tmp_path / "up.feather")
    with pa.OSFile(str(tmp_path / "up.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    numbers = "".join(cells(*row.values()) for row in table.to_pylist())
    for ending in ("xlsx", "xlsm"):
        sheet(tmp_path / f"up.{ending}", cells(*table.column_names) + numbers)
    np.save(tmp_path / "up.npy", np.column_stack([kw, kw, kw]))
    page = visit("/release").page
    tables = {}
    for ending in ("csv", "csv.gz", "parquet", "feather", "arrow", "xlsx", "xlsm", "npy"):
        page.set_input_files("#file", str(tmp_path / f"up.{ending}"))
        page.wait_for_selector(f"#table option:checked:has-text('up.{ending}')", state="attached")
        page.wait_for_selector("#columns summary:has-text('3 columns')")
        tables[ending] = page.input_value("#table")
    with closing(sqlite3.connect(studio.folder / "meters.sqlite")) as book:
        book.execute("CREATE TABLE readings (household TEXT, kw REAL, hour INTEGER)")
        book.executemany("INSERT INTO readings VALUES (?, ?, ?)", [tuple(row.values()) for row in table.to_pylist()])
        book.commit()
    with duckdb.connect(str(studio.folder / "meters.duckdb")) as base:
        base.execute("CREATE TABLE readings AS SELECT * FROM 'FILE'".replace("FILE", str(tmp_path / "up.parquet")))
    listed = {one["name"]: one["id"] for one in studio.client.get("/api/tables").json()["tables"]}
    tables |= {ending: listed[f"meters.{ending}#readings"] for ending in ("sqlite", "duckdb")}
    asked = {"mechanism": "table", "unit": "household", "column": "kw", "low": 0, "high": 3, "by": "nothing"}
    seen = set()
    for ending, identifier in tables.items():
        if ending == "npy":  # numbers without names
            continue
        found = studio.client.post("/api/preview", json={"order": asked, "table": identifier})
        assert found.status_code == 200, (ending, found.text)
        seen.add(json.dumps(found.json()["simulated"]))
    assert len(seen) == 1


def test_errors_have_a_sentence_and_the_way_back(visit: Come, studio: Running) -> None:
    page = visit("/nothing").page
    assert page.inner_text("h1") == "That did not work"
    assert page.locator("nav a").count() >= 6
    assert "HTTP" not in page.inner_text(".problem")
    stranger = page.context.browser.new_page()
    reply = stranger.goto(studio.pages + "/")
    assert reply is not None
    assert reply.status == 401
    assert "link that it printed" in stranger.inner_text("main")
    assert "HTTP401" not in stranger.content()
    stranger.close()


def test_three_hundred_accounts_are_searched_sorted_and_paged(visit: Come, started_studio: Any, tmp_path: Path) -> None:
    from gaussveil.accounting import Ledger

    (tmp_path / "tables").mkdir()
    with Ledger.create(tmp_path / "home.ledger").held(tmp_path / "home.ledger") as book:
        for number in range(300):
            book.open_account(f"town {number:03}", epsilon=3.0, delta=1e-5)
        for _ in range(2):
            book.debit("town 123", Charge(GaussianPair.mean_shift(0.3)), Adjacency.add_remove("home"))
        free = Charge(GaussianPair.mean_shift(0.0), sampler_error=1e-30)  # the average of a group may cost nothing
        book.debit("town 299", free, Adjacency.add_remove("home"))
    with started_studio(tmp_path) as many:
        page = visit("/", many).page
        expect(page.locator("a.card:has-text('town 299')")).to_contain_text("as many more like the last as you want")
        page.click("text=All 300 accounts")
        expect(page.locator("tbody tr")).to_have_count(24)
        page.click("text=Next")
        page.wait_for_selector("text=Page 2 of 13")
        page.fill("#q", "12")
        page.select_option("#sort", "fullest")
        page.click("button:text('Search')")
        page.wait_for_selector("h2:text('13 accounts')")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(13)
        expect(rows.first.locator("th")).to_have_text("town 123")
        expect(rows.first).to_contain_text(re.compile(r"\d+ % used: \d+ more like the last"))


def test_is_this_claim_true_from_the_start_page_alone(visit: Come, studio: Running) -> None:
    page = visit("/").page
    page.click("a.tile:has-text('Is this claim true?')")
    page.fill("#claim-change", "2")
    page.fill("#claim-noise", "8.5")
    exact = float(GaussianPair.mean_shift(2 / 8.5).dp_delta(1.0))
    for delta, words in ((exact * 1.001, "holds"), (exact * 0.999, "refuted")):
        page.fill("#claim-delta", repr(delta))
        page.click("button:text('Decide')")
        page.wait_for_selector(f"#claim .verdict:has-text('{words}')")


def test_a_debit_whose_draw_never_began_is_given_back(visit: Come, studio: Running) -> None:
    account = studio.account()
    charge, relation = Charge(GaussianPair.mean_shift(0.5)), Adjacency.add_remove("home")
    first, drawn = (studio.ledger.debit(account, charge, relation).id for _ in range(2))
    studio.ledger.mark_drawing(drawn)
    page = visit(f"/accounts/{account}").page
    page.once("dialog", lambda asked: asked.accept())
    page.click("button:text('Give back')")
    page.wait_for_selector("td:text('void')")
    assert studio.entries(account) == [(first, "void"), (drawn, "drawing")]
    expect(page.locator("button:text('Give back')")).to_have_count(0)
    refused = studio.client.post(f"/api/entries/{drawn}/void")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "GV404")


def test_how_much_can_still_be_published_from_the_start_page_alone(visit: Come, studio: Running) -> None:
    account = studio.account()
    before = studio.ledger
    for _ in range(2):
        before.debit(account, Charge(GaussianPair.mean_shift(0.2)), Adjacency.add_remove("household"))
    page = visit("/").page
    page.click("a.tile:has-text('How much can I still publish?')")
    page.click(f"a:text-is('{account}')")
    page.fill("#count-0", "12")
    page.fill("#each-0", "0.3")
    page.fill("#count-1", "1")
    page.fill("#each-1", "0.8")
    page.click("text=Would it fit?")
    page.wait_for_selector("#whatif:has-text('All 13 fit.')")
    (after,) = re.findall(r"used now, (\d+) % afterwards", page.inner_text("#whatif"))
    (more,) = re.findall(r"At epsilon 0.3 alone, (\d+) more", page.inner_text("#whatif"))
    # Spent for real, that is what the ledger says; and not one more than was said fits.
    small, large = (Charge(GaussianPair.mean_shift(mean_shift_for(epsilon, 1e-6))) for epsilon in (0.3, 0.8))
    for charge in [small] * 12 + [large]:
        before.debit(account, charge, Adjacency.add_remove("household"))
    used = before.statement(account).filter_used
    assert used is not None
    assert int(after) == round(100 * used)
    other = studio.account()
    for charge in [Charge(GaussianPair.mean_shift(0.2))] * 2 + [small] * int(more):
        before.debit(other, charge, Adjacency.add_remove("household"))
    with pytest.raises(BudgetExceededError):
        before.debit(other, small, Adjacency.add_remove("household"))
    page.fill("#count-0", "1000")
    page.click("text=Would it fit?")
    page.wait_for_selector("#whatif:has-text('not fit')")
    refused = studio.client.post("/api/whatif", json={"account": "nobody", "releases": [{"epsilon": 1}]})
    assert refused.status_code == 422


def test_a_release_is_signed_and_compared_with_its_table(visit: Come, studio: Running) -> None:
    from gaussveil.accounting.certificates.keys import load_public_key

    hours = [f"home {home},{hour},{0.5 + hour / 24}" for home in range(120) for hour in range(3)]
    table = studio.folder / "tables" / "three hours.csv"
    table.write_text("\n".join(["home,hour,kw", *hours]) + "\n", encoding="utf-8")
    asked = {"unit": "home", "column": "kw", "low": 0, "high": 2, "by": "values", "by_column": "hour"}
    order = studio.order(studio.account(), "table", f"folder-0/{table.name}", by_values="0,1,2", **asked)
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    page = visit(f"/release/{order['key']}").page
    page.click("summary:text('Certificate')")
    page.click("text=Sign it")
    page.wait_for_selector("#signed dd:has-text('valid')")
    text = studio.client.get(f"/api/releases/{order['key']}/files/certificate.json").text
    assert verify(Certificate.from_json(text), load_public_key(studio.folder / "owner.key.pub")).private
    page.goto(studio.pages + "/diagnostics")
    page.select_option("#compare-key", order["key"])
    page.click("button:text('Compare')")
    page.wait_for_selector("#compared .chart[data-drawn]")
    (picture,) = [json.loads(one) for one in page.locator("#compared .chart").evaluate_all(PICTURES)]
    truth = dict(picture["series"])["with next to no noise"]
    assert truth == pytest.approx([0.5, 0.5 + 1 / 24, 0.5 + 2 / 24], abs=0.02)
    assert "inside the band" in page.inner_text("#compared")


def test_a_certificate_of_megabytes_verifies(studio: Running) -> None:
    from gaussveil.mechanisms import GaussianRelease

    made = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0).release([1.0]).certificate
    text = made.to_json()
    large = text + " " * ((64 << 20) - len(text))  # as large as the command line reads
    found = studio.client.post("/api/certificate", files={"file": ("large.json", large.encode())})
    assert (found.status_code, found.json()["verdict"]) == (200, "verified")
    assert json.loads(large) == found.json()["certificate"]


def test_a_package_on_verify_is_opened_and_bombs_are_not(studio: Running) -> None:
    from gaussveil.mechanisms import GaussianRelease

    release = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0).release([1.0])
    text, numbers = release.certificate.to_json(), f"kw\n{release.value[0]!r}\n"

    def sent(*files: tuple[str, str | bytes], cut: int | None = None) -> Any:
        parcel = io.BytesIO()
        with zipfile.ZipFile(parcel, "w", zipfile.ZIP_DEFLATED) as writing:
            for name, body in files:
                writing.writestr(name, body)
        return studio.client.post("/api/certificate", files={"file": ("package.zip", parcel.getvalue()[:cut])})

    found = sent(("day.csv", numbers), ("package/certificate.json", text), ("again.py", "import os"))
    assert (found.status_code, found.json()["verdict"]) == (200, "verified")
    assert found.json()["checked"] == "numbers and certificate (day.csv)"
    assert dict(found.json()["explained"])["Not checked"].startswith("again.py")
    forged = sent(("day.csv", numbers), ("day.json", "[99]"), ("certificate.json", text))
    assert (forged.status_code, forged.json()["verdict"]) == (200, "does not verify")
    altered = sent(("certificate.json", text.replace('"epsilon": 1.0', '"epsilon": 0.5')))
    assert altered.status_code != 200 or not altered.json()["verified"]
    refused = {
        "one certificate.json. Got 0": sent(("day.csv", "hour,kw")),
        "one certificate.json. Got 2": sent(("certificate.json", text), ("b/certificate.json", text)),
        "at most 64 MiB": sent(("certificate.json", bytes((64 << 20) + 1))),
        "cannot be unpacked": sent(("certificate.json", text), cut=200),
    }
    for words, reply in refused.items():
        assert reply.status_code == 422, words
        assert words in reply.json()["error"]["message"]


def test_a_page_that_waits_says_when_nobody_answers(
    visit: Come, studio: Running, started_studio: Any, tmp_path: Path
) -> None:
    (tmp_path / "tables").mkdir()
    with started_studio(tmp_path) as short:
        page = visit("/releases", short).page.context.new_page()  # where errors may be told
        page.goto(short.pages + "/releases")
        waiting = (
            '<section id="release"><section hx-get="/api/releases/none" hx-trigger="load, again" hx-target="#release">'
            '<p class="gone" hidden>gone</p></section></section>'
        )
        page.route("**/api/releases/none", lambda route: route.abort())
        page.evaluate(
            "html => { document.querySelector('main').innerHTML = html; htmx.process(document.body); }", waiting
        )
        page.wait_for_selector(".gone:not([hidden])")
        page.unroute("**/api/releases/none")
        page.route("**/api/releases/none", lambda route: route.fulfill(body="<p id='back'>back</p>"))
        page.wait_for_selector("#back")  # it asked again by itself
        page.close()


def test_a_phone_sees_the_chart_first(visit: Come, studio: Running) -> None:
    page = visit("/explore", width=375, height=800).page
    page.wait_for_selector("#curve[data-drawn]")
    tops = "all => all.map(one => document.querySelector(one).getBoundingClientRect().top)"
    curve, slider = page.evaluate(tops, ["#curve", "#shift"])
    assert curve < slider
    page.goto(studio.pages + "/release?mechanism=stream")
    page.wait_for_selector("#slider")
    questions, preview, slider, button = page.evaluate(tops, ["#field-meter", "#preview", "#slider", "#release-button"])
    assert questions < preview < slider < button
