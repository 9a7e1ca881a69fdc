"""Certificates of training runs: what is called rigorous was enclosed, and two verifiers enclose it each by itself."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gaussveil import DPSGD, Accountant, Certificate, Gaussian, verify
from gaussveil.accounting import Adjacency, CertificateDraft, Charge, Ledger, transaction
from gaussveil.accounting.proofs import IN_DOUBLES, PROVEN
from gaussveil.errors import BudgetExceededError, GaussveilError
from gaussveil.spectrum.profiles import Laplace, RandomisedResponse

SOURCE = Path(__file__).parents[2] / "verifier" / "gaussveil_verifier.py"
RUNS = {
    "long": Accountant().add(DPSGD(noise_multiplier=0.6, sampling_rate=0.001), 100_000),
    "beside a release": Accountant()
    .add(DPSGD(noise_multiplier=2.0, sampling_rate=0.1), 100)
    .add(Gaussian(noise_multiplier=5.0)),
    "replaced": Accountant("replace").add(DPSGD(noise_multiplier=4.0, sampling_rate=0.1), 100),
}


@cache
def independent() -> ModuleType:
    """The independent verifier, from its file: it is no part of the package."""
    specification = importlib.util.spec_from_file_location("gaussveil_verifier", SOURCE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def total(charges: list[tuple[Charge, int]]) -> Charge:
    first, *others = [charge * count for charge, count in charges]
    for other in others:
        first = first + other
    return first


def certified(charge: Charge, epsilon: float, delta: float, relation: str = "add-remove") -> Certificate:
    adjacency = Adjacency.replace_one("record") if relation == "replace" else Adjacency.add_remove("record")
    draft = CertificateDraft(released="a model", mechanism="DP-SGD", adjacency=adjacency, epsilon=epsilon, delta=delta)
    with transaction(None, charge, draft) as debit:
        debit.draw(lambda: None)
    return debit.certificate


def claiming(certificate: Certificate, delta: float) -> dict[str, Any]:
    record = certificate.to_dict()
    record["delta"] = record["delta_upper"] = delta
    return record


FULL = [pytest.param(name, marks=pytest.mark.full) for name in ("long", "replaced")]


@pytest.mark.parametrize("name", ["beside a release", *FULL])
def test_a_run_is_called_rigorous_and_both_verifiers_enclose_it(name: str) -> None:
    run = RUNS[name]
    certificate = certified(total(run.charges), run.epsilon(1e-5), 1e-5, run.relation)
    assert certificate.proven
    assert PROVEN in certificate.describe()
    ours, theirs = verify(certificate), independent().verify(certificate.to_json().encode())
    assert (ours.outcome, theirs.outcome) == ("verified", "verified")
    assert ours.proven
    assert 0.99e-5 < ours.delta_lower <= theirs.delta_upper
    assert theirs.delta_lower <= ours.delta_upper <= 1e-5
    record = claiming(certificate, 1e-5 / 27)  # too small a claim is proven to be false
    assert verify(Certificate.from_dict(record)).outcome == "refuted"
    assert independent().verify(json.dumps(record).encode()).outcome == "refuted"


def test_a_grid_of_doubles_is_not_called_rigorous() -> None:
    certificate = certified(Charge(Laplace(0.3)) + Charge(RandomisedResponse(0.4)), 0.5, 0.2)
    assert not certificate.proven
    assert IN_DOUBLES in certificate.describe()
    assert PROVEN not in certificate.describe()
    found = verify(certificate)
    assert found.ok
    assert not found.proven


def test_pure_privacy_and_closed_forms_are_proven() -> None:
    assert certified(Charge(Laplace(0.3)) + Charge(RandomisedResponse(0.4)), 0.75, 0.0).proven
    assert certified(Charge(Laplace(0.3)), 0.1, 0.1).proven


def test_a_file_that_states_too_small_an_end_is_not_called_rigorous() -> None:
    run = RUNS["beside a release"]
    certificate = certified(total(run.charges), run.epsilon(1e-5), 1e-5)
    assert not Certificate.from_dict(claiming(certificate, 1e-6)).proven


def test_an_account_may_be_called_like_a_profile() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=2.0, sampling_rate=0.1), 100)
    record = certified(total(run.charges), run.epsilon(1e-5), 1e-5).to_dict()
    record["account"] = record["dataset"] = '"random-allocation", "random-allocation"'
    assert verify(Certificate.from_dict(record)).outcome == "verified"


def test_a_run_is_charged_and_certified(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "runs.ledger").open_account("models", epsilon=2.4, delta=1e-5)
    run = Accountant().add(DPSGD(noise_multiplier=2.0, sampling_rate=0.1), 100)
    certificate = run.certify(delta=1e-5, account=account, unit="patient", released="a model")
    assert run.epsilon(1e-5) <= certificate.epsilon <= run.epsilon(1e-5) * (1 + 1e-10)
    assert certificate.account == "models"
    assert "it was not watched" in certificate.describe()
    with pytest.raises(BudgetExceededError):  # a second run is one too many
        run.certify(delta=1e-5, account=account, unit="patient")
    with pytest.raises(GaussveilError, match="allows delta"):
        run.certify(epsilon=1.0, delta=1e-5)
    with pytest.raises(GaussveilError, match="must be added"):
        Accountant().certify(delta=1e-5)
    assert Ledger(tmp_path / "runs.ledger").statement("models").states == {"released": 1}
