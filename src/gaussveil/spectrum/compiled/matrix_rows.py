"""The reduction of one pair of matrices after another: LAPACK's work for small matrices, without eigenvectors.

What the terms need of the eigenvectors is one product with a vector, so the reflections and rotations that diagonalise
the whitened difference are applied to that vector alone. Rows that need anything special (an error message, singular
values) are left to `reduction`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from numba import types, void

from gaussveil.spectrum import reduction_rules
from gaussveil.spectrum.compiled import one_number
from gaussveil.spectrum.compiled.entry import Table, Tables, compiled, entry_point, revision_of
from gaussveil.spectrum.reduction_rules import UNIT_ROUNDOFF
from gaussveil.typing import Array

SWEEPS = 60  # rotations' sweeps for one eigenvalue; two or three are usual

agree = compiled(reduction_rules.agree)
definite = compiled(reduction_rules.definite)
is_noise = compiled(reduction_rules.is_noise)
log_ratio_of = compiled(reduction_rules.log_ratio_of)
scale_of = compiled(reduction_rules.scale_of)
spans_decades = compiled(reduction_rules.spans_decades)


@compiled
def symmetric(cov: Array, scale: Array, into: Array) -> bool:
    """The scaled symmetric part, lower triangle; False where the matrix is not symmetric."""
    size = cov.shape[0]
    for row in range(size):
        for column in range(row + 1):
            entry, mirrored = cov[row, column], cov[column, row]
            if not agree(one_number, entry, mirrored, cov[row, row], cov[column, column]):
                return False
            into[row, column] = (entry + mirrored) / 2 * scale[row] * scale[column]
    return True


@compiled
def cholesky(cov: Array, inverse_pivots: Array) -> bool:
    """Lower factor in place; False where the matrix is singular to working precision."""
    size = cov.shape[0]
    for column in range(size):
        variance = cov[column, column]
        pivot = variance
        for inner in range(column):
            pivot -= cov[column, inner] * cov[column, inner]
        if not definite(pivot / variance, size):
            return False
        root = math.sqrt(pivot)
        cov[column, column] = root
        inverse_pivots[column] = 1 / root
        for row in range(column + 1, size):
            entry = cov[row, column]
            for inner in range(column):
                entry -= cov[row, inner] * cov[column, inner]
            cov[row, column] = entry / root
    return True


@compiled
def solve_rows(factor: Array, inverse_pivots: Array, rows: Array) -> None:
    """rows <- factor^-1 rows, in place."""
    size = factor.shape[0]
    for row in range(size):
        for inner in range(row):
            weight = factor[row, inner]
            for column in range(rows.shape[1]):
                rows[row, column] -= weight * rows[inner, column]
        for column in range(rows.shape[1]):
            rows[row, column] *= inverse_pivots[row]


@compiled
def tridiagonal(matrix: Array, vector: Array, diagonal: Array, beside: Array, mirror: Array, image: Array) -> None:
    """Householder reflections that make a symmetric matrix tridiagonal, applied to the vector too."""
    size = matrix.shape[0]
    for start in range(1, size - 1):
        square = 0.0
        for row in range(start, size):
            mirror[row] = matrix[row, start - 1]
            image[row] = 0.0
        for row in range(start + 1, size):
            square += mirror[row] * mirror[row]
        head = mirror[start]
        beside[start - 1] = head
        if square == 0.0:
            continue
        length = math.sqrt(square + head * head)
        beside[start - 1] = -math.copysign(length, head)
        mirror[start] = head - beside[start - 1]
        factor = 1 / (length * (length + abs(head)))  # 2 / |mirror|^2
        for row in range(start, size):
            weight = factor * mirror[row]
            for column in range(start, size):
                image[column] += weight * matrix[row, column]
        overlap, along = 0.0, 0.0
        for row in range(start, size):
            overlap += mirror[row] * image[row]
            along += mirror[row] * vector[row]
        for row in range(start, size):
            image[row] -= 0.5 * factor * overlap * mirror[row]
            vector[row] -= factor * along * mirror[row]
        for row in range(start, size):
            for column in range(start, size):
                matrix[row, column] -= mirror[row] * image[column] + image[row] * mirror[column]
    if size > 1:
        beside[size - 2] = matrix[size - 1, size - 2]
    for row in range(size):
        diagonal[row] = matrix[row, row]


@compiled
def diagonalise(diagonal: Array, beside: Array, vector: Array) -> bool:
    """Implicit QL sweeps until nothing is left beside the diagonal, applied to the vector too; False if that fails."""
    size = diagonal.size
    for low in range(size):
        for _ in range(SWEEPS):
            high = low
            while high < size - 1:
                if abs(beside[high]) <= UNIT_ROUNDOFF * (abs(diagonal[high]) + abs(diagonal[high + 1])):
                    break
                high += 1
            if high == low:
                break
            half = (diagonal[low + 1] - diagonal[low]) / (2 * beside[low])
            shift = half + math.copysign(math.sqrt(half * half + 1), half)
            chase = diagonal[high] - diagonal[low] + beside[low] / shift
            sine, cosine, moved, split = 1.0, 1.0, 0.0, False
            for place in range(high - 1, low - 1, -1):
                bulge, rest = sine * beside[place], cosine * beside[place]
                length = math.sqrt(bulge * bulge + chase * chase)
                beside[place + 1] = length
                if length == 0.0:
                    diagonal[place + 1] -= moved
                    split = True
                    break
                inverse = 1 / length
                sine, cosine = bulge * inverse, chase * inverse
                chase = diagonal[place + 1] - moved
                turn = (diagonal[place] - chase) * sine + 2 * cosine * rest
                moved = sine * turn
                diagonal[place + 1] = chase + moved
                chase = cosine * turn - rest
                lower, upper = vector[place], vector[place + 1]
                vector[place + 1] = sine * lower + cosine * upper
                vector[place] = cosine * lower - sine * upper
            if not split:
                diagonal[low] -= moved
                beside[low] = chase
            beside[high] = 0.0
        else:
            return False
    return True


@compiled
def clean(values: Array) -> None:
    """Set to zero what is rounding noise beside the largest."""
    largest = 0.0
    for place in range(values.size):
        largest = max(largest, abs(values[place]))
    for place in range(values.size):
        if is_noise(one_number, values[place], largest, values.size):
            values[place] = 0.0


@compiled
def sort_together(values: Array, companion: Array) -> None:
    """Ascending order; the companion follows."""
    for place in range(1, values.size):
        value, other, hole = values[place], companion[place], place
        while hole > 0 and values[hole - 1] > value:
            values[hole], companion[hole] = values[hole - 1], companion[hole - 1]
            hole -= 1
        values[hole], companion[hole] = value, other


@compiled
def reduce_row(
    mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array, gap: Array, shift: Array, squares: Array, lines: Array
) -> bool:
    """Variance gaps and mean gaps of one pair; False where the array library has to look at it."""
    size = mean_x.size
    factor, difference = squares[0], squares[1]
    scale, inverse_pivots, beside, mirror, image = lines[0], lines[1], lines[2], lines[3], lines[4]
    for row in range(size):
        if not cov_y[row, row] > 0:
            return False
        scale[row] = scale_of(one_number, cov_y[row, row])
        shift[row] = (mean_x[row] - mean_y[row]) * scale[row]
    if not (symmetric(cov_y, scale, factor) and symmetric(cov_x, scale, difference)):
        return False
    largest = 0.0
    for row in range(size):
        for column in range(row + 1):
            entry = factor[row, column] - difference[row, column]
            largest = max(largest, abs(entry))
            difference[row, column] = entry
    # A power of two keeps squares of the entries within the range of doubles and changes no digit.
    unit = 2.0 ** math.frexp(largest)[1] if 0 < largest < math.inf else 1.0
    for row in range(size):
        for column in range(row + 1):
            difference[row, column] /= unit
            difference[column, row] = difference[row, column]
    if not cholesky(factor, inverse_pivots):
        return False
    for row in range(size):
        for inner in range(row):
            shift[row] -= factor[row, inner] * shift[inner]
        shift[row] *= inverse_pivots[row]
    solve_rows(factor, inverse_pivots, difference)
    for row in range(size):
        for column in range(row):
            difference[row, column], difference[column, row] = difference[column, row], difference[row, column]
    solve_rows(factor, inverse_pivots, difference)
    for row in range(size):
        for column in range(row):
            difference[row, column] = difference[column, row] = (difference[row, column] + difference[column, row]) / 2
    tridiagonal(difference, shift, gap, beside, mirror, image)
    if not diagonalise(gap, beside, shift):
        return False
    for row in range(size):
        gap[row] *= unit
    sort_together(gap, shift)
    clean(gap)
    clean(shift)
    return not spans_decades(one_number, gap[0], gap[size - 1])


def _entry(revision: int) -> Callable[..., None]:
    def reduce_rows(
        mean_x: Array,
        cov_x: Array,
        mean_y: Array,
        cov_y: Array,
        gap: Array,
        log_ratio: Array,
        mean_gap: Array,
        left: Array,
    ) -> None:
        assert revision  # part of the cache's key
        size = gap.shape[1]
        squares, lines = np.empty((2, size, size)), np.empty((5, size))
        for row in range(gap.shape[0]):
            left[row] = not reduce_row(
                mean_x[row], cov_x[row], mean_y[row], cov_y[row], gap[row], mean_gap[row], squares, lines
            )
            for term in range(size):
                log_ratio[row, term] = log_ratio_of(one_number, gap[row, term])

    return reduce_rows


_REVISION = revision_of(reduction_rules, one_number, sys.modules[__name__])
_OUT = types.float64[:, ::1]
_reduce_rows = entry_point(void(Table, Tables, Table, Tables, _OUT, _OUT, _OUT, types.boolean[::1]), _entry(_REVISION))


def reduce_rows(mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array) -> tuple[Array, Array, Array, Array]:
    """Variance gaps, logs of variance ratios, mean gaps, and a mask of the rows that this reduction leaves alone."""
    gap, log_ratio, mean_gap = np.empty((3, *mean_x.shape))
    left = np.empty(mean_x.shape[0], dtype=np.bool_)
    _reduce_rows(mean_x, cov_x, mean_y, cov_y, gap, log_ratio, mean_gap, left)
    return gap, log_ratio, mean_gap, left
