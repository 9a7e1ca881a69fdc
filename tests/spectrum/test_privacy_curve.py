"""One protocol: everything that has a delta answers the same questions, consistently, and says what it proves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gaussveil
from gaussveil import DPSGD, Accountant, Allocation, Enclosure, Gaussian, GaussianPair, MatrixMechanism, PrivacyCurve
from gaussveil.spectrum import GaussianEnvelope
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.mixtures import GaussianMixture
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    RandomisedResponse,
    ResponseOrNoise,
)
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.worse_orientation import WorseOrientation

SHIFT = GaussianPair.mean_shift(0.8)
CURVES: list[PrivacyCurve] = [
    SHIFT,
    GaussianPair.from_reduced([0.3], [0.4]),
    Step(1.0, 0.1),
    Step(1.0, 0.1, backward=True),
    SubsampledLoss([(Step(1.0, 0.1), 20)], SHIFT),
    Laplace(0.6),
    DiscreteLaplace(3, 5.0),
    RandomisedResponse(0.6, 3),
    ResponseOrNoise(0.4, 3),
    PoissonSubsampled(SHIFT, 0.2),
    PoissonSubsampled(Laplace(0.6), 0.2),
    GaussianMixture((0.0, 0.5, 1.0), (0.5, 0.3, 0.2)),
    FixedSizeBatch(1.5, 0.1),
    ReplacedInBatch(1.5, 0.1),
    RandomAllocation(1.5, 1),
    gaussveil.ZeroConcentrated(0.05),
    GaussianEnvelope(0.5, 0.2, 2, "X", 0.5, 1.0),
    compose_pessimistic([Laplace(0.3), RandomisedResponse(0.2)]),
    WorseOrientation(PoissonSubsampled(Laplace(0.6), 0.2)),
    Gaussian(noise_multiplier=1.0),
    DPSGD(noise_multiplier=1.0, sampling_rate=0.1),
    Allocation(noise_multiplier=1.5, steps=1),
    MatrixMechanism(strategy=np.tril(np.ones((4, 4))), noise_multiplier=4.0),
]
PROVEN = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 19, 20, 22]
LEVEL = 0.05


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: type(curve).__name__)
def test_every_curve_answers_every_question_consistently(curve: PrivacyCurve) -> None:
    delta = float(curve.delta(LEVEL))
    assert 0.0 < delta < 1.0
    assert math.exp(float(curve.log_delta(LEVEL))) == pytest.approx(delta, rel=1e-9)
    epsilon = float(curve.epsilon(delta))
    assert epsilon <= LEVEL * (1 + 1e-6)  # where delta is level, an earlier one will do
    assert float(curve.delta(epsilon)) == pytest.approx(delta, rel=1e-6)
    ends = curve.enclose(LEVEL)
    assert ends.lower <= delta * (1 + 1e-9)
    assert ends.upper >= delta * (1 - 1e-9)
    assert curve.reversed().reversed().delta(LEVEL) == pytest.approx(delta, rel=1e-9)
    # a test that accuses Y with probability 0.2 misses X no less often than the curve at this epsilon allows
    assert 1.0 - delta - math.exp(LEVEL) * 0.2 <= float(curve.tradeoff(0.2)) + 1e-9
    divergence = float(curve.renyi(2.0))
    assert float(curve.cumulant(1.0)) == pytest.approx(divergence, rel=1e-9)
    # delta <= e^(K(1) - epsilon) / 4 (Canonne, Kamath, Steinke 2020, Proposition 12, of order 2)
    assert delta <= math.exp(divergence - LEVEL) / 4.0 * (1 + 1e-9)


QUICK = [curve for curve in CURVES if curve.factors() is not None] + [Laplace(0.6), WorseOrientation(Laplace(0.6))]


@pytest.mark.parametrize("curve", QUICK, ids=lambda curve: type(curve).__name__)
def test_composition_asks_the_curve(curve: PrivacyCurve) -> None:
    together = curve.compose(SHIFT)
    assert float(together.delta(LEVEL)) >= max(float(curve.delta(LEVEL)), float(SHIFT.delta(LEVEL))) * (1 - 1e-9)
    assert (together.factors() is None) == (curve.factors() is None)


@pytest.mark.parametrize("index", range(len(CURVES)))
def test_ends_are_proven_where_balls_are_and_only_there(index: int) -> None:
    assert CURVES[index].enclose(LEVEL).proven == (index in PROVEN)


def test_closed_forms_in_balls_agree_with_those_in_doubles() -> None:
    levels = np.array([0.0, 0.1, 0.19, 0.2, 0.45, 0.5999])
    for curve in [*CURVES[5:9], CURVES[8].reversed(), ApproximatePoint(0.3, 1e-3)]:
        ends = curve.enclose(levels)
        assert ends.proven
        np.testing.assert_allclose(ends.upper, curve.delta(levels), rtol=1e-9, atol=1e-15)
        assert np.all(ends.lower <= ends.upper)


@dataclass(frozen=True)
class Threshold(PrivacyCurve):
    """A curve of one's own: nothing but both deltas."""

    height: float

    def reversed(self) -> Threshold:
        return self

    def _divergence(self, epsilon: Any) -> Any:
        return self.height * np.exp(-epsilon)


def test_a_curve_of_ones_own_is_composed_and_accounted() -> None:
    own = Threshold(0.1)
    run = Accountant().add(own).add(Gaussian(noise_multiplier=2.0))
    assert float(own.delta(0.5)) < run.delta(0.5) < 1.0
    assert not run.enclose(0.5).proven


def test_two_intervals_are_proven_as_far_as_their_ends_are() -> None:
    sure, guess = Enclosure.of(0.1, 0.3, proven=True), Enclosure.of(0.0, 0.2, proven=False)
    assert sure.larger(sure).proven
    assert not sure.larger(guess).proven


def test_runs_of_dp_sgd_prove_both_ends() -> None:
    ends = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 1000).enclose(2.0)
    assert ends.proven
    assert 0.0 < ends.lower <= ends.upper <= ends.lower * (1 + 1e-9)


def test_runs_of_laws_alone_prove_both_ends() -> None:
    ends = Accountant().add(Laplace(0.5)).add(RandomisedResponse(0.2)).enclose(0.1)
    assert ends.proven
    assert 0.0 < ends.lower <= ends.upper <= ends.lower * (1 + 1e-12)


@pytest.mark.parametrize("relation", ["add or remove", "add_remove", "", None, 3])
def test_relations_have_one_name(relation: Any) -> None:
    assert Accountant().relation == Accountant("add-remove").relation == "add-remove"
    with pytest.raises(gaussveil.GaussveilError, match="relation"):
        Accountant(relation)


def test_noise_for_more_uses_is_larger() -> None:
    assert gaussveil.noise_for(steps=4, epsilon=1.0, delta=1e-6) > gaussveil.noise_for(epsilon=1.0, delta=1e-6)
