"""The first minute: a table, one step at a time, an account on the way, and a tour that spends nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from gaussveil.accounting import Ledger
from gaussveil_studio.offers.kinds import JOBS, KINDS, job_of
from gaussveil_studio.offers.orders import ORDERS
from gaussveil_studio.offers.tables import SIGNS, proposed
from gaussveil_studio.sample_table import HOMES, HOURS, sample_table

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

STATIC = Path(__file__).parents[2] / "studio" / "gaussveil_studio" / "static"
Come = Callable[..., "Visit"]


def steps(page: Any) -> list[str]:
    """The steps that show."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-step]:not([hidden])')].map(e => e.dataset.step)"
    )
    return found


def test_every_job_is_a_kind_of_release_in_words_of_its_own() -> None:
    pictures = set(re.findall(r'<symbol id="(\w+)"', (STATIC / "jobs.svg").read_text(encoding="utf-8")))
    assert {job["kind"] for job in JOBS.values()} == set(KINDS)
    for name, job in JOBS.items():
        assert job["picture"] in pictures
        assert set(job["needs"]) <= {"number", "numbers", "time", "text"}
        assert job["title"] != job["about"]
        known = {key: field.default for key, field in ORDERS[job["kind"]].model_fields.items() if key in job["order"]}
        assert known.keys() == job["order"].keys(), name
        for key, value in job["order"].items():
            assert value in KINDS[job["kind"]]["fields"][key]["choices"]
    assert [job_of(kind) for kind in ("table", "synthetic", "mixture")] == ["averages", "rows", "classes"]
    assert job_of("table", "counts") == "counts"
    assert job_of("stream", "counts") == "stream"


def test_choices_are_spoken_in_as_many_words_as_there_are() -> None:
    for kind in KINDS.values():
        for field in kind["fields"].values():
            assert len(field.get("spoken", field.get("choices", []))) == len(field.get("choices", []))


def test_a_table_comes_first_and_then_one_step_at_a_time(visit: Come, studio: Running) -> None:
    accounts = studio.ledger.accounts()
    page = visit("/release").page
    page.wait_for_selector("#preview .hint:has-text('Choose a table')")
    assert steps(page) == ["table"]
    page.click("#sample")
    page.wait_for_selector("#columns summary:has-text('5 columns')")
    roles = page.locator("#columns td[data-is='Is probably']").all_inner_texts()
    assert roles == ["whose row it is", "when it was", "", "", "how much it was"]
    page.wait_for_selector("#preview .hint:has-text('How small can kWh of one home be in an hour')")
    assert steps(page) == ["table", "what"]
    assert page.locator(".jobs .unfit").all_text_contents() == ["Needs two columns of numbers."] * 4
    page.fill("#field-low", "0")
    page.fill("#field-high", "5")
    page.wait_for_selector("[data-step=spend]")
    assert steps(page) == ["table", "what", "whom", "much", "spend"]
    assert page.input_value("#field-unit") == "home"
    page.fill("#field-high", "")  # what was shown stays
    page.wait_for_selector("#preview .hint:has-text('still empty')")
    assert steps(page) == ["table", "what", "whom", "much", "spend"]
    page.fill("#field-high", "5")
    # An account, in the same step, of three fields.
    page.evaluate("document.getElementById('open-here').open = true")
    page.click("#open-button")
    page.wait_for_selector("#open-problem:has-text('needs a name and a budget')")
    name = f"opened here {len(accounts)}"
    page.fill("#open-name", name)
    page.fill("#open-people", "homes of nobody")
    page.fill("#open-epsilon", "2")
    page.click("#open-button")
    page.wait_for_selector(f"#release-button:has-text('of {name}')")
    assert page.input_value("#field-people") == "homes of nobody"
    terms = studio.ledger.terms(name)
    assert (terms.budget.epsilon, terms.budget.delta, terms.people) == (2.0, 1e-5, "homes of nobody")
    # Another job keeps what was typed, and chooses what it is about.
    page.click(".jobs a:has-text('A table of counts')")
    page.wait_for_selector(".jobs a[aria-current]:has-text('A table of counts')")
    expect(page.locator("#field-answer")).to_have_value("count")
    expect(page.locator("#field-by")).to_have_value("values")
    page.fill("#field-by_column", "district")
    page.fill("#field-by_values", "North,South")
    page.select_option("#field-by", label="value of a list, all others as “other”")
    page.select_option("#account", name)
    page.wait_for_selector("#release-button:enabled")
    expect(page.locator("#preview text.tick").filter(has_text=re.compile("^other$"))).to_have_count(1)


def test_the_tour_spends_nothing_and_pays_for_nothing_else(visit: Come, studio: Running) -> None:
    before = {name: len(studio.ledger.entries(name)) for name in studio.ledger.accounts()}
    page = visit("/tour").page
    page.wait_for_selector("#release-button:enabled")
    account = page.input_value("#account")
    assert account not in before
    page.click("#release-button")
    page.wait_for_selector("h2:text('Released')")
    assert "nothing of yours was spent" in page.inner_text(".verdict")
    key = page.url.rsplit("/", 1)[1].split("?")[0]
    tour = Ledger(studio.folder / "home.ledger.studio" / "tour.ledger")
    assert [entry.id for entry in tour.entries(account)] == [key]
    assert {name: len(studio.ledger.entries(name)) for name in studio.ledger.accounts()} == before
    # Its account exists for rows of nobody: it neither previews nor pays for a table of somebody.
    for table in ("folder-0/small.csv", None):
        asked = {"account": account, "table": table, "order": {"mechanism": "vector"}}
        refused = studio.client.post("/api/preview", json=asked)
        assert refused.status_code == 422
        assert "sample table alone" in refused.json()["error"]["message"]
        sent = studio.client.post("/api/releases", json={**asked, "key": "d" * 32, "shown": "0" * 64})
        assert sent.status_code == 422
    assert len(tour.entries(account)) == 1
    page.goto(studio.pages + "/tour")  # the next one has an account of its own
    page.wait_for_selector("#release-button:enabled")
    assert page.input_value("#account") != account


