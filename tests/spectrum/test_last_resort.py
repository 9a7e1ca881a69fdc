"""Where nothing else answers, proven ends of some width do, within tenths of a second."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gaussveil import DPSGD, Accountant
from gaussveil.spectrum.subsampled.ball_bands import chernoff_in_balls
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.one_event import at_least
from gaussveil.spectrum.subsampled.step import Step

SETTINGS = [  # noise multiplier, rate, steps, epsilon, share of delta that the best event gives
    (1.0, 0.01, 100, 1.0, 0.09),
    (0.4, 1e-6, 1000, 0.1, 0.98),
    (0.4925, 0.00059, 4, 1e-3, 0.8),
    (1.0, 0.3, 3, 0.0, 0.75),
]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("noise", "rate", "count", "epsilon", "share"), SETTINGS)
def test_both_ends_hold_delta(
    noise: float, rate: float, count: int, epsilon: float, share: float, replace: bool
) -> None:
    loss = SubsampledLoss([(Step(noise, rate, replace=replace), count)])
    log_delta, companions = float(loss.log_delta(epsilon)), loss._in_balls
    assert companions is not None
    below = at_least(loss.steps, epsilon)
    above = chernoff_in_balls(loss._parts, companions, epsilon, log_delta)
    assert above is not None
    assert below.proven
    assert above.proven
    assert math.log(share) < below.log_lower - log_delta < 1e-9
    assert above.log_upper - log_delta > -1e-9


@pytest.mark.parametrize(("noise", "rate", "epsilon"), [(1.0, 0.3, 0.2), (0.7, 0.05, 0.01), (3.0, 0.5, 0.1)])
def test_events_of_exchanged_steps_are_events(noise: float, rate: float, epsilon: float) -> None:
    """Delta of two exchanged steps from a fine sum over both outputs."""
    z = np.linspace(-10.0, 10.0, 2001)
    density = np.exp(-0.5 * z * z)
    density /= density.sum()
    mixed = density * (1 - rate + rate * np.exp(z / noise - 0.5 / noise**2))
    joint = np.multiply.outer(density, density) - math.exp(epsilon) * np.multiply.outer(mixed, mixed)
    delta = float(np.maximum(joint, 0.0).sum())
    lower = float(at_least([(Step(noise, rate, backward=True), 2)], epsilon).lower)
    assert 0.5 * delta < lower < delta * (1 + 1e-5)


def test_nothing_is_told_of_steps_of_both_directions() -> None:
    steps = [(Step(1.0, 0.1), 1), (Step(1.0, 0.1, backward=True), 1)]
    assert at_least(steps, 0.1).lower == 0.0
    assert at_least([], 0.1).upper == 1.0


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_deltas_below_the_doubles_are_bounded_and_proven(relation: str) -> None:
    """About e^-950 and e^-790: the former grid said 0 to 2e-39, not proven, after six seconds."""
    run = Accountant(relation).add(DPSGD(noise_multiplier=5, sampling_rate=1e-4), 100_000)
    ends = run.enclose(0.5)
    assert ends.proven
    assert float(ends.lower) == 0.0
    assert 0.0 < float(ends.upper) < 1e-260
    tiny = Accountant(relation).add(DPSGD(noise_multiplier=20, sampling_rate=1e-6), 5).enclose(0.01)
    assert tiny.proven
    assert float(tiny.upper) == math.ulp(0.0)
