from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from gaussveil.calibration import noise_scales

positive = st.floats(1e-3, 1e3)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6), st.floats(1e-3, 10))
def test_the_mean_shifts_add_up_and_no_exchange_of_noise_is_better(
    releases: list[tuple[float, float]], shift: float
) -> None:
    weights, sensitivities = (np.array(values) for values in zip(*releases))
    scales = noise_scales(shift, weights, sensitivities)
    assert np.sum(sensitivities / scales**2) == pytest.approx(shift**2)
    # at the optimum the price of a further unit of loss is the same in every release: w s^4 / b
    prices = weights * scales**4 / sensitivities
    assert prices == pytest.approx(np.full(len(prices), prices[0]))


def test_the_split_is_the_one_that_a_search_finds() -> None:
    weights, sensitivities, shift = np.array([1.0, 4.0, 0.3]), np.array([1.0, 0.5, 2.0]), 0.7

    def cost(logits: NDArray[np.float64]) -> float:
        shares = np.exp(logits) / np.exp(logits).sum()
        return float(np.sum(weights * sensitivities / (shares * shift**2)))

    found = minimize(cost, np.zeros(3), method="BFGS").fun
    assert np.sum(weights * noise_scales(shift, weights, sensitivities) ** 2) == pytest.approx(found, rel=1e-6)
