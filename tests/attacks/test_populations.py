"""Whoever opens a second budget for the same people, because their column has another name in another table."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gaussveil import GaussianRelease
from gaussveil.accounting import Account, Adjacency, Charge, Ledger, verify
from gaussveil.calibration import mean_shift_for
from gaussveil.cli.main import app
from gaussveil.errors import AssumptionError, GaussveilError, ParameterError
from gaussveil.spectrum import GaussianPair

HOMES = "homes of Aarau"
TERMS = {"epsilon": 3.0, "delta": 1e-5}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("winter", **TERMS, people=HOMES)


def release(account: Account, adjacency: Adjacency, people: str | None = HOMES) -> list[str]:
    mechanism = GaussianRelease(
        epsilon=0.5, delta=1e-7, l2_sensitivity=1.0, adjacency=adjacency, account=account, people=people
    )
    certificate = mechanism.release(np.zeros(2)).certificate
    assert verify(certificate).private
    return list(certificate.assumptions)


def test_units_rows_and_columns_of_other_names_pay_from_one_account(ledger: Ledger, account: Account) -> None:
    for unit in ("Z\u00e4hler-Nr", "household", "record"):
        said = release(account, Adjacency.add_remove(unit), f" {HOMES}")
        assert any(HOMES in line and unit in line for line in said)
    assert len(ledger.entries("winter")) == 3
    ledger.check()
    spent = ledger.statement("winter")
    assert spent.spent_epsilon > 0.5
    assert spent.to_dict()["people"] == HOMES
    assert spent.notices == []


def test_an_account_of_people_pays_for_nobody_else(ledger: Ledger, account: Account) -> None:
    release(account, Adjacency.add_remove("household"))
    release(account, Adjacency.add_remove("household"), None)  # the very column that it was opened with
    for adjacency, people, why in (
        (Adjacency.add_remove("record"), None, "does not say"),
        (Adjacency.add_remove("household"), "patients 2024", "is kept for"),
        (Adjacency.replace_one("household"), HOMES, "open an account for that adjacency"),
    ):
        with pytest.raises(AssumptionError, match=why):
            release(account, adjacency, people)
    plain = ledger.open_account("plain", **TERMS)
    with pytest.raises(AssumptionError, match="names no people"):
        release(plain, Adjacency.add_remove("household"))
    assert len(ledger.entries("winter")) == 2


@pytest.mark.parametrize(
    "adjacency",
    [Adjacency.event(2, 1.0), Adjacency.l2_ball(1.0), Adjacency.label_graph([("a", "b"), ("b", "a")])],
    ids=["event", "ball", "labels"],
)
def test_events_and_labels_stay_apart_with_the_sentence_why(
    ledger: Ledger, account: Account, adjacency: Adjacency
) -> None:
    with pytest.raises(ParameterError, match="less than all that is known"):
        ledger.open_account("events", **TERMS, people=HOMES, adjacency=adjacency)
    with pytest.raises(AssumptionError, match="less than all that is known"):
        ledger.debit("winter", Charge(GaussianPair.mean_shift(0.1)), adjacency, people=HOMES)
    assert ledger.accounts() == ["winter"]


def test_a_second_account_says_so_and_statements_add_up(
    ledger: Ledger, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    release(account, Adjacency.add_remove("household"))
    alone = ledger.statement("winter").spent_epsilon
    with caplog.at_level(logging.WARNING, "gaussveil"):
        second = ledger.open_account("summer", **TERMS, people=HOMES)
    assert any("the budgets of all their accounts add" in record.getMessage() for record in caplog.records)
    release(second, Adjacency.add_remove("Z\u00e4hler-Nr"))
    other = ledger.open_account("swapped", **TERMS, people=HOMES)
    release(other, Adjacency.replace_one("household"))
    for name in ("winter", "summer"):
        statement = ledger.statement(name)
        (together, apart) = statement.notices
        assert "2 accounts" in together
        assert "swapped" in apart
        assert "all 3 accounts together have told epsilon" in apart
        assert statement.spent_epsilon == alone
        assert statement.together.epsilon(1e-5) > 1.3 * alone
        # Who is replaced is removed and added: twice the shift of both accounts, and once that of the third.
        shift = mean_shift_for(0.5, 1e-7)
        least = GaussianPair.mean_shift(shift * (2**2 * 2 + 1) ** 0.5).epsilon(1e-5)
        assert least < statement.replaced_epsilon < 1.6 * least
    assert ledger.statement("swapped").replaced_epsilon == statement.replaced_epsilon
    fresh = ledger.open_account("fresh", **TERMS, people=HOMES)
    assert ledger.statement(fresh.name).replaced_epsilon == statement.replaced_epsilon
    with pytest.raises(GaussveilError, match="already"):
        ledger.open_account("again", **TERMS, people="Homes of Aarau")


def test_the_commands_say_it_too(tmp_path: Path) -> None:
    path = str(tmp_path / "spent.ledger")
    words = ["--epsilon", "3", "--delta", "1e-5", "--people", HOMES]
    for name in ("winter", "summer"):
        assert CliRunner().invoke(app, ["budget", "new", path, "--account", name, *words]).exit_code == 0
    for command in (["--account", "winter"], []):
        shown = " ".join(CliRunner().invoke(app, ["budget", "show", path, *command]).output.split())
        assert "have 2 accounts (winter, summer)" in shown or "have 2 accounts (summer, winter)" in shown
    exported = tmp_path / "winter.json"
    CliRunner().invoke(app, ["budget", "export", path, "--account", "winter", "--out", str(exported)])
    assert json.loads(exported.read_text())["statement"]["people_accounts"] == ["winter", "summer"]


@pytest.mark.parametrize("way", ["option", "project", "form"])
def test_tables_of_other_columns_pay_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    promise = ["--epsilon", "1", "--delta", "1e-7", "--mean", "kw", "--between", "0,5", "--rows-per-group", "4"]
    paying = ["--ledger", "spent.ledger", "--account", "winter"]
    budget = ["--epsilon", "3", "--delta", "1e-5", "--people", HOMES]
    assert CliRunner().invoke(app, ["budget", "new", "spent.ledger", "--account", "winter", *budget]).exit_code == 0
    mapped = {"option": "", "project": f'people = "{HOMES}"\n', "form": f'[form."*.csv"]\npeople = "{HOMES}"\n'}[way]
    (tmp_path / "gaussveil.toml").write_text(mapped)
    said = ["--people", HOMES] if way == "option" else []
    for number, column in enumerate(("household", "Zaehler-Nr")):
        (tmp_path / f"{number}.csv").write_text(
            f"{column},kw\n" + "".join(f"home{row},{row % 4}\n" for row in range(40))
        )
        words = ["query", f"{number}.csv", "--unit", column, *promise, *paying, *said, "--out", f"{number}.out.csv"]
        found = CliRunner().invoke(app, words)
        assert found.exit_code == 0, found.output
    assert len(Ledger("spent.ledger").entries("winter")) == 2
    if way == "option":
        words[words.index("1.out.csv")] = "again.csv"
        refused = CliRunner().invoke(app, [word for word in words if word not in said])
        assert refused.exit_code != 0
        assert len(Ledger("spent.ledger").entries("winter")) == 2
