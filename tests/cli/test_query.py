"""`gaussveil query` as a user types it, end to end with `budget` and `verify`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from gaussveil.accounting import Ledger
from gaussveil.cli.output import OUR_FAULT
from gaussveil.report.table import answer_figure

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    n = 3000
    times = np.datetime64("2024-05-01", "us") + np.arange(n) * np.timedelta64(20, "m")
    zones = np.array(["north", "south"])[rng.integers(0, 2, n)]
    meters = np.char.add("m", (np.arange(n) % 100).astype(str))
    table = pa.table({"meter_id": meters.tolist(), "time": times, "zone": zones.tolist(), "kw": rng.gamma(2.0, 1.0, n)})
    pq.write_table(table, tmp_path / "readings.parquet")
    return tmp_path / "readings.parquet"


WHO = ("--unit", "meter_id", "--epsilon", 1, "--delta", 1e-6)


def test_a_profile_with_page_certificate_and_debit(run: Run, readings: Path, tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "town.ledger")
    book.open_account("winter", epsilon=3, delta=1e-5)
    out, page = tmp_path / "profile.csv", tmp_path / "profile.html"
    asked = ("--by", "hour(time)", "--mean", "kw", "--between", "0,10", "--count", "--quantile", "kw:0.5,0.9")
    paying = ("--ledger", tmp_path / "town.ledger", "--account", "winter")
    code, told, error = run("query", readings, *WHO, *asked, *paying, "--out", out, "--report", page)
    assert code == 0, error
    table = pa.csv.read_csv(out)
    assert table.num_rows == 24
    assert {"hour", "mean_kw", "mean_kw_low", "mean_kw_high", "count", "quantile_kw_0.9"} <= set(table.column_names)
    assert len(book.entries("winter")) == 1
    assert run("verify", f"{out}.certificate.json")[0] == 0
    assert "<svg" in page.read_text(encoding="utf-8")
    assert f"24 groups; the page is {page}\nprotected: one meter_id is added or removed\n" in told


def test_a_date_and_a_clock_in_two_columns(run: Run, tmp_path: Path) -> None:
    lines = [f"m{k};{1 + k % 7:02d}.05.2024;{h:02d}:30;1,5" for k in range(2000) for h in (0, 13)]
    (tmp_path / "two.csv").write_text("Zähler;Datum;Zeit;kW\n" + "\n".join(lines) + "\n", encoding="windows-1252")
    asked = ("--unit", "Zähler", "--by", "hour(Datum+Zeit)", "--count", "--epsilon", 8, "--delta", 1e-6)
    code, _, error = run("query", tmp_path / "two.csv", *asked, "--out", tmp_path / "hours.csv")
    assert code == 0, error
    counts = pa.csv.read_csv(tmp_path / "hours.csv").column("count").to_numpy()
    assert counts[[0, 13]] == pytest.approx([2000, 2000], abs=100)
    assert np.delete(counts, [0, 13]) == pytest.approx(0, abs=100)


def test_bounds_of_variances_and_quantiles_are_learnt(run: Run, readings: Path, tmp_path: Path) -> None:
    asked = ("query", readings, *WHO, "--variance", "kw", "--quantile", "kw:0.5", "--bounds", "auto")
    code, told, error = run(*asked)
    assert code == 0, error
    assert "with values of size 1" in told  # of a nominal table: what bounds will be is not known yet
    assert "nan" not in told
    assert run(*asked, "--out", tmp_path / "out.csv")[0] == 0
    assert {"variance_kw", "quantile_kw_0.5_high"} <= set(pa.csv.read_csv(tmp_path / "out.csv").column_names)


def test_every_kind_of_key_and_answer(run: Run, readings: Path, tmp_path: Path) -> None:
    keys = (
        "weekday(time)",
        "month(time)",
        "date(time, 2024-05-01, 2024-05-03)",
        "bin(kw, 0, 1, 9)",
        "zone=north|south",
    )
    for k, key in enumerate((*keys, "discover(zone)")):
        out = tmp_path / f"{k}.parquet"
        answers = (
            "--sum",
            "kw",
            "--variance",
            "kw",
            "--share",
            "kw:3,inf",
            "--histogram",
            "kw:0,1,2",
            "--cdf",
            "kw:0,2,9",
        )
        code, _, error = run(
            "query", readings, *WHO, "--by", key, *answers, "--between", "kw:0,9", "--out", out, "--json"
        )
        assert code == 0, error
        assert pq.read_table(out).num_columns > 20


def test_without_an_output_the_plan_is_told_and_no_row_read(run: Run, readings: Path, tmp_path: Path) -> None:
    asked = ("--by", "hour(time)", "--mean", "kw", "--between", "0,10", "--count")
    code, told, error = run("query", readings, *WHO, *asked, "--json")
    assert code == 0, error
    plan = json.loads(told)
    assert plan["deviations_at_1000_units"]["count"] > 0
    assert plan["deviations_at_ends"]["mean_kw"] > 1.1 * plan["deviations_at_1000_units"]["mean_kw"]
    assert plan["alternatives"]["groups_per_unit=12"] < 1
    code, told, _ = run("query", readings, *WHO, *asked)
    for words in (
        "at the ends",
        "such as -999",
        "a twentieth of the range and of counts",
        "--groups-per-unit 12",
        "0,5 ",
    ):
        assert words in told
    assert "=" not in told
    for more in ((), ("--dry-run",)):
        code, _, error = run("query", tmp_path / "mistyped.parquet", *WHO, *asked, *more)
        assert (code, "mistyped.parquet" in error) == (2, True)


def test_a_sheet_with_a_column_for_each_home_is_told_what_to_make_of_it(run: Run, tmp_path: Path) -> None:
    sheet = tmp_path / "wide.csv"
    sheet.write_text("time," + ",".join(f"home{k}" for k in range(6)) + "\n2024-01-01 00:00" + ",1.5" * 6 + "\n")
    asked = ("--mean", "kw", "--between", "0,10")
    code, _, error = run("query", sheet, *WHO, *asked)
    assert (code, "sheet.melt('time'" in error) == (2, True)
    assert "--columns" not in error
    code, _, error = run("query", sheet, "--unit", "home1", *WHO[2:], "--mean", "home1", "--between", "0,10")
    assert (code, "its cells are names" in error) == (2, True)


def test_a_second_release_of_the_same_is_told_with_what_it_cost(run: Run, readings: Path, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "spent.ledger").open_account("winter", epsilon=5.0, delta=1e-5)
    paying = ("--ledger", tmp_path / "spent.ledger", "--account", "winter")
    outcomes = []
    for name, question in (
        ("a", "--count"),
        ("b", "--count"),
        ("c", "--sum kw --between 0,9"),
        ("b", "--count --force"),
    ):
        asked = (*question.split(), *paying, "--out", tmp_path / f"{name}.csv")
        code, _, error = run("query", readings, *WHO, *asked)
        outcomes.append((code, "paid the same for count before" in error, "epsilon 1 and delta 1e-06" in error))
    assert outcomes == [(0, False, False), (0, True, True), (0, False, False), (0, True, True)]


def test_a_decimal_comma_is_told_how_to_write_it(run: Run, readings: Path) -> None:
    code, _, error = run("query", readings, "--unit", "meter", "--epsilon", "0,5", "--delta", "1e-6", "--count")
    assert (code, error) == (2, "error GV105: --epsilon takes a decimal point: 0.5. Got '0,5'.\n")


def test_values_of_one_column_may_be_listed_in_several_keys(run: Run, readings: Path, tmp_path: Path) -> None:
    out = tmp_path / "zones.csv"
    by = ("--by", "zone=south", "--by", "weekday(time)", "--by", "zone=north")
    code, _, error = run("query", readings, *WHO, *by, "--count", "--out", out)
    assert code == 0, error
    answers = pyarrow.csv.read_csv(out)
    assert answers.column_names[:2] == ["zone", "weekday"]
    assert answers["zone"].to_pylist() == ["south"] * 7 + ["north"] * 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mean", "kw"), 'as in --between 0,10; bounds="auto" (--bounds auto) learns it.'),
        (
            ("--mean", "kw", "--bounds", "0,5"),
            "bounds must be 'auto', or left out with a range in between (--between).",
        ),
        (("--count", "--by", "hour(kw)"), "write them as 2024-03-31 12:00; seconds since a day are not read"),
        (("--count", "--by", "date(time)"), "date(time, FIRST, LAST)"),
        (("--count", "--report", "page.pdf"), "page.pdf: the output must end in .html"),
        (("--count", "--by", "hours"), "--by must be"),
        (("--count", "--by", "hour(nothing)"), "no column for --by nothing; its columns are"),
        (("--mean", "kwh", "--between", "0,1", "--by", "hour(when)"), "--mean kwh (kw?) and --by when; its"),
        (("--mean", "zone", "--between", "0,1"), "'zone' must hold numbers"),
        (("--histogram", "kw"), "--histogram must be"),
        (("--quantile", "kw:0.5"), "between must be given for Quantile"),
        (("--mean", "kw", "--between", "low,high"), "must hold numbers"),
        (("--mean", "kw", "--between", "1,2,3"), "LOW,HIGH"),
        ((), "query must ask for something: --count"),
        (("--count", "--by", "zone=north,south"), "--by must separate values by |"),
        (("--count", "--by", "zone=north", "--by", "discover(zone)"), "--by must name each key once. Got 'zone'"),
        (("--count", "--by", "hour(time)", "--by", "hour(time)"), "--by must name each key once. Got 'hour'"),
        (("--mean", "kw", "--between", "0,8", "--between", "0,4"), "--between must be given once for a column"),
    ],
)
def test_mistakes_are_one_line_and_cost_nothing(
    run: Run, readings: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    book = Ledger.create(tmp_path / "town.ledger")
    book.open_account("winter", epsilon=3, delta=1e-5)
    paying = ("--ledger", tmp_path / "town.ledger", "--account", "winter", "--out", tmp_path / "out.csv")
    code, told, error = run("query", readings, *WHO, *words, *paying)
    assert (code, told) == (2, "")
    assert said in error
    assert error.count("\n") == 1
    assert book.entries("winter") == []
    assert not (tmp_path / "out.csv").exists()


def test_a_second_key_is_drawn_as_lines_of_its_own() -> None:
    hours, zones = np.divmod(np.arange(72), 3)
    answers = pa.table({"hour": hours, "zone": [["north", "south", "west"][z] for z in zones]})
    for end, shift in (("", 0.0), ("_sd", 0.1), ("_low", -0.2), ("_high", 0.2)):
        answers = answers.append_column("count" + end, pa.array(zones + shift))
    axes = answer_figure(answers, ["hour", "zone"], "count").axes[0]
    assert [(line.get_label(), set(np.asarray(line.get_ydata()))) for line in axes.get_lines()] == [
        ("north", {0.0}),
        ("south", {1.0}),
        ("west", {2.0}),
    ]


@pytest.mark.parametrize(
    ("ending", "by"),
    [(".csv", ()), (".parquet", ("--by", "zone=north|south")), (".csv", ("--by", "discover(zone)"))],
    ids=["all", "listed", "found"],
)
def test_a_dry_run_tries_what_the_release_would_write(
    run: Run, readings: Path, tmp_path: Path, ending: str, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Ledger.create(tmp_path / "town.ledger")
    book.open_account("winter", epsilon=3, delta=1e-5)
    out, page = tmp_path / f"answers{ending}", tmp_path / "page.html"
    bounds = ("--between", "0,10") if by and "discover" in by[1] else ("--bounds", "auto")
    asked = (*WHO, *by, "--mean", "kw", *bounds, "--totals")
    paying = ("--ledger", tmp_path / "town.ledger", "--account", "winter", "--out", out, "--report", page)
    with monkeypatch.context() as broken:
        broken.setattr("gaussveil.report.table.answer_figure", lambda *_: 1 / 0)
        for more in (("--dry-run",), ()):
            code, _, error = run("query", readings, *asked, *paying, *more)
            assert (code, "ZeroDivisionError" in error) == (OUR_FAULT, True)
    assert book.entries("winter") == []
    assert not out.exists()
    code, _, error = run("query", readings, *asked, *paying, "--dry-run")
    assert (code, book.entries("winter"), out.exists()) == (0, [], False), error
    code, _, error = run("query", readings, *asked, *paying)
    assert code == 0, error
    assert len(book.entries("winter")) == 1
    assert "<svg" in page.read_text(encoding="utf-8")
