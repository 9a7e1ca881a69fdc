"""K(s) keeps its digits where its logarithms cancel, and its upper end is one; against 60-digit mpmath."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import log, mp, mpf

from gaussveil.accounting import Charge
from gaussveil.accounting.cumulants import cumulants
from gaussveil.errors import ParameterError
from gaussveil.spectrum import PrivacyLoss

GAPS = [1e-16, -1e-16, 1e-14, 1e-8, -1e-8, 1e-3, -0.4, 0.49, 0.51, -0.51, 0.9, 0.999999, -3.0, -40.0, 1e-90]
ORDERS = [1e-6, 1e-3, 0.5, 1.0, 3.0, 100.0]


def exact(gap: float, multiplicity: float, energy: float, order: float) -> mpf:
    """The definition, digits enough for the cancellation."""
    mp.dps = 260
    g, m, e, s = mpf(gap), mpf(multiplicity), mpf(energy), mpf(order)
    if 1 + s * g <= 0:
        return mpf("inf")
    return -m / 2 * (s * log(1 - g) + log(1 + s * g)) + s * (1 + s) * e / (2 * (1 + s * g))


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("energy", [0.0, 1e-3])
def test_cumulant_and_its_upper_end(gap: float, energy: float) -> None:
    loss = PrivacyLoss.from_terms([gap], [3.0], [energy])
    for order in ORDERS:
        truth = exact(gap, 3.0, energy, order)
        found, upper = mpf(float(loss.cumulant(order))), mpf(float(loss.cumulant_upper(order)))
        if truth == mpf("inf"):
            assert found == upper == truth
            continue
        assert abs(found - truth) <= mpf(10) ** -14 * truth
        assert truth <= upper <= truth * (1 + mpf(10) ** -11)
        assert abs(mpf(float(loss.renyi(1 + order))) * order / truth - 1) < mpf(10) ** -9 / min(order, 1)


@pytest.mark.parametrize("gap", [1e-16, 1e-14, 1e-8, -1e-8, 0.3])
def test_renyi_keeps_its_digits_for_small_gaps(gap: float) -> None:
    loss = PrivacyLoss.from_terms([gap], [1.0], [0.0])
    assert abs(mpf(float(loss.renyi(2.0))) / exact(gap, 1, 0, 1.0) - 1) < mpf(10) ** -14
    divergence = -(log(1 - mpf(gap)) + mpf(gap)) / 2
    assert abs(mpf(float(loss.renyi(1.0))) / divergence - 1) < mpf(10) ** -14


@pytest.mark.parametrize("gap", [0.9999999, 0.3, 1e-9, -1e-9, -2.0])
def test_upper_ends_hold_for_reversed_losses_up_to_the_end_of_their_domain(gap: float) -> None:
    loss = PrivacyLoss.from_terms([gap], [2.0], [0.5]).reversed()
    end = (1 - gap) / gap if gap > 0 else 50.0  # K of the reverse at s is K at -1-s
    for order in (end * (1 - share) for share in (0.9, 1e-3, 1e-8, 1e-11)):
        truth = exact(gap, 2.0, 0.5, -1 - mpf(order))
        assert mpf(float(loss.cumulant_upper(order))) >= truth


def test_sums_of_many_terms_are_upper_ends() -> None:
    rng = np.random.default_rng(4)
    gap, count, energy = rng.uniform(-0.5, 0.9, 400), rng.integers(1, 50, 400).astype(float), rng.exponential(size=400)
    loss = PrivacyLoss.from_terms(gap, count, energy)
    truth = sum(exact(*term, 1.5) for term in zip(gap.tolist(), count.tolist(), energy.tolist()))
    assert truth <= mpf(float(loss.cumulant_upper(1.5))) <= truth * (1 + mpf(10) ** -11)


def test_filters_see_what_cancels_in_floats() -> None:
    """2000 times 1e12 coordinates apart by 1e-9 each are no free lunch."""
    (part,) = Charge(PrivacyLoss.from_terms([1e-9], [1e12], [0.0]), count=2000).parts
    ahead, back, tail = cumulants(part, 20.0)
    expected = exact(1e-9, 2e15, 0, 20.0)
    assert tail == 0.0
    assert expected <= mpf(float(ahead)) <= expected * (1 + mpf(10) ** -11)
    assert math.isclose(float(back), float(expected), rel_tol=1e-6)  # the reverse costs a little more


def test_multiplicities_that_doubles_cannot_count_are_refused() -> None:
    with pytest.raises(ParameterError, match="multiplicity"):
        Charge(PrivacyLoss.from_terms([1e-20], [1e41], [0.0]), count=2000)
    with pytest.raises(ParameterError, match="multiplicity"):
        Charge(PrivacyLoss.from_terms([1e-9], [2.0**40], [0.0])) * 2**14
    with pytest.raises(ParameterError, match="order"):
        PrivacyLoss.from_terms([0.5], [1.0], [0.0]).cumulant_upper(0.0)
