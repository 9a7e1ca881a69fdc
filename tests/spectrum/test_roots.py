from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from gaussveil.errors import NumericalError
from gaussveil.spectrum.roots import Trial, lowest, private_end


@pytest.mark.parametrize("seed", range(40))
def test_minima_are_scipys_to_the_bit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    slope, at, bend = (float(number) for number in generator.normal(size=3))
    low, high = at - generator.exponential() * 3, at + generator.exponential() * 3

    def valley(x: float) -> float:
        return math.cosh(slope * (x - at)) + abs(bend) * math.sqrt(abs(x - at)) * abs(x - at)

    for tolerance in (1e-3, 1e-9, 1e-14):
        found = minimize_scalar(valley, bounds=(low, high), method="bounded", options={"xatol": tolerance})
        assert lowest(valley, low, high, xtol=tolerance) == found.x


@pytest.mark.parametrize("seed", range(40))
def test_an_inverse_was_seen_to_be_private_and_looks_nowhere_else(seed: int) -> None:
    generator = np.random.default_rng(seed)
    root, steep, bend = (float(number) for number in np.exp(generator.normal(size=3) * 4.0))
    seen: dict[float, float] = {}

    def look(x: float) -> Trial:
        assert 0.0 <= x <= 1e12
        seen[x] = steep * (math.log(root) - math.log(x + 1e-300)) + bend * max(root - x, 0.0)
        return Trial(seen[x], x * math.exp(float(generator.normal()) * 5.0) if seed % 2 else math.nan)

    found = private_end(look, float(np.exp(generator.normal() * 9.0)), 0.0, 1e12, rtol=1e-12)
    assert seen[found] <= 0.0
    assert root <= found <= root * (1 + 1e-11)
    assert len(seen) < 90


@pytest.mark.parametrize("root", [1e-9, 3.0, 1e5])
def test_proposals_count_where_nothing_above_is_known(root: float) -> None:
    """They were dropped below an infinite end, and the next look was at one more: seconds of enclosures."""
    seen: list[float] = []

    def look(x: float) -> Trial:
        seen.append(x)
        return Trial(root - x, root * (1 + 1e-15))

    assert private_end(look, 0.9 * root, 0.0, math.inf, tolerance=1e-12 * root) == pytest.approx(root, rel=1e-12)
    assert len(seen) == 2
    seen.clear()
    found = private_end(lambda x: Trial(look(x).value), 0.9 * root, 0.0, math.inf, tolerance=1e-12 * root)
    assert found == pytest.approx(root, rel=1e-12)
    assert len(seen) < 12
    assert max(seen) < 20.0 * root + 1.0


def test_an_inverse_may_be_the_lower_end_or_nowhere() -> None:
    assert private_end(lambda x: Trial(-1.0 - x), 3.0, 0.0, math.inf) == 0.0
    assert private_end(lambda x: Trial(1.0), 3.0, 0.0, 7.0) == 7.0
    with pytest.raises(NumericalError, match="keeps the promise"):
        private_end(lambda x: Trial(1.0), 3.0, 0.0, math.inf)
    assert private_end(lambda x: Trial(math.inf if x < 2.0 else -math.inf), 1.0, 0.0, math.inf) == pytest.approx(2.0)
