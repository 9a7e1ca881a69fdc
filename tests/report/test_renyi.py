from __future__ import annotations

import mpmath
import numpy as np
import pytest

from gaussveil.report.renyi import ORDERS, renyi_delta, renyi_epsilon
from gaussveil.spectrum import GaussianPair


def textbook_epsilon(shift: float, delta: float) -> float:
    """Minimise the conversion over the orders with D_a = a shift^2 / 2, at 30 digits."""
    with mpmath.workdps(30):
        bounds = []
        for order in map(mpmath.mpf, ORDERS.tolist()):
            extra = mpmath.log(1 / mpmath.mpf(delta)) + order * mpmath.log(1 - 1 / order) - mpmath.log(order - 1)
            bounds.append(order * mpmath.mpf(shift) ** 2 / 2 + extra / (order - 1))
        return float(min(bounds))


@pytest.mark.parametrize("shift", [0.1, 1.0, 5.0])
def test_mean_shift_is_the_textbook_value(shift: float) -> None:
    assert renyi_epsilon(GaussianPair.mean_shift(shift), 1e-6) == pytest.approx(
        textbook_epsilon(shift, 1e-6), rel=1e-12
    )


@pytest.mark.parametrize("gap", [-0.5, 0.5])
def test_it_bounds_both_directions_and_inverts_itself(gap: float) -> None:
    pair = GaussianPair.from_reduced([gap, gap / 2], [0.3, 0.0])
    epsilons = np.linspace(0.0, 3.0, 7)
    assert np.all(renyi_delta(pair, epsilons) >= pair.dp_delta(epsilons))
    epsilon = renyi_epsilon(pair, 1e-4)
    assert float(renyi_delta(pair, epsilon)) == pytest.approx(1e-4, rel=1e-9)


def test_never_above_one() -> None:
    assert float(renyi_delta(GaussianPair.mean_shift(50.0), 0.0)) == 1.0
