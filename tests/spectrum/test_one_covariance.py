"""Squared distances of pairs of one covariance: never below those in exact fractions, and hardly above."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil import GaussianPair
from gaussveil.spectrum.one_covariance import squared_shifts_above

Array = NDArray[np.float64]


def complete(count: int) -> NDArray[np.intp]:
    return np.array(list(combinations(range(count), 2)), dtype=np.intp)


def spread(size: int, condition: float, seed: int) -> Array:
    """A covariance of whole numbers over 2^40, so that it is symmetric to the bit."""
    axes = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    matrix = (axes * np.geomspace(1.0, 1.0 / condition, size)) @ axes.T
    return np.asarray(np.rint((matrix + matrix.T) / 2 * 2.0**40) / 2.0**40)


def exact_square(first: Array, second: Array, covariance: Array) -> Fraction:
    """v' S^-1 v by elimination in fractions."""
    gap = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(first, second)]
    rows = [[Fraction(float(entry)) for entry in row] + [end] for row, end in zip(covariance, gap)]
    for place, pivot in enumerate(rows):
        for row in rows[place + 1 :]:
            factor = row[place] / pivot[place]
            for column in range(place, len(row)):
                row[column] -= factor * pivot[column]
    # after elimination the square is the sum of the squares of the right-hand sides over their pivots
    return sum((row[-1] ** 2 / row[place] for place, row in enumerate(rows)), Fraction(0))


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_ends_are_above_exact_fractions_and_hardly_so(size: int, condition: float) -> None:
    covariance = spread(size, condition, seed=size)
    centres = np.random.default_rng(size + 100).normal(size=(6, size)) * np.geomspace(1e-3, 1e3, 6)[:, None]
    edges = complete(6)
    ends = squared_shifts_above(centres, covariance, edges)
    assert ends is not None
    for end, (first, second) in zip(ends, edges):
        exact = exact_square(centres[first], centres[second], covariance)
        assert exact <= Fraction(float(end)) <= exact * Fraction(1 + 1e-9 * condition**0.5)


@pytest.mark.parametrize("unit", [2.0**-300, 1e-20, 1e20, 2.0**300])
def test_units_do_not_matter(unit: float) -> None:
    covariance = spread(3, 100.0, seed=1)
    centres = np.random.default_rng(2).normal(size=(5, 3))
    plain = squared_shifts_above(centres, covariance, complete(5))
    units = np.array([unit, 1.0, 1 / unit])
    assert plain is not None
    ends = squared_shifts_above(centres * units, covariance * np.outer(units, units), complete(5))
    assert ends is not None
    np.testing.assert_allclose(ends, plain, rtol=1e-10)


def test_the_same_place_is_no_distance_and_next_to_it_some() -> None:
    centres = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)]])
    ends = squared_shifts_above(centres, np.eye(2), complete(3))
    assert ends is not None
    assert ends[0] == 0
    assert np.all(ends[1:] >= 2.0**-102)


@pytest.mark.parametrize("covariance", [np.ones((2, 2)), np.diag([1.0, 0.0]), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_what_doubles_cannot_decide_is_left_to_more_digits(covariance: Array) -> None:
    centres = np.random.default_rng(3).normal(size=(4, len(covariance)))
    assert squared_shifts_above(centres, covariance, complete(4)) is None


def test_what_leaves_the_range_of_doubles_is_left_to_more_digits() -> None:
    centres = np.array([[0.0], [1e200]])
    assert squared_shifts_above(centres, np.eye(1), complete(2)) is None


def test_thousands_agree_with_pairs_enclosed_one_by_one() -> None:
    covariance = spread(4, 50.0, seed=5)
    centres = np.random.default_rng(6).normal(size=(80, 4))
    edges = complete(80)
    ends = squared_shifts_above(centres, covariance, edges)
    assert ends is not None
    some = edges[::211]
    pairs = GaussianPair(centres[some[:, 0]], covariance, centres[some[:, 1]], covariance)
    dominating, left_out = pairs.dominating()
    assert left_out == 0
    np.testing.assert_allclose(ends[::211], np.sum(np.asarray(dominating.energy), axis=-1), rtol=1e-10)
