from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianEnvelope, PrivacyLoss, compose
from gaussveil.spectrum.closed_forms import log_delta_equal_ratios, log_delta_mean_shift
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.envelope import best_mixing
from gaussveil.spectrum.envelope_search import dominating_pair, supremum, triangle_bound
from gaussveil.spectrum.profiles import profile_from_dict


def brute_force(gap: float, log_ratio: float, epsilon: float, wide_first: bool, size: int = 33) -> float:
    """Largest delta on a fine grid of (tau, angle), straight from the definition of the envelope."""
    excess, angle = np.meshgrid(math.expm1(log_ratio) * np.linspace(0.0, 1.0, size), np.linspace(0, math.pi / 2, size))
    energy = gap**2 * np.stack((np.cos(angle) ** 2, np.sin(angle) ** 2), axis=-1)
    loss = PrivacyLoss.from_terms(np.stack((0 * excess, -excess), axis=-1), 1.0, energy)
    return float(np.max((loss if wide_first else loss.reversed()).delta(epsilon)))


CASES = [(0.247, 0.01157, 1.0), (0.5, 0.4, 0.3), (0.05, 0.3, 1.0), (0.3, 1e-4, 1.0), (1.5, 1.2, 2.0)]


@pytest.mark.parametrize(("gap", "log_ratio", "epsilon"), CASES)
def test_certified_supremum_holds_brute_force_and_is_tight(gap: float, log_ratio: float, epsilon: float) -> None:
    found, truth = [], []
    for wide_first in (True, False):
        lower, upper = (math.exp(end) for end in supremum(gap, log_ratio, 1, epsilon, wide_first=wide_first))
        truth.append(brute_force(gap, log_ratio, epsilon, wide_first))
        assert lower <= upper
        assert truth[-1] <= upper
        found.append(upper)
    # the direction that decides is tight; the other only has to be covered
    assert max(truth) <= max(found) <= 1.02 * max(truth)


@given(
    gap=st.floats(0.01, 1.0),
    log_ratio=st.floats(1e-4, 1.0),
    epsilon=st.floats(0.1, 3.0),
    angle=st.floats(0.0, 1.5707),
    share=st.floats(0.0, 1.0),
    wide_first=st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=10)
def test_no_pair_of_the_envelope_exceeds_its_profile(
    gap: float, log_ratio: float, epsilon: float, angle: float, share: float, wide_first: bool
) -> None:
    excess = share * math.expm1(log_ratio)
    energy = [(gap * math.cos(angle)) ** 2, (gap * math.sin(angle)) ** 2]
    inside = PrivacyLoss.from_terms([0.0, -excess], [1.0, 1.0], energy)
    mixing = best_mixing(gap, log_ratio, 1, epsilon)
    envelope = GaussianEnvelope(gap, log_ratio, 1, "X" if wide_first else "Y", mixing, epsilon)
    member = inside if wide_first else inside.reversed()
    assert float(member.delta(epsilon)) <= float(envelope.delta(epsilon)) * (1 + 1e-9)
    # elsewhere the curve is the dominating pair's, which covers every member, both ways
    levels = np.linspace(0.0, 5.0, 7)
    assert np.all(member.delta(levels) <= envelope.delta(levels) * (1 + 1e-9) + 1e-300)
    assert np.all(member.reversed().delta(levels) <= envelope.reversed().delta(levels) * (1 + 1e-9) + 1e-300)


@pytest.mark.parametrize("rank", [2, 5])
def test_higher_ranks_cover_unequal_ratios_and_any_mean(rank: int) -> None:
    rng, gap, log_ratio, epsilon = np.random.default_rng(3), 0.4, 0.05, 1.0
    direction = np.abs(rng.normal(size=(200, rank + 1)))
    energy = (gap * direction / np.linalg.norm(direction, axis=1)[:, None]) ** 2
    excess = np.concatenate((np.zeros((200, 1)), math.expm1(log_ratio) * rng.uniform(size=(200, rank)) ** 0.2), axis=1)
    members = PrivacyLoss.from_terms(-excess, 1.0, energy)
    for wide_first in (True, False):
        upper = math.exp(supremum(gap, log_ratio, rank, epsilon, wide_first=wide_first)[1])
        values = (members if wide_first else members.reversed()).delta(epsilon)
        assert float(np.max(values)) <= upper <= 4 * float(np.max(values))


