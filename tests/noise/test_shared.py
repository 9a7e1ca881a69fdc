"""White noise with one shared draw: its covariance, its lattice, its stated error."""

from __future__ import annotations

import numpy as np
import pytest

from gaussveil.noise import SeededGenerator
from gaussveil.noise.gaussian import SharedNoise


def test_covariance_is_own_in_every_coordinate_and_shared_between_them(full: bool) -> None:
    noise, count = SharedNoise(2.0, 3.0, 5), 20_000 if full else 5_000
    generator = SeededGenerator(4)
    drawn = np.array([noise.draw(generator) for _ in range(count)]) * noise.grid
    found, error = np.cov(drawn.T), np.sqrt(2 / count)
    # entries are off by about 5 times this error; five of those
    assert np.abs(found - (2.0 * np.eye(5) + 3.0)).max() < 25 * error
    assert found.sum() / 5 == pytest.approx(2.0 + 5 * 3.0, rel=5 * error)


@pytest.mark.parametrize(("own", "shared", "size"), [(1.0, 1.0, 1), (1e-6, 5.0, 168), (3.0, 1e-12, 10_000)])
def test_variances_are_at_least_those_asked_for_and_the_error_is_tiny(own: float, shared: float, size: int) -> None:
    noise = SharedNoise(own, shared, size)
    assert float(noise.white.variance) * noise.grid**2 >= own
    assert float(noise.shared.variance) * noise.grid**2 >= shared
    assert noise.total_variation < 1e-32 * size
    drawn = noise.add(np.zeros(size), SeededGenerator(1))
    assert (np.rint(drawn / noise.grid) == drawn / noise.grid).all()


def test_the_shared_draw_leaves_the_conditional_variance_that_its_bound_needs() -> None:
    """Theorem 1 of docs/math/noise.md: 1/(1/s1^2 + d/s^2) must stay far above 4."""
    noise = SharedNoise(1.0, 50.0, 100_000)
    assert 1 / (1 / float(noise.shared.variance) + 100_000 / float(noise.white.variance)) > 2**30
