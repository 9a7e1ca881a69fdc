"""Correlated noise with records in random bins: direct integration, large samples, and comparisons that must hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gaussveil import BLT, Accountant, Allocation, BallsInBins, BandMF, CyclicPoisson, GaussianPair, MatrixMechanism
from gaussveil.errors import ParameterError
from gaussveil.spectrum.named_profile import profile_from_dict


def bins_of(strategy: np.ndarray, bins: int) -> np.ndarray:
    """The mean of the outputs for each bin, by the definition."""
    return np.stack([strategy[:, first::bins].sum(axis=1) for first in range(bins)])


def integrated(means: np.ndarray, noise: float, epsilon: float) -> tuple[float, float]:
    """Both directions of delta by a sum over a grid of the outputs, at most three of them."""
    axis = np.linspace(-6.0 * noise, 6.0 * noise + means.max(), 90)
    outputs = np.stack(np.meshgrid(*[axis] * means.shape[1], indexing="ij"), axis=-1)
    cell = (axis[1] - axis[0]) ** means.shape[1]
    scale = (math.sqrt(2.0 * math.pi) * noise) ** -means.shape[1] * cell

    def law(mean: np.ndarray) -> np.ndarray:
        return np.asarray(scale * np.exp(-0.5 * ((outputs - mean) ** 2).sum(axis=-1) / noise**2))

    without = law(np.zeros(means.shape[1]))
    within = sum(law(mean) for mean in means) / len(means)
    ratio = math.exp(epsilon)
    return float(np.maximum(within - ratio * without, 0.0).sum()), float(
        np.maximum(without - ratio * within, 0.0).sum()
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.5])
@pytest.mark.parametrize(
    ("strategy", "bins", "noise"),
    [
        (np.array([[1.0, 0, 0], [0.5, 1, 0], [0.3, 0.5, 1]]), 3, 0.8),
        (np.array([[1.0, 0, 0], [0.5, 1, 0], [0.3, 0.5, 1]]), 2, 1.5),
        (np.array([[2.0, 0], [0.1, 1]]), 2, 1.0),
        (np.eye(3), 3, 0.6),
    ],
)
def test_few_steps_are_enclosed(strategy: np.ndarray, bins: int, noise: float, epsilon: float) -> None:
    truth = max(integrated(bins_of(strategy, bins), noise, epsilon))
    run = Accountant().add(MatrixMechanism(strategy, noise_multiplier=noise, allocation=BallsInBins(bins)))
    ends = run.enclose(epsilon)
    assert float(ends.lower) <= truth * (1 + 5e-3)
    assert truth * (1 - 5e-3) <= run.delta(epsilon)
    assert run.delta(epsilon) <= (1.01 if not np.any(np.tril(strategy, -1)) else 2.5) * truth


@pytest.mark.parametrize("seed", range(3))
def test_each_direction_of_random_strategies_is_bounded(seed: int) -> None:
    """Strategies with entries of both signs, against outcomes that equal gradients attain."""
    strategy = np.tril(np.random.default_rng(seed).normal(size=(3, 3)))
    law = MatrixMechanism(strategy, noise_multiplier=1.5, allocation=BallsInBins(3)).curve()
    for epsilon in (0.2, 1.0):
        removed, added = integrated(bins_of(strategy, 3), 1.5, epsilon)
        assert law.lower(epsilon) <= removed * (1 + 5e-3)
        assert removed * (1 - 5e-3) <= float(law.delta(epsilon))
        assert added * (1 - 5e-3) <= float(law.reversed().delta(epsilon))


def sampled_delta(means: np.ndarray, noise: float, epsilon: float, count: int, seed: int) -> tuple[float, float]:
    """Delta of a removed record and its standard error, from samples with the record (Monte Carlo accounting)."""
    generator = np.random.default_rng(seed)
    inner = means @ means.T / noise**2
    factor = np.linalg.cholesky(inner + 1e-9 * np.eye(len(inner)))
    drawn = generator.integers(len(means), size=count)
    exponents = generator.standard_normal((count, len(means))) @ factor.T + inner[drawn] - 0.5 * np.diag(inner)
    peak = exponents.max(axis=1)
    loss = peak + np.log(np.exp(exponents - peak[:, None]).mean(axis=1))
    share = np.maximum(-np.expm1(epsilon - loss), 0.0)
    return float(share.mean()), float(share.std() / math.sqrt(count))


@pytest.mark.parametrize(
    ("strategy", "bins", "noise", "epsilon", "above", "below"),
    [(BLT(64, buffers=3), 8, 8.0, 1.5, 1.5, 1.5), (BandMF(64, bands=4), 16, 2.0, 1.5, 4.0, 20.0)],
)
def test_many_steps_against_samples(
    strategy: BLT | BandMF, bins: int, noise: float, epsilon: float, above: float, below: float
) -> None:
    mechanism = MatrixMechanism(strategy, noise_multiplier=noise, allocation=BallsInBins(bins))
    truth, error = sampled_delta(bins_of(strategy.matrix(), bins), noise, epsilon, 60_000, 1)
    assert error < 0.1 * truth
    law = mechanism.curve()
    assert law.lower(epsilon) <= truth + 5.0 * error
    assert truth - 5.0 * error <= float(law.delta(epsilon)) <= above * truth
    assert law.lower(epsilon) >= truth / below


def test_independent_noise_is_a_random_allocation() -> None:
    """Four epochs of eight steps move a bin's four outputs: an allocation to one of eight, half the noise."""
    epochs = MatrixMechanism(np.eye(32), noise_multiplier=2.0, allocation=BallsInBins(8))
    wanted = Accountant().add(Allocation(noise_multiplier=1.0, steps=8)).epsilon(1e-5)
    assert Accountant().add(epochs).epsilon(1e-5) == pytest.approx(wanted, rel=2e-3)


