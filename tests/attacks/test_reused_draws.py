"""Whoever answers one random query several times, and pays as if each answer had a query of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.accounting import Account, Ledger, verify
from gaussveil.errors import LedgerStateError, ParameterError
from gaussveil.mechanisms import ClassLabelNoise
from gaussveil.spectrum import GaussianPair

MEANS = [[0.0], [1.0]]
EQUAL, UNEQUAL = [[[1.0]], [[1.0]]], [[[1.0]], [[2.0]]]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=1.0, delta=0.9)


def noise(
    account: Account | None, covariances: list[list[list[float]]] = EQUAL, delta: float | None = None
) -> ClassLabelNoise:
    settings: dict[str, Any] = {"accuracy": 4.0} if delta is None else {"delta": delta}
    mechanism = ClassLabelNoise(epsilon=1.0, account=account, noise_means=False, common_covariance=True, **settings)
    return mechanism.design(MEANS, covariances)


def together(mechanism: ClassLabelNoise, answers: int) -> float:
    """The truth: so many answers to one query, whose own draw they share."""
    plan = mechanism.plan_
    laws = []
    for label in (0, 1):
        drawn = float(np.asarray(plan.noises[label].continuous_covariance)[0, 0])
        own = float(plan.models.covariances[label][0, 0])
        laws += [plan.centres[label][0] * np.ones(answers), drawn * np.eye(answers) + own]
    pair = GaussianPair(*laws)
    return float(max(pair.delta(1.0), pair.reversed().delta(1.0)))


@pytest.mark.parametrize("covariances", [EQUAL, UNEQUAL], ids=["equal spreads", "other spreads"])
def test_answers_to_a_draw_without_a_name_cost_what_they_show_together(
    ledger: Ledger, account: Account, covariances: list[list[list[float]]]
) -> None:
    """The same query, and the same but for one bit: no digest of the value can know, so nothing rests on it."""
    mechanism = noise(account, covariances)
    for count in range(1, 4):
        release = mechanism.release(0, [0.7 * (1 + count * 2.0**-50)])
        assert ledger.statement("homes").spent_delta >= together(mechanism, count)
        assert verify(release.certificate).private
        assert any("is not named" in line for line in release.certificate.assumptions)
        assert release.certificate.delta >= together(mechanism, 1)
    assert mechanism.worst_delta_ < release.certificate.delta


def test_one_release_per_named_draw_and_ledger(ledger: Ledger, account: Account) -> None:
    mechanism = noise(account)
    release = mechanism.release(0, [0.7], draw="2026-11-18")
    assert release.certificate.delta == mechanism.worst_delta_
    assert any(
        "'2026-11-18'" in line and "one release of that name" in line for line in release.certificate.assumptions
    )
    other = noise(ledger.open_account("flats", epsilon=1.0, delta=0.9))
    for again in (mechanism, other):
        for name in ("2026-11-18", " 2026-11-18", "\uff12026-11-18"):
            with pytest.raises(LedgerStateError, match="this very draw"):
                again.release(0, [0.7 * (1 + 2.0**-50)], draw=name)
        with pytest.raises(LedgerStateError, match="this very draw"):  # the same bits under another name
            again.release(0, [0.7], draw="2026-11-19")
    other.release(0, [0.1], draw="2026-11-20")
    with pytest.raises(ParameterError, match="draw"):
        other.release(0, [0.2], draw="2026-11-\u200b21")
    assert len(ledger.entries("homes")) + len(ledger.entries("flats")) == 2


def test_a_promised_delta_that_counts_on_the_draw_needs_its_name(account: Account) -> None:
    mechanism = noise(account, delta=0.05)
    with pytest.raises(ParameterError, match=r"draw='2026-11-18'"):
        mechanism.release(0, [0.7])
    assert mechanism.release(0, [0.7], draw="monday").certificate.delta == 0.05
