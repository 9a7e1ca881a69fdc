from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gaussveil.errors import ParameterError
from gaussveil.noise import DiscreteGaussianNoise, Generator, SeededGenerator
from gaussveil.noise.bernoulli import exp_lower, exp_minus
from gaussveil.noise.discrete_gaussian import (
    MASS_BITS,
    TABLE_WIDTH,
    AliasTable,
    smoothing_error,
    smoothing_total_variation,
)


def exact_pmf(variance: Fraction, bound: int) -> list[mpmath.mpf]:
    v = mpmath.mpf(variance.numerator) / variance.denominator
    far = bound + int(40 * mpmath.sqrt(v))
    weights = [mpmath.exp(-mpmath.mpf(x * x) / (2 * v)) for x in range(far + 1)]
    total = weights[0] + 2 * mpmath.fsum(weights[1:])
    return [weights[abs(x)] / total for x in range(-bound, bound + 1)]


@given(st.fractions(min_value=0, max_value=900, max_denominator=10**6), st.integers(64, 300))
@settings(derandomize=True, deadline=None)
def test_integer_exponentials_enclose(x: Fraction, bits: int) -> None:
    with mpmath.workdps(700):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        low = exp_minus(x, bits)
        assert low <= exact * 2**bits <= low + 3
        ratio = exp_lower(x, bits)
        relative = 1 - exact * ratio.numerator / ratio.denominator
        assert 0 <= relative < mpmath.mpf(2) ** (1 - bits)


@pytest.mark.parametrize("variance", [Fraction(1, 16), Fraction(1), Fraction(16), Fraction(1001, 7), Fraction(900)])
def test_table_law_is_within_its_stated_total_variation(variance: Fraction) -> None:
    table = AliasTable(variance)
    masses = table.masses()
    assert sum(masses) == 2**MASS_BITS
    assert min(masses) >= 0
    with mpmath.workdps(80):
        exact = exact_pmf(variance, table.bound)
        outside = 1 - mpmath.fsum(exact)
        distance = (mpmath.fsum(abs(m / mpmath.mpf(2) ** MASS_BITS - p) for m, p in zip(masses, exact)) + outside) / 2
        assert distance <= table.total_variation
        assert table.total_variation < 1e-32


def test_alias_cells_hold_exactly_the_masses() -> None:
    table = AliasTable(Fraction(50))
    capacity = 2 ** (MASS_BITS - table.index_bits)
    held = [0] * (1 << table.index_bits)
    for cell in range(len(held)):
        kept = int(table._threshold[cell]) * 2**64 + int(table._tie_threshold[cell])
        assert kept <= capacity
        held[cell] += kept
        held[cell + int(table._jump[cell])] += capacity - kept
    assert held[: 2 * table.bound + 1] == table.masses()
    assert not any(held[2 * table.bound + 1 :])


def test_a_tie_is_decided_by_a_second_word(scripted: Callable[[list[int]], Generator]) -> None:
    table = AliasTable(Fraction(16))
    shift = 64 - table.index_bits
    cell = next(
        i for i, (t, low) in enumerate(zip(table._threshold, table._tie_threshold)) if 0 < t < 2**shift and low > 0
    )
    word = (cell << shift) + int(table._threshold[cell])
    own, other = cell - table.bound, cell + int(table._jump[cell]) - table.bound
    low = int(table._tie_threshold[cell])
    assert table.draw(1, scripted([word, low - 1]))[0] == own
    assert table.draw(1, scripted([word, low]))[0] == other
    assert table.draw(1, scripted([word - 1]))[0] == own
    assert table.draw(1, scripted([word + 1]))[0] == other


