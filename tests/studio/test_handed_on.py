"""What is handed on: numbers rounded to what the noise leaves, in the reader's convention, and verified as they are."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from python_calamine import CalamineWorkbook

from gaussveil_studio.offers.rounding import (
    THIN,
    number_table,
    rounded_down,
    rounded_up,
    shown_cell,
    spoken_numbers,
    told,
)
from gaussveil_studio.spreadsheets import Sheet, workbook

if TYPE_CHECKING:
    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

Come = Callable[..., "Visit"]
GROUPS = [f"a district with a long name, number {place}" for place in range(14)]
NUMBER = r"-?\d+(?:\.\d+)?"


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (0.21876543210987654, 0.2, 0.2375308642, "0.219 ± 0.019"),
        (0.2187, 0.2, 0.26, "0.219 (0.200 to 0.260)"),
        (17.0, 0.0, 36.2, "17 (0 to 37)"),
        (1234.567, 1210.0, 1259.134, "1235 ± 25"),
        (123456.7, 121000.0, 125913.4, "123\u202f500 ± 2500"),
        (12_812_345.6, 11_212_345.6, 14_412_345.6, "12\u202f800\u202f000 ± 1\u202f600\u202f000"),
        (-0.0000012345, -0.0000022345, -0.0000002345, "-0.0000012 ± 0.0000010"),
        (5.0, 5.0, 5.0, "5"),
        (1234.56789, None, None, "1235"),
        (None, None, None, "not known"),
        (math.nan, 0.0, 1.0, "not known"),
    ],
)
def test_numbers_are_rounded_to_what_the_noise_leaves(value: Any, low: Any, high: Any, words: str) -> None:
    assert told(value, low, high) == words


def test_what_was_counted_is_told_in_whole_numbers() -> None:
    assert told(249.6, 240.8, 258.4, whole=True) == "250 ± 9"
    assert told(249.6, 240.8, 268.4, whole=True) == "250 (240 to 269)"
    assert told(249.6, 49.6, 449.6, whole=True) == "250 ± 200"
    assert told(2.4, 2.1, 2.7) == "2.40 ± 0.30"


@given(st.floats(1e-300, 1e6), st.integers(1, 8))
def test_an_end_that_is_cut_stays_an_end(value: float, digits: int) -> None:
    low, high = Fraction(rounded_down(value, digits)), Fraction(rounded_up(value, digits))
    assert low <= Fraction(value) <= high
    assert high - low <= Fraction(value) * 10 ** (1 - digits)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e5), st.floats(0.0, 3.0))
def test_a_band_that_is_told_never_claims_more_than_the_one_that_was_drawn(
    value: float, reach: float, skew: float
) -> None:
    low, high = value - reach, value + reach * (1 + skew)
    numbers = [float(one) for one in re.findall(NUMBER, told(value, low, high).replace(THIN, ""))]
    slack = 0.06 * (high - low)  # of the number in the middle, which is rounded to the nearest
    if "±" in told(value, low, high):
        assert numbers[1] >= max(value - low, high - value) * (1 - 1e-9)
        assert abs(numbers[0] - value) <= slack
    else:
        assert numbers[1] <= low + 1e-9 * abs(low)
        assert numbers[2] >= high - 1e-9 * abs(high)


def test_numbers_of_one_column_are_told_in_one_way() -> None:
    bands = [{"of": 0, "low": [0.5, 0.0], "high": [1.5, 1.0]}]
    assert spoken_numbers([("kw", [1.0, 0.2])], bands) == [["1.00 (0.50 to 1.50)", "0.20 (0.00 to 1.00)"]]
    assert spoken_numbers([("kw", [1.0])], [{"of": 0, "low": [0.5], "high": [1.5]}]) == [["1.00 ± 0.50"]]


def test_a_workbook_is_read_as_it_was_written() -> None:
    columns = {
        'name <&> "it"': ["a\x00b", " 0012 ", "=1+1"],
        "value": [0.1 + 0.2, -1e-300, math.nan],
        "whole": [1, 2**40, None],
        "yes": [True, False, True],
    }
    body = workbook([Sheet("numbers", columns, {"value": 3}), Sheet("about", {"": ["x"]})])
    assert body == workbook([Sheet("numbers", columns, {"value": 3}), Sheet("about", {"": ["x"]})])
    head, *rows = CalamineWorkbook.from_filelike(io.BytesIO(body)).get_sheet_by_index(0).to_python()
    assert head == list(columns)
    assert rows[0] == ["a\ufffdb", 0.1 + 0.2, 1.0, True]
    assert rows[1] == [" 0012 ", -1e-300, float(2**40), False]
    assert rows[2] == ["=1+1", "", "", True]  # text, and nothing that a program would compute


@pytest.fixture(scope="module")
def released(studio: Running) -> str:
    """The mean of fourteen groups, with a title, a purpose and somebody who approved it."""
    lines = [
        f'{home},"{group}",{0.3 + 0.1 * place + home % 7 / 10}'
        for home in range(150)
        for place, group in enumerate(GROUPS)
    ]
    path = studio.folder / "tables" / "districts.csv"
    path.write_text("\n".join(["home,district,kw", *lines]) + "\n", encoding="utf-8")
    asked = {"unit": "home", "column": "kw", "low": 0, "high": 3, "by": "values", "by_column": "district"}
    order = studio.order(
        studio.account(), "table", "folder-0/districts.csv", by_values=GROUPS, measured_in="kW", **asked
    )
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    return str(order["key"])


def test_the_page_of_a_release_shows_its_numbers_and_writes_them_as_the_reader_does(
    visit: Come, studio: Running, released: str
) -> None:
    page = visit(f"/release/{released}").page
    page.wait_for_selector(".chart[data-drawn]")
    result = studio.client.get(f"/api/releases/{released}").json()["result"]
    numbers = page.locator(".numbers tbody td")
    expect(numbers).to_have_count(len(GROUPS))
    shown = numbers.all_inner_texts()
    assert all(re.fullmatch(rf"{NUMBER} (± {NUMBER}|\({NUMBER} to {NUMBER}\))", one) for one in shown)
    assert shown == [row[1] for row in number_table(result["picture"])["rows"]]
    # Every group stands on the picture, whole names in the table beside it; the legend draws what is drawn.
    labels = page.locator(".chart text.tick[text-anchor=end]").all_text_contents()
    assert len(labels) == len(GROUPS)
    assert page.locator(".numbers tbody th").all_inner_texts() == GROUPS
    expect(page.locator(".made-legend .key.reach")).to_have_count(1)
    page.select_option("#decimal", "comma")
    expect(numbers).to_have_text([one.replace(".", ",") for one in shown])
    expect(page.locator("a:has-text('Download package')")).to_have_attribute("href", re.compile("decimal=comma"))
    page.reload()
    expect(page.locator("#decimal")).to_have_value("comma")
    page.select_option("#decimal", "point")
    page.fill("#about-title-field", "Districts <of> Aarau")
    page.fill("#about-purpose", "planning the grid")
    page.fill("#about-approver", "M. Muster")
    page.click("button:text('Keep')")
    page.wait_for_selector(".plain:has-text('Districts <of> Aarau, released on')")
    page.click("text=Verify this")
    page.wait_for_selector("#verified dd:has-text('numbers and certificate (answers.csv)')")


@pytest.mark.parametrize("decimal", ["point", "comma"])
def test_one_page_and_every_table_of_a_package_say_the_same(studio: Running, released: str, decimal: str) -> None:
    said = {"title": "Districts <of> Aarau", "purpose": "planning the grid", "approver": "M. Muster"}
    assert studio.client.post(f"/api/releases/{released}/about", json=said).status_code == 200
    body = studio.client.get(f"/api/releases/{released}/files/package.zip?decimal={decimal}").content
    with zipfile.ZipFile(io.BytesIO(body)) as parcel:
        files = {name: parcel.read(name) for name in parcel.namelist()}
    found = studio.client.post("/api/certificate", files={"file": ("package.zip", body)}).json()
    assert (found["verdict"], found["checked"]) == (
        "verified",
        "numbers and certificate (answers.csv, answers.parquet, answers.xlsx)",
    )
    page, text = files["report.html"].decode(), files["answers.csv"].decode("utf-8-sig")
    for words in ("Districts &lt;of&gt; Aarau", "planning the grid", "M. Muster", "What the band holds", "<svg"):
        assert words in page
    table = studio.client.get(f"/api/releases/{released}").json()["result"]["table"]["rows"]
    for group, number in table:
        assert group in page
        assert (number.replace(".", ",") if decimal == "comma" else number) in page
    separator, number = (";", r"-?\d+,\d+") if decimal == "comma" else (",", r"-?\d+\.\d+")
    assert re.fullmatch(number, text.splitlines()[1].split(separator)[-3])
    # One altered cell of any of its tables, and it does not verify.
    deviation = text.splitlines()[1].split(separator)[-3]
    forged = {**files, "answers.csv": text.replace(deviation, f"9{deviation}", 1).encode()}
    parcel_of_forged = io.BytesIO()
    with zipfile.ZipFile(parcel_of_forged, "w") as writing:
        for name, content in forged.items():
            writing.writestr(name, content)
    refused = studio.client.post("/api/certificate", files={"file": ("package.zip", parcel_of_forged.getvalue())})
    assert refused.json()["verdict"] == "does not verify"


def test_numbers_that_were_changed_after_the_release_do_not_verify(studio: Running) -> None:
    order = studio.order(studio.account())
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    path = f"/api/releases/{order['key']}/verify"
    assert studio.client.post(path).json()["verdict"] == "verified"
    (file,) = (studio.folder / "home.ledger.studio" / "releases" / order["key"]).glob("release.csv")
    file.write_text(file.read_text(encoding="utf-8").replace("\n", "\n9", 1), encoding="utf-8")
    assert studio.client.post(path).json()["verdict"] == "does not verify"


def test_every_picture_has_its_numbers_behind_it_and_what_is_spent_stays_spent(visit: Come, studio: Running) -> None:
    account = studio.account()
    for _ in range(2):
        order = studio.order(account)
        studio.client.post("/api/releases", json=order)
        assert studio.finished(order["key"])["state"] == "released"
    page = visit(f"/accounts/{account}").page
    page.wait_for_selector(".chart[data-drawn]")
    (line,) = page.locator(".chart path.line.c0").evaluate_all("all => all.map(one => one.getAttribute('d'))")
    assert re.search(r"V?\d+(\.\d+)?H\d+$", line)  # the last debit goes on until today, and is no spike
    page.click(".behind summary")
    rows = page.locator(".behind tbody tr")  # made when it unfolds, which a page hears of later
    expect(rows).to_have_count(3)
    used = studio.client.get(f"/api/history?account={account}").json()["used"]
    assert used == sorted(used)
    assert float(rows.last.locator("td").inner_text()) == pytest.approx(100 * used[-1], rel=1e-3)
    assert json.dumps(used[0]) == "0.0"
    page.goto(studio.pages + "/explore")
    page.wait_for_selector("#curve[data-drawn]")
    page.click(".behind summary >> nth=0")
    page.wait_for_function("document.querySelectorAll('.behind tbody tr').length >= 61")


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("0.6341347449167849", "0.634135"),
        ("-12345.678901", "-12345.7"),
        ("1.5", "1.5"),
        ("77654321.987", "77654322"),
        ("00123", "00123"),
        ("2024-01-11 08:15:00.250", "2024-01-11 08:15:00.250"),
        ("1.2.3", "1.2.3"),
        ("", ""),
        ("2.0000000001e-07", "2e-07"),
    ],
)
def test_a_row_that_is_shown_has_digits_that_say_something(cell: str, shown: str) -> None:
    assert shown_cell(cell) == shown


def test_synthetic_rows_are_shown_and_their_band_is_called_what_it_is(studio: Running) -> None:
    order = studio.order(studio.account(), "synthetic", "folder-0/kinds.csv", label="kind", rows=400)
    studio.client.post("/api/releases", json=order)
    found = studio.finished(order["key"])
    assert found["state"] == "released", found["message"]
    base = f"/api/releases/{order['key']}/files/"
    written = list(csv.reader(io.StringIO(studio.client.get(base + "synthetic.csv").text)))
    assert found["result"]["rows"] == written[:9]
    for page in (f"/release/{order['key']}", base + "report.html"):
        text = studio.client.get(page, headers={"Accept": "text/html"}).text
        assert "The first rows" in text
        assert shown_cell(written[8][0]) in text
        assert written[8][0] not in text, "digits that say nothing"
        assert "in 9 of 10 cases" in text
        assert "95 %" not in text
    verdict = studio.client.post(f"/api/releases/{order['key']}/verify").json()
    assert (verdict["verdict"], verdict["checked"]) == ("verified", "numbers and certificate (synthetic.csv)")
    # What the account's history calls it is its title, and not the mechanism's words.
    history = studio.client.get(f"/accounts/{order['account']}", headers={"Accept": "text/html"}).text
    assert f'<a href="/release/{order["key"]}">Synthetic rows, kinds.csv</a>' in history
