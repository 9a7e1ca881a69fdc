"""One kernel for every array library: the strict array API gives the same numbers as NumPy."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

from gaussveil.spectrum import GaussianPair, compose


@pytest.fixture
def batch() -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(2)
    roots = generator.standard_normal((2, 10, 4, 6))
    cov_x, cov_y = roots @ np.swapaxes(roots, -1, -2) / 5
    cov_x[7] = cov_y[7]  # equal covariances
    cov_x[8] = 1e-9 * np.eye(4)  # ratios that go through the singular values
    return generator.standard_normal((10, 4)), cov_x, np.zeros((10, 4)), cov_y


def test_strict_arrays_give_numpy_numbers(batch: tuple[np.ndarray, ...]) -> None:
    ours = GaussianPair(*batch)
    other = GaussianPair(*(strict.asarray(array) for array in batch))
    epsilon = np.linspace(0, 4, 10)
    for name, argument in (
        ("delta", epsilon),
        ("log_delta", epsilon),
        ("epsilon", np.full(10, 1e-5)),
        ("loss_tail", epsilon),
    ):
        found = getattr(other, name)(strict.asarray(argument))
        assert isinstance(found, type(strict.asarray(0.0)))
        np.testing.assert_allclose(np.asarray(found), getattr(ours, name)(argument), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(np.asarray(other.dp_delta(1.0)), ours.dp_delta(1.0), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(compose(other, other).delta(2.0)), (ours**2).delta(2.0), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(other.renyi(1.5)), ours.renyi(1.5), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(other.tradeoff(0.1)), ours.tradeoff(0.1), rtol=1e-8)
