"""Exchange with dp_accounting: their events in, ours out, their distributions never below our exact values."""

from __future__ import annotations

from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.exchange import charges_from_event, distribution_of, event_from_charges, loss_distribution
from gaussveil.errors import AssumptionError, InputError, ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.profiles import Laplace

GAUSSIAN = dp_accounting.GaussianDpEvent(2.0)


def composed(event: object) -> Composition:
    return Composition.of(charges_from_event(event), symmetric=False)


def test_events_mean_what_they_say() -> None:
    event = dp_accounting.ComposedDpEvent(
        [dp_accounting.SelfComposedDpEvent(GAUSSIAN, 16), dp_accounting.NoOpDpEvent(), GAUSSIAN, GAUSSIAN]
    )
    found = charges_from_event(event)
    assert sum(count for _, count in found) == 18
    expected = float((GaussianPair.mean_shift(0.5) ** 18).delta(2.0))
    assert composed(event).delta(2.0) == pytest.approx(expected, rel=1e-9)


def test_dp_sgd_agrees_with_their_accountant_from_above() -> None:
    step = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.0))
    event = dp_accounting.SelfComposedDpEvent(step, 100)
    theirs = PLDAccountant(value_discretization_interval=1e-3).compose(event).get_delta(1.0)
    ours = composed(event).delta(1.0)
    # Both are upper ends of the same number.
    assert ours == pytest.approx(theirs, rel=0.02)


def test_laplace_in_and_out() -> None:
    found = charges_from_event(dp_accounting.LaplaceDpEvent(4.0))
    assert found == [(Charge(Laplace(0.25)), 1)]
    assert event_from_charges(found).events[0].event == dp_accounting.LaplaceDpEvent(4.0)


@pytest.mark.parametrize("scale", [3.0, 4.7, 0.7, 49.0])
def test_what_events_divide_is_rounded_up(scale: float) -> None:
    """Half of all quotients were rounded down: a shift too small, and so was its delta."""
    ((gaussian, _),) = charges_from_event(dp_accounting.GaussianDpEvent(scale))
    ((laplace, _),) = charges_from_event(dp_accounting.LaplaceDpEvent(scale))
    (shift,) = gaussian.parts[0].source.exact_mean_gap
    for found in (shift, laplace.parts[0].source.shift_over_scale):
        assert Fraction(1) <= Fraction(found) * Fraction(scale) < Fraction(1) + Fraction(1, 2**51)


def test_exported_events_come_back() -> None:
    event = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(GAUSSIAN, 3),
            dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(0.1, GAUSSIAN), 5),
        ]
    )
    back = event_from_charges(charges_from_event(event))
    assert [inner.count for inner in back.events] == [3, 5]
    multiplier = back.events[0].event.noise_multiplier
    assert multiplier <= 2.0
    assert multiplier == pytest.approx(2.0, rel=1e-15)
    assert back.events[1].event.sampling_probability == 0.1


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf")])
def test_refuses_noise_that_is_none(scale: float) -> None:
    with pytest.raises(ParameterError, match="noise_multiplier"):
        charges_from_event(dp_accounting.GaussianDpEvent(scale))


def test_refuses_what_has_no_counterpart() -> None:
    with pytest.raises(InputError, match="NonPrivateDpEvent"):
        charges_from_event(dp_accounting.NonPrivateDpEvent())
    with pytest.raises(InputError, match="no event"):
        event_from_charges([(Charge(PrivacyLoss.from_terms([0.5], [1], [0.0])), 1)])
    with pytest.raises(AssumptionError, match="sampler error"):
        event_from_charges([(Charge(GaussianPair.mean_shift(1.0), sampler_error=1e-18), 1)])


@pytest.mark.parametrize("symmetric", [False, True])
def test_distributions_are_pessimistic_and_close(symmetric: bool) -> None:
    adjacency = Adjacency.replace_one() if symmetric else Adjacency.add_remove()
    charges = [
        (Charge(PrivacyLoss.from_terms([-0.5, 0.0], [1, 1], [0.1, 0.3]), sampler_error=1e-12), 1),
        (Charge(PrivacyLoss.from_terms([0.4], [2], [0.05])), 1),
    ]
    ours = Composition.of(charges, symmetric=symmetric)
    theirs = distribution_of(ours, adjacency, interval=2e-2)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        exact, found = ours.delta(epsilon), theirs.get_delta_for_epsilon(epsilon)
        assert exact * (1 - 1e-9) <= found <= exact * 1.02
    # It can be composed on their side, and stays above the exact composition.
    twice = Composition.of([(charge, 2 * count) for charge, count in charges], symmetric=symmetric)
    assert theirs.self_compose(2).get_delta_for_epsilon(2.0) >= twice.delta(2.0) * (1 - 1e-6)


def test_an_account_is_exported_whole(ledger: Ledger) -> None:
    ledger.open_account("a", epsilon=3.0, delta=1e-5)
    home = Adjacency.add_remove()
    assert loss_distribution(ledger, "a").get_delta_for_epsilon(0.0) == 0.0
    for _ in range(3):
        ledger.debit("a", Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-20), home)
    found = loss_distribution(ledger, "a", interval=2e-3)
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(
        1 / (0.3 * np.sqrt(3)), value_discretization_interval=2e-3
    )
    for epsilon in (0.2, 1.0, 2.0):
        exact = ledger.statement("a").composition.delta(epsilon)
        assert exact * (1 - 1e-9) <= found.get_delta_for_epsilon(epsilon) <= exact * 1.01
        assert found.get_delta_for_epsilon(epsilon) == pytest.approx(gaussian.get_delta_for_epsilon(epsilon), rel=0.01)


@pytest.mark.parametrize("count", [-1, 2.5])
def test_events_are_composed_a_whole_number_of_times(count: float) -> None:
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(1.0), 1)
    object.__setattr__(event, "count", count)
    with pytest.raises(ParameterError, match="whole number"):
        charges_from_event(event)
