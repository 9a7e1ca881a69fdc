"""Random batches accounted for one pair of neighbours say nothing about another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaussveil import Accountant, GaussianPair, Ledger
from gaussveil.accounting import Adjacency, Charge
from gaussveil.accounting.ledger.rules import check_neighbours
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.spectrum.mixtures import GaussianMixture, PublicChoice
from gaussveil.spectrum.profiles import Laplace, PoissonSubsampled, PrivacyProfile
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch

PRESENCE = [
    PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.01),
    RandomAllocation(1.0, 100, 1),
    GaussianMixture((0.0, 0.5, 1.0), (0.9, 0.05, 0.05)),
    PublicChoice((0.5, 0.5), (PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.1), Laplace(0.1))),
]
REPLACED = [
    ReplacedInBatch(1.0, 0.01),
    FixedSizeBatch(1.0, 0.01),
    PublicChoice((0.5, 0.5), (ReplacedInBatch(1.0, 0.1), FixedSizeBatch(1.0, 0.1))),
]
RELATIONS = [
    Adjacency.add_remove(),
    Adjacency.replace_one(),
    Adjacency.l2_ball(1.0),
    Adjacency.label_graph([("a", "b")]),
]


@pytest.mark.parametrize("profile", PRESENCE + REPLACED, ids=lambda profile: profile.name)
@pytest.mark.parametrize("adjacency", RELATIONS, ids=lambda adjacency: adjacency.kind)
def test_charge_is_taken_for_its_own_neighbours_only(profile: PrivacyProfile, adjacency: Adjacency) -> None:
    own = "add-remove" if profile in PRESENCE else "replace"
    if adjacency.kind == own:
        check_neighbours(adjacency, Charge(profile))
        return
    with pytest.raises(AssumptionError, match="random batches"):
        check_neighbours(adjacency, Charge(profile))


def test_replacing_a_record_costs_more_than_the_profile_of_its_presence() -> None:
    # Why it matters: the profile of presence, charged for a replaced record, would promise a delta that is too small.
    presence, replaced = PRESENCE[0], REPLACED[0]
    assert replaced.delta(0.0) > 1.5 * max(presence.delta(0.0), presence.reversed().delta(0.0))


def test_account_of_replaced_records_refuses_and_spends_nothing(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.open_account("replaced", epsilon=5.0, delta=1e-3, adjacency=Adjacency.replace_one())
    with pytest.raises(AssumptionError, match="random batches"):
        ledger.debit("replaced", Charge(PRESENCE[0]), Adjacency.replace_one())
    with pytest.raises(AssumptionError, match="random batches"):
        ledger.open_account(
            "planned",
            epsilon=5.0,
            delta=1e-3,
            adjacency=Adjacency.replace_one(),
            rule="planned",
            plan=[Charge(PRESENCE[0])],
        )
    assert not ledger.entries("replaced")


@pytest.mark.parametrize(("relation", "foreign"), [("add-remove", REPLACED), ("replace", PRESENCE)])
def test_accountant_adds_batches_of_its_own_relation_only(relation: str, foreign: list[PrivacyProfile]) -> None:
    for profile in foreign:
        with pytest.raises(ParameterError, match="accounted for the relation"):
            Accountant(relation).add(profile)
        with pytest.raises(ParameterError, match="accounted for the relation"):
            Accountant(relation).add(Charge(profile))


def test_choice_among_mechanisms_is_of_one_relation() -> None:
    with pytest.raises(ParameterError, match="same neighbours"):
        PublicChoice((0.5, 0.5), (PRESENCE[0], REPLACED[0]))
