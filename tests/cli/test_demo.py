"""`gaussveil demo`: one run on a small simulated town, looked at from all sides, also in a real browser."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.accounting.diagnostics import MARK
from gaussveil.cli.main import main
from gaussveil.timeseries import simulate_households

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")

Run = Callable[..., tuple[int, str, str]]
HOMES, SEED = 8, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command leaves behind (the check of the wheel runs it in a process of its own)."""
    place, said, complained = tmp_path_factory.mktemp("demo"), StringIO(), StringIO()
    words = ["gaussveil", "demo", "--homes", str(HOMES), "--seed", str(SEED)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.chdir(place)
        patch.setattr(sys, "argv", [*words, "--out", "town", "--picture", "overview.svg", "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code, complained.getvalue()) == (0, "")
    (place / "answer.json").write_text(said.getvalue(), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def answer(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return found


def test_six_kinds_are_released_verified_and_audited(answer: dict[str, Any]) -> None:
    names = [item["name"] for item in answer["releases"]]
    assert names == ["profile", "total", "days", "stream", "forecast", "sketch"]
    for item in answer["releases"]:
        assert item["verified"]
        assert item["audit"] == "holds-on-these-neighbours"
        assert item["delta_upper"] <= item["delta"]


def test_exact_composition_is_what_the_ledger_says_and_below_the_sum(folder: Path, answer: dict[str, Any]) -> None:
    book = Ledger(folder / "town" / "town.ledger")
    book.check()
    by_release = {item["release_id"]: item for item in answer["releases"]}
    for account in answer["accounts"]:
        entries = book.entries(account["account"])
        assert {entry.state for entry in entries} == {"released"}
        own = [by_release.pop(entry.id) for entry in entries]
        assert len(own) == account["releases"]
        assert account["summed_epsilon"] == pytest.approx(sum(item["epsilon"] for item in own))
        composed = book.statement(account["account"]).composition.epsilon(account["delta"])
        assert account["exact_epsilon"] == pytest.approx(composed, rel=1e-9)
        assert account["exact_epsilon"] <= account["summed_epsilon"] <= account["budget_epsilon"]
        if account["releases"] > 1:
            assert account["exact_epsilon"] < 0.8 * account["summed_epsilon"]
    assert by_release == {}


def test_certificates_on_disk_verify(folder: Path, answer: dict[str, Any]) -> None:
    found = [
        Certificate.from_json(path.read_text(encoding="utf-8"))
        for path in sorted((folder / "town" / "certificates").iterdir())
    ]
    assert {one.release_id for one in found} == {item["release_id"] for item in answer["releases"]}
    assert all(verify(one).private for one in found)


def test_the_report_holds_no_private_value_and_the_owners_page_is_marked(folder: Path) -> None:
    shared = (folder / "town" / "demo.html").read_text(encoding="utf-8")
    private = folder / "town" / "private-diagnostics.html"
    assert MARK not in shared
    assert "home00000" not in shared
    assert MARK in private.read_text(encoding="utf-8")
    for path in (private, folder / "town" / "private-diagnostics.json"):
        assert path.stat().st_mode & 0o077 == 0
    # The three tables of the report: spending, certificates, and the exact curves of the three pairs.
    assert shared.count("<svg ") == 9
    assert "5.5069" in shared


def test_every_release_says_what_it_is_for_and_how_far_off_it_is(folder: Path) -> None:
    shared = (folder / "town" / "demo.html").read_text(encoding="utf-8")
    headings = ("average day", "energy, as it grows", "Synthetic days", "bill, privately", "evening", "homes' profiles")
    parts = shared.replace("&#39;", "'").split("<h2")[1:7]
    for heading, part in zip(headings, parts, strict=True):
        assert heading in part
        assert part.count("Use: ") == 1
        assert "Error" in part
    assert "cannot be useful with 8 units" in shared


def test_the_forecasts_setting_is_chosen_by_promises_alone() -> None:
    from gaussveil_town.evening import error_left, promised

    epsilon, delta = promised()
    assert error_left(epsilon, delta) <= 0.25 < error_left(epsilon / 2, delta)


def test_synthetic_days_are_sensible(folder: Path) -> None:
    lines = (folder / "town" / "synthetic-days.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("kind,kW 00-03 h")
    kw = np.array([line.split(",")[1:] for line in lines[1:]], dtype=np.float64)
    assert kw.shape == (2000, 8)
    assert (kw > 0).all()


def test_a_second_run_opens_a_second_ledger_and_leaves_the_first_alone(folder: Path) -> None:
    from gaussveil_town.files import new_ledger

    assert new_ledger(folder / "town", simulated=True).name == "town-2.ledger"


def opened(browser: Browser, path: Path, width: int) -> tuple[Page, list[str]]:
    """The page in an offline browser, and whatever it complained about or asked the network for."""
    context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri(), timeout=120_000)
    return page, trouble


@pytest.mark.parametrize(
    ("name", "width"),
    [
        pytest.param("demo.html", 360, id="shared-phone"),
        pytest.param("demo.html", 1000, id="shared-desk", marks=pytest.mark.full),
        pytest.param("private-diagnostics.html", 360, id="private-phone", marks=pytest.mark.full),
        pytest.param("private-diagnostics.html", 1000, id="private-desk"),
    ],
)
def test_the_pages_in_a_browser_without_network(browser: Browser, folder: Path, name: str, width: int) -> None:
    page, trouble = opened(browser, folder / "town" / name, width)
    pictures = page.locator("figure svg")
    assert pictures.count() >= 4
    for picture in pictures.all():
        box = picture.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 100
        # Drawn, not just there: lines and letters are paths of some extent.
        assert picture.evaluate("e => [...e.querySelectorAll('path')].some(p => p.getBBox().width > 50)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = (
        "[...document.querySelectorAll('p, h1, h2, dl, footer')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert page.evaluate(wide) == 0
    assert trouble == []
    page.context.close()


def write_long(path: Path, homes: int = 8, days: int = 11, change: Callable[[list[str]], None] | None = None) -> Path:
    town = simulate_households(homes, days, 60, seed=2)
    lines = [
        f"{home},{time},{kw:.4f}"
        for home, row in zip(town.households, town.values)
        for time, kw in zip(town.times.astype(str), row)
    ]
    if change is not None:
        change(lines)
    path.write_text("\n".join(["household,time,kW", *lines]) + "\n", encoding="utf-8")
    return path


def negative(lines: list[str]) -> None:
    lines[5] = lines[5].rpartition(",")[0] + ",-1.0"


def unreadable_time(lines: list[str]) -> None:
    lines[7] = lines[7].replace("2018-", "once ")


def gap(lines: list[str]) -> None:
    del lines[9]


def watts(lines: list[str]) -> None:
    lines[:] = [",".join([home, time, f"{1000 * float(kw):.1f}"]) for home, time, kw in (x.split(",") for x in lines)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (negative, r"column 'kW', row 5: the value must be finite and not negative"),
        (unreadable_time, r"column 'time', row 7: the time is missing or misspelt"),
        (gap, r"column 'kW', household number 0, time number 9: reading missing .*--gaps"),
        (watts, r"half of the readings are above 50 kW .* --in"),
    ],
    ids=["negative", "time", "gap", "watts"],
)
def test_bad_data_is_refused_by_column_and_row(
    run: Run, tmp_path: Path, change: Callable[[list[str]], None], message: str
) -> None:
    table = write_long(tmp_path / "mine.csv", change=change)
    status, out, err = run("demo", "--data", table, "--out", tmp_path / "town")
    assert (status, out) == (2, "")
    assert re.search(message, err), err
    assert not (tmp_path / "town").exists()


def test_too_few_homes_or_days_are_refused_before_a_ledger_is_made(run: Run, tmp_path: Path) -> None:
    for homes, days, message in ((5, 11, "at least 8 households"), (8, 6, "at least 10 whole days")):
        table = write_long(tmp_path / f"{homes}.csv", homes, days)
        status, _, err = run("demo", "--data", table, "--out", tmp_path / "town")
        assert status == 2
        assert message in err
        assert not list(tmp_path.glob("town/*.ledger"))


def test_real_homes_are_not_debited_twice_in_one_folder(run: Run, tmp_path: Path) -> None:
    table = write_long(tmp_path / "mine.csv")
    Ledger.create(tmp_path / "town.ledger").open_account("all homes", epsilon=1.0, delta=1e-6, dataset="mine.csv")
    before = (tmp_path / "town.ledger").read_bytes()
    for arguments in (("--data", table), ("--homes", 8)):
        status, _, err = run("demo", *arguments, "--out", tmp_path)
        assert status == 5
        assert "spend again" in err
        assert "--out" in err
    assert (tmp_path / "town.ledger").read_bytes() == before


def test_noise_from_a_seed_is_for_simulated_towns_only(run: Run, tmp_path: Path) -> None:
    status, _, err = run("demo", "--data", write_long(tmp_path / "mine.csv"), "--repeatable", "--out", tmp_path / "x")
    assert status == 2
    assert "protects nobody" in err


def test_an_output_never_replaces_the_data(run: Run, tmp_path: Path) -> None:
    table = write_long(tmp_path / "synthetic-days.csv")
    kept = table.read_bytes()
    status, _, err = run("demo", "--data", table, "--out", tmp_path)
    assert status == 2
    assert "must not be the input" in err
    assert table.read_bytes() == kept
    assert os.listdir(tmp_path) == ["synthetic-days.csv"]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("demo", "--homess", "9"), "--homes"),
        (("demoo",), "Did you mean 'demo'"),
        (("demo", "--homes", "3"), "--homes must lie between 8 and"),
        (("demo", "--data", "absent.parquet", "--out", "x"), "absent.parquet: cannot be read"),
    ],
    ids=["option", "command", "number", "file"],
)
def test_slips_get_an_answer_to_act_on(run: Run, tmp_path: Path, arguments: tuple[str, ...], answer: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert answer in " ".join(err.split())
    assert os.listdir(tmp_path) == []
