from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import ParameterError
from gaussveil.statistics import ExactSum, FixedPoint
from gaussveil.statistics.fixed_point import add_parts, carry, cross_products, scaled, sum_columns

reals = st.floats(allow_nan=False, allow_infinity=False, width=64)
clips = st.floats(1e-30, 1e30)


def squared_norm(column: np.ndarray, unit: float) -> Fraction:
    return sum(((Fraction(int(v)) * Fraction(unit)) ** 2 for v in column), Fraction(0))


@settings(derandomize=True, deadline=None)
@given(st.lists(reals, min_size=1, max_size=6), clips, st.sampled_from([8, 22, 41]))
def test_truncated_records_never_exceed_the_clip(record: list[float], clip: float, bits: int) -> None:
    fixed = FixedPoint(clip, bits)
    integers = fixed.truncate(np.array(record)[:, None].copy())[:, 0]
    assert squared_norm(integers, fixed.unit) <= Fraction(clip) ** 2
    assert np.array_equal(integers, np.trunc(integers))
    assert fixed.unit <= clip * 2.0 ** (1 - bits)


@pytest.mark.parametrize("dimension", [1, 3, 50, 200])
def test_records_on_the_sphere_stay_inside(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    records = rng.normal(size=(dimension, 100))
    records *= 1.7 / np.linalg.norm(records, axis=0)  # half of them round to just above the clip
    fixed = FixedPoint(1.7)
    integers = fixed.truncate(records.copy())
    assert all(squared_norm(column, fixed.unit) <= Fraction(1.7) ** 2 for column in integers.T)
    np.testing.assert_allclose(integers * fixed.unit, records, rtol=0, atol=2.01 * fixed.unit)


def test_records_inside_are_truncated_toward_zero_and_nothing_else() -> None:
    records = np.random.default_rng(1).uniform(-0.5, 0.5, size=(3, 200))
    fixed = FixedPoint(1.0, 22)
    expected = [[math.trunc(Fraction(v) / Fraction(fixed.unit)) for v in row] for row in records]
    assert fixed.truncate(records.copy()).astype(int).tolist() == expected


def test_huge_and_undefined_records() -> None:
    records = np.array([[1e300, np.inf, np.nan, -1e308], [1e300, 1.0, 1.0, 1e308]])
    fixed = FixedPoint(2.0)
    values = fixed.truncate(records) * fixed.unit
    np.testing.assert_allclose(values[:, 0], math.sqrt(2.0), rtol=1e-9)
    np.testing.assert_allclose(values[:, 3], [-math.sqrt(2.0), math.sqrt(2.0)], rtol=1e-9)
    np.testing.assert_allclose(values[:, 1], [2.0, 0.0], rtol=1e-9)
    assert not values[:, 2].any()


@pytest.mark.parametrize("bits", [1, 21, 22, 23, 41])
@pytest.mark.parametrize("rows", [1, 511, 5000])
def test_products_are_exact_integers(bits: int, rows: int) -> None:
    rng = np.random.default_rng(bits)
    integers = np.zeros((3, rows))
    integers[0] = rng.choice([-(2.0**bits), 2.0**bits], size=rows)  # the extreme: every record at the clip
    if bits > 2:
        integers[:, ::2] = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), size=(3, (rows + 1) // 2))
    exact = integers.astype(int).astype(object)
    assert (
        ExactSum(add_parts(cross_products(integers, FixedPoint(2.0**bits, bits))), 1.0).integers() == exact @ exact.T
    ).all()
    assert (sum_columns(integers) == exact.sum(axis=1)).all()


@pytest.mark.parametrize("clip", [2.0**-0.999, 0.625, 0.7071068, 1 - 2.0**-30, 1.0])
def test_products_of_the_longest_records_are_exact_however_many_a_block_takes(clip: float) -> None:
    fixed = FixedPoint(clip, 22)
    integers = np.zeros((2, 5000))
    integers[0] = np.floor(clip / fixed.unit) - np.random.default_rng(6).integers(0, 3, size=5000)  # odd sums as well
    exact = integers.astype(int).astype(object)
    assert (ExactSum(add_parts(cross_products(integers, fixed)), 1.0).integers() == exact @ exact.T).all()


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20), st.sampled_from([0, 21, 42]))
def test_limbs_add_like_integers_and_have_one_form(values: list[int], shift: int) -> None:
    total = scaled(np.array(0, dtype=np.int64), 0)
    for value in values:
        total = carry(total + scaled(np.array(value, dtype=np.int64), shift))
    assert int(ExactSum(total, 1.0).integers()) == sum(values) << shift
    backwards = scaled(np.array(0, dtype=np.int64), 0)
    for value in reversed(values):
        backwards = carry(scaled(np.array(value, dtype=np.int64), shift) + backwards)
    assert np.array_equal(total, backwards)


@settings(derandomize=True, deadline=None)
@given(st.integers(-(2**62), 2**62), st.integers(-30, 20), st.integers(-5, 40))
def test_rounding_to_a_grid_is_exact_and_half_to_even(value: int, unit_exponent: int, coarser: int) -> None:
    unit, grid = 2.0**unit_exponent, 2.0 ** (unit_exponent + coarser)
    got = ExactSum(scaled(np.array([value], dtype=np.int64), 0), unit).on_grid(grid)[0]
    multiple = Fraction(value) * Fraction(unit) / Fraction(grid)
    expected = Fraction(round(multiple) if coarser > 0 else multiple) * Fraction(grid)
    assert got == float(expected)


def test_parameters_are_refused() -> None:
    for clip in (0.0, -1.0, math.nan, math.inf, 1e100):
        with pytest.raises(ParameterError, match="clip"):
            FixedPoint(clip)
    with pytest.raises(ParameterError, match="bits"):
        FixedPoint(1.0, 42)
    with pytest.raises(ParameterError, match="power of two"):
        ExactSum(scaled(np.array([1], dtype=np.int64), 0), 1.0).on_grid(0.3)
