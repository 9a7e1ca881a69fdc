"""Steps whose record stands far out of the noise: ends by how often it is drawn, against integrals in one dimension."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from gaussveil import DPSGD, Accountant, Gaussian
from gaussveil.spectrum.curve import mean_shift_delta
from gaussveil.spectrum.subsampled.companions import Shift
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.members import Members, draws_alone
from gaussveil.spectrum.subsampled.step import Step


def loss(noise: float, rate: float, uses: int, *, replace: bool = False) -> SubsampledLoss:
    return SubsampledLoss([(Step(noise, rate, replace), uses)])


@pytest.mark.parametrize("replace", [False, True])
def test_next_to_no_noise_has_an_epsilon(replace: bool) -> None:
    account = Accountant("replace" if replace else "add-remove").add(DPSGD(noise_multiplier=0.01, sampling_rate=0.5), 3)
    epsilon = account.epsilon(1e-5)
    ends = account.enclose(epsilon)
    assert 0.0 <= ends.lower <= ends.upper <= 1e-5
    # three draws of a shift by 100 standard deviations, or 200, are by far the largest part
    shift = (200.0 if replace else 100.0) * math.sqrt(3.0)
    alone = scipy.optimize.brentq(lambda e: mean_shift_delta(shift, np.array(e)) / 8 - 1e-5, 1.0, 1e6)
    assert alone - math.log(8.0) * (2.0 if replace else 1.0) <= epsilon <= alone * (1.0 + 1e-9) + 1e-9
    if not replace:
        assert ends.lower > 0.5e-5


def test_ends_hold_the_delta_of_two_steps() -> None:
    """Two draws of a pair of outputs: the integral over both, by a fine sum."""
    noise, rate = 0.4, 0.3
    members = Members(loss(noise, rate, 2)._parts)
    nodes, weights = np.polynomial.legendre.leggauss(600)
    z = 6.0 * nodes + 1.25
    normal = 6.0 * weights * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    ratio = 1.0 - rate + rate * np.exp(z / noise - 0.5 / noise**2)
    for epsilon in (0.0, 1.0, 4.0):
        both = np.maximum(np.multiply.outer(ratio, ratio) - math.exp(epsilon), 0.0)
        delta = float(normal @ both @ normal)
        assert members.lower(epsilon) <= delta <= members.upper(epsilon)
        assert members.upper(epsilon) < 3.0 * delta
        assert members.lower(epsilon) > 0.02 * delta


def test_probabilities_of_draws_are_all_there() -> None:
    for uses, rate in ((3, 0.5), (10_000, 1e-4), (10**9, 0.3)):
        members = Members(loss(0.01, rate, uses)._parts)
        assert members.probability.sum() == pytest.approx(1.0, abs=1e-12)
        mean = float(members.probability @ members.draws)
        assert uses * rate <= mean * (1.0 + 1e-12)
        assert mean <= uses * rate * 1.02 + 1e-9


def test_only_steps_that_no_grid_holds_are_asked_so() -> None:
    assert draws_alone(loss(0.049, 0.1, 5)._parts) is not None
    assert draws_alone(loss(0.051, 0.1, 5)._parts) is None
    two = SubsampledLoss([(Step(0.01, 0.1, False), 5), (Step(0.02, 0.1, False), 5)])
    assert draws_alone(two._parts) is None


@pytest.mark.parametrize(("noise", "rate", "uses"), [(0.02, 0.1, 4), (1.0, 0.1, 1)])
def test_many_deltas_have_the_epsilons_of_each_alone(noise: float, rate: float, uses: int) -> None:
    """Where closed ends decide instead of a contour, too: they have no slopes to step along."""
    steps = DPSGD(noise_multiplier=noise, sampling_rate=rate)
    curve = Accountant().add(steps, uses).loss
    deltas = np.geomspace(1e-9, 0.05, 14)
    alone = [float(curve.epsilon(float(delta))) for delta in deltas]
    assert np.asarray(curve.epsilon(deltas)).tolist() == alone


def test_ends_hold_the_delta_of_two_steps_beside_a_mean_shift() -> None:
    """The integral over three outputs, that of the shift by its closed form."""
    noise, rate, shift = 0.4, 0.3, 1.5
    members = Members(loss(noise, rate, 2)._parts, Shift(shift, shift))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z = 6.0 * nodes + 1.25
    normal = 6.0 * weights * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    log_ratio = np.log1p(rate * np.expm1(z / noise - 0.5 / noise**2))
    sums = np.add.outer(log_ratio, log_ratio)
    for epsilon in (0.0, 1.0, 4.0):
        level = epsilon - sums  # E_Y (R e^L - e^epsilon)_+ = E_Y R delta(epsilon - log R)
        below = scipy.special.ndtr(0.5 * shift - level / shift)
        below -= np.exp(level) * scipy.special.ndtr(-0.5 * shift - level / shift)
        delta = float(normal @ (np.exp(sums) * below) @ normal)
        assert members.lower(epsilon) <= delta <= members.upper(epsilon)
        assert members.upper(epsilon) < 3.0 * delta
        assert members.lower(epsilon) > 0.02 * delta


def test_next_to_no_noise_beside_a_mean_shift_has_an_epsilon() -> None:
    """Grids of millions of cells were asked for a minute."""
    step = DPSGD(noise_multiplier=0.017, sampling_rate=0.006)
    for relation in ("add-remove", "replace"):
        run = Accountant(relation).add(step, 19539)
        alone = run.epsilon(2e-7)
        beside = run.add(Gaussian(noise_multiplier=1.2)).epsilon(2e-7)
        assert alone < beside < 1.02 * alone
        assert beside < math.inf
