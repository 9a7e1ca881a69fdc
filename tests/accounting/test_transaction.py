"""The order of events, clones, idempotent ids."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from gaussveil.accounting import Account, Certificate, CertificateDraft, Charge, Guarantee, Ledger, transaction, verify
from gaussveil.accounting.charge import LossOrProfile
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.debits import _CERTIFIED, release_id_given
from gaussveil.errors import AssumptionError, BudgetExceededError, LedgerStateError, ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.enclosures import enclosure
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.selection import SWITCH


def states(ledger: Ledger) -> list[str]:
    return [entry.state for entry in ledger.entries("homes")]


def test_the_debit_is_durable_before_the_draw(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    seen = []
    with transaction(account, charge, draft) as debit:
        seen.append(states(Ledger(ledger.path)))
        with pytest.raises(LedgerStateError, match="nothing was drawn"):
            _ = debit.certificate
        value = debit.draw(lambda: seen.append(states(Ledger(ledger.path))) or 7)
        assert debit.draw(lambda: 8) == 8
    assert value == 7
    assert seen == [["debited"], ["drawing"]]
    assert states(ledger) == ["released"]
    certificate = debit.certificate
    assert certificate.account == "homes"
    assert certificate.dataset == "winter"
    assert certificate.release_id == ledger.entries("homes")[0].id
    assert "mean shifts" in certificate.composition
    assert verify(Certificate.from_json(certificate.to_json()))


def test_a_draw_at_once_shares_the_commit_of_its_debit_and_is_never_given_back(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with transaction(account, charge, draft, at_once=True) as debit:
        assert states(Ledger(ledger.path)) == ["drawing"]
        assert debit.draw(lambda: 7) == 7
    with pytest.raises(KeyboardInterrupt), transaction(account, charge, draft, at_once=True):
        raise KeyboardInterrupt  # whether anything was drawn nobody can tell any more
    assert states(ledger) == ["released", "drawing"]
    assert [line.event for line in ledger.history("homes")][1:] == [
        "debited",
        "drawing",
        "released",
        "debited",
        "drawing",
    ]
    ledger.check()
    with pytest.raises(LedgerStateError, match="must be debited to become void"):
        ledger.void(ledger.entries("homes")[1].id, "nothing was drawn")


PAIRS = [
    *(GaussianPair.mean_shift(shift / 8) for shift in (0.3, 0.7, 1 / 3, 0.123456789)),
    GaussianPair.from_reduced([-0.01, 0.02, 0.005], [0.1 / 3, 0.07, 0.3 / 7]),  # squares rounded either way
]


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_a_transaction_encloses_connects_and_parses_once(
    account: Account, draft: CertificateDraft, monkeypatch: pytest.MonkeyPatch, pair: PrivacyLoss
) -> None:
    charge = Charge(pair)
    assert charge.as_stored().digest == charge.digest
    calls: list[str] = []
    for owner, name in ((Composition, "delta_upper"), (sqlite3, "connect"), (Charge, "from_dict")):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, _f=original, _n=name, **k: calls.append(_n) or _f(*a, **k))
    with transaction(account, charge, replace(draft, delta=0.5)) as debit:
        debit.draw(lambda: 1)
    assert sorted(calls) == ["connect", "connect", "delta_upper"]  # one to read, one to write
    monkeypatch.undo()
    upper = debit.certificate.delta_upper
    for form in (charge, charge.as_stored()):  # of exact mean gaps, and of the squares that the certificate stores
        assert Composition.of([(form, 1)], symmetric=False).delta_upper(draft.epsilon) <= upper


LOSSES: dict[str, LossOrProfile] = {
    "a mean shift": GaussianPair.mean_shift(0.0123),
    "a pair": PrivacyLoss.from_terms([-1e-3, 0.0], [1, 1], [0.0, 0.01]),
    "matrices": GaussianPair([0.01, 0.0], [[1.0, 0.1], [0.1, 1.01]], [0.0, 0.0], [[1.0, 0.1], [0.1, 1.0]]),
    "a random batch": PoissonSubsampled(GaussianPair.mean_shift(0.1), 0.01),
}


@pytest.mark.parametrize("filter", ["auto", "renyi", "planned"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_nothing_is_enclosed_while_the_ledger_is_locked(
    ledger: Ledger, draft: CertificateDraft, monkeypatch: pytest.MonkeyPatch, loss: LossOrProfile, filter: str
) -> None:
    """Whoever computes in balls must hold the lock of their precision: meanwhile others can write to the ledger."""
    charge, seen = Charge(loss), []

    class Watched:
        lock = enclosure.precision_lock()

        def __enter__(self) -> bool:
            with closing(sqlite3.connect(ledger.path, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            seen.append("free")
            return self.lock.__enter__()

        def __exit__(self, *error: object) -> None:
            self.lock.__exit__(*error)

    _CERTIFIED.clear()
    monkeypatch.setenv(SWITCH, "0")  # else doubles would prove it
    monkeypatch.setattr(enclosure, "_PRECISION_LOCK", Watched())
    options: dict[str, Any] = {"filter": filter}
    if filter == "planned":
        options = {"rule": "planned", "plan": [(charge, 3)], "adjacency": draft.adjacency}
    account = ledger.open_account("watched", epsilon=3.0, delta=1e-4, **options)
    for _ in range(2):
        with transaction(account, charge, replace(draft, delta=0.5)) as debit:
            debit.draw(lambda: 1)
    assert seen or isinstance(loss, PoissonSubsampled)


def test_a_failure_before_the_draw_costs_nothing(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with pytest.raises(ZeroDivisionError), transaction(account, charge, draft):
        _ = 1 / 0
    with transaction(account, charge, draft):
        pass
    assert states(ledger) == ["void", "void"]
    assert ledger.statement("homes").spent_delta == 0.0


@pytest.mark.parametrize("name", ["released", "mechanism"])
@pytest.mark.parametrize("word", [None, 3])
def test_words_of_a_draft_are_text(draft: CertificateDraft, name: str, word: Any) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be text"):
        replace(draft, **{name: word})


def test_a_failure_during_the_draw_stays_debited(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with pytest.raises(KeyboardInterrupt), transaction(account, charge, draft) as debit:
        debit.draw(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert states(ledger) == ["drawing"]
    assert ledger.statement("homes").spent_delta > 0
    with pytest.raises(LedgerStateError):
        ledger.void(debit.id, "I did not look")


def test_a_refused_release_draws_nothing(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    loose = CertificateDraft(released="x", mechanism="m", adjacency=draft.adjacency, epsilon=1.0, delta=0.9)
    with pytest.raises(BudgetExceededError), transaction(account, Charge(GaussianPair.mean_shift(2.0)), loose):
        pytest.fail("nothing may be drawn")
    with pytest.raises(AssumptionError, match="Calibrate"), transaction(account, charge * 100, draft):
        pytest.fail("nothing may be drawn")
    assert states(ledger) == []


def test_an_id_is_debited_and_drawn_once(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    # A debit whose process died before the draw is taken up again.
    ledger.debit("homes", charge, draft.adjacency, release_id="day-1")
    with transaction(account, charge, draft, release_id="day-1") as debit:
        debit.draw(lambda: 1)
    with (
        pytest.raises(LedgerStateError, match="fresh noise"),
        transaction(account, charge, draft, release_id="day-1") as debit,
    ):
        debit.draw(lambda: 2)
    with transaction(account, charge, draft, release_id="day-1", repeatable=True) as again:
        assert again.draw(lambda: 1) == 1
    assert again.certificate.released_at == ledger.entries("homes")[0].debited_at
    assert states(ledger) == ["released"]
    with transaction(None, charge, draft, release_id="day-1") as loose:
        loose.draw(lambda: 1)
    assert loose.certificate.release_id == "day-1"


def test_an_account_is_as_good_as_its_weakest_release(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    kinds = []
    for guarantee in (Guarantee.worst_case(), Guarantee.model_based("normal data"), Guarantee.none("seeded")):
        with transaction(account, charge, replace(draft, guarantee=guarantee)) as debit:
            debit.draw(lambda: 0)
        kinds.append(ledger.statement("homes").guarantee)
    assert kinds == ["worst case", "model-based", "none"]


def test_handles_travel(account: Account) -> None:
    assert pickle.loads(pickle.dumps(account)) == copy.deepcopy(account) == account
    assert vars(account) == {"ledger": account.ledger, "name": "homes"}


class Mean(BaseEstimator):  # type: ignore[misc]
    """The smallest estimator that debits an account."""

    def __init__(self, account: Account | None = None, shift: float = 0.1) -> None:
        self.account = account
        self.shift = shift

    def fit(self, rows: np.ndarray, y: object = None) -> Mean:
        from gaussveil.accounting import Adjacency

        claim = CertificateDraft(
            released="mean", mechanism="test", adjacency=Adjacency.add_remove(), epsilon=1.0, delta=0.5
        )
        with transaction(self.account, Charge(GaussianPair.mean_shift(self.shift)), claim) as debit:
            self.mean_ = debit.draw(lambda: 0.0)
        return self

    def score(self, rows: np.ndarray, y: object = None) -> float:
        return -self.shift


def test_each_clones_fit_debits_and_a_grid_search_stops(ledger: Ledger, account: Account) -> None:
    original = Mean(account, 0.2)
    copied = clone(original)
    assert copied.account == account
    copied.fit(np.zeros((4, 1)))
    original.fit(np.zeros((4, 1)))
    assert states(ledger) == ["released", "released"]
    search = GridSearchCV(Mean(account), {"shift": [0.2, 0.25, 0.3]}, cv=4, error_score="raise")
    with pytest.raises(BudgetExceededError):
        search.fit(np.zeros((8, 1)))
    assert ledger.statement("homes").spent_delta <= 1e-5


def draw_once(account: Account, charge: Charge, draft: CertificateDraft, identifier: str) -> str:
    try:
        with transaction(account, charge, draft, release_id=identifier) as debit:
            debit.draw(lambda: None)
    except LedgerStateError:
        return "refused"
    return "drawn"


def test_of_many_processes_with_one_id_one_draws(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.starmap(draw_once, [(account, charge, draft, "same")] * 8)
    assert sorted(found) == ["drawn"] + ["refused"] * 7
    assert states(ledger) == ["released"]


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_nothing_is_drawn_after_the_block(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft, recorded: bool, repeatable: bool
) -> None:
    place = account if recorded else None
    with transaction(place, charge, draft, release_id="unused", repeatable=repeatable) as unused:
        pass
    with transaction(place, charge, draft, release_id="used", repeatable=repeatable) as used:
        used.draw(lambda: 1)
    with (
        pytest.raises(ZeroDivisionError),
        transaction(place, charge, draft, release_id="failed", repeatable=repeatable) as failed,
    ):
        failed.draw(lambda: 1 / 0)
    for late in (unused, used, failed):
        with pytest.raises(LedgerStateError, match="has ended"):
            late.draw(lambda: pytest.fail("nothing may be drawn"))
    assert states(ledger) == (["void", "released", "drawing"] if recorded else [])


def test_a_debit_given_back_meanwhile_is_not_drawn_even_if_repeatable(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    def draw_what_was_voided() -> None:
        with transaction(account, charge, draft, release_id="r", repeatable=True) as debit:
            ledger.void("r", "by hand")
            debit.draw(lambda: pytest.fail("nothing may be drawn"))

    with pytest.raises(LedgerStateError, match="it is void") as caught:
        draw_what_was_voided()
    # What failed is told first; that nothing could be given back is a note to it.
    assert "to become drawing" in str(caught.value)
    assert "could not be given back" in caught.value.__notes__[0]


def test_a_siblings_failure_neither_voids_nor_hides(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with transaction(account, charge, draft, release_id="day-1") as first:
        with pytest.raises(ZeroDivisionError), transaction(account, charge, draft, release_id="day-1"):
            _ = 1 / 0
        with transaction(account, charge, draft, release_id="day-1"):
            pass
        assert states(ledger) == ["debited"]
        assert first.draw(lambda: 1) == 1
    assert states(ledger) == ["released"]

    def fail_after_a_sibling_drew() -> None:
        with transaction(account, charge, draft, release_id="day-2"):
            with transaction(account, charge, draft, release_id="day-2") as second:
                second.draw(lambda: 2)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        fail_after_a_sibling_drew()
    assert "stays as it is" in caught.value.__notes__[0]
    assert states(ledger) == ["released", "released"]


def test_an_id_given_around_a_mechanism_debits_once(
    ledger: Ledger, account: Account, charge: Charge, draft: CertificateDraft
) -> None:
    with release_id_given("key"):
        with transaction(account, charge, draft) as debit:
            debit.draw(lambda: 7)
        with pytest.raises(LedgerStateError, match="new release_id"), transaction(account, charge, draft) as again:
            again.draw(lambda: 8)
    assert debit.certificate.release_id == "key"
    assert [(entry.id, entry.state) for entry in ledger.entries("homes")] == [("key", "released")]
    with transaction(account, charge, draft) as other:  # outside of the block ids are drawn again
        other.draw(lambda: 9)
    assert other.id != "key"
