"""Products of large matrices to some thirty digits, with a bound on what is lost, by plain products of doubles.

Matrices, or stacks of them, are unevaluated sums hi + lo of doubles. Each is cut into slices of so few bits that
products of slices are exact in doubles whatever the order of summation (Ozaki, Ogita, Oishi, Rump 2012); their sum is
kept as hi + lo.
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
    rows, columns = _scale(left, -1), _scale(right, -2)
    ours, theirs = _slices(left, rows, bits), _slices(right, columns, bits)
    total = Sum(np.zeros(np.broadcast_shapes(rows.shape, columns.shape)), np.zeros(()))
    for depth in range(SLICES - 1, -1, -1):  # the smallest first
        for i in range(depth + 1):
            hi, error = two_sum(total.hi, ours[i] @ theirs[depth - i])
            total = Sum(hi, total.lo + error)
    # Slices left out, below 2^-(SLICES bits) of the scales, and roundings of at most so many small parts.
    left_out = size * ((2 * SLICES + 6) * math.ldexp(1.0, -SLICES * bits) + SLICES**2 * 2.0**-104)
    hi, lo = two_sum(total.hi * rows * columns, total.lo * rows * columns)
    return Sum(hi, lo), (rows[..., 0] * left_out, columns[..., 0, :])


def congruence(rows: Sum, matrix: Sum, blur: Floats) -> tuple[Sum, Floats, Floats]:
    """T S T' for any S within `blur` of the matrix; bounds on the errors of its diagonal, and on the norm of all."""
    columns = Sum(np.swapaxes(rows.hi, -1, -2), np.swapaxes(rows.lo, -1, -2))
    half, (first, across) = product(rows, matrix)
    whole, (second, down) = product(half, columns)
    sizes = np.abs(rows.hi) * (1 + 1e-10)
    carried = (sizes @ across[..., None])[..., 0]
    blurred = sizes @ blur @ np.swapaxes(sizes, -1, -2)
    norm = _length(first) * _length(carried) + _length(second) * _length(down) + np.linalg.norm(blurred, axis=(-2, -1))
    diagonal = first * carried + second * down + np.diagonal(blurred, axis1=-2, axis2=-1)
    return whole, diagonal * (1 + 1e-9), norm * (1 + 1e-9)


def _length(vectors: Floats) -> Floats:
    return np.asarray(np.linalg.norm(vectors, axis=-1))