def test_one_bin_is_no_sampling_at_all() -> None:
    strategy = BLT(16, buffers=2).matrix()
    run = Accountant().add(MatrixMechanism(strategy, noise_multiplier=5.0, allocation=BallsInBins(1)))
    shift = float(np.linalg.norm(strategy.sum(axis=1))) / 5.0
    assert run.delta(1.0) == pytest.approx(float(GaussianPair.mean_shift(shift).delta(1.0)), rel=1e-6)
    assert run.delta(1.0) >= float(GaussianPair.mean_shift(shift).delta(1.0))


def test_cyclic_parts_may_be_more_than_bands() -> None:
    strategy = BandMF(60, bands=3)
    short = MatrixMechanism(strategy, noise_multiplier=2.0, sampling_rate=0.1)
    same = MatrixMechanism(strategy, noise_multiplier=2.0, allocation=CyclicPoisson(0.1))
    more = MatrixMechanism(strategy, noise_multiplier=2.0, allocation=CyclicPoisson(0.1, parts=6))
    found = [Accountant().add(one).epsilon(1e-5) for one in (short, same, more)]
    assert found[0] == found[1] > found[2]


def test_it_is_stored_and_charged() -> None:
    mechanism = MatrixMechanism(BLT(8, buffers=2), noise_multiplier=6.0, allocation=BallsInBins(2))
    law = mechanism.curve()
    again = profile_from_dict(law.to_dict())
    assert again == law
    run = Accountant().add(mechanism)
    certificate = run.certify(delta=1e-5)
    assert certificate.epsilon >= run.epsilon(1e-5)
    both = Accountant().add(mechanism).add(GaussianPair.mean_shift(0.1))
    assert both.epsilon(1e-5) > run.epsilon(1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"allocation": BallsInBins(2), "sampling_rate": 0.1}, "left out where an allocation"),
        ({"allocation": BallsInBins(2), "takes": 2}, "with sampling"),
        ({"allocation": CyclicPoisson(0.1, parts=2)}, "at least as many as the strategy's 4 bands"),
        ({"allocation": 3}, "a CyclicPoisson or a BallsInBins"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Accountant().add(MatrixMechanism(np.tri(4), noise_multiplier=1.0, **given))


def test_replaced_records_and_wrong_numbers_are_refused() -> None:
    mechanism = MatrixMechanism(np.tri(4), noise_multiplier=1.0, allocation=BallsInBins(2))
    with pytest.raises(ParameterError, match="add-remove"):
        Accountant("replace").add(mechanism)
    for wrong in (lambda: BallsInBins(0), lambda: CyclicPoisson(0.0), lambda: BandMF(4, 0), lambda: BLT(4, 99)):
        with pytest.raises(ParameterError):
            wrong()


def root_mean_error(column: np.ndarray, steps: int) -> float:
    """Of prefix sums with noise of that strategy at unit sensitivity, by matrices."""
    padded = np.zeros(steps)
    padded[: column.size] = column
    strategy = np.stack([np.concatenate([np.zeros(at), padded[: steps - at]]) for at in range(steps)], axis=1)
    error = np.tri(steps) @ np.linalg.inv(strategy)
    return float(np.sqrt((error**2).sum() / steps) * np.linalg.norm(padded))


def test_named_strategies_are_near_the_best() -> None:
    """Full Toeplitz strategies cannot be beaten by bands or buffers, and beat the square root."""
    steps = 64
    root = np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / np.arange(1, steps)]))
    best = root_mean_error(BandMF(steps, bands=steps).coefficients(), steps)
    assert best < root_mean_error(root, steps)
    banded = [root_mean_error(BandMF(steps, bands=bands).coefficients(), steps) for bands in (1, 4, 16, 64)]
    assert banded == sorted(banded, reverse=True)
    assert banded[1] < root_mean_error(root[:4], steps)
    assert best <= root_mean_error(BLT(steps, buffers=3).coefficients(), steps) * (1 + 1e-3) <= 1.002 * best
    for strategy in (BandMF(steps, bands=5), BLT(steps)):
        matrix = strategy.matrix()
        assert np.all(matrix >= 0.0)
        assert not np.any(np.triu(matrix, 1))
        assert np.all(np.diag(matrix) == 1.0)
