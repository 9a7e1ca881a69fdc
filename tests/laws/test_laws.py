"""Laws that every mechanism obeys; the mechanisms are listed in `registry.py`."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest
from sklearn.base import clone

from gaussveil.accounting import Account, Certificate, Ledger, verify
from gaussveil.audit import BlackBoxAudit, audit_scores
from gaussveil.errors import BudgetExceededError, GaussveilError, ParameterError
from gaussveil.noise import SecureGenerator, SeededGenerator

from ..new_accounts import new_account
from .registry import CASES, MechanismCase

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

Words = NDArray[np.uint64]
PROMISE = {"epsilon": 1.0, "delta": 0.2}  # loose enough for a few thousand draws to tell noise from halved noise
# Draws that are judged and draws to choose an event by, in each run and with --full; and how often the auditor may
# refute what holds: fewer draws find halved noise as surely if it may err more often. Slow cases draw several numbers
# at once, enough for the test of their distribution; of 400 draws halved noise is refuted, but the lower bound on the
# power is too careful to say so.
SIZES = {False: (1000, 200), True: (2000, 500)}
SLOW = (200, 60)
MISTAKES = {False: 1e-3, True: 1e-10}


class WatchedGenerator(SecureGenerator):
    """Notes what the ledger says whenever something is drawn; on request breaks down instead of drawing."""

    def __init__(self, account: Account | None = None, broken: bool = False) -> None:
        super().__init__()
        self.account, self.broken = account, broken
        self.seen: list[list[str]] = []

    def _note(self) -> None:
        entries = Ledger(self.account.ledger).entries(self.account.name) if self.account else []
        self.seen.append([entry.state for entry in entries])
        if self.broken:
            raise RuntimeError("the generator broke down")

    def uint64(self, count: int) -> Words:
        self._note()
        return super().uint64(count)

    def random_bytes(self, count: int) -> bytes:
        self._note()
        return super().random_bytes(count)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return new_account(tmp_path)


def states(account: Account) -> list[str]:
    return [entry.state for entry in Ledger(account.ledger).entries(account.name)]


def size(case: MechanismCase, full: bool) -> tuple[int, int]:
    return SLOW if case.slow and not full else SIZES[full]


@cache
def sample(case: MechanismCase, full: bool) -> tuple[Certificate, NDArray[Any], NDArray[Any]]:
    """A certificate, and the noise of many outputs on the input and on its neighbour."""
    mechanism = case.build(**PROMISE, generator=SeededGenerator(20240607))
    certificate = case.release(mechanism, case.value).certificate
    on_value, on_neighbour = (
        case.draws(mechanism, data, sum(size(case, full))) for data in (case.value, case.neighbour)
    )
    return certificate, on_value - case.centre(case.value), on_neighbour - case.centre(case.neighbour)


def scores(case: MechanismCase, halved: bool, full: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    certificate, noise, neighbour_noise = sample(case, full)
    scale = 0.5 if halved else 1.0
    if halved and case.halved_draws is not None:
        mechanism = case.build(**PROMISE, generator=SeededGenerator(20240608))
        drawn = (case.halved_draws(mechanism, data, sum(size(case, full))) for data in (case.value, case.neighbour))
        noise, neighbour_noise = (2 * (output - case.centre(case.value)) for output in drawn)
    difference = case.centre(case.neighbour) - case.centre(case.value)
    return case.score(certificate, difference + scale * neighbour_noise), case.score(certificate, scale * noise)


def black_box_audit(case: MechanismCase, *, halved: bool, full: bool) -> BlackBoxAudit:
    """Our own auditor on our own mechanism: it sees outputs on two neighbours and nothing else."""
    judged, pilot = size(case, full)
    share, claim = pilot / (judged + pilot), (PROMISE["epsilon"], PROMISE["delta"])
    return audit_scores(*scores(case, halved, full), claim=claim, confidence=1 - MISTAKES[full], pilot=share)


def test_certificate_is_there_and_verifies(case: MechanismCase, account: Account) -> None:
    for promise in (PROMISE, {"epsilon": 0.3, "delta": 1e-9}):
        mechanism = case.build(**promise, account=account)
        certificate = case.release(mechanism, case.value).certificate
        assert mechanism.certificate_ is certificate
        assert (certificate.epsilon, certificate.delta) == (promise["epsilon"], promise["delta"])
        again = Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert verify(again).private
        assert certificate.account == "homes"
        assert certificate.assumptions
    assert states(account) == ["released", "released"]
    assert case.release(case.build(**PROMISE), case.value).certificate.account == "not recorded"


def test_account_is_debited_before_the_first_draw(case: MechanismCase, account: Account) -> None:
    generator = WatchedGenerator(account)
    case.release(case.build(**PROMISE, account=account, generator=generator), case.value)
    assert generator.seen
    assert all(seen == ["drawing"] for seen in generator.seen)
    assert states(account) == ["released"]


def test_a_draw_that_breaks_down_stays_debited(case: MechanismCase, account: Account) -> None:
    broken = case.build(**PROMISE, account=account, generator=WatchedGenerator(account, broken=True))
    with pytest.raises(RuntimeError, match="broke down"):
        case.release(broken, case.value)
    assert states(account) == ["drawing"]
    assert Ledger(account.ledger).statement("homes").spent_delta > 0
    assert not hasattr(broken, "certificate_")


def test_what_the_account_cannot_afford_is_refused_with_nothing_drawn(case: MechanismCase, tmp_path: Path) -> None:
    poor = new_account(tmp_path, epsilon=0.1, delta=1e-9)
    generator = WatchedGenerator(poor)
    with pytest.raises(BudgetExceededError):
        case.release(case.build(**PROMISE, account=poor, generator=generator), case.value)
    assert generator.seen == []
    assert states(poor) == []


BAD_PROMISES: tuple[dict[str, Any], ...] = (
    {"epsilon": -1.0},
    {"epsilon": float("nan")},
    {"epsilon": float("inf")},
    {"epsilon": None},
    {"delta": -1e-6},
    {"delta": 0.0},
    {"delta": 1.5},
    {"delta": float("nan")},
)
SENTENCES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"epsilon": 600.0}, "epsilon must be a number in [0, 500]. Got 600.0."),
    ({"epsilon": "1"}, "epsilon must be a number in [0, 500]. Got '1'."),
    ({"delta": 1.0}, "delta must be a number in [1e-100, 1). Got 1.0."),
    ({"generator": 7}, "generator must be a SecureGenerator or a SeededGenerator. Got 7."),
)


def test_bad_promises_are_refused_with_nothing_spent(case: MechanismCase, account: Account) -> None:
    generator = WatchedGenerator(account)
    for promise in BAD_PROMISES:
        with pytest.raises(GaussveilError):
            case.release(case.build(**{**PROMISE, **promise}, account=account, generator=generator), case.value)
        assert generator.seen == [], promise
        assert states(account) == [], promise


def test_a_promise_out_of_range_gets_one_sentence(case: MechanismCase) -> None:
    for promise, sentence in SENTENCES:
        with pytest.raises(ParameterError) as refused:
            case.release(case.build(**{**PROMISE, **promise}), case.value)
        assert str(refused.value) == sentence


def test_malformed_input_is_refused_with_nothing_spent(case: MechanismCase, account: Account) -> None:
    generator = WatchedGenerator(account)
    for value in case.malformed:
        with pytest.raises(GaussveilError):
            case.release(case.build(**PROMISE, account=account, generator=generator), value)
    assert generator.seen == []
    assert states(account) == []


def test_bad_records_do_not_refuse_a_release(case: MechanismCase) -> None:
    for data in case.bad_records:
        assert verify(case.release(case.build(**PROMISE), data).certificate).private


def test_output_has_the_distribution_that_the_certificate_declares(case: MechanismCase, full: bool) -> None:
    if case.residuals is None:  # no normal noise: the audits below hold it to its claim
        return
    certificate, *noises = sample(case, full)
    for noise in noises:
        standard = case.residuals(certificate, noise).ravel()
        # Half a hundred such tests, all with one seed: with fewer draws one of them is at 5e-4.
        assert kstest(standard, "norm").pvalue > (1e-3 if full else 1e-4)
        assert kstest(standard / 2, "norm").pvalue < 1e-12, "the test would not notice halved noise"


def test_audit_finds_no_violation(case: MechanismCase, full: bool) -> None:
    assert not black_box_audit(case, halved=False, full=full).refuted


def test_audit_finds_secretly_halved_noise(case: MechanismCase, full: bool) -> None:
    found = black_box_audit(case, halved=True, full=full)
    assert found.refuted
    if full or not case.slow:
        assert found.power_lower() >= (0.99 if full else 0.9)


def test_low_bits_tell_nothing(case: MechanismCase, full: bool) -> None:
    """The precision attack: on the secure generator, all outputs lie on one public grid, whatever the value."""
    mechanism = case.build(**PROMISE)
    count = 20 if case.slow and not full else 50
    for data in (case.value, case.neighbour):
        steps = case.draws(mechanism, data, count) / case.grid(case.release(mechanism, data).certificate)
        assert np.array_equal(steps, np.rint(steps))
        # Both parities occur: the grid is no finer than it says (of 50 fair coins, or 20 and more where an output is
        # of several numbers).
        assert 0 < np.sum(steps % 2) < steps.size


def test_seeded_noise_carries_no_guarantee(case: MechanismCase) -> None:
    certificate = case.release(case.build(**PROMISE, generator=SeededGenerator(3)), case.value).certificate
    assert str(certificate.guarantee) == "none (seeded)"
    assert not verify(certificate).private


def test_copies_debit_the_same_account_until_it_is_used_up(case: MechanismCase, account: Account) -> None:
    mechanism = case.build(**PROMISE, account=account)
    copies = (clone(mechanism), pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism))
    for made in copies:
        assert made is not mechanism
        assert made.account == account
        assert not hasattr(made, "certificate_")
        case.release(made, case.value)
    assert states(account) == ["released"] * 3
    while Ledger(account.ledger).statement("homes").filter_used < 0.75:  # four equal releases fit
        case.release(clone(mechanism), case.value)
    with pytest.raises(BudgetExceededError):
        case.release(clone(mechanism), case.value)
    assert Ledger(account.ledger).statement("homes").spent_delta <= 0.5
