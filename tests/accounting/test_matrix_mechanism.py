"""Correlated noise: sensitivities by trying every pattern, published ones, and sampled strategies integrated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, Gaussian, GaussianPair, MatrixMechanism, calibrate
from gaussveil.errors import ParameterError

LOWER = np.array([[1.0, 0, 0, 0], [2.0, 1.0, 0, 0], [0, 1.0, 1.0, 0], [0, 0, 1.0, -6.0]])


def tried(strategy: np.ndarray, takes: int, apart: int) -> float:
    """The farthest that contributions of +-1 in any allowed pattern move it."""
    best, steps = 0.0, len(strategy)
    for size in range(1, takes + 1):
        for pattern in itertools.combinations(range(steps), size):
            if all(b - a >= apart for a, b in itertools.pairwise(pattern)):
                for signs in itertools.product((1.0, -1.0), repeat=size):
                    best = max(best, float(np.linalg.norm(strategy[:, pattern] @ np.array(signs))))
    return best


def random_strategy(seed: int, steps: int, bands: int, signed: bool) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(-1.0 if signed else 0.0, 1.0, (steps, steps))
    return np.tril(values) - np.tril(values, -bands) + np.eye(steps)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("bands", "takes", "apart"), [(1, 3, 1), (2, 1, 1), (2, 3, 2), (3, 2, 3), (3, 8, 4)])
def test_banded_strategies_are_exact(bands: int, takes: int, apart: int, signed: bool) -> None:
    for seed in range(4):
        strategy = random_strategy(seed, 8, bands, signed)
        found = MatrixMechanism(strategy=strategy, takes=takes, separation=apart)
        assert found.exact
        assert found.bands == bands
        assert 0.0 <= found.sensitivity / tried(strategy, takes, apart) - 1.0 < 1e-13


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("takes", "apart"), [(2, 1), (3, 2), (7, 3)])
def test_others_are_bounded(takes: int, apart: int, signed: bool) -> None:
    for seed in range(4):
        strategy = random_strategy(seed, 7, 7, signed)
        found = MatrixMechanism(strategy=strategy, takes=takes, separation=apart)
        assert not found.exact
        assert tried(strategy, takes, apart) <= found.sensitivity < 2.0 * tried(strategy, takes, apart)


def test_periodic_patterns_are_tried() -> None:
    strategy = random_strategy(5, 9, 9, signed=False)
    for apart, takes in ((3, None), (2, 3), (1, None), (4, 1)):
        patterns = [list(range(start, 9, apart))[: takes or 9] for start in range(9)]
        wanted = max(float(np.linalg.norm(strategy[:, pattern].sum(axis=1))) for pattern in patterns)
        found = MatrixMechanism(strategy=strategy, takes=takes, separation=apart, periodic=True)
        assert found.exact
        assert found.sensitivity == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize(
    ("strategy", "takes", "apart", "wanted"),
    [
        (LOWER, 1, 1, 6.0),
        (LOWER, None, 2, math.sqrt(41.0)),
        (LOWER, None, 3, math.sqrt(41.0)),
        (np.diag([0.0, 3.0, 0.0, 1.0, 2.0]), None, 2, math.sqrt(13.0)),
        (np.diag([0.0, 3.0, 0.0, 1.0, 2.0]), 1, 2, 3.0),
        (np.tri(10), None, 10, math.sqrt(10.0)),
    ],
)
def test_sensitivities_of_another_library(strategy: np.ndarray, takes: int | None, apart: int, wanted: float) -> None:
    """Cases of jax_privacy's own tests of its sensitivities."""
    found = MatrixMechanism(strategy=strategy, takes=takes, separation=apart)
    assert found.sensitivity == pytest.approx(wanted, rel=1e-13)


def test_without_sampling_it_is_one_pair() -> None:
    mechanism = MatrixMechanism(strategy=LOWER, noise_multiplier=9.0, takes=None, separation=2)
    run, wanted = Accountant().add(mechanism), GaussianPair.mean_shift(math.sqrt(41.0) / 9.0)
    assert run.delta(0.5) == pytest.approx(float(wanted.delta(0.5)), rel=1e-9)
    assert run.delta(0.5) >= float(wanted.delta(0.5)) * (1 - 1e-12)
    replaced = Accountant("replace").add(mechanism)
    assert replaced.delta(0.5) == pytest.approx(
        float(GaussianPair.mean_shift(math.sqrt(164.0) / 9.0).delta(0.5)), rel=1e-9
    )
    noise = calibrate(MatrixMechanism(strategy=LOWER), epsilon=1.0, delta=1e-6)
    assert noise == pytest.approx(6.0 * calibrate(Gaussian(), epsilon=1.0, delta=1e-6), rel=1e-8)


def test_a_sampled_identity_is_ordinary_training() -> None:
    wanted = Accountant().add(DPSGD(noise_multiplier=1.1, sampling_rate=0.02), 200).epsilon(1e-6)
    mechanism = MatrixMechanism(strategy=np.eye(200), noise_multiplier=1.1, sampling_rate=0.02)
    assert 0.0 <= Accountant().add(mechanism).epsilon(1e-6) / wanted - 1.0 < 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 0.6])
def test_a_sampled_band_against_direct_integration(epsilon: float) -> None:
    """Four steps, two bands: a record of the first part is drawn for columns 0 and 2; all four outputs integrated."""
    strategy, noise, rate = np.array([[1.0, 0, 0, 0], [0.5, 1, 0, 0], [0, 0.4, 1, 0], [0, 0, 0.3, 1]]), 0.9, 0.2
    grid = np.linspace(-5.5, 7.0, 41) * noise
    cell = (grid[1] - grid[0]) ** 4
    outputs = np.stack(np.meshgrid(grid, grid, grid, grid, indexing="ij"), axis=-1)

    def density(mean: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.sum((outputs - mean) ** 2, axis=-1) / noise**2) / (2 * math.pi * noise**2) ** 2

    without = density(np.zeros(4))
    with_record = sum(
        (rate if first else 1 - rate)
        * (rate if second else 1 - rate)
        * density(first * strategy[:, 0] + second * strategy[:, 2])
        for first in (0, 1)
        for second in (0, 1)
    )
    wanted = max(
        float(np.maximum(with_record - math.exp(epsilon) * without, 0.0).sum() * cell),
        float(np.maximum(without - math.exp(epsilon) * with_record, 0.0).sum() * cell),
    )
    found = (
        Accountant().add(MatrixMechanism(strategy=strategy, noise_multiplier=noise, sampling_rate=rate)).delta(epsilon)
    )
    assert found == pytest.approx(wanted, rel=2e-2)
    bound = Accountant().add(DPSGD(noise_multiplier=noise / math.sqrt(1.25), sampling_rate=rate), 2).delta(epsilon)
    assert found < bound  # one norm for all columns


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"strategy": np.ones((2, 2))}, "lower triangular"),
        ({"strategy": np.ones(3)}, "a square matrix"),
        ({"strategy": np.eye(3), "separation": 0}, "separation must be"),
        ({"strategy": np.eye(3), "sampling_rate": 0.1, "takes": 2}, "with sampling"),
    ],
)
def test_bad_input_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Accountant().add(MatrixMechanism(noise_multiplier=1.0, **given))
