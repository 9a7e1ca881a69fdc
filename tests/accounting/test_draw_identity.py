"""One draw is answered once: the identity of what was drawn, in charges, ledger and certificates."""

from __future__ import annotations

import multiprocessing
import pickle

import numpy as np
import pytest

from gaussveil.accounting import (
    Account,
    Certificate,
    CertificateDraft,
    Charge,
    Ledger,
    draw_identity,
    transaction,
    verify,
)
from gaussveil.errors import FormatError, GaussveilError, LedgerStateError, ParameterError
from gaussveil.spectrum import GaussianPair

QUERY = np.array([0.25, -1.5, 3.0])


def answer(identity: str | None, size: float = 0.1) -> Charge:
    return Charge(GaussianPair.mean_shift(size), sampler_error=1e-19, draw_identity=identity)


def test_a_second_answer_to_one_draw_is_refused_and_costs_nothing(
    ledger: Ledger, account: Account, draft: CertificateDraft
) -> None:
    identity = draw_identity(account, QUERY)
    with transaction(account, answer(identity), draft) as debit:
        debit.draw(lambda: 1)
    spent = ledger.statement("homes").spent_delta
    for size in (0.1, 0.05):  # the cost makes no difference
        with (
            pytest.raises(LedgerStateError, match=r"this very draw.*nothing was drawn or spent"),
            transaction(account, answer(identity, size), draft),
        ):
            pytest.fail("nothing may be drawn")
    with pytest.raises(LedgerStateError, match="this very draw"):
        ledger.check_affordable("homes", answer(identity), draft.adjacency)
    assert ledger.statement("homes").spent_delta == spent
    assert len(ledger.entries("homes")) == 1
    # Another draw, and what is not drawn at all, are independent.
    ledger.debit("homes", answer(draw_identity(account, QUERY + 1)), draft.adjacency)
    ledger.debit("homes", answer(None), draft.adjacency)
    ledger.check()


def test_the_certificate_names_the_draw_and_still_verifies(account: Account, draft: CertificateDraft) -> None:
    identity = draw_identity(account, QUERY)
    with transaction(account, answer(identity), draft) as debit:
        debit.draw(lambda: 1)
    again = Certificate.from_json(debit.certificate.to_json())
    assert again.charge.draw_identities == (identity,)
    assert verify(again)
    with pytest.raises(FormatError):
        Certificate.from_json(debit.certificate.to_json().replace(identity, identity.upper()))


def test_a_voided_answer_frees_its_draw(ledger: Ledger, account: Account, draft: CertificateDraft) -> None:
    charge = answer(draw_identity(account, QUERY))
    with transaction(account, charge, draft):
        pass
    assert [entry.state for entry in ledger.entries("homes")] == ["void"]
    with transaction(account, charge, draft, release_id="again") as debit:
        debit.draw(lambda: 1)
    # The same release asked for again is the same debit, not a second answer; under another draw it is refused.
    assert not ledger.debit("homes", charge, draft.adjacency, release_id="again").created
    with pytest.raises(LedgerStateError, match="or another draw"):
        ledger.debit("homes", answer(draw_identity(account, -QUERY)), draft.adjacency, release_id="again")
    ledger.check()


def test_another_account_pays_for_no_second_answer(ledger: Ledger, account: Account, draft: CertificateDraft) -> None:
    other = ledger.open_account("flats", epsilon=1.0, delta=1e-5)
    assert draw_identity(other, QUERY) == draw_identity(account, QUERY)
    ledger.debit("homes", answer(draw_identity(account, QUERY)), draft.adjacency)
    with pytest.raises(LedgerStateError, match="this very draw"):
        ledger.debit("flats", answer(draw_identity(account, QUERY)), draft.adjacency)


def answer_once(account: Account, draft: CertificateDraft) -> str:
    try:
        with transaction(account, answer(draw_identity(account, QUERY)), draft) as debit:
            debit.draw(lambda: None)
    except LedgerStateError:
        return "refused"
    return "drawn"


def test_of_many_processes_one_answers(ledger: Ledger, account: Account, draft: CertificateDraft) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.starmap(answer_once, [(account, draft)] * 8)
    assert sorted(found) == ["drawn"] + ["refused"] * 7
    assert [entry.state for entry in ledger.entries("homes")] == ["released"]


def test_identities_are_keyed_and_follow_values_alone(ledger: Ledger, account: Account, tmp_path: object) -> None:
    identity = draw_identity(account, QUERY)
    assert identity == draw_identity(account, QUERY.tolist()) == draw_identity(account, QUERY[::-1][::-1])
    assert draw_identity(account, np.array([0.0])) == draw_identity(account, np.array([-0.0]))
    others = [(QUERY, QUERY), (QUERY[None],), ("x", QUERY), (QUERY * (1 + 2**-52),), (b"a", b"b"), (b"ab", b""), ()]
    assert len({identity, *(draw_identity(account, *drawn) for drawn in others)}) == 1 + len(others)
    elsewhere = Ledger.create(ledger.path.with_name("other.ledger")).open_account("homes", epsilon=1.0, delta=1e-5)
    assert draw_identity(elsewhere, QUERY) != identity
    assert draw_identity(None, QUERY) == draw_identity(None, QUERY) != identity


def test_charges_of_one_draw_do_not_add_up(account: Account) -> None:
    first, second = (answer(draw_identity(account, query)) for query in (QUERY, -QUERY))
    both = first + second + answer(None)
    assert both.draw_identities == tuple(sorted(first.draw_identities + second.draw_identities))
    assert pickle.loads(pickle.dumps(both)).draw_identities == both.draw_identities
    assert first == second == answer(None), "equal charges cost the same, whatever they were drawn from"
    for wrong in (
        lambda: both + first,
        lambda: first * 2,
        lambda: Charge(GaussianPair.mean_shift(0.1), count=2, draw_identity="0" * 64),
        lambda: answer("word"),
        lambda: answer("A" * 64),
    ):
        with pytest.raises(ParameterError):
            wrong()
    assert (first * 1).draw_identities == first.draw_identities
    for drawn in ("0" * 64, [1], [["0" * 64]], ["0" * 64] * 2):
        with pytest.raises(FormatError):
            Charge.from_dict({**first.cost(), "draw_identities": drawn})


def test_a_plan_knows_costs_and_the_ledger_draws(ledger: Ledger, draft: CertificateDraft) -> None:
    home = draft.adjacency
    planned = ledger.open_account(
        "plan", epsilon=1.0, delta=1e-5, adjacency=home, rule="planned", plan=[(answer(None), 3)]
    )
    charge = answer(draw_identity(planned, QUERY))
    ledger.debit("plan", charge, home)
    with pytest.raises(GaussveilError, match="this very draw"):
        ledger.debit("plan", charge, home)
    ledger.debit("plan", answer(draw_identity(planned, -QUERY)), home)
    ledger.check()
