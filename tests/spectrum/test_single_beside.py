"""One step on a random batch beside laws by atoms and pieces, against quadrature to twenty digits."""

from __future__ import annotations

import math
import time

import mpmath
import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, DiscreteLaplace, Exponential, Laplace, RandomisedResponse
from gaussveil.spectrum.laws.has_law import HasLaw
from gaussveil.spectrum.laws.knots import KnotSums
from gaussveil.spectrum.laws.loss_law import law_of
from gaussveil.spectrum.laws.on_nodes import lowered_law, raised_law
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.single_beside import SingleBeside
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.two_sided import enclose_on_grid

Laws = list[tuple[HasLaw, int]]
STEPS = [
    Step(1.0, 0.01),
    Step(1.0, 0.01, backward=True),
    Step(1.0, 0.01, replace=True),
    Step(0.6, 0.3, backward=True),
]


def of_laplace(size: float, level: mpmath.mpf) -> mpmath.mpf:
    """Delta of Laplace noise at any real epsilon, from its definition."""
    if level >= size:
        return mpmath.mpf(0)
    if level >= -size:
        return -mpmath.expm1((level - size) / 2)
    return -mpmath.expm1(level)


def of_both(laplace: float, response: float, level: mpmath.mpf) -> mpmath.mpf:
    """Of Laplace noise and one answer of two classes."""
    truth = 1 / (1 + mpmath.exp(-response))
    total = truth * of_laplace(laplace, level - response)
    return total + (1 - truth) * of_laplace(laplace, level + response)


def log_ratio(step: Step, z: mpmath.mpf) -> mpmath.mpf:
    shift = 1 / mpmath.mpf(step.noise_multiplier)
    rate = mpmath.mpf(step.sampling_rate)
    return mpmath.log(1 - rate + rate * mpmath.exp(z * shift - shift**2 / 2))


def reference(step: Step, laplace: float, response: float, epsilon: float) -> mpmath.mpf:
    """Mean over outputs of delta of the laws at what is left of epsilon."""

    def loss(z: mpmath.mpf) -> mpmath.mpf:
        if step.replace:
            return log_ratio(step, z) - log_ratio(step, -z)
        return -log_ratio(step, -z) if step.backward else log_ratio(step, z)

    def weight(z: mpmath.mpf) -> mpmath.mpf:
        on_x = not step.backward or step.replace
        return mpmath.npdf(z) * (mpmath.exp(log_ratio(step, z)) if on_x else 1)

    breaks = [mpmath.mpf(-14), mpmath.mpf(14) + 1 / mpmath.mpf(step.noise_multiplier)]
    for knot in {sign * laplace + turn * response for sign in (1, -1) for turn in (1, -1)}:
        low, high = breaks[:2]
        if not loss(low) < epsilon - knot < loss(high):
            continue
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) < epsilon - knot else (low, middle)
        breaks.append(low)
    points = sorted({*breaks, *[mpmath.mpf(k) for k in range(-8, 9, 4)]})
    return mpmath.quad(lambda z: weight(z) * of_both(laplace, response, epsilon - loss(z)), points)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_ends_hold_the_truth(step: Step) -> None:
    laws: Laws = [(Laplace(0.3), 1), (RandomisedResponse(0.4), 1)]
    curve = SubsampledLoss([(step, 1)], None, laws)
    for epsilon in (0.0, 0.69):
        with mpmath.workdps(20):
            truth = reference(step, 0.3, 0.4, epsilon)
            ends = curve.enclose(epsilon)
            slack = truth * mpmath.mpf(10) ** -12 + mpmath.mpf(10) ** -20
            assert ends.lower - slack <= truth <= ends.upper + slack
        assert ends.proven
        assert ends.relative_width < 1e-10


@pytest.mark.parametrize("step", STEPS[:3], ids=str)
def test_atoms_alone_are_summed(step: Step) -> None:
    curve = SubsampledLoss([(step, 1)], None, [(RandomisedResponse(0.5), 2)])
    alone = SubsampledLoss([(step, 1)])
    true = 1.0 / (1.0 + math.exp(-0.5))
    for epsilon in (1.0, 1.005):
        known = true**2 * float(alone.delta(epsilon - 1.0)) + 2.0 * true * (1.0 - true) * float(alone.delta(epsilon))
        assert float(curve.delta(epsilon)) == pytest.approx(known, rel=1e-9, abs=1e-300)


