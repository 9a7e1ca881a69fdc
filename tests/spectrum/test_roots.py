from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from gaussveil.errors import NumericalError
from gaussveil.spectrum.roots import brent, lowest


@pytest.mark.parametrize("seed", range(40))
def test_roots_and_minima_are_scipys_to_the_bit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    slope, at, bend = (float(number) for number in generator.normal(size=3))
    low, high = at - generator.exponential() * 3, at + generator.exponential() * 3

    def crossing(x: float) -> float:
        return math.tanh(slope * (x - at)) + math.copysign(bend * bend, slope) * (x - at) ** 3

    def valley(x: float) -> float:
        return math.cosh(slope * (x - at)) + abs(bend) * math.sqrt(abs(x - at)) * abs(x - at)

    for tolerance in (1e-3, 1e-9, 1e-14):
        assert brent(crossing, low, high, xtol=tolerance) == brentq(crossing, low, high, xtol=tolerance)
        found = minimize_scalar(valley, bounds=(low, high), method="bounded", options={"xatol": tolerance})
        assert lowest(valley, low, high, xtol=tolerance) == found.x


def test_a_root_at_an_end_is_found_and_none_is_invented() -> None:
    assert brent(lambda x: x, 0.0, 1.0) == 0.0
    assert brent(lambda x: x - 1, 0.0, 1.0) == 1.0
    with pytest.raises(NumericalError, match="change its sign"):
        brent(lambda x: x + 1, 0.0, 1.0)
