"""What a plan, a refusal and a certificate of `query` say to somebody who has not read the manual."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run

PROMISE = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two days of 40 homes, with a day and a clock in two columns, and its form."""
    path = tmp_path / "r.csv"
    rows = [f"h{home},2024-03-0{1 + home % 2},7:30,{home % 4}" for home in range(40)]
    path.write_text("\n".join(["home,Datum,Uhrzeit,kw", *rows]) + "\n")
    types = 'home = "text"\nDatum = "date"\nUhrzeit = "text"\nkw = "number"\n'
    form = 'separator = ","\ndecimal = "."\nencoding = "utf-8"\nmissing = []\n'
    (tmp_path / "gaussveil.toml").write_text(f'[form."r.csv"]\n{form}\n[form."r.csv".columns]\n{types}')
    return path


def asked(table: Path, *words: str) -> list[str]:
    return ["query", str(table), "--unit", "home", *words, *PROMISE]


def test_a_plan_refuses_by_the_form_and_names_the_way_out(
    run: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    code, _, told = run(*asked(table, "--by", "hour(Uhrzeit)", "--count"))
    assert code != 0
    assert "write hour(Datum+Uhrzeit)" in told
    assert run(*asked(table, "--by", "hour(Datum+Uhrzeit)", "--count"))[0] == 0
    (table.parent / "gaussveil.toml").unlink()
    code, out, _ = run(*asked(table, "--by", "hour(Uhrzeit)", "--count"))
    assert code == 0
    assert "was not looked at" in out
    assert run(*asked(table, "--by", "hour(Uhrzeit)", "--count"), "--dry-run")[0] != 0


def test_a_plan_tells_factors_of_each_answer(run: Run, table: Path) -> None:
    words = ("--by", "kw=0|1|2|3", "--count", "--sum", "kw", "--between", "0,3", "--law", "laplace")
    code, out, _ = run(*asked(table, *words))
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("sum_kw: --between")]
    assert "0.500 sum_kw, 1.000 count" in line
    assert "in every group: noise" in out
    assert "geometric mean over the answers" in out


def test_groups_that_cannot_show_are_refused_and_those_that_did_not_are_told(run: Run, table: Path) -> None:
    words = ("--by", "discover(Uhrzeit)", "--count", "--out", str(table.with_name("o.csv")))
    code, _, told = run(*asked(table, *words, "--units", "30"))
    assert code == 2
    assert "would be paid for without a group" in told
    assert not table.with_name("o.csv").exists()
    code, out, _ = run(*asked(table, *words))
    assert code == 0
    assert "no value had as many; the release is paid for all the same" in out


def test_a_certificate_and_its_page_speak_no_python(run: Run, table: Path) -> None:
    out, page = table.with_name("o.csv"), table.with_name("o.html")
    words = ("--by", "kw=0|1", "--count", "--mean", "kw", "--between", "0,3", "--quantile", "kw:0.5", "--totals")
    assert run(*asked(table, *words, "--out", str(out), "--report", str(page)))[0] == 0
    code, told, _ = run("verify", str(out))
    assert code == 0
    shown = page.read_text(encoding="utf-8")
    for text in (told, shown):
        assert "column=" not in text
        assert "{'" not in text
        assert "mean of kw between 0 and 3" in text
        assert "sum over the groups: a unit of several groups is in it as often" in text
    assert "learnt bounds" not in shown
    assert "not checked, the issuer's word: release, guarantee" in told


def test_a_refused_budget_says_what_fits(run: Run, table: Path) -> None:
    ledger, out = str(table.with_name("l")), str(table.with_name("o.csv"))
    assert run("budget", "new", ledger, "--account", "a", "--epsilon", "1.5", "--delta", "1e-5")[0] == 0
    words = asked(table, "--by", "kw=0|1", "--count", "--ledger", ledger, "--account", "a", "--law", "gaussian")
    assert [run(*words, "--out", out, "--force")[0] for _ in range(2)] == [0, 0]
    code, _, told = run(*words, "--out", out, "--force")
    assert code == 4
    fits = told.rpartition("still allows epsilon ")[2].split()[0]
    words[words.index("--epsilon") + 1] = fits
    assert run(*words, "--out", out, "--force")[0] == 0


def test_gaussian_noise_without_delta_is_told_what_it_needs(run: Run) -> None:
    code, _, told = run("calibrate", "--epsilon", "1", "--delta", "0")
    assert code == 2
    assert "--delta 0 needs --l1-sensitivity" in told
    assert run("calibrate", "--epsilon", "1", "--delta", "0", "--l1-sensitivity", "2")[0] == 0


def test_bands_of_quantiles_promise_no_more_than_they_hold(run: Run, table: Path) -> None:
    out, page = table.with_name("o.csv"), table.with_name("o.html")
    words = ("--quantile", "kw:0.5", "--between", "0,3")
    less = "hold less often than with 95 % where many rows share a value"
    assert less in run(*asked(table, *words))[1]
    assert less not in run(*asked(table, "--mean", "kw", "--between", "0,3"))[1]
    for more in ((), ("--count",)):
        told = run(*asked(table, *words, *more, "--out", str(out), "--report", str(page), "--force"))[1]
        assert less in told
        shown = page.read_text(encoding="utf-8")
        assert "less where many rows share a value" in " ".join(shown.split())


def test_a_release_speaks_of_as_many_units_as_its_plan(run: Run, table: Path) -> None:
    words = asked(table, "--mean", "kw", "--bounds", "auto", "--units", "2000")
    for more in ((), ("--out", str(table.with_name("o.csv")))):
        code, told, _ = run(*words, *more)
        assert code == 0
        assert "of 2,000 units in all, up to" in told
