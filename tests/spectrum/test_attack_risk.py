"""The Gaussian curve above a privacy curve, and its regret, against trade-offs that are known exactly."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.attack_risk import tradeoff_of
from gaussveil.spectrum.profiles import ApproximatePoint, Laplace, RandomisedResponse, ResponseOrNoise
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.sweep import KeptNodes, swept
from gaussveil.spectrum.subsampled.two_sided import enclose_on_grid


def loss(noise_multiplier: float, rate: float, steps: int) -> SubsampledLoss:
    return SubsampledLoss([(Step(noise_multiplier, rate, False), steps)])


def test_mu_holds_where_delta_is_next_to_one() -> None:
    """1 - delta, in 40 digits: 15.8 where 17.3 is needed was the answer while deltas were cut off at 1 - 1e-12."""
    mu = RandomisedResponse(40.0).mu().mu
    with mp.workdps(40):
        assert 1 <= mu / (2 * mp.sqrt(2) * mp.erfinv(mp.tanh(20))) < 1.01  # that of the total variation
        for epsilon in (0, 10, 20, 30, 39):
            left = mp.ncdf(epsilon / mu - mu / 2) + mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)
            assert left <= (mp.exp(-40) + mp.exp(epsilon - 40)) / (1 + mp.exp(-40)) * (1 + mp.mpf(10) ** -12)


def laplace_tradeoff(rate: np.ndarray) -> np.ndarray:
    low, high = rate < math.exp(-4.0) / 2, rate >= 0.5
    middle = math.exp(-4.0) / (4 * rate)
    return np.where(low, 1 - math.exp(4.0) * rate, np.where(high, math.exp(-4.0) * (1 - rate), middle))


def batch_tradeoff(rate: np.ndarray) -> np.ndarray:
    """One step of noise 1 and rate .05: thresholds in both directions."""
    place = np.linspace(-12.0, 12.0, 20_001)
    with_record, without = 0.95 * ndtr(place) + 0.05 * ndtr(place - 1), ndtr(-place)
    return np.minimum(np.interp(rate, without[::-1], with_record[::-1]), np.interp(rate, with_record, without))


def answer_tradeoff(rate: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(1 - 1.6 * rate, 0.9 * (1 - rate)), np.maximum(1 - rate / 0.9, 0.625 * (1 - rate)))


def point_tradeoff(rate: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, np.maximum(0.999 - math.exp(0.1) * rate, (0.999 - rate) / math.exp(0.1)))


REGRETS: dict[str, tuple[Any, Any, float]] = {
    "laplace": (Laplace(4.0), laplace_tradeoff, 1e-10),
    "batch": (loss(1.0, 0.05, 1), batch_tradeoff, 1e-10),
    "batch, coarse": (loss(1.0, 0.05, 1), batch_tradeoff, 1e-3),
    "answers": (ResponseOrNoise(0.9, 7), answer_tradeoff, 1e-10),
    "point": (ApproximatePoint(0.1, 1e-3), point_tradeoff, 0.01),
    "pair": (GaussianPair.from_reduced([0.1, 0.2], [0.5, 0.1]), None, 1e-10),
    "run": (loss(1.0, 0.05, 100), None, 1e-10),
}


@pytest.mark.parametrize("name", [*list(REGRETS)[:-1], pytest.param("run", marks=pytest.mark.full)])
def test_regret_is_an_upper_end_at_every_rate(name: str) -> None:
    """Above the largest gap of a fine grid, and by no more than is promised; the last two by their own trade-offs."""
    curve, tradeoff, smallest = REGRETS[name]
    mu, regret = curve.mu(smallest)
    rate = ndtr(np.linspace(-6.0, 6.0, 4001 if tradeoff else 101))
    missed = tradeoff(rate) if tradeoff else 1.0 - np.asarray(curve.true_positive_rate(rate))
    gap = float(np.max(missed - ndtr(-ndtri(rate) - mu)))
    assert gap <= regret <= gap + smallest + 1e-3


def test_a_gaussian_overstates_nothing_of_itself_and_all_beside_infinite_losses() -> None:
    assert 0.0 < GaussianPair.mean_shift(3.0).mu().regret < 1e-14
    assert ApproximatePoint(0.1, 1e-3).mu() == (math.inf, 1.0)
    assert RandomisedResponse(0.0).mu().regret < 1e-8


def best_test(noise: float, rate: float, threshold: float) -> tuple[float, float]:
    """Errors of the best test of two steps, which says X above a sum of losses, by sums over the first output."""
    z, width = np.linspace(-12.0, 12.0 + 1.0 / noise, 160_001, retstep=True)
    first = np.log1p(rate * np.expm1(z / noise - 0.5 / noise**2))
    raised = np.maximum(np.expm1(threshold - first) + rate, 1e-300)
    place = noise * np.log(raised / rate) + 0.5 / noise
    plain = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) * width
    moved = np.exp(first) * plain
    missed = (1.0 - rate) * ndtr(place) + rate * ndtr(place - 1.0 / noise)
    return float(plain @ ndtr(-place)), float(moved @ missed)


@pytest.mark.parametrize(
    ("noise", "rate", "threshold"),
    [(0.4, 1e-3, 2e-3), (0.4, 1e-3, -1.5e-3), (1.0, 0.01, 0.3), (1.0, 0.01, -0.01), (0.762, 6.0621e-5, -3e-5)],
)
def test_a_few_steps_trade_errors_like_the_best_test(noise: float, rate: float, threshold: float) -> None:
    """In either direction, next to the largest loss, too, where no contour settles: one such point took minutes."""
    first, second = best_test(noise, rate, threshold)
    found = float(loss(noise, rate, 2).tradeoff(first))
    assert second - 1e-8 < found < second + 1e-10


@pytest.mark.parametrize("epsilon", [2e-4, 1e-3, 1.9e-3])
def test_next_to_the_largest_loss_grids_hold_what_the_best_test_gains(epsilon: float) -> None:
    first, second = best_test(0.4, 1e-3, -epsilon)
    delta = 1.0 - first - math.exp(epsilon) * second
    ends = enclose_on_grid([(Step(0.4, 1e-3, backward=True), 2)], epsilon, math.log(delta), 2**15)
    assert ends.lower - 1e-12 <= delta <= ends.upper + 1e-12
    assert ends.relative_width < 1e-6


def test_single_points_of_a_trade_off_are_those_of_many() -> None:
    run = loss(1.0, 0.01, 1000)
    for error in (0.02, 0.9):
        assert abs(float(run.tradeoff(error)) - float(tradeoff_of(run, np.array([error]))[0])) < 1e-9


SWEPT = {
    "one line": (1.0, 0.01, 1000),
    "bands": (0.7, 0.001, 100),
    "few events": (2.0, 0.2, 30),
}


@pytest.mark.parametrize("name", list(SWEPT))
def test_a_curve_in_one_sweep_is_its_points_one_by_one(name: str) -> None:
    """In both directions, with both ends of the range; where a line for each band decides this took minutes."""
    run = loss(*SWEPT[name])
    errors = np.array([0.0, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.97, 1.0])
    for side in (run, run.reversed()):
        many = np.asarray(side.tradeoff(errors))
        assert many[-1] == 0.0
        assert 1.0 - 1e-9 < many[0] <= 1.0
        for place in (2, 6):
            assert abs(float(side.tradeoff(float(errors[place]))) - many[place]) < 1e-9


@pytest.mark.parametrize("name", list(SWEPT))
def test_slopes_of_log_delta_are_those_of_its_differences(name: str) -> None:
    """Of one line, and of lines for bands, above the mean loss and below it."""
    run = loss(*SWEPT[name])
    for side in (run, run.reversed()):
        levels = float(side.epsilon(1e-6)) * np.array([0.03, 0.3, 0.9])
        apart = 1e-4 * levels
        slopes = swept(side._evaluate, levels, KeptNodes()).slope
        ends = [swept(side._evaluate, levels + way * apart, KeptNodes()).value for way in (-1.0, 1.0)]
        assert np.allclose((ends[1] - ends[0]) / (2.0 * apart), slopes, rtol=2e-6)
