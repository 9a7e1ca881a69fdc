"""Composition: both directions, label edges, orientations, sampler errors; references by closed form or brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import norm

from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.directed import sampler_delta
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.profiles import ApproximatePoint, Laplace, PoissonSubsampled, RandomisedResponse


def mean_shift_delta(energy: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8, in 40 digits."""
    with mp.workdps(40):
        shift = mp.sqrt(mpf(energy))
        upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
        return float(mp.ncdf(upper) - mp.exp(mpf(epsilon)) * mp.ncdf(lower))


def total(*charges: Charge, symmetric: bool = False) -> Composition:
    return Composition.of([(charge, 1) for charge in charges], symmetric=symmetric)


def wider(ratio: float) -> PrivacyLoss:
    """X has `ratio` times the variance of Y."""
    return PrivacyLoss.from_terms([1 - ratio], [1], [0.0])


def test_mean_shifts_add_their_squares() -> None:
    shifts = [0.1, 0.2, 0.2, 0.35]
    found = Composition.of([(Charge(GaussianPair.mean_shift(shift)), 3) for shift in shifts], symmetric=False)
    energy = 3 * math.fsum(shift**2 for shift in shifts)
    for epsilon in (0.0, 0.5, 3.0):
        assert found.delta(epsilon) == pytest.approx(mean_shift_delta(energy, epsilon), rel=1e-10)


def test_an_entry_the_wrong_way_round_would_under_count() -> None:
    # mathematics, section 3: two entries of ratio 4 give 0.338 together, 0.236 if one is reversed
    same = total(Charge(wider(4.0), count=2))
    mixed = [Charge(wider(4.0)), Charge(wider(4.0).reversed())]
    assert same.delta(1.0) == pytest.approx(0.338, abs=1e-3)
    assert total(*mixed).delta(1.0) == pytest.approx(0.236, abs=1e-3)
    # Under a symmetric adjacency the worst orientation counts, however the entries were stored.
    assert total(*mixed, symmetric=True).delta(1.0) == pytest.approx(same.delta(1.0), rel=1e-12)


def test_both_directions_count() -> None:
    pair = wider(4.0)
    worse = max(float(pair.delta(1.0)), float(pair.reversed().delta(1.0)))
    assert float(pair.delta(1.0)) != pytest.approx(float(pair.reversed().delta(1.0)), rel=0.1)
    for loss in (pair, pair.reversed()):
        assert total(Charge(loss)).delta(1.0) == pytest.approx(worse, rel=1e-12)


@settings(max_examples=10)
@given(
    ratios=st.lists(st.floats(0.2, 5.0), min_size=1, max_size=4),
    shift=st.floats(0.1, 1.0),
    epsilon=st.floats(0.0, 3.0),
)
def test_symmetric_is_the_worst_of_all_orientations(ratios: list[float], shift: float, epsilon: float) -> None:
    losses = [PrivacyLoss.from_terms([1 - ratio, 0.0], [1, 1], [0.1, shift]) for ratio in ratios]
    brute = 0.0
    for pattern in itertools.product((False, True), repeat=len(losses)):
        composed = compose(*(loss.reversed() if flip else loss for loss, flip in zip(losses, pattern)))
        brute = max(brute, float(composed.delta(epsilon)))
    found = total(*(Charge(loss) for loss in losses), symmetric=True)
    assert found.delta(epsilon) == pytest.approx(brute, rel=1e-9)


def test_a_folded_group_may_stand_in_mixed_orientations() -> None:
    loss = PrivacyLoss.from_terms([-0.5], [1], [0.2])
    found = Composition.of([(Charge(loss), 5)], symmetric=True)
    brute = max(float(compose(*[loss] * ahead, *[loss.reversed()] * (5 - ahead)).delta(0.7)) for ahead in range(6))
    assert found.delta(0.7) == pytest.approx(brute, rel=1e-9)
    assert "worst over orientations" in found.method


def test_epsilon_over_orientations_is_on_the_private_side() -> None:
    losses = [PrivacyLoss.from_terms([gap], [1], [0.1]) for gap in (-0.3, 0.3, -0.05)]
    found = total(*(Charge(loss, count=2) for loss in losses), symmetric=True)
    epsilon = found.epsilon(1e-4)
    assert found.delta(epsilon) <= 1e-4 < found.delta(epsilon * (1 - 1e-6))


def test_many_orientations_are_bounded_from_above() -> None:
    loss = PrivacyLoss.from_terms([-0.02], [1], [0.001])
    many = Composition.of([(Charge(loss), 1500)], symmetric=True)
    assert "bound" in many.method
    exact = max(float((loss**1500).dp_delta(3.0)), float(compose(loss**750, loss.reversed() ** 750).dp_delta(3.0)))
    assert exact <= many.delta(3.0) < 1.0
    assert many.delta(3.0) < 30 * exact
    with pytest.raises(AssumptionError):
        many.directions()


