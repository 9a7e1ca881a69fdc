"""Filters: their caps against closed forms, cumulants of profiles against exact sums, and an adaptive attack."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.optimize import brentq
from scipy.stats import norm

from gaussveil.accounting import Charge
from gaussveil.accounting.cumulants import log_chernoff
from gaussveil.accounting.ledger.dominating import dominating_energy
from gaussveil.accounting.ledger.filters import NOTHING, Balance, Budget, Usage, best_order, filter_usage
from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyCurve, PrivacyLoss
from gaussveil.spectrum.chords import cumulant_upper
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    RandomisedResponse,
    ResponseOrNoise,
)

BUDGETS = [Budget(0.1, 1e-8), Budget(1.0, 1e-6), Budget(3.0, 1e-5), Budget(20.0, 0.01)]


def renyi_usage(budget: Budget, order: float, charges: list[tuple[Charge, int]], *, symmetric: bool) -> Usage:
    return filter_usage(budget, "renyi", order, charges, symmetric=symmetric)


def mean_shift_usage(budget: Budget, charges: list[tuple[Charge, int]]) -> Usage:
    return filter_usage(budget, "mean-shift", None, charges, symmetric=False)


def gaussian_delta(shift: float, epsilon: float) -> float:
    return float(norm.cdf(shift / 2 - epsilon / shift) - np.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_mean_shift_cap_exhausts_the_budget_and_not_more(budget: Budget) -> None:
    shift = math.sqrt(budget.mean_shift_cap())
    reached = gaussian_delta(shift, budget.epsilon)
    assert reached <= budget.ideal_delta * (1 + 1e-9)
    assert reached == pytest.approx(budget.ideal_delta, rel=1e-6)
    assert budget.ideal_delta + (1 + math.exp(budget.epsilon)) * budget.sampler_cap == pytest.approx(budget.delta)


@settings(max_examples=20)
@given(order=st.floats(0.01, 50.0), gap=st.floats(-0.01, 0.9), energy=st.floats(1e-4, 1.0), epsilon=st.floats(0.0, 5.0))
def test_the_chernoff_bound_is_a_bound(order: float, gap: float, energy: float, epsilon: float) -> None:
    loss = PrivacyLoss.from_terms([gap], [1], [energy])
    bound = math.exp(float(loss.cumulant(order)) - order * epsilon + log_chernoff(order))
    assert float(loss.delta(epsilon)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_renyi_filter_keeps_the_exact_delta_within_budget(budget: Budget) -> None:
    charge = Charge(PrivacyLoss.from_terms([-0.001, 0.0], [1, 1], [0.0, 1e-4]))
    order = best_order(budget, charge, symmetric=False)
    one = renyi_usage(budget, order, [(charge, 1)], symmetric=False).used
    count = int(1 / one)
    assert renyi_usage(budget, order, [(charge, count)], symmetric=False).within
    exact = float((charge.parts[0].source ** (charge.parts[0].count * count)).dp_delta(budget.epsilon))  # type: ignore[operator]
    assert exact <= budget.delta
    assert not renyi_usage(budget, order, [(charge, count + 1)], symmetric=False).within


def test_the_best_order_serves_wide_pairs_too() -> None:
    # K exists only below s = 1/0.8, far from the best order for mean shifts.
    wide, narrow = Charge(PrivacyLoss.from_terms([-0.8], [1], [0.0])), Charge(GaussianPair.mean_shift(0.1))
    budget = Budget(3.0, 1e-3)
    orders = [best_order(budget, charge, symmetric=False) for charge in (wide, narrow)]
    assert orders[0] < 1.25 < orders[1]
    for charge, order in zip((wide, narrow), orders):
        found = renyi_usage(budget, order, [(charge, 1)], symmetric=False).used
        others = [renyi_usage(budget, order * by, [(charge, 1)], symmetric=False).used for by in (0.8, 0.95, 1.05, 1.3)]
        assert found <= min(others)


@pytest.mark.parametrize(
    ("charge", "budget"),
    [
        (Charge(RandomisedResponse(1.24, 2)), Budget(2.59, 6e-7)),
        (Charge(DiscreteLaplace(1, 2.94), count=2), Budget(1.47, 5e-5)),
    ],
    ids=["response", "laplace"],
)
def test_orders_that_serve_nothing_beside_the_best_one_do_no_harm(charge: Charge, budget: Budget) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of SciPy too: it subtracted infinities
        order = best_order(budget, charge, symmetric=True)
    found = renyi_usage(budget, order, [(charge, 1)], symmetric=True).used
    assert found <= min(renyi_usage(budget, order * by, [(charge, 1)], symmetric=True).used for by in (0.9, 1.1))


def test_usage_counts_edges_directions_and_sampler_errors() -> None:
    budget = Budget(3.0, 1e-5)
    edges = Charge(PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[0.1], [0.2]]), sampler_error=1e-20)
    used = mean_shift_usage(budget, [(edges, 2)])
    assert used.used == pytest.approx(0.4 / budget.mean_shift_cap())
    assert used.sampler_used == pytest.approx(2e-20 / budget.sampler_cap)
    pair = PrivacyLoss.from_terms([-0.1], [1], [0.0])
    stored = [renyi_usage(budget, 5.0, [(Charge(way), 1)], symmetric=False).used for way in (pair, pair.reversed())]
    assert stored[0] == pytest.approx(stored[1], rel=1e-12)
    both = renyi_usage(budget, 5.0, [(Charge(pair), 1), (Charge(pair.reversed()), 1)], symmetric=False).used
    worst = renyi_usage(budget, 5.0, [(Charge(pair), 1), (Charge(pair.reversed()), 1)], symmetric=True).used
    assert both < worst == pytest.approx(2 * stored[0], rel=1e-12)
    assert mean_shift_usage(budget, [(Charge(pair), 1)]).used == math.inf
    # An order where K does not exist cannot be afforded.
    assert renyi_usage(budget, 11.0, [(Charge(pair), 1)], symmetric=False).used == math.inf


@pytest.mark.parametrize("order", [0.5, 3.0, 12.0])
def test_profile_cumulants_bound_the_exact_ones_closely(order: float) -> None:
    for epsilon, classes in ((0.3, 2), (2.0, 5)):
        weight = math.exp(epsilon) + classes - 1
        exact = math.log((math.exp((1 + order) * epsilon) + math.exp(-order * epsilon) + classes - 2) / weight)
        found, tail = cumulant_upper(RandomisedResponse(epsilon, classes), order)
        assert exact * (1 - 1e-9) <= found <= exact * 1.01
        assert tail <= 1e-24
    shift = 0.7
    # Mironov 2017, Table II
    first = (1 + order) / (2 * order + 1) * math.exp(order * shift)
    exact = math.log(first + order / (2 * order + 1) * math.exp(-(1 + order) * shift))
    found, _ = cumulant_upper(Laplace(shift), order)
    assert exact * (1 - 1e-9) <= found <= exact * 1.01


def test_cumulant_of_a_subsampled_gaussian_bounds_quadrature() -> None:
    shift, rate, order = 1.0, 0.1, 4.0
    profile = PoissonSubsampled(GaussianPair.mean_shift(shift), rate)
    points = np.linspace(-15, 20, 200001)
    base = norm.logpdf(points)
    mixture = np.logaddexp(math.log(rate) + norm.logpdf(points - shift), math.log(1 - rate) + base)
    for way, (top, bottom) in ((profile, (mixture, base)), (profile.reversed(), (base, mixture))):
        exact = math.log(np.trapezoid(np.exp((1 + order) * top - order * bottom), points))
        found, tail = cumulant_upper(way, order)
        assert exact * (1 - 1e-6) <= found <= exact * 1.02
        assert tail < 1e-20


def test_known_mass_at_infinity_is_charged() -> None:
    found, tail = cumulant_upper(ApproximatePoint(0.5, 1e-7), 3.0)
    assert found < 3.0 * 0.5 * 4
    assert tail >= 1e-7
    budget = Budget(3.0, 1e-5)
    assert not renyi_usage(budget, 3.0, [(Charge(ApproximatePoint(0.5, 1e-7)), 1)], symmetric=False).within


def test_adaptive_choice_overspends_exact_composition_but_not_the_filter() -> None:
    """First a mean shift; then, knowing its output, the worse of two releases that each just exhaust the budget."""
    epsilon, delta = 1.0, 1e-3
    first = 0.15

    def divergence(loss: PrivacyLoss, values: np.ndarray) -> np.ndarray:
        ahead = np.asarray(loss.delta(np.maximum(values, 0.0)))
        ratio = np.exp(np.minimum(values, 0.0))
        behind = 1 - ratio + ratio * np.asarray(loss.reversed().delta(np.maximum(-values, 0.0)))
        return np.where(values >= 0, ahead, behind)

    points = np.linspace(-7, 7, 201)
    weights = norm.pdf(points) * (points[1] - points[0])
    remaining = epsilon - (first * points + first**2 / 2)  # points: output minus its mean under X

    def overspent(options: list[PrivacyLoss]) -> float:
        return float(np.sum(weights * np.max([divergence(loss, remaining) for loss in options], axis=0)))

    def exhausted(make: object, low: float, high: float) -> PrivacyLoss:
        def excess(size: float) -> float:
            return overspent([make(size)]) - delta  # type: ignore[operator]

        return make(brentq(excess, low, high, xtol=1e-4))  # type: ignore[operator,no-any-return]

    shift = exhausted(lambda size: GaussianPair.mean_shift(size), 0.05, 1.0)
    spread = exhausted(lambda size: PrivacyLoss.from_terms([-size], [1], [0.0]), 0.05, 1.0)
    assert overspent([shift]) == pytest.approx(delta, rel=0.01)
    assert overspent([spread]) == pytest.approx(delta, rel=0.01)
    assert overspent([shift, spread]) > 1.05 * delta

    budget = Budget(epsilon, delta)
    start = Charge(GaussianPair.mean_shift(first))
    order = best_order(budget, start, symmetric=False)

    def admitted(make: object, low: float, high: float) -> PrivacyLoss:
        for _ in range(40):
            size = (low + high) / 2
            fits = renyi_usage(budget, order, [(start, 1), (Charge(make(size)), 1)], symmetric=False).within  # type: ignore[operator]
            low, high = (size, high) if fits else (low, size)
        return make(low)  # type: ignore[operator,no-any-return]

    kept = [
        admitted(lambda size: GaussianPair.mean_shift(size), 1e-3, 1.0),
        admitted(lambda size: PrivacyLoss.from_terms([-size], [1], [0.0]), 1e-3, 1.0),
    ]
    assert overspent(kept) <= delta


LAWS = [
    DiscreteLaplace(1, 1.0),
    DiscreteLaplace(1, 20.0),
    DiscreteLaplace(2, 0.3),
    DiscreteLaplace(7, 7.0),
    DiscreteLaplace(64, 640.0),
    Laplace(1e-4),
    Laplace(0.3),
    Laplace(6.0),
    RandomisedResponse(0.02),
    RandomisedResponse(2.0),
    RandomisedResponse(1.0, 5),
    ResponseOrNoise(0.4, 3),
]


@pytest.mark.parametrize("law", LAWS)
def test_a_bounded_loss_is_charged_as_the_least_mean_shift_that_dominates_it(law: PrivacyCurve) -> None:
    shift = math.sqrt(dominating_energy(law))
    reach = max(one.largest_loss for one in (law, law.reversed()))
    epsilons = np.linspace(0.0, 1.05 * reach, 2001)
    for side in (law, law.reversed()):
        assert np.all(side.delta(epsilons) <= GaussianPair.mean_shift(shift).delta(epsilons))
    if not isinstance(law, ResponseOrNoise) and getattr(law, "classes", 2) == 2 and getattr(law, "shift", 1) % 2:
        assert np.any(law.delta(epsilons) > GaussianPair.mean_shift(0.999 * shift).delta(epsilons))
    charge = Charge(law, count=3)
    budget = Budget(3.0, 1e-5)
    assert mean_shift_usage(budget, [(charge, 1)]).used >= 3 * shift**2 / budget.mean_shift_cap() * (1 - 1e-12)


def test_no_mean_shift_dominates_an_unbounded_loss() -> None:
    assert dominating_energy(ApproximatePoint(1.0, 1e-6)) == math.inf
    assert dominating_energy(PrivacyLoss.from_terms([-0.01], [1], [0.0])) == math.inf


@pytest.mark.parametrize("values", [(0.0, 1e-5), (math.inf, 1e-5), (1.0, -1e-9), (1.0, 1.0), (1.0, 1e-5, 0.0)])
def test_refuses_bad_budgets(values: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError):
        Budget(*values)


@pytest.mark.parametrize("order", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
def test_profile_cumulants_of_tiny_losses_are_bounds(order: float, size: float) -> None:
    with mp.workdps(60):
        s, e = mpf(order), mpf(size)
        response = mp.log((mp.exp((1 + s) * e) + mp.exp(-s * e)) / (mp.exp(e) + 1))
        # Mironov 2017, Table II
        laplace = mp.log((1 + s) / (2 * s + 1) * mp.exp(s * e) + s / (2 * s + 1) * mp.exp(-(1 + s) * e))
        for profile, exact in ((RandomisedResponse(size), response), (Laplace(size), laplace)):
            assert exact <= cumulant_upper(profile, order)[0] <= exact * mpf("1.01")


@pytest.mark.parametrize("delta", [1 - 1e-12, 0.9999, 1e-300])
@pytest.mark.parametrize("epsilon", [1e-12, 1.0, 400.0])
def test_the_mean_shift_cap_is_proven(epsilon: float, delta: float) -> None:
    budget = Budget(epsilon, delta, 1e-15)
    assert PrivacyLoss.from_terms([0.0], [1.0], [budget.mean_shift_cap()]).enclose(epsilon).upper <= budget.ideal_delta


@pytest.mark.parametrize(("epsilon", "delta"), [(500.0, 1e-300), (1e-300, 1e-6)])
def test_budgets_beyond_doubles_afford_nothing(epsilon: float, delta: float) -> None:
    charge = Charge(GaussianPair.mean_shift(1e-3), sampler_error=1e-30)
    budget = Budget(epsilon, delta)
    assert not mean_shift_usage(budget, [(charge, 1)]).within
    assert not renyi_usage(budget, 1.0, [(charge, 1)], symmetric=False).within


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.integers(1, 10**6)), min_size=1, max_size=8))
def test_a_balance_is_never_below_the_exact_sum_and_survives_storage(costs: list[tuple[float, int]]) -> None:
    balance = NOTHING
    for energy, count in costs:
        cost = Balance(np.array([energy, energy / 3]), np.array([energy / 7, 0.0]), energy * 1e-20)
        balance = balance.plus(cost, count)
    stored = Balance.from_bytes(balance.to_bytes())
    for found, share in ((stored.forward, (1, 3)), (stored.backward[:1], (7,))):
        for value, part in zip(found, share):
            exact = sum(Fraction(energy / part) * count for energy, count in costs)
            assert exact <= Fraction(float(value)) <= exact * (1 + Fraction(1, 10**12))
    assert stored.backward[1] == 0.0
    assert Fraction(stored.sampler_error) >= sum(Fraction(energy * 1e-20) * count for energy, count in costs)


@pytest.mark.parametrize("order", [1e-3, 0.37, 1.0, 25.0, 9973.0, 1e6])
def test_the_cap_of_a_renyi_filter_is_rounded_down(order: float) -> None:
    """At large orders the parts of the bound are millions of times their sum: plain doubles gave 3e-9 too much."""
    with mp.workdps(60):
        for epsilon in (1e-3, 0.7, 12.3, 300.0):
            for delta in (1e-300, 1e-9, 0.3, 0.999):
                budget, s = Budget(epsilon, delta), mpf(order)
                ideal = mpf(budget.delta) * (1 - mpf(budget.sampler_share))
                exact = s * mpf(epsilon) + mp.log(ideal) - s * mp.log(s) + (1 + s) * mp.log(1 + s)
                size = s * mpf(epsilon) + abs(mp.log(ideal)) + 20
                assert exact - 1e-14 * size <= mpf(budget.renyi_cap(order)) <= exact


@pytest.mark.parametrize("symmetric", [False, True])
def test_mass_that_no_cumulant_holds_is_paid_from_the_samplers_share(symmetric: bool) -> None:
    """Of an approximate point delta itself is left out of K: as often as it is used."""
    budget, lost = Budget(3.0, 1e-3), 1e-9
    charges = [(Charge(ApproximatePoint(0.1, lost), count=3, sampler_error=1e-10), 2)]
    found = renyi_usage(budget, 2.0, charges, symmetric=symmetric)
    assert found.sampler_used == pytest.approx(2 * (3 * lost + 1e-10) / budget.sampler_cap, rel=1e-6, abs=0.0)
    assert 0.0 < found.used < 1.0
