from __future__ import annotations

from fractions import Fraction
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kstest

from gaussveil.errors import ParameterError
from gaussveil.noise import SeededGenerator
from gaussveil.noise.gram_gaussian import LATTICE_VARIANCE, GramGaussian, Integers, integer_cholesky

ROWS = np.random.default_rng(3).integers(-(2**21), 2**21, size=(40, 4)).astype(object)
GRAM: Integers = ROWS.T @ ROWS
UNIT = 2.0**-42


def floats(gram: Integers) -> NDArray[np.float64]:
    return gram.astype(np.float64) * UNIT


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 90))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_integer_cholesky_leaves_exactly_the_remainders_it_says(seed: int, size: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(size + 2, size)) * 2.0**bits).astype(object)
    root = np.frompyfunc(int, 1, 1)(rows)
    matrix = root.T @ root + (1 << (bits + 4)) * np.eye(size, dtype=int).astype(object)
    factor = integer_cholesky(matrix)
    assert factor is not None
    remainder = matrix - factor @ factor.T
    largest = max(factor[i, i] for i in range(size))
    assert all(0 <= entry <= 2 * largest for entry in remainder.ravel())
    assert all(factor[i, j] == 0 for i in range(size) for j in range(i + 1, size))


def test_integer_cholesky_notices_what_is_not_positive_definite() -> None:
    assert integer_cholesky(np.array([[4, 9], [9, 4]], dtype=object)) is None
    assert integer_cholesky(np.array([[0, 0], [0, 4]], dtype=object)) is None


@pytest.mark.parametrize("ridge", [3.0, 50.0])
@pytest.mark.parametrize("gram", [GRAM, GRAM * 0, GRAM * 2**40], ids=["some", "empty", "huge"])
def test_covariance_drawn_is_the_one_asked_for_to_all_digits(gram: Integers, ridge: float) -> None:
    """In rationals: inner A A' + white I against (G + ridge I)/unit^2 + 4 I, relative to the ridge."""
    design = GramGaussian(4, 7, largest=2.0**50 * 16, smallest_ridge=3.0, largest_ridge=50.0)
    factor = design._factor(gram, UNIT, ridge)
    drawn = design._inner.variance * (factor @ factor.T)
    wanted = gram * (Fraction(UNIT) / design._unit**2)
    extra = Fraction(ridge) / design._unit**2 + LATTICE_VARIANCE - design._white
    wanted[np.diag_indices(4)] += extra
    error = sum((entry * design._unit**2) ** 2 for entry in (wanted - drawn).ravel())
    # total variation of 7 columns is at most sqrt(7)/2 times the relative error in Frobenius norm
    assert error * 7 / 4 <= Fraction(design.total_variation) ** 2 * Fraction(3.0) ** 2
    assert design._white * design._unit**2 <= Fraction(3, 2)


def test_total_variation_is_negligible_for_every_table() -> None:
    assert GramGaussian(50, 100, largest=2.0**50, smallest_ridge=1.0).total_variation < 1e-27
    assert GramGaussian(1000, 1000, largest=2.0**50, smallest_ridge=2.0**-20).total_variation < 1e-18


@pytest.mark.parametrize("gram", [GRAM, GRAM * 0, GRAM * 2**20], ids=["some", "empty", "large"])
def test_columns_are_gaussian_with_the_stated_covariance(gram: Integers) -> None:
    design = GramGaussian(4, 4000, largest=2.0**60, smallest_ridge=10.0)
    matrix = design.draw(gram, UNIT, 10.0, SeededGenerator(11))
    root = np.linalg.cholesky(floats(gram) + 10.0 * np.eye(4))
    standard = np.linalg.solve(root, matrix)
    assert kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert np.allclose(standard @ standard.T / 4000, np.eye(4), atol=5 / np.sqrt(4000))


def test_output_lies_on_the_public_grid_whatever_the_data() -> None:
    design = GramGaussian(4, 60, largest=2.0**60, smallest_ridge=10.0)
    for gram in (GRAM * 0, GRAM):
        steps = design.draw(gram, UNIT, 10.0) / design.grid
        assert np.array_equal(steps, np.rint(steps))
        assert 0 < np.sum(steps % 2) < steps.size  # fails once in 2^239


def test_entries_beyond_the_range_are_cut_off_not_refused() -> None:
    design = GramGaussian(1, 50, largest=2.0**79, smallest_ridge=1.0)
    matrix = design.draw(np.array([[2**121]], dtype=object), UNIT, 1.0, SeededGenerator(1))
    assert np.abs(matrix).max() == 2.0**52 * design.grid


def test_as_many_random_words_whatever_the_data() -> None:
    """A second word resolves ties once in about 2^50 draws; otherwise the count is fixed."""

    class Counting(SeededGenerator):
        words = 0

        def uint64(self, count: int) -> NDArray[np.uint64]:
            self.words += count
            return super().uint64(count)

    design = GramGaussian(4, 20, largest=2.0**60, smallest_ridge=10.0)
    counts = []
    for gram in (GRAM * 0, GRAM, GRAM * 2**30):
        generator = Counting(5)
        design.draw(gram, UNIT, 10.0, generator)
        counts.append(generator.words)
    assert len(set(counts)) == 1
    assert counts[0] >= 5 * 80


@pytest.mark.parametrize(
    "bad",
    [
        {"smallest_ridge": 0.0},
        {"smallest_ridge": np.nan},
        {"largest": -1.0},
        {"largest_ridge": 0.5},
        {"largest": 2.0**90},
    ],
)
def test_bad_designs_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        GramGaussian(2, 3, **{"largest": 8.0, "smallest_ridge": 1.0, **bad})


def test_a_ridge_outside_the_design_is_refused() -> None:
    with pytest.raises(ParameterError, match="ridge"):
        GramGaussian(4, 3, largest=8.0, smallest_ridge=1.0).draw(GRAM, UNIT, 0.5)


def test_steps_that_widen_the_table_leave_enough_variance() -> None:
    """Theorem 1 of docs/math/noise.md asks for a conditional variance of 4 or more at every step."""
    design = GramGaussian(4, 3, largest=2.0**50, smallest_ridge=1.0)
    table, partial = design._table.variance, design._table.variance
    for step in range(1, 4):
        conditional = 1 / (1 / table + Fraction(4) ** (40 * step) / partial)
        assert conditional > 15
        partial += table * Fraction(4) ** (40 * step)
    assert partial == design._white
    assert ceil(log(design._white, 2)) > 320
