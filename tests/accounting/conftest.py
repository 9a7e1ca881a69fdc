"""What the accounting tests share: a ledger, a cheap charge, a draft that it satisfies."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaussveil.accounting import Account, Adjacency, CertificateDraft, Charge, Ledger
from gaussveil.spectrum import GaussianPair


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=3.0, delta=1e-5, dataset="winter")


@pytest.fixture
def charge() -> Charge:
    return Charge(GaussianPair.mean_shift(0.2), sampler_error=1e-19)


@pytest.fixture
def draft() -> CertificateDraft:
    return CertificateDraft(
        released="daily mean",
        mechanism="gaussian",
        adjacency=Adjacency.add_remove("home"),
        epsilon=1.0,
        delta=1e-6,
        assumptions=("at most one row per home",),
        parameters={"sensitivity": 1.0},
    )
