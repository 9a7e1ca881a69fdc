"""Whatever nonsense is passed, one sentence of ours answers and nothing is spent: no traceback, no forged output."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gaussveil.accounting import Account, Adjacency, Certificate, CertificateDraft, Charge, Ledger, transaction
from gaussveil.cli.certificates import key_app, verify
from gaussveil.errors import GaussveilError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
SHIFT = GaussianPair.mean_shift(0.1)
DRAFT = CertificateDraft(released="mean", mechanism="m", adjacency=HOME, epsilon=1.0, delta=0.1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=1.0, delta=1e-4)


def draw(account: Account, **changes: object) -> None:
    with transaction(account, Charge(SHIFT), DRAFT, **changes) as debit:  # type: ignore[arg-type]
        debit.draw(lambda: 0)


ATTEMPTS: dict[str, Callable[[Ledger, Account], object]] = {
    "count nan": lambda ledger, account: Charge(SHIFT, count=math.nan),  # type: ignore[arg-type]
    "count of 400 digits": lambda ledger, account: Charge(SHIFT, count=10**400),
    "repeated nan times": lambda ledger, account: Charge(SHIFT) * math.nan,  # type: ignore[operator]
    "sampler error None": lambda ledger, account: Charge(SHIFT, sampler_error=None),  # type: ignore[arg-type]
    "loss to a power of 400 digits": lambda ledger, account: SHIFT**10**400,
    "event of length nan": lambda ledger, account: Adjacency.event(math.nan, 1.0),  # type: ignore[arg-type]
    "event of size text": lambda ledger, account: Adjacency.event(1, "1"),  # type: ignore[arg-type]
    "unit 5": lambda ledger, account: Adjacency.add_remove(5),  # type: ignore[arg-type]
    "radius None": lambda ledger, account: Adjacency.l2_ball(None),  # type: ignore[arg-type]
    "epsilon None": lambda ledger, account: ledger.open_account("x", epsilon=None, delta=1e-5),  # type: ignore[arg-type]
    "epsilon of 400 digits": lambda ledger, account: ledger.open_account("x", epsilon=10**400, delta=1e-5),
    "delta text": lambda ledger, account: ledger.open_account("x", epsilon=1.0, delta="1e-5"),  # type: ignore[arg-type]
    "order nan": lambda ledger, account: ledger.open_account("x", epsilon=1.0, delta=1e-5, order=math.nan),
    "plan of 2^70": lambda ledger, account: ledger.open_account(
        "x", epsilon=1.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[(Charge(SHIFT), 2**70)]
    ),
    "plan of words": lambda ledger, account: ledger.open_account(
        "x",
        epsilon=1.0,
        delta=1e-5,
        adjacency=HOME,
        rule="planned",
        plan=["mean"],  # type: ignore[list-item]
    ),
    "release id 7": lambda ledger, account: draw(account, release_id=7),
    "debit of id 7": lambda ledger, account: ledger.debit("homes", Charge(SHIFT), HOME, release_id=7),  # type: ignore[arg-type]
    "surrogate id": lambda ledger, account: draw(account, release_id="\ud800"),
    "reason 7": lambda ledger, account: ledger.void("x", 7),  # type: ignore[arg-type]
    "draft of epsilon None": lambda ledger, account: CertificateDraft(
        released="x",
        mechanism="m",
        adjacency=HOME,
        epsilon=None,  # type: ignore[arg-type]
        delta=0.1,
    ),
    "surrogate in a certificate": lambda ledger, account: Certificate.from_json(certificate("\\ud800")),
    "surrogate key in a certificate": lambda ledger, account: Certificate.from_json(
        certificate("x").replace('"parameters": {}', '"parameters": {"\\udfff": 1}')
    ),
}


def certificate(dataset: str) -> str:
    with transaction(None, Charge(SHIFT), DRAFT) as debit:
        debit.draw(lambda: 0)
    return debit.certificate.to_json().replace('"dataset": ""', f'"dataset": "{dataset}"')


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=list(ATTEMPTS))
def test_nonsense_meets_an_error_of_ours_and_spends_nothing(
    ledger: Ledger, account: Account, attempt: Callable[[Ledger, Account], object]
) -> None:
    with pytest.raises(GaussveilError):
        attempt(ledger, account)
    assert ledger.accounts() == ["homes"]
    assert ledger.entries("homes") == []
    ledger.check()


HIDING = {
    "escape": "\\u001b[2J\\u001b[1;1Hverified",
    "line break": "x\\nverified",
    "carriage return": "\\rverified",
    "right to left": "\\u202edeifirev",
    "separator": "\\u2028verified",
    "c1": "\\u009b2J",
}


@pytest.mark.parametrize("text", HIDING.values(), ids=list(HIDING))
def test_what_a_certificate_says_cannot_hide_that_it_does_not_verify(tmp_path: Path, text: str) -> None:
    app = typer.Typer()
    app.add_typer(key_app)
    app.command("verify")(verify)
    target = tmp_path / "forged.json"
    honest = Certificate.from_json(certificate(text)).to_json()
    forged = honest.replace('"delta": 0.1', '"delta": 1e-30').replace('"mean"', f'"{text}"')
    target.write_text(forged)
    found = CliRunner().invoke(app, ["verify", str(target)])
    assert found.exit_code == 1
    assert found.output.splitlines()[-1] == "does not verify"
    assert "verified" not in found.output.splitlines()
    assert all(letter.isprintable() for letter in found.output.replace("\n", ""))