def test_three_laplace_and_a_step_are_private_and_quick() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01)).add(Laplace(0.2), 3)
    run.epsilon(1e-5)  # loads what is needed
    start = time.process_time()
    epsilon = run.epsilon(1e-3)
    assert time.process_time() - start < 3.0
    assert epsilon == pytest.approx(0.5946016059, abs=1e-9)
    assert run.enclose(epsilon).upper <= 1e-3
    assert run.enclose(epsilon * (1.0 - 1e-9)).lower > 1e-3


@pytest.mark.parametrize("step", [Step(1.0, 0.01), Step(1.0, 0.01, backward=True), Step(0.7, 0.2)], ids=str)
def test_grids_beside_laws_hold_the_closed_form(step: Step) -> None:
    laws: Laws = [(Laplace(0.3), 2), (RandomisedResponse(0.4, 3), 1), (Exponential(0.17), 1)]
    closed = SubsampledLoss([(step, 1)], None, laws)
    in_doubles = [(law_of(law), count) for law, count in laws]
    for epsilon in (0.0, 0.4, 1.1):
        proven = closed.enclose(epsilon)
        for nodes in (2**11, 2**15):
            with np.errstate(all="ignore"):
                ends = enclose_on_grid([(step, 1)], epsilon, float(proven.log_upper), nodes, laws=in_doubles)
            assert ends.lower <= proven.upper
            assert ends.upper >= proven.lower
        assert ends.upper <= proven.upper * (1.0 + 1e-4)
        assert ends.lower >= proven.lower * (1.0 - 1e-2)


@pytest.mark.parametrize("width", [0.01, 0.0037, 2e-4])
@pytest.mark.parametrize("law", [Laplace(0.3), Exponential(2.0), DiscreteLaplace(2, 3.0)], ids=str)
def test_laws_on_nodes_are_above_and_below(law: HasLaw, width: float) -> None:
    exact = law_of(law)
    above = raised_law(exact, width)
    below, moved = lowered_law(exact, width)
    for epsilon in (-0.5, 0.0, 0.1, 0.29999, 1.3):
        ends = []
        for masses, level in ((below, epsilon + moved), (above, epsilon)):
            losses = width * np.arange(masses.first, masses.last + 1)
            ends.append(float(masses.mass @ np.maximum(-np.expm1(level - losses), 0.0)))
        truth = float(law.delta(abs(epsilon)))
        if epsilon < 0.0:  # H(1/a) = 1 - 1/a + H(a)/a of a symmetric pair
            truth = -math.expm1(epsilon) + math.exp(epsilon) * truth
        assert ends[0] <= truth * (1.0 + 1e-13) + 1e-15
        assert ends[1] >= truth * (1.0 - 1e-13)
        assert ends[1] - ends[0] < 2.0 * width


def test_few_steps_beside_laws_have_a_tradeoff() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 3).add(Laplace(0.2), 3)
    ends = run.enclose(0.2)
    assert ends.relative_width < 1e-6
    alone = Accountant().add(Laplace(0.2), 3)
    least = float(run.tradeoff(0.3))
    assert 1.0 - ends.upper - math.exp(0.2) * 0.3 <= least + 1e-12
    assert least < float(alone.tradeoff(0.3))


def test_what_is_left_to_the_contour() -> None:
    many = KnotSums.of([(Exponential(0.2), 100)])
    assert many is None or len(many.answers_at(many.first_bits)) > 64
    curve = SubsampledLoss([(Step(1.0, 0.01), 1)], None, [(Exponential(0.2), 100)])
    assert SingleBeside.of(curve._parts, curve.laws) is None
    two = SubsampledLoss([(Step(1.0, 0.01), 2)], None, [(Laplace(0.2), 1)])
    assert SingleBeside.of(two._parts, two.laws) is None


def test_beyond_the_largest_loss_is_nothing() -> None:
    curve = SubsampledLoss([(Step(1.0, 0.01, backward=True), 1)], None, [(Laplace(0.2), 1)])
    largest = curve.largest_loss
    assert float(curve.enclose(largest).upper) == 0.0
    assert 0.0 < float(curve.enclose(0.2).upper) < 1e-2
    assert float(curve.epsilon(0.0)) == largest