@pytest.mark.parametrize(("variance", "k"), [(4, 1), (9, 2), (16, 3), (16, 4), (36, 5)])
def test_convolution_error_is_within_its_bound_by_exact_summation(variance: int, k: int) -> None:
    with mpmath.workdps(60):
        reach = 16 * int(variance**0.5) * (k + 1)
        small = 16 * int(variance**0.5)
        single = exact_pmf(Fraction(variance), small)
        drawn = [mpmath.mpf(0)] * (2 * reach + 1)
        for z, p in enumerate(single, -small):
            for y, q in enumerate(single, -small):
                drawn[k * z + y + reach] += p * q
        ideal = exact_pmf(Fraction(variance * (1 + k * k)), reach)
        distance = mpmath.fsum(abs(a - b) for a, b in zip(drawn, ideal)) / 2
        bound = smoothing_total_variation(variance / (1 + k * k), 1)
        assert distance <= bound + mpmath.mpf(10) ** -40
        assert distance > bound / 20  # the bound is not far from the truth


@pytest.mark.parametrize("smallest", [0.3, 1.0, 4.0])
def test_smoothing_error_bounds_the_theta_function(smallest: float) -> None:
    with mpmath.workdps(60):
        nome = mpmath.exp(-2 * mpmath.pi**2 * mpmath.mpf(smallest))
        for dimension in (1, 3, 100):
            exact = mpmath.jtheta(3, 0, nome) ** dimension - 1
            assert exact <= smoothing_error(smallest, dimension) <= 1.2 * exact


@given(st.floats(-2, 45.9))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_design_meets_the_variance_and_stays_smooth(log_width: float) -> None:
    requested = Fraction(4.0**log_width)
    law = DiscreteGaussianNoise(requested)
    assert requested <= law.variance <= requested * (1 + Fraction(1, 10**5))
    assert law.total_variation < 3e-33
    assert law.bound < 2**52
    partial = Fraction(1)
    for k in law.multipliers:
        assert 1 / (1 / law.table.variance + k * k / (partial * law.table.variance)) >= Fraction(399, 100)
        partial += k * k


@pytest.mark.parametrize("multiple", [2**20 + 4, 2**20 + 9])
def test_a_variance_within_a_millionth_asks_for_no_third_multiplier(multiple: int) -> None:
    """Two squares and one are more by 1, which is little enough from 2^20 on: a third would cost draws for nothing."""
    multipliers = DiscreteGaussianNoise(Fraction(multiple * TABLE_WIDTH**2)).multipliers
    assert len(multipliers) == 2
    assert 1 + sum(k * k for k in multipliers) == multiple + 1


@pytest.mark.parametrize("width", [0.5, 4, 30])
def test_draws_pass_chi_square(width: float, full: bool) -> None:
    law = DiscreteGaussianNoise(Fraction(width) ** 2)
    draws = law.draw(10**7 if full else 10**5, SeededGenerator(11))
    reach = int(3.5 * width) + 1
    pmf = np.array([float(p) for p in exact_pmf(law.variance, reach)])
    expected = np.concatenate([pmf, [1 - pmf.sum()]]) * draws.size
    inside = np.abs(draws) <= reach
    observed = np.concatenate([np.bincount(draws[inside] + reach, minlength=2 * reach + 1), [np.sum(~inside)]])
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("log_width", [9.5, 14.3, 20, 26.5, 34])
def test_wide_draws_are_normal_to_the_eye_of_ks_and_anderson_darling(log_width: float, full: bool) -> None:
    law = DiscreteGaussianNoise(4.0**log_width)
    draws = law.draw((10**6 if full else 10**5,), SeededGenerator(12)) / float(law.variance) ** 0.5
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    uniform = np.sort(stats.norm.cdf(draws))
    ranks = np.arange(1, draws.size + 1)
    anderson = -draws.size - np.mean((2 * ranks - 1) * (np.log(uniform) + np.log1p(-uniform[::-1])))
    assert anderson < 6.0  # the 0.1 % point for a fully known law


def test_every_residue_is_reached_alike() -> None:
    draws = DiscreteGaussianNoise(2**44).draw(10**5, SeededGenerator(13))
    for modulus in (2, 16, 511, 1024):
        assert stats.chisquare(np.bincount(draws % modulus, minlength=modulus)).pvalue > 1e-3


@pytest.mark.parametrize("variance", [0, -1.0, 1 / 17, 2.0**93, float("nan"), float("inf")])
def test_variances_out_of_range_are_refused(variance: float) -> None:
    with pytest.raises(ParameterError, match="variance"):
        DiscreteGaussianNoise(variance)
