"""Every bound lies above the rigorous lower end of what it bounds; the published use of Lemma 2 does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import ParameterError
from gaussveil.spectrum.closed_forms import log_delta_equal_ratios
from gaussveil.spectrum.enclosures.enclosure import Enclosure, enclose_delta
from gaussveil.spectrum.enclosures.exact_doubles import TermDoubles
from gaussveil_studies import bounds

ratios_below_one = st.lists(st.floats(0.02, 1.0), min_size=1, max_size=6)
levels = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])
few = settings(derandomize=True, deadline=None, max_examples=12)


def exact(ratios: list[float] | np.ndarray, eps: float, shift: list[float] | np.ndarray | None = None) -> Enclosure:
    """delta of N(shift, diag ratios) against N(0, I); 1 - ratio is rounded, for which comparisons leave room."""
    return enclose_delta([(TermDoubles.of(1.0 - np.asarray(ratios), mean_gap=shift), 1)], eps)


@few
@given(ratios_below_one, levels)
def test_lemma_two_bounds_the_smaller_covariance(ratios: list[float], eps: float) -> None:
    assert bounds.smaller_covariance_bound(ratios, eps) >= exact(ratios, eps).lower * (1.0 - 1e-9)


def test_lemma_two_is_useful_and_zero_past_the_threshold() -> None:
    ratios = np.full(12, 0.8)
    assert exact(ratios, 1.25).upper <= bounds.smaller_covariance_bound(ratios, 1.25) < 0.05
    assert bounds.smaller_covariance_bound(ratios, 6.0 * math.log(1.25) + 1e-9) == 0.0
    assert bounds.smaller_covariance_bound(ratios, 6.0 * math.log(1.25) - 1e-9) > 0.0


@pytest.mark.parametrize(("eps", "added", "truth"), [(1.0, 0.157, 0.343), (0.5, 0.582, 0.156), (2.0, 0.0187, 0.666)])
def test_lemma_two_fails_in_the_reverse_direction(eps: float, added: float, truth: float) -> None:
    """N2: a Gaussian process posterior with no record against one at the queried point, at the noise of Figure 5.

    Variance 1 without and 1e-4/(1 + 1e-4) with the record, plus `added`: Lemma 2 claims (almost) nothing, the
    distribution without the record against the one with it has delta 0.343 at eps = 1.
    """
    ratio = (1.0 + added) / (1e-4 / (1.0 + 1e-4) + added)
    assert bounds.smaller_covariance_bound([1.0 / ratio], eps) < 1e-3
    hard = exact([ratio], eps)
    assert hard.lower == pytest.approx(truth, abs=2e-3)
    assert bounds.sup_larger_covariance(math.log(ratio), 1, eps) >= hard.lower


@few
@given(st.floats(0.01, 3.0), st.integers(1, 8), levels, st.integers(0, 10**6))
def test_covariance_suprema_hold_and_are_attained(top: float, rank: int, eps: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs = rng.uniform(0.0, top, rank)
    assert bounds.sup_larger_covariance(top, rank, eps) >= exact(np.exp(logs), eps).lower
    assert bounds.sup_smaller_covariance(top, rank, eps) >= exact(np.exp(-logs), eps).lower
    equal = exact(np.full(rank, math.exp(top)), eps)
    assert bounds.sup_larger_covariance(top, rank, eps) == pytest.approx(equal.upper, rel=1e-9)


@few
@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.integers(1, 4), levels, st.integers(0, 10**6), st.booleans())
def test_mean_and_covariance_in_both_directions(
    shift: float, top: float, rank: int, eps: float, seed: int, larger: bool
) -> None:
    rng = np.random.default_rng(seed)
    logs, mean = rng.uniform(0.0, top, rank), rng.normal(size=rank)
    mean *= shift / max(float(np.linalg.norm(mean)), 1e-300)
    # The smaller covariance is I. If that is X's, then where Y is standard mean gaps shrink by the root of the ratio.
    truth = exact(np.exp(logs), eps, mean) if larger else exact(np.exp(-logs), eps, mean * np.exp(-0.5 * logs))
    assert bounds.mean_and_covariance_bound(shift, top, rank, eps, larger=larger) >= truth.lower * (1.0 - 1e-9)


def test_triangle_bound_is_exact_when_one_step_is_nothing() -> None:
    def curve(eps: np.ndarray) -> np.ndarray:
        return np.exp(log_delta_equal_ratios(math.exp(0.5), 3, eps))

    truth = float(curve(np.array(1.0)))
    assert bounds.triangle_bound(curve, np.zeros_like, 1.0) == pytest.approx(truth, rel=1e-9)
    assert bounds.triangle_bound(np.zeros_like, curve, 1.0) == pytest.approx(truth, rel=1e-9)
    assert bounds.triangle_bound(np.zeros_like, np.zeros_like, 1000.0) == 0.0


def test_nothing_moves_nothing_leaks() -> None:
    assert bounds.sup_larger_covariance(0.0, 5, 0.0) == 0.0
    assert bounds.mean_and_covariance_bound(0.0, 0.0, 3, 0.5) == 0.0
    assert bounds.sup_larger_covariance(1e4, 1, 1.0) == 1.0


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="sup_larger_covariance"):
        bounds.smaller_covariance_bound([1.5], 1.0)
    with pytest.raises(ParameterError, match="log_ratio"):
        bounds.sup_larger_covariance(-1.0, 1, 1.0)
    with pytest.raises(ParameterError, match="rank"):
        bounds.sup_larger_covariance(1.0, -1, 1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        bounds.sup_larger_covariance(1.0, 1, -1.0)