def test_label_edges_add_edge_by_edge() -> None:
    first = PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[1.0], [0.1]])
    second = PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[0.1], [0.8]])
    found = total(Charge(first), Charge(second), Charge(GaussianPair.mean_shift(0.2)))
    assert found.delta(1.0) == pytest.approx(mean_shift_delta(1.0 + 0.1 + 0.04, 1.0), rel=1e-10)


def test_sampler_errors_are_charged_at_the_total_epsilon() -> None:
    charge = Charge(GaussianPair.mean_shift(0.5), sampler_error=1e-9)
    found = Composition.of([(charge, 4)], symmetric=False)
    expected = mean_shift_delta(1.0, 2.0) + (1 + math.exp(2.0)) * 4e-9
    assert found.delta(2.0) == pytest.approx(expected, rel=1e-10)
    assert found.delta(2.0) >= expected * (1 - 1e-10)
    assert sampler_delta(1000.0, 1e-300) == math.inf
    assert sampler_delta(1000.0, 0.0) == 0.0


@settings(max_examples=15)
@given(shift=st.floats(0.05, 3.0), delta=st.floats(1e-12, 0.05), eta=st.sampled_from([0.0, 1e-18, 1e-14]))
def test_epsilon_is_on_the_private_side(shift: float, delta: float, eta: float) -> None:
    found = total(Charge(GaussianPair.mean_shift(shift), sampler_error=eta))
    epsilon = found.epsilon(delta)
    if math.isinf(epsilon):
        assert all(found.delta(value) > delta for value in np.linspace(0, 40, 81))
        return
    assert found.delta(epsilon) <= delta
    if epsilon > 0:
        assert found.delta(epsilon * (1 - 1e-6)) > delta


def test_epsilon_is_infinite_where_the_sampler_alone_overspends() -> None:
    assert total(Charge(GaussianPair.mean_shift(1.0), sampler_error=1e-3)).epsilon(1e-4) == math.inf


def test_pure_profiles_add_their_epsilons() -> None:
    found = Composition.of([(Charge(RandomisedResponse(0.5, 3)), 2)], symmetric=True)
    assert found.delta(1.0) == 0.0
    assert found.delta_bounds(1.0) == (0.0, 0.0)
    assert found.delta(0.9) > 0


def test_profiles_compose_from_above() -> None:
    # Two Laplace releases by direct summation over the exact loss law on a fine grid of outputs
    shift, epsilon = 0.8, 0.9
    grid = np.linspace(-12, 13, 25001)
    middle = (grid[1:] + grid[:-1]) / 2
    mass = 0.5 * np.exp(-np.abs(middle - shift)) * np.diff(grid)
    loss = np.abs(middle) - np.abs(middle - shift)
    values, where = np.unique(np.round(loss, 6), return_inverse=True)
    weights = np.bincount(where, mass)
    pairs = values[:, None] + values[None, :]
    exact = float(np.sum(weights[:, None] * weights[None, :] * -np.expm1(np.minimum(epsilon - pairs, 0.0))))
    found = total(Charge(Laplace(shift), count=2)).delta(epsilon)
    assert exact * (1 - 1e-4) <= found <= exact * 1.01


def test_gaussians_and_profiles_compose_from_above() -> None:
    mixed = total(Charge(GaussianPair.mean_shift(0.5)), Charge(Laplace(0.3)))
    # Both alone are cheaper, and basic composition is dearer.
    assert mean_shift_delta(0.25, 1.0) < mixed.delta(1.0) < mean_shift_delta(0.25, 0.7)


def test_subsampling_is_cheaper_than_no_subsampling_in_both_directions() -> None:
    base = GaussianPair.mean_shift(1.0)
    sampled = total(Charge(PoissonSubsampled(base, 0.1), count=10))
    assert 0 < sampled.delta(0.5) < total(Charge(base, count=10)).delta(0.5)


