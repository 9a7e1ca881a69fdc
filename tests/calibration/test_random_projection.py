from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from gaussveil.calibration.random_projection import (
    approximate_excess,
    largest_excess,
    propose_test_release,
    sketch_loss,
    subsampled_excess,
    tight_ridge,
)
from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.profiles import PoissonSubsampled


def lemma_4(epsilon: float, components: int, excess: float) -> float:
    """NDIS Lemma 4 as printed, in 60 digits."""
    with mpmath.workdps(60):
        ratio, half = 1 + mpmath.mpf(excess), mpmath.mpf(components) / 2
        at = (epsilon + half * mpmath.log(ratio)) / (ratio - 1)
        upper = [mpmath.gammainc(half, at * scale, mpmath.inf, regularized=True) for scale in (1, ratio)]
        return float(upper[0] - mpmath.exp(epsilon) * upper[1])


@pytest.mark.parametrize(
    ("epsilon", "delta", "components"),
    [(1.0, 1e-6, 50), (0.1, 1e-6, 500), (5.0, 1e-6, 100), (0.5, 1e-12, 3), (1.0, 0.2, 1)],
)
def test_leverage_is_attained_and_never_exceeded(epsilon: float, delta: float, components: int) -> None:
    excess = largest_excess(epsilon, delta, components)
    exact = lemma_4(epsilon, components, excess)
    assert exact <= delta
    assert exact == pytest.approx(delta, rel=1e-9)
    # N1: the other direction never decides here, but it is evaluated
    assert sketch_loss(excess, components).reversed().enclose(epsilon).upper <= delta


def test_the_pair_is_the_exact_law_of_the_worst_neighbours() -> None:
    """An empty table and one record of full norm: their covariances as matrices, against the stored pair."""
    row_norm, components = 3.0, 6
    excess = largest_excess(1.0, 1e-4, components)
    ridge = tight_ridge(row_norm, excess)
    record = row_norm * np.array([0.6, 0.8])
    without = np.kron(np.eye(components), ridge * np.eye(2))
    with_it = without + np.kron(np.eye(components), np.outer(record, record))
    exact = GaussianPair(np.zeros(12), with_it, np.zeros(12), without)
    assert float(exact.delta(1.0)) == pytest.approx(1e-4, rel=1e-9)
    other = GaussianPair(np.zeros(12), with_it + 5 * without, np.zeros(12), without + 5 * without)
    assert float(other.delta(1.0)) < 1e-4


@given(st.floats(0.05, 8.0), st.floats(-12.0, -1.0), st.integers(1, 600))
@settings(derandomize=True, deadline=None, max_examples=8)
def test_every_promise_is_proven(epsilon: float, log10_delta: float, components: int) -> None:
    delta = 10.0**log10_delta
    excess = largest_excess(epsilon, delta, components)
    loss = sketch_loss(excess, components)
    assert max(loss.enclose(epsilon).upper, loss.reversed().enclose(epsilon).upper) <= delta
    assert float(sketch_loss(excess * (1 + 1e-9), components).dp_delta(epsilon)) > delta * (1 - 1e-12)
    assert approximate_excess(epsilon, delta, components) == pytest.approx(excess, rel=1e-9)


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 1e3), st.integers(1, 50))
@settings(derandomize=True, deadline=None)
def test_ridge_is_the_smallest_double_that_suffices(row_norm: float, excess: float, rows: int) -> None:
    ridge = tight_ridge(row_norm, excess, rows)
    needed = rows * Fraction(row_norm) ** 2
    assert Fraction(ridge) * Fraction(excess) >= needed
    assert Fraction(math.nextafter(ridge, 0.0)) * Fraction(excess) < needed


def test_tight_ridge_is_smaller_than_the_published_one_by_the_squared_norm() -> None:
    """N4: l^2 (1/p - 1) instead of l^2/p."""
    excess = largest_excess(1.0, 1e-6, 50)
    leverage = excess / (1 + excess)
    assert tight_ridge(2.0, excess) == pytest.approx(4 / leverage - 4, rel=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 4))
