from __future__ import annotations

import math

import mpmath
import pytest

from gaussveil_studies.ndis.sketch import improvement_factor, other_calibrations, renyi_excess, utility_bound


def published_delta(leverage: float, epsilon: float, components: int) -> float:
    """NDIS Proposition 4 as printed, in 50 digits."""
    with mpmath.workdps(50):
        ratio, half = 1 / (1 - mpmath.mpf(leverage)), mpmath.mpf(components) / 2
        at = (epsilon + half * mpmath.log(ratio)) / (ratio - 1)
        tails = [mpmath.gammainc(half, at * scale, mpmath.inf, regularized=True) for scale in (1, ratio)]
        return float(tails[0] - mpmath.exp(epsilon) * tails[1])


def test_figure_2_is_reproduced_from_the_printed_formula() -> None:
    for row in improvement_factor(epsilons=(0.1, 1.0, 5.0), components=(50, 200)):
        assert published_delta(row["leverage"], row["epsilon"], int(row["components"])) == pytest.approx(1e-6, rel=1e-9)
        level = math.log(4e6)
        lsv = row["epsilon"] / (4 * (math.sqrt(2 * row["components"] * level) + level))
        assert row["factor"] == pytest.approx(row["leverage"] / lsv, rel=1e-12)
        assert row["ridge_factor"] > row["factor"] > 5  # the ratios of the figure are consistently above 1


def test_exact_calibration_beats_renyi_and_meets_the_gaussian_mechanism_in_the_limit() -> None:
    rows = other_calibrations(epsilons=(0.5, 2.0), components=(50, 2000))
    for row in rows:
        assert 1.03 < row["renyi_over_exact"] < 1.2
        assert row["gaussian_error"] < row["sketch_error"]
    few, many = (
        [row["sketch_error"] / row["gaussian_error"] for row in rows if row["components"] == r] for r in (50, 2000)
    )
    assert all(better < worse for better, worse in zip(many, few, strict=True))
    assert max(many) < 1.05


def test_renyi_calibration_is_the_published_one() -> None:
    """Lev et al. 2025: r/(2(alpha-1)) (alpha log(1-1/gamma) - log(1-alpha/gamma)), the best alpha by brute force."""
    epsilon, delta, components = 1.0, 1e-6, 100
    leverage = 1 - 1 / (1 + renyi_excess(epsilon, delta, components))
    best = min(
        components / 2 * (alpha * math.log1p(-leverage) - math.log1p(-alpha * leverage))
        - (alpha - 1) * epsilon
        - math.log(alpha - 1)
        + alpha * math.log1p(-1 / alpha)
        for alpha in (1 + (1 / leverage - 1) * k / 20000 for k in range(1, 20000))
    )
    assert best == pytest.approx(math.log(delta), abs=1e-4)


def test_utility_constant_is_of_order_one() -> None:
    for row in utility_bound((40, 160), size=4, rows=300, draws=60):
        assert 0.3 < row["constant"] < 2.5
