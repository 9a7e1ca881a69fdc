"""Charges: exact round trips, folding, what may stand in for what."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.accounting import Account, CertificateDraft, Charge, Ledger, transaction
from gaussveil.errors import FormatError, ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.profiles import Laplace, PoissonSubsampled

GAPS = st.floats(-5.0, 0.9)
ENERGIES = st.floats(0.0, 4.0)


@given(gap=GAPS, energy=ENERGIES, count=st.integers(1, 10**6), eta=st.floats(0.0, 1e-12))
def test_json_keeps_every_bit(gap: float, energy: float, count: int, eta: float) -> None:
    loss = PrivacyLoss.from_terms([gap, 0.0], [1, 2], [0.0, energy])
    charge = Charge(loss, count=count, sampler_error=eta)
    back = Charge.from_json(charge.to_json())
    assert back == charge
    assert back.sampler_error == eta
    source = back.parts[0].source
    assert isinstance(source, PrivacyLoss)
    assert source.energy.tolist() == loss.energy.tolist()
    assert source.variance_gap.tolist() == loss.variance_gap.tolist()
    assert pickle.loads(pickle.dumps(charge)) == copy.deepcopy(charge) == charge


def test_profiles_round_trip() -> None:
    charge = Charge(PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.01), count=7) + Charge(Laplace(0.5))
    assert Charge.from_json(charge.to_json()) == charge
    assert charge.mean_shift_energy is None


def test_adding_folds_identical_parts() -> None:
    one = Charge(GaussianPair.mean_shift(0.5), sampler_error=1e-18)
    three = one + one + one
    assert [part.count for part in three.parts] == [3]
    assert three.mean_shift_energy == pytest.approx(0.75, rel=1e-15)
    assert three.sampler_error >= 3e-18
    assert (one * 3).parts[0].count == 3


def test_a_shorter_shift_may_take_a_longer_ones_place() -> None:
    long, short = Charge(GaussianPair.mean_shift(0.5)), Charge(GaussianPair.mean_shift(0.3))
    assert long.covers(short)
    assert long.covers(long)
    assert not short.covers(long)
    assert not long.covers(Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-18))
    # A different variance is no post-processing of a mean shift, however little it costs.
    assert not long.covers(Charge(PrivacyLoss.from_terms([0.01], [1], [0.0])))
    edges = Charge(PrivacyLoss.from_terms([[0.0], [0.0]], [[1], [1]], [[0.2], [0.3]]))
    assert not edges.covers(short)
    assert Charge(GaussianPair.mean_shift(1.0)).covers(edges)


def test_is_immutable_and_has_one_axis_of_edges() -> None:
    charge = Charge(PrivacyLoss.from_terms(np.zeros((3, 1)), np.ones((3, 1)), np.ones((3, 1))))
    assert charge.edges == 3
    with pytest.raises(AttributeError):
        charge.sampler_error = 0.0
    with pytest.raises(ParameterError, match="one axis"):
        Charge(PrivacyLoss.from_terms(np.zeros((3, 2, 1)), 1.0, 1.0))
    with pytest.raises(ParameterError, match="one axis"):
        charge + Charge(PrivacyLoss.from_terms(np.zeros((2, 1)), 1.0, 1.0))


@pytest.mark.parametrize("keywords", [{"count": 0}, {"count": 1.5}, {"sampler_error": -1.0}, {"sampler_error": np.nan}])
def test_refuses_bad_numbers(keywords: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Charge(GaussianPair.mean_shift(1.0), **keywords)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"parts": [], "sampler_error": 0}',
        '{"parts": [{"count": 1}], "sampler_error": 0}',
        '{"parts": [{"gaussian": {"variance_gap": [2], "multiplicity": [1], "energy": [0]}, "count": 1}], '
        '"sampler_error": 0}',
        '{"parts": [{"profile": {"profile": "new", "version": 1, "parameters": {}}, "count": 1}], "sampler_error": 0}',
    ],
)
def test_refuses_malformed_json(body: str) -> None:
    with pytest.raises(FormatError):
        Charge.from_json(body)


def test_refuses_what_cannot_be_read_back() -> None:
    pair = GaussianPair([0.0], [[1e-20]], [0.0], [[1.0]])
    for way in (pair, pair.reversed().reversed()):
        with pytest.raises(ParameterError, match="variance of X"):
            Charge(way)
    kept = Charge(pair.reversed())
    assert Charge.from_json(kept.to_json()) == kept


def test_a_charge_keeps_its_own_copy() -> None:
    loss = PrivacyLoss.from_terms([0.0], [1], [0.04])
    charge = Charge(loss)
    loss.energy.setflags(write=True)
    loss.energy[0] = 0.01
    assert charge.mean_shift_energy == 0.04
    held = charge.parts[0].source.energy  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 0.01


def test_an_altered_charge_is_never_debited(ledger: Ledger, account: Account, draft: CertificateDraft) -> None:
    charge = Charge(PrivacyLoss.from_terms([0.0], [1], [0.04]))
    charge.require_unchanged()
    held = charge.parts[0].source.energy  # type: ignore[union-attr]
    held.setflags(write=True)
    held[0] = 0.0
    for place in (account, None):
        with pytest.raises(ParameterError, match="altered"), transaction(place, charge, draft):
            pytest.fail("nothing may be drawn")
    with pytest.raises(ParameterError, match="altered"):
        ledger.debit("homes", charge, draft.adjacency)
    with pytest.raises(ParameterError, match="altered"):
        ledger.open_account("p", epsilon=1.0, delta=1e-5, adjacency=draft.adjacency, rule="planned", plan=[(charge, 2)])
    assert ledger.entries("homes") == []
