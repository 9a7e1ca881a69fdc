"""The radius that a covariance takes by default, beside public ones within a factor of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gaussveil import PrivateCovariance
from gaussveil.noise import SeededGenerator
from gaussveil.typing import Floats

SEEDS = range(5)


def table(name: str) -> tuple[Floats, tuple[float, float]]:
    rng = np.random.default_rng(0)
    if name == "normal":
        return np.clip(rng.normal(size=(2000, 10)) @ rng.normal(size=(10, 10)) / 3, -5, 5), (-5.0, 5.0)
    return np.clip(rng.standard_t(3, size=(5000, 6)) * [1, 1, 0.5, 0.5, 0.2, 0.1], -50, 50), (-50.0, 50.0)


@pytest.mark.parametrize("name", ["normal", "tails"])
def test_no_public_radius_near_it_is_much_better_and_no_epsilon_makes_it_jump(name: str) -> None:
    rows, bounds = table(name)
    truth = np.cov(rows.T)
    units = (bounds[1] - bounds[0]) / 2

    def error(epsilon: float, norm: float | None = None) -> tuple[float, float]:
        errors, radii = [], []
        for seed in SEEDS:
            asked: dict[str, Any] = {
                "epsilon": epsilon,
                "delta": 1e-6,
                "bounds": bounds,
                "generator": SeededGenerator(seed),
            }
            made = PrivateCovariance(**asked, row_norm=norm).fit(rows)
            errors.append(np.linalg.norm(made.covariance_ - truth) / np.linalg.norm(truth))
            radii.append(made.moments_.scale[0] / units)
        return float(np.median(errors)), float(np.median(radii))

    found = {epsilon: error(epsilon) for epsilon in (1.0, 2.0, 4.0)}
    for epsilon, (own, radius) in found.items():
        best = min(error(epsilon, radius * factor)[0] for factor in (0.5, 0.7, 1.4, 2.0))
        assert own < 1.5 * best, epsilon
    assert found[1.0][0] < 4 * found[2.0][0]
    assert found[2.0][0] < 4 * found[4.0][0]