def test_supremum_is_monotone_in_every_bound() -> None:
    base = (0.3, 0.05, 1, 1.0)
    reference = [supremum(*base, wide_first=side)[0] for side in (True, False)]
    for larger in ((0.33, 0.05, 1, 1.0), (0.3, 0.08, 1, 1.0), (0.3, 0.05, 2, 1.0), (0.3, 0.05, 1, 0.8)):
        assert all(supremum(*larger, wide_first=side)[1] >= ref for side, ref in zip((True, False), reference))


def test_limits_are_the_closed_forms() -> None:
    shift = float(log_delta_mean_shift(0.3, 1.0))
    assert supremum(0.3, 0.0, 1, 1.0, wide_first=True)[1] == pytest.approx(shift, abs=1e-6)
    for ratio, side in ((math.exp(0.2), True), (math.exp(-0.2), False)):
        exact = float(log_delta_equal_ratios(ratio, 1, 0.05))
        lower, upper = supremum(0.0, 0.2, 1, 0.05, wide_first=side)
        assert lower == pytest.approx(exact, abs=1e-6)
        assert exact <= upper <= exact + 0.01
        assert triangle_bound(0.0, math.expm1(0.2), 1, 0.05, wide_first=side) == pytest.approx(exact, abs=1e-6)


def test_dominating_pair_maps_onto_members_by_its_channel() -> None:
    """The covariance algebra of the channel: a (N(g/a, 1)) + sqrt(1-a^2) N(0, t) has the member's mean and variance."""
    gap, log_ratio, mixing = 0.4, 0.3, best_mixing(0.4, 0.3, 1, 1.0)
    pair = dominating_pair(gap, log_ratio, 1, mixing)
    order = np.argsort(pair.energy)
    variances, energy = 1 - np.asarray(pair.variance_gap)[order], np.asarray(pair.energy)[order]
    weights = np.array([1 - mixing, mixing])
    assert np.sqrt(mixing * energy[1]) == pytest.approx(gap)
    assert weights @ variances == pytest.approx(math.exp(log_ratio))


def test_stored_profile_is_the_same_and_composes_no_tighter_than_a_member() -> None:
    envelope = GaussianEnvelope(0.2, 0.02, 1, "Y", 0.8, 0.5)
    again = profile_from_dict(envelope.to_dict())
    assert again == envelope
    assert again.reversed().wider == "X"
    curve = np.asarray(envelope.reversed().delta(np.linspace(0.0, 1.0, 9)))
    assert np.all(np.diff(curve) <= 0)
    assert curve[4] < 0.8 * float(envelope.pair().reversed().delta(0.5))  # sharp there
    assert GaussianEnvelope(0.2, 0.02, 1, "either", 0.8, 0.5).reversed().wider == "either"
    member = PrivacyLoss.from_terms([0.0, -math.expm1(0.02)], [1.0, 1.0], [0.04, 0.0]).reversed()
    twice = compose_pessimistic([envelope], [2], interval=2.0**-8, max_bins=2**12)
    exact = compose(member, member)
    assert float(twice.delta(0.5)) >= float(exact.delta(0.5))
    assert float(twice.reversed().delta(0.5)) >= float(exact.reversed().delta(0.5))


@pytest.mark.parametrize(
    "bad",
    [
        (-0.1, 0.1, 1, "X", 0.5, 1.0),
        (0.1, -0.1, 1, "X", 0.5, 1.0),
        (0.1, 0.1, 0, "X", 0.5, 1.0),
        (0.1, 0.1, 1, "Z", 0.5, 1.0),
        (float("nan"), 0.1, 1, "X", 0.5, 1.0),
        (0.1, 99.0, 1, "X", 0.5, 1.0),
        (0.1, 0.1, 1, "X", 1.0, 1.0),
        (0.1, 0.1, 1, "X", 0.5, -1.0),
    ],
)
def test_bad_bounds_are_refused(bad: tuple[float, float, int, str, float, float]) -> None:
    with pytest.raises((ParameterError, ValueError)):
        GaussianEnvelope(*bad)
