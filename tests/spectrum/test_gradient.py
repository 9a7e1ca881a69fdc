"""Gradients of the exact delta against central differences of it and against rigorous enclosures."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.gradient import PairGradient, both_gradients, swap_gradient, whiten

Array = NDArray[np.float64]
STEP = 1e-4
STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))  # fourth order


def models(dim: int, count: int = 4, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    generator = np.random.default_rng((seed, dim))
    roots = generator.normal(size=(2, count, dim, dim + 8))
    covariances = roots @ roots.transpose(0, 1, 3, 2) / (dim + 8)
    means = 0.7 * generator.normal(size=(2, count, dim))
    return means[0], covariances[0], means[1], covariances[1]


def log_delta_gradient(mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array, epsilon: float) -> PairGradient:
    return both_gradients(whiten(mean_x, cov_x, mean_y, cov_y), epsilon)[0]


def swapped(pair: PrivacyLoss) -> PrivacyLoss:
    return compose(pair, pair.reversed())


@pytest.mark.parametrize("dim", [1, 2, 5, 12])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("compiled", ["0", "1"])
def test_gradients_are_the_central_differences(
    dim: int, epsilon: float, swap: bool, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUSSVEIL_COMPILED", compiled)
    arguments = models(dim)
    generator = np.random.default_rng(dim)
    found = swap_gradient(whiten(*arguments), epsilon) if swap else log_delta_gradient(*arguments, epsilon)

    def log_delta(*changed: Array) -> Array:
        pair = GaussianPair(*changed)
        return np.asarray((swapped(pair) if swap else pair).log_delta(epsilon))

    exact = log_delta(*arguments)
    np.testing.assert_allclose(found.log_delta, exact, rtol=0, atol=1e-8)
    some = np.isfinite(exact)  # in one dimension a delta may be zero, and has no differences then
    assert np.sum(some) >= 3
    slopes = (found.mean_x, found.cov_x, -found.mean_x, found.cov_y)
    for place, slope in enumerate(slopes):
        direction = generator.normal(size=arguments[place].shape)
        if direction.ndim == 3:
            direction = direction + direction.transpose(0, 2, 1)
            direction *= 0.2
        with np.errstate(invalid="ignore"):
            difference = sum(
                weight * log_delta(*(a + t * STEP * direction if i == place else a for i, a in enumerate(arguments)))
                for t, weight in STENCIL
            )
        along = np.sum(slope * direction, axis=tuple(range(1, slope.ndim)))
        scale = np.sqrt(np.sum(slope**2) * np.sum(direction**2)) + 1
        np.testing.assert_allclose(along[some], difference[some] / STEP, rtol=0, atol=1e-6 * scale)


def test_both_directions_from_one_batch_are_the_two_gradients() -> None:
    mean_x, cov_x, mean_y, cov_y = models(3)
    ahead, back = both_gradients(whiten(mean_x, cov_x, mean_y, cov_y), 1.0)
    reverse = log_delta_gradient(mean_y, cov_y, mean_x, cov_x, 1.0)
    for one, other in zip(ahead, log_delta_gradient(mean_x, cov_x, mean_y, cov_y, 1.0)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back.log_delta, reverse.log_delta, rtol=1e-9)
    np.testing.assert_allclose(back.mean_x, -reverse.mean_x, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(back.cov_x, reverse.cov_y, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(back.cov_y, reverse.cov_x, rtol=1e-6, atol=1e-9)


def test_value_lies_in_the_rigorous_enclosure() -> None:
    arguments = models(3, count=1)
    found = float(np.exp(log_delta_gradient(*arguments, 1.0).log_delta[0]))
    enclosed = GaussianPair(*(argument[0] for argument in arguments)).enclose(1.0)
    assert float(enclosed.lower) * (1 - 1e-8) <= found <= float(enclosed.upper) * (1 + 1e-8)


def test_a_mean_shift_has_the_closed_form_gradient() -> None:
    # d delta / d shift of the Gaussian mechanism is the density of N(0, 1) at eps/t - t/2
    shift, one = np.array([[1.3]]), np.ones((1, 1, 1))
    found = log_delta_gradient(shift, one, 0 * shift, one, 0.8)
    exact = np.exp(-0.5 * (0.8 / 1.3 - 1.3 / 2) ** 2) / np.sqrt(2 * np.pi)
    assert found.mean_x[0, 0] * np.exp(found.log_delta[0]) == pytest.approx(exact, rel=1e-8)


def test_where_delta_is_zero_so_is_the_gradient() -> None:
    narrow, wide = 0.5 * np.eye(2)[None], np.eye(2)[None]
    found = log_delta_gradient(np.zeros((1, 2)), narrow, np.zeros((1, 2)), wide, 5.0)
    assert found.log_delta[0] == -np.inf
    assert not np.any(found.cov_x)
    assert not np.any(found.cov_y)


@pytest.mark.parametrize("shift", [1e-300, 1e-160, 1e-17, 1e-9, 1e-4, 1e-3, 1e-2])
def test_where_two_are_nearly_one_delta_is_zero_and_not_one(shift: float) -> None:
    one = np.diag([1.0, 1e-4])[None]
    for found in both_gradients(whiten(np.array([[shift, 0.0]]), one, np.zeros((1, 2)), one), 0.6):
        assert found.log_delta[0] < -745
        assert all(np.isfinite(slopes).all() for slopes in found[1:])
    at_zero = log_delta_gradient(np.array([[shift, 0.0]]), one, np.zeros((1, 2)), one, 0.0)
    assert at_zero.log_delta[0] >= (1 + 1e-5) * np.log(shift / np.sqrt(2 * np.pi))


def test_strict_arrays_give_numpy_numbers() -> None:
    arguments = models(3)
    for ours, other in zip(
        both_gradients(whiten(*arguments), 1.0),
        both_gradients(whiten(*(strict.asarray(argument) for argument in arguments)), 1.0),
    ):
        for one, two in zip(ours, other):
            np.testing.assert_allclose(np.asarray(two), one, rtol=1e-9, atol=1e-12)