def test_an_upload_is_one_entry_and_its_limit_is_told_before(visit: Come, studio: Running, tmp_path: Path) -> None:
    page = visit("/release").page
    assert "at most 2 MiB" in page.inner_text("#upload-help")
    same = tmp_path / "twice.csv"
    same.write_text("Patient ID,Age\n1,40\n2,50\n", encoding="utf-8")
    for _ in range(2):
        with page.expect_response("**/api/tables"):
            page.set_input_files("#file", str(same))
        expect(page.locator("#upload-problem")).to_be_empty()
        page.wait_for_selector("#table option:checked:has-text('twice.csv')", state="attached")
        page.wait_for_selector("#columns summary:has-text('2 columns')")
    expect(page.locator("#table option:has-text('twice.csv')")).to_have_count(1)
    assert [one["name"] for one in studio.client.get("/api/tables").json()["tables"]].count("twice.csv") == 1
    assert page.locator("#columns tr:has-text('Patient ID')").inner_text().endswith("whose row it is")
    large = tmp_path / "large.csv"
    large.write_bytes(b"a,b\n" + b"1,2\n" * (3 << 18))
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url))
    page.set_input_files("#file", str(large))
    page.wait_for_selector("#upload-problem:has-text('at most 2 can be uploaded')")
    assert not [url for url in sent if url.endswith("/api/tables")]


@pytest.mark.parametrize("by", ["values and others", "values found"])
def test_groups_come_from_a_list_with_all_others_or_from_the_data(studio: Running, by: str) -> None:
    table = studio.folder / "tables" / "groups.csv"
    lines = [f"{home},{'rare' if home == 7 else 'north' if home % 3 else 'south'},1.5" for home in range(300)]
    table.write_text("\n".join(["home,zone,kw", *lines]) + "\n", encoding="utf-8")
    asked = {"unit": "home", "column": "kw", "low": 0, "high": 3, "by": by, "by_column": "zone", "epsilon": 4}
    order = studio.order(studio.account(9.0), "table", "folder-0/groups.csv", by_values="north", **asked)
    studio.client.post("/api/releases", json=order)
    found = studio.finished(order["key"])
    assert found["state"] == "released", found["message"]
    groups = found["result"]["picture"]["x"]
    assert sorted(groups) == (["north", "other"] if by == "values and others" else ["north", "south"])
    assert found["title"] == "Average of kw by zone, groups.csv"


def test_whose_row_it_is_is_found_by_its_name() -> None:
    import pyarrow as pa

    for name in ("Patient ID", "Zähler-Nr", "household", "Kunden-Nr", "student_id", "Numéro client", "utente"):
        schema = pa.schema([("Age", pa.int64()), (name, pa.string()), ("Remark", pa.string())])
        assert proposed(schema)["unit"] == name
    assert not [sign for sign in SIGNS.values() if "%" in sign]


def test_the_sample_table_is_one_and_the_same() -> None:
    text = sample_table().read().decode()
    assert text == sample_table().read().decode()
    lines = text.splitlines()
    assert lines[0] == "home,time,district,heating,kWh"
    assert len(lines) == 1 + HOMES * HOURS
    assert all(0 <= float(line.rsplit(",", 1)[1]) < 15 for line in lines[1:])


@pytest.mark.xdist_group("studio")
def test_a_studio_that_has_no_ledger_yet_shows_every_page(started_studio: Any, tmp_path: Path) -> None:
    """The first minute of everybody: pages, a preview without an account, and the account that makes the ledger."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "day.csv").write_text("kw\n1\n2\n", encoding="utf-8")
    with started_studio(tmp_path) as fresh:
        for path in ("/", "/release", "/releases", "/accounts", "/verify", "/explore", "/api"):
            assert fresh.client.get(path).status_code == 200, path
        order = {"mechanism": "vector", "epsilon": 1, "delta": 1e-6, "l2_sensitivity": 1}
        asked = {"account": None, "table": "folder-0/day.csv", "order": order}
        assert fresh.client.post("/api/preview", json=asked).status_code == 200
        refused = fresh.client.post("/api/preview", json=asked | {"account": "nobody's"})
        assert refused.status_code == 422
        assert "there is no such account" in refused.json()["error"]["message"]
        opened = {"name": "homes", "epsilon": 3, "delta": 1e-5}
        assert fresh.client.post("/api/accounts", json=opened).status_code == 201
        assert "homes" in fresh.client.get("/release").text


def test_a_form_asks_for_no_more_than_it_needs(visit: Come, studio: Running) -> None:
    """What each has is proposed as one row; nobody is asked for people whom a forecast's account cannot be kept for."""
    page = visit("/release?mechanism=synthetic").page
    page.wait_for_selector("#preview .hint:has-text('Choose a table')")
    page.click("#sample")
    page.wait_for_selector("#columns summary:has-text('5 columns')")
    assert [page.input_value(f"#field-{name}") for name in ("unit", "rows_per_unit")] == ["home", "1"]
    page.goto(studio.pages + "/release?mechanism=forecast")
    page.wait_for_selector("#preview .hint:has-text('Choose a table')")
    expect(page.locator("#field-people")).to_have_count(0)
    assert page.locator("#open-people").evaluate("one => one.parentElement.hidden")
    page.goto(studio.pages + "/release?mechanism=table")
    page.wait_for_selector("#preview .hint:has-text('Choose a table')")
    expect(page.locator("#field-people")).to_have_count(1)
