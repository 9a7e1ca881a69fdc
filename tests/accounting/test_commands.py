"""`gaussveil budget`, `verify` and `key` as a user types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Charge, Guarantee, Ledger, transaction
from gaussveil.cli.budget import budget_app
from gaussveil.cli.certificates import key_app, verify
from gaussveil.errors import AccountNotFoundError, FormatError, LedgerStateError, ParameterError
from gaussveil.spectrum import GaussianPair

app = typer.Typer()
app.add_typer(budget_app)
app.add_typer(key_app)
app.command("verify")(verify)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def answer(*words: object) -> dict[str, object]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "home.ledger"
    answer("budget", "new", path, "--account", "homes", "--epsilon", 3, "--delta", 1e-5, "--dataset", "winter")
    return path


def test_new_and_show(path: Path, charge: Charge, draft: CertificateDraft) -> None:
    empty = answer("budget", "show", path, "--account", "homes")
    assert (empty["epsilon"], empty["delta"], empty["spent_epsilon"], empty["entries"]) == (3.0, 1e-5, 0.0, [])
    with transaction(Ledger(path).open_account("b", epsilon=1.0, delta=1e-4), charge, draft) as debit:
        debit.draw(lambda: 0)
    shown = answer("budget", "show", path, "--account", "b")
    assert [(entry["id"], entry["state"]) for entry in shown["entries"]] == [(debit.id, "released")]  # type: ignore[attr-defined]
    statement = Ledger(path).statement("b")
    assert (shown["spent_epsilon"], shown["spent_delta"]) == (statement.spent_epsilon, statement.spent_delta)
    text = run("budget", "show", path, "--account", "b").stdout
    assert debit.id in text
    assert "released" in text
    assert run("budget", "new", path, "--account", "c", "--epsilon", 1, "--delta", 1e-5).exit_code == 0
    assert Ledger(path).accounts() == ["homes", "b", "c"]


def test_adjacency_filter_and_plan(path: Path, tmp_path: Path, charge: Charge) -> None:
    made = answer(
        "budget",
        "new",
        path,
        "--account",
        "r",
        "--epsilon",
        1,
        "--delta",
        1e-5,
        "--adjacency",
        "replace",
        "--unit",
        "home",
        "--filter",
        "renyi",
        "--order",
        20,
    )
    assert Adjacency.from_dict(made["adjacency"]) == Adjacency.replace_one("home")
    assert Ledger(path).terms("r").order == 20.0
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"charge": charge.to_dict(), "count": 3}]))
    answer(
        "budget",
        "new",
        path,
        "--account",
        "p",
        "--epsilon",
        3,
        "--delta",
        1e-5,
        "--adjacency",
        "add-remove",
        "--rule",
        "planned",
        "--plan",
        plan,
    )
    assert "pre-registered" in Ledger(path).terms("p").composition
    plan.write_text("{}")
    broken = run("budget", "new", path, "--account", "q", "--epsilon", 3, "--delta", 1e-5, "--plan", plan)
    assert isinstance(broken.exception, FormatError)
    lonely = run("budget", "new", path, "--account", "q", "--epsilon", 3, "--delta", 1e-5, "--unit", "home")
    assert isinstance(lonely.exception, ParameterError)


def test_history_export_and_void(path: Path, tmp_path: Path, charge: Charge) -> None:
    entry = Ledger(path).debit("homes", charge, Adjacency.add_remove(), what="mean").id
    assert answer("budget", "void", path, "--entry", entry, "--reason", "cancelled") == {
        "entry": entry,
        "state": "void",
    }
    assert isinstance(run("budget", "void", path, "--entry", entry, "--reason", "again").exception, LedgerStateError)
    events = answer("budget", "history", path, "--account", "homes")
    assert [event["event"] for event in events["events"]] == ["opened", "debited", "void"]  # type: ignore[attr-defined]
    assert "intact" in run("budget", "history", path, "--account", "homes").stdout
    out = tmp_path / "out"
    answer("budget", "export", path, "--account", "homes", "--out", out)
    assert json.loads(out.read_text())["entries"][0]["state"] == "void"
    answer("budget", "export", path, "--account", "homes", "--out", out, "--format", "csv")
    assert [row["id"] for row in csv.DictReader(out.read_text().splitlines())] == [entry]
    assert isinstance(run("budget", "show", path, "--account", "none").exception, AccountNotFoundError)


def test_usage_errors_end_with_two(path: Path) -> None:
    assert run("budget", "new", path, "--account", "x").exit_code == 2
    assert run("budget", "new", path, "--account", "x", "--epsilon", 1, "--delta", 1, "--rule", "no").exit_code == 2


def released(draft: CertificateDraft) -> Certificate:
    with transaction(None, Charge(GaussianPair.mean_shift(0.2)), draft) as debit:
        debit.draw(lambda: 0)
    return debit.certificate


def test_verify_key_and_sign(tmp_path: Path, draft: CertificateDraft) -> None:
    file = released(draft).write(tmp_path / "out.csv.certificate.json")
    plain = answer("verify", file)
    assert plain["verified"] is True
    assert plain["signature"] == "none"
    keys = answer("key", "new", tmp_path / "owner.key")
    answer("key", "sign", file, "--key", keys["private_key"])
    assert answer("verify", file, "--public-key", keys["public_key"])["signature"] == "valid, by the given key"
    text = run("verify", file)
    assert text.exit_code == 0
    assert text.stdout.rstrip().endswith("verified")
    file.write_text(file.read_text().replace('"daily mean"', '"weekly mean"'))
    spoiled = run("verify", file)
    assert spoiled.exit_code == 1
    assert "altered after signing" in spoiled.stdout
    file.write_text("nonsense")
    assert isinstance(run("verify", file).exception, FormatError)


def test_verify_refutes_a_false_claim_and_no_guarantee(tmp_path: Path, draft: CertificateDraft) -> None:
    record = released(draft).to_dict() | {"delta": 1e-12, "delta_upper": 1e-12}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(record))
    result = run("verify", file, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verified"] is False
    seeded = CertificateDraft(
        released="x",
        mechanism="m",
        adjacency=draft.adjacency,
        epsilon=1.0,
        delta=1e-6,
        guarantee=Guarantee.none("seeded"),
    )
    released(seeded).write(file)
    result = run("verify", file)
    assert result.exit_code == 1
    assert "no guarantee" in result.stdout


def test_a_bad_budget_leaves_no_ledger_behind(tmp_path: Path) -> None:
    ledger = tmp_path / "new.ledger"
    answer = run("budget", "new", ledger, "--account", "a", "--epsilon", -1, "--delta", 1e-5)
    assert isinstance(answer.exception, ParameterError)
    assert not ledger.exists()