@settings(derandomize=True, deadline=None, max_examples=20)
def test_units_of_several_rows_are_dominated(seed: int, rows: int) -> None:
    """Random units of the full energy against the pair with excesses a, a/2, a/3, ..."""
    rng = np.random.default_rng(seed)
    size, components, excess = 4, 3, 0.8
    unit = rng.normal(size=(rows, size))
    unit *= np.sqrt(excess * rng.dirichlet(np.ones(rows)))[:, None] / np.linalg.norm(unit, axis=1)[:, None]
    gaps = -np.linalg.eigvalsh(unit.T @ unit)[-rows:]
    loss = sketch_loss(excess, components, rows)
    actual = type(loss).from_terms(np.minimum(gaps, 0.0), [float(components)] * rows, [0.0] * rows)
    for epsilon in (0.0, 0.5, 2.0):
        assert actual.delta(epsilon) <= loss.delta(epsilon) * (1 + 1e-9)
        assert actual.reversed().delta(epsilon) <= loss.reversed().delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("rate", [0.02, 0.3, 1.0])
def test_subsampling_follows_figure_3(rate: float) -> None:
    """The forward direction decides and gives the paper's epsilon_0 and delta_0; nothing exceeds delta."""
    epsilon, delta, components = 1.0, 1e-6, 40
    excess = subsampled_excess(epsilon, delta, components, rate)
    inner = math.log1p(math.expm1(epsilon) / rate)
    assert excess == pytest.approx(largest_excess(inner, delta / rate, components), rel=1e-7)
    assert float(PoissonSubsampled(sketch_loss(excess, components), rate).dp_delta(epsilon)) <= delta
    assert rate == 1.0 or excess > largest_excess(epsilon, delta, components)


def test_a_rate_below_delta_is_refused() -> None:
    with pytest.raises(ParameterError, match="rate"):
        subsampled_excess(1.0, 0.1, 5, 0.05)


@pytest.mark.parametrize(
    ("epsilon", "delta", "components"), [(1.0, 1e-6, 100), (0.3, 1e-3, 4), (3.0, 1e-9, 30), (0.0, 1e-3, 2)]
)
def test_test_release_and_failure_together_keep_the_promise(epsilon: float, delta: float, components: int) -> None:
    design = propose_test_release(epsilon, delta, components)
    loss = design.loss(components)
    price = (1 + math.exp(epsilon)) * design.failure
    for pair in (loss, loss.reversed()):
        assert pair.enclose(epsilon).upper + price <= delta
    assert loss.enclose(epsilon).upper + price == pytest.approx(delta, rel=1e-9)
    assert design.excess < largest_excess(epsilon, delta, components)


def test_chosen_test_beats_its_neighbours() -> None:
    """The smallest eigenvalue from which the ridge vanishes is no larger than for other test noise."""
    epsilon, delta, components = 1.0, 1e-6, 100

    def needed(shift: float | None) -> float:
        design = propose_test_release(epsilon, delta, components, shift=shift)
        return 1 + 1 / design.excess + float(-ndtri(design.failure) + ndtri(0.95)) / design.shift

    best = propose_test_release(epsilon, delta, components).shift
    assert needed(None) <= min(needed(best * 0.7), needed(best * 1.2)) * (1 + 1e-6)


def test_a_test_that_spends_the_whole_promise_is_refused() -> None:
    """N3: Figure 4 sets eps_R = max(eps - eps_T, 0) and overspends when eps_T > eps."""
    shift = 0.5  # the test alone has epsilon 2.2 at delta 1e-6
    assert float(GaussianPair.mean_shift(shift).epsilon(1e-6)) > 1.0
    with pytest.raises(ParameterError, match="test must cost less"):
        propose_test_release(1.0, 1e-6, 50, shift=shift)


def test_a_promise_that_no_ridge_keeps_is_refused() -> None:
    with pytest.raises(ParameterError, match="leverage"):
        largest_excess(0.0, 1e-300, 10**6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "components", "rank"),
    [
        (1.0, 1e-5, 2.9, 1),
        (1.0, 1e-5, 0, 1),
        (1.0, 1e-5, True, 1),
        (1.0, 2.0, 3, 1),
        (float("nan"), 1e-5, 3, 1),
        (1.0, 1e-5, 3, 0),
    ],
)
def test_promises_and_counts_are_checked(epsilon: float, delta: float, components: Any, rank: int) -> None:
    """2.9 components would be calibrated as 2, none as no release at all."""
    with pytest.raises(ParameterError):
        largest_excess(epsilon, delta, components, rank)
    with pytest.raises(ParameterError):
        subsampled_excess(epsilon, delta, components, 0.5, rank)


@pytest.mark.parametrize("shift", [-1.0, 0.0, float("nan"), float("inf")])
def test_a_test_has_a_positive_shift(shift: float) -> None:
    with pytest.raises(ParameterError, match="shift"):
        propose_test_release(1.0, 1e-6, 8, shift=shift)
