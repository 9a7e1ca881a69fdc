"""Products of large matrices to some thirty digits, with a bound on what is lost, by plain products of doubles.

Matrices are unevaluated sums hi + lo of doubles. Each is cut into slices of so few bits that products of slices are
exact in doubles whatever the order of summation (Ozaki, Ogita, Oishi, Rump 2012); their sum is kept as hi + lo.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gaussveil.typing import Floats

SLICES = 6


class Sum(NamedTuple):
    """hi + lo, not rounded."""

    hi: Floats
    lo: Floats


def two_sum(one: Floats, other: Floats) -> Sum:
    """one + other without error (Knuth)."""
    total = one + other
    part = total - one
    return Sum(total, (one - (total - part)) + (other - part))


def _scale(matrix: Sum, axis: int) -> Floats:
    largest = np.max(np.abs(matrix.hi), axis=axis, keepdims=True)
    return np.asarray(np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) + 1))


def _slices(matrix: Sum, scale: Floats, bits: int) -> list[Floats]:
    hi, lo = matrix.hi / scale, matrix.lo / scale  # powers of two: exact
    found = []
    for number in range(1, SLICES + 1):
        unit = math.ldexp(1.0, number * bits)
        found.append(np.rint((hi + lo) * unit) / unit)
        hi, lo = two_sum(hi - found[-1], lo)
    return found


def product(left: Sum, right: Sum) -> tuple[Sum, tuple[Floats, Floats]]:
    """left @ right, and a bound on the error of its entries: the outer product of a column and a row."""
    size = left.hi.shape[-1]
    bits = int((52 - math.log2(size)) / 2)
    rows, columns = _scale(left, 1), _scale(right, 0)
    ours, theirs = _slices(left, rows, bits), _slices(right, columns, bits)
    total = Sum(np.zeros((len(rows), columns.shape[1])), np.zeros((len(rows), columns.shape[1])))
    for depth in range(SLICES - 1, -1, -1):  # the smallest first
        for i in range(depth + 1):
            hi, error = two_sum(total.hi, ours[i] @ theirs[depth - i])
            total = Sum(hi, total.lo + error)
    # Slices left out, below 2^-(SLICES bits) of the scales, and roundings of at most so many small parts.
    left_out = size * ((2 * SLICES + 6) * math.ldexp(1.0, -SLICES * bits) + SLICES**2 * 2.0**-104)
    hi, lo = two_sum(total.hi * rows * columns, total.lo * rows * columns)
    return Sum(hi, lo), (rows[:, 0] * left_out, columns[0])


def congruence(rows: Sum, matrix: Sum) -> tuple[Sum, Floats, float]:
    """T S T', bounds on the errors of its diagonal, and on the Frobenius norm of all errors."""
    columns = Sum(rows.hi.T, rows.lo.T)
    half, (first, across) = product(rows, matrix)
    whole, (second, down) = product(half, columns)
    carried = (np.abs(rows.hi) * (1 + 1e-10)) @ across
    norm = np.linalg.norm(first) * np.linalg.norm(carried) + np.linalg.norm(second) * np.linalg.norm(down)
    return whole, (first * carried + second * down) * (1 + 1e-10), float(norm) * (1 + 1e-10)
