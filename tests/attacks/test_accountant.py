"""An accountant promises no less than an account would: orientations, draws, schedules, and what is no number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from dp_accounting import dp_event

from gaussveil import Accountant, Gaussian, GaussianPair, MatrixMechanism, PrivacyLoss, calibrate
from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.exchange.events import charges_from_event
from gaussveil.errors import GaussveilError, InputError, ParameterError
from gaussveil.spectrum.profiles import ApproximatePoint, PoissonSubsampled
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch

WIDE = PrivacyLoss.from_terms([0.75], [1.0], [0.0])


@pytest.fixture(scope="module")
def twice() -> Callable[[float], float]:
    """Delta of two uses of the same pair, which is computed once."""
    return cache(Accountant("replace").add(WIDE, 2).delta)


@pytest.mark.parametrize("second", [WIDE, WIDE.reversed()], ids=["same", "reversed"])
def test_replaced_records_stand_either_way_round(
    second: PrivacyLoss, twice: Callable[[float], float], full: bool
) -> None:
    """As they stand, a pair and its reverse have delta .236 at epsilon 1; either way round .338, adaptively .362."""
    found = Accountant("replace").add(WIDE).add(second)
    account = Composition.of([(Charge(WIDE), 1), (Charge(second), 1)], symmetric=True, adaptive=True)
    for epsilon in (0.5, 1.0, 2.0) if full else (1.0,):
        aligned = float(np.max((2 * WIDE).dp_delta(epsilon)))
        delta = found.delta(epsilon)
        assert aligned < delta <= account.delta_upper(epsilon) * 1.001
        assert found.enclose(epsilon).upper >= aligned
        assert twice(epsilon) == pytest.approx(delta, rel=1e-3)


def test_one_release_of_a_replaced_record_needs_both_directions_only() -> None:
    assert Accountant("replace").add(WIDE).delta(1.0) == pytest.approx(float(WIDE.dp_delta(1.0)), rel=1e-9)


def test_answers_to_one_draw_are_for_accounts_that_know_draws() -> None:
    with pytest.raises(ParameterError, match="name no draw"):
        Accountant().add(Charge(GaussianPair.mean_shift(1.0), draw_identity="a" * 64), 2)


def test_sampling_every_record_is_no_single_step() -> None:
    """With sampling a record may be in every step of its part, at a rate of 1 too."""
    nearly, always = (
        Accountant().add(MatrixMechanism(strategy=np.eye(20), noise_multiplier=10.0, sampling_rate=rate)).epsilon(1e-5)
        for rate in (0.999999, 1.0)
    )
    assert nearly < always < nearly * 1.001
    once = Accountant().add(MatrixMechanism(strategy=np.eye(20), noise_multiplier=10.0))
    assert once.epsilon(1e-5) < always / 3


def test_strategies_are_real_and_one_s_own() -> None:
    for strategy in (np.eye(2) * (1 + 1j), "abc", [[1], [1, 2]], [[object()]]):
        with pytest.raises(GaussveilError):
            MatrixMechanism(strategy=strategy, noise_multiplier=1.0)
    given = np.eye(3)
    found = MatrixMechanism(strategy=given, noise_multiplier=1.0)
    given *= 10.0
    assert found.sensitivity == pytest.approx(1.0)


@pytest.mark.parametrize("shift", [1e-3, 1.0, 1000.0, 3000.0, 1e4, 1e6])
def test_mu_is_never_below_that_of_a_mean_shift(shift: float) -> None:
    assert GaussianPair.mean_shift(shift).mu().mu >= shift


def test_no_mu_covers_an_infinite_loss() -> None:
    found = Accountant().add(ApproximatePoint(0.1, 1e-3))
    assert found.mu().mu == math.inf
    assert found.mu(smallest_delta=0.01).mu < 1.0


def test_batches_within_batches_are_of_one_relation() -> None:
    with pytest.raises(InputError, match="added or removed"):
        PoissonSubsampled(FixedSizeBatch(1.0, 0.1), 0.1)


def test_probabilities_of_a_mixture_add_up() -> None:
    with pytest.raises(GaussveilError, match="add up to 1"):
        charges_from_event(dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.1, 0.001]))


@pytest.mark.parametrize("mechanism", [None, Charge(GaussianPair.mean_shift(1.0)), math.nan])
def test_only_mechanisms_are_calibrated(mechanism: object) -> None:
    with pytest.raises(ParameterError, match="mechanism must be"):
        calibrate(mechanism, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type]
    assert calibrate(Gaussian(), epsilon=1.0, delta=1e-5) > 3.0