def test_nothing_spent_costs_nothing() -> None:
    empty = Composition.of([], symmetric=False)
    assert empty.delta(1.0) == 0.0
    assert empty.epsilon(1e-5) == 0.0
    assert empty.delta_bounds(1.0) == (0.0, 0.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_refuses_bad_epsilons(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        total(Charge(GaussianPair.mean_shift(1.0))).delta(epsilon)


@pytest.mark.parametrize("loss", [GaussianPair.mean_shift(0.7), wider(3.0)], ids=["shift", "wider"])
def test_rigorous_bounds_hold_the_value(loss: PrivacyLoss) -> None:
    found = total(Charge(loss, count=3))
    lower, upper = found.delta_bounds(1.0)
    assert lower <= found.delta(1.0) * (1 + 1e-12)
    assert found.delta(1.0) * (1 - 1e-12) <= upper <= lower * (1 + 1e-9)


def test_rigorous_bounds_of_edges_take_the_worst() -> None:
    edges = PrivacyLoss.from_terms(np.array([[0.0], [-1.0], [0.0]]), np.ones((3, 1)), [[1.0], [0.3], [1.0]])
    lower, upper = total(Charge(edges)).delta_bounds(1.0)
    expected = max(mean_shift_delta(1.0, 1.0), float(PrivacyLoss.from_terms([-1.0], [1], [0.3]).dp_delta(1.0)))
    assert lower <= expected * (1 + 1e-12)
    assert expected * (1 - 1e-12) <= upper


def divergence(loss: PrivacyLoss, values: np.ndarray) -> np.ndarray:
    """H at every real epsilon, by H_a(X||Y) = 1 - a + a H_{1/a}(Y||X)."""
    ahead = np.asarray(loss.delta(np.maximum(values, 0.0)))
    ratio = np.exp(np.minimum(values, 0.0))
    return np.where(values >= 0, ahead, 1 - ratio + ratio * np.asarray(loss.reversed().delta(np.maximum(-values, 0.0))))


def followed(first: float, second: PrivacyLoss, epsilon: float) -> float:
    """Delta where, after a first pair N(0, first) against N(0, 1), the worse way round of the second is chosen."""
    points = np.linspace(-12.0, 12.0, 4001)
    log_x, log_y = norm.logpdf(points, scale=math.sqrt(first)), norm.logpdf(points)
    left = epsilon - (log_x - log_y)
    worse = np.maximum(divergence(second, left), divergence(second.reversed(), left))
    return float(np.sum(np.exp(log_x) * worse) * (points[1] - points[0]))


@pytest.mark.parametrize(("first", "second", "epsilon"), [(4.0, 4.0, 1.0), (0.5, 2.0, 0.3), (1.2, 1.2, 0.1)])
def test_the_way_round_may_follow_earlier_outputs(first: float, second: float, epsilon: float) -> None:
    charges = [(Charge(wider(first)), 1), (Charge(wider(second)), 1)]
    fixed = Composition.of(charges, symmetric=True).delta(epsilon)
    reached = max(followed(first, wider(second), epsilon), followed(1 / first, wider(second), epsilon))
    assert reached > 1.001 * fixed  # no pattern fixed beforehand covers it
    found = Composition.of(charges, symmetric=True, adaptive=True)
    assert reached <= found.delta(epsilon) <= found.delta_upper(epsilon) <= 1.05 * reached
    assert found.delta(found.epsilon(1e-6)) <= 1e-6
    assert "either way" in found.method
    # Oriented relations, single releases and symmetric pairs have nothing to choose.
    for same, many in (
        ((charges, False), 1),
        ((charges[:1], True), 1),
        (([(Charge(GaussianPair.mean_shift(0.3)), 1)], True), 3),
    ):
        listed = [(charge, many) for charge, _ in same[0]]
        plain, free = (Composition.of(listed, symmetric=same[1], adaptive=way) for way in (False, True))
        assert free.delta(epsilon) == plain.delta(epsilon)


def test_pure_composition_adds_largest_losses_exactly() -> None:
    # 0.1 * 3 rounds up, 0.7 * 3 down: there a delta of 0 would be a promise that does not hold
    for size, count in ((0.1, 3), (0.7, 3), (0.3, 7)):
        found = Composition.of([(Charge(RandomisedResponse(size)), count)], symmetric=False)
        exact = Fraction(size) * count
        least = float(exact) if float(exact) >= exact else math.nextafter(float(exact), math.inf)
        assert found.delta(least) == 0.0
        assert found.delta(math.nextafter(least, 0.0)) > 0.0


@settings(max_examples=15)
@given(
    gaps=st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=3),
    shift=st.floats(0.01, 1.0),
    count=st.integers(1, 200),
    target=st.sampled_from([1e-12, 1e-6, 0.01, 0.9]),
)
def test_epsilon_is_private_by_its_enclosure(gaps: list[float], shift: float, count: int, target: float) -> None:
    found = Composition.of(
        [(Charge(PrivacyLoss.from_terms([gap], [1], [shift])), count) for gap in gaps], symmetric=False
    )
    epsilon = found.epsilon(target)
    assert found.delta_bounds(epsilon)[0] <= target


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_nothing_that_was_spent_can_be_taken_back(count: int) -> None:
    charge = Charge(GaussianPair.mean_shift(0.3))
    with pytest.raises(ParameterError, match="whole number"):
        Composition.of([(charge, 3), (charge, count)], symmetric=False)


def test_a_chernoff_bound_pays_for_the_mass_beyond_its_cumulants() -> None:
    """At an epsilon where the exponent is nothing, what remains is the mass of infinite loss, times 1 + e^epsilon."""
    lost = 1e-9
    composition = total(Charge(ApproximatePoint(0.1, lost), count=4), symmetric=True)
    for epsilon in (5.0, 8.0):
        assert 4 * lost <= composition._chernoff(epsilon)
        assert composition._chernoff(epsilon) <= 4 * lost * (1 + math.exp(epsilon)) * (1 + 1e-6) + 1e-30
