"""Conversions of Renyi bounds against their definition and against exact pairs."""

import mpmath
import numpy as np
import pytest

from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair, composed
from gaussveil.spectrum.profiles import RandomisedResponse, profile_from_dict
from gaussveil.spectrum.renyi_bounds import CUSTOMARY_ORDERS, RenyiBound, ZeroConcentrated


def converted(order, divergence, epsilon):
    """Canonne, Kamath, Steinke 2020, Proposition 12, as it is printed."""
    a = mpmath.mpf(order)
    return mpmath.exp((a - 1) * (divergence - epsilon)) / (a - 1) * (1 - 1 / a) ** a


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 5.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_zero_concentrated_is_the_best_order(rho, epsilon):
    with mpmath.workdps(30):
        excess = mpmath.findroot(
            lambda c: rho * (1 + 2 * c) - epsilon + mpmath.log(c / (1 + c)), (1e-8, 1e6), solver="anderson"
        )
        best = float(converted(1 + excess, rho * (1 + excess), epsilon))
    variation = min(np.sqrt(rho / 2), np.sqrt(-np.expm1(-rho)))
    found = float(ZeroConcentrated(rho).delta(epsilon))
    truth = min(best, variation)
    assert truth <= found <= max(truth * (1 + 1e-10), 5e-324)  # what leaves the doubles is not 0


@pytest.mark.parametrize("shift", [0.05, 0.5, 1.0, 3.0])
def test_gaussians_lie_below_the_bound_that_they_satisfy(shift):
    epsilons = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
    exact = np.asarray(GaussianPair.mean_shift(shift).delta(epsilons))
    orders = (1.01, 1.5, 2.0, 5.0, 20.0, 100.0)
    listed = RenyiBound(orders, tuple(0.5 * shift**2 * order for order in orders))
    zero = ZeroConcentrated(0.5 * shift**2)
    assert np.all(exact <= zero.delta(epsilons))
    assert np.all(zero.delta(epsilons) <= np.asarray(listed.delta(epsilons)) * (1 + 1e-12))


def test_randomised_response_lies_below_its_own_curve():
    response, orders = RandomisedResponse(1.0), np.array([1.1, 2.0, 8.0, 64.0])
    p = 1 / (1 + np.exp(-1.0))
    divergences = np.log(p**orders * (1 - p) ** (1 - orders) + (1 - p) ** orders * p ** (1 - orders)) / (orders - 1)
    bound = RenyiBound(tuple(orders), tuple(divergences))
    assert np.all(response.delta([0.0, 0.5, 0.9]) <= bound.delta([0.0, 0.5, 0.9]))


def test_rhos_add():
    together = composed([(ZeroConcentrated(0.1), 3), (ZeroConcentrated(0.2, 0.1), 1)])
    assert float(together.delta(1.0)) == pytest.approx(float(ZeroConcentrated(0.5, 0.1).delta(1.0)), rel=1e-12)
    assert float(together.delta(1.0)) >= float(ZeroConcentrated(0.5, 0.1).delta(1.0))


def test_composed_with_a_gaussian_it_stays_above():
    together = composed([(ZeroConcentrated(0.125), 1), (GaussianPair.mean_shift(0.5), 1)])
    assert float(together.delta(1.0)) >= float(GaussianPair.mean_shift(np.sqrt(0.5)).delta(1.0))


def test_bounds_are_stored_and_checked():
    for bound in (ZeroConcentrated(0.3, 0.1), RenyiBound((2.0, 3.0), (0.1, 0.2))):
        assert profile_from_dict(bound.to_dict()) == bound
    for wrong in (((), ()), ((2.0,), (1.0, 2.0)), ((0.5,), (1.0,))):
        with pytest.raises(ParameterError):
            RenyiBound(*wrong)


def textbook_epsilon(shift: float, delta: float) -> float:
    """Minimise the conversion over the orders with D_a = a shift^2 / 2, at 30 digits."""
    with mpmath.workdps(30):
        bounds = []
        for order in map(mpmath.mpf, CUSTOMARY_ORDERS.tolist()):
            extra = mpmath.log(1 / mpmath.mpf(delta)) + order * mpmath.log(1 - 1 / order) - mpmath.log(order - 1)
            bounds.append(order * mpmath.mpf(shift) ** 2 / 2 + extra / (order - 1))
        return float(min(bounds))


@pytest.mark.parametrize("shift", [0.1, 1.0, 5.0])
def test_the_customary_bound_is_the_textbooks(shift):
    bound = RenyiBound.customary(GaussianPair.mean_shift(shift))
    assert float(bound.epsilon(1e-6)) == pytest.approx(textbook_epsilon(shift, 1e-6), rel=1e-12)


@pytest.mark.parametrize("gap", [-0.5, 0.5])
def test_the_customary_bound_holds_in_both_directions_and_inverts_itself(gap):
    pair = GaussianPair.from_reduced([gap, gap / 2], [0.3, 0.0])
    bound = RenyiBound.customary(pair)
    epsilons = np.linspace(0.0, 3.0, 7)
    assert np.all(np.asarray(bound.delta(epsilons)) >= pair.dp_delta(epsilons))
    assert float(bound.delta(bound.epsilon(1e-4))) == pytest.approx(1e-4, rel=1e-9)


def test_the_customary_bound_says_nothing_where_no_order_is_finite():
    # a variance 30 times as large: orders above 30/29 diverge
    bound = RenyiBound.customary(GaussianPair([0.0], [[30.0]], [0.0], [[1.0]]))
    assert float(bound.delta(1.0)) == 1.0
    assert float(RenyiBound.customary(GaussianPair.mean_shift(50.0)).delta(0.0)) == 1.0
