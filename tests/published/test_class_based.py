"""Algorithm 1 of the class-based paper: white noise as printed, better than it on average with a line search (K4)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair
from gaussveil_studies.published.class_based import algorithm_1, lemma_2_step, surrogates

Array = NDArray[np.float64]

MEANS = np.outer(np.linspace(-1.0, 1.0, 4), (1.0, 0.75))
EDGES = np.array([(i, j) for i in range(4) for j in range(i)])
ORDERED = np.concatenate([EDGES, EDGES[:, ::-1]])


def wishart(seed: int) -> Array:
    roots = np.random.default_rng(seed).normal(size=(4, 2, 2))
    return np.asarray(roots @ roots.transpose(0, 2, 1))


def worst_delta(covariances: Array, noise: Array) -> float:
    total = covariances + noise
    first, second = ORDERED.T
    return float(np.max(GaussianPair(MEANS[first], total[first], MEANS[second], total[second]).delta(1.0)))


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_as_printed_the_step_is_zero_and_the_noise_white(seed: int, rho: float) -> None:
    covariances = wishart(seed)
    inverses = np.asarray(np.linalg.inv(covariances + rho * np.eye(2)))
    first, second = ORDERED[int(np.argmax(surrogates(MEANS, inverses, ORDERED)))]
    assert lemma_2_step(MEANS, inverses, ORDERED, int(first), int(second)) == 0.0
    noise = algorithm_1(MEANS, covariances, EDGES, rho)
    np.testing.assert_allclose(noise, np.broadcast_to(rho * np.eye(2), noise.shape), atol=1e-12)


@pytest.mark.parametrize(("rho", "mean"), [(0.5, 0.602), (1.0, 0.479), (2.0, 0.333)])
def test_repaired_it_is_better_on_average_and_sometimes_worse_than_white_noise(rho: float, mean: float) -> None:
    found, white = [], []
    for seed in range(6):
        covariances = wishart(seed)
        noise = algorithm_1(MEANS, covariances, EDGES, rho, repaired=True)
        np.testing.assert_allclose(np.trace(noise, axis1=1, axis2=2), 2 * rho, rtol=1e-12)
        found.append(worst_delta(covariances, noise))
        white.append(worst_delta(covariances, np.broadcast_to(rho * np.eye(2), noise.shape)))
    assert np.mean(found) == pytest.approx(mean, abs=1e-3)
    assert np.mean(found) < np.mean(white)
    assert any(one > other for one, other in zip(found, white))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ShapeError, match="means and covariances"):
        algorithm_1(MEANS, np.eye(2), EDGES, 1.0)
    with pytest.raises(ParameterError, match="rho must be a finite number, above 0"):
        algorithm_1(MEANS, wishart(0), EDGES, 0.0)
