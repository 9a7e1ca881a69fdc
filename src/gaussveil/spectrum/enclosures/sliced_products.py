"""Products of large matrices to some thirty digits, with a bound on what is lost, by plain products of doubles.

Matrices, or stacks of them, are unevaluated sums hi + lo of doubles. Each is cut into slices of so few bits that
products of slices, and sums of those with one unit, are exact in doubles whatever the order of summation (Ozaki, Ogita,
Oishi, Rump 2012); side by side, the slices of one unit take a single product. Their sum is kept as hi + lo.
"""

from __future__ import annotations

import math
from itertools import count
from typing import NamedTuple

import numpy as np

from gaussveil.typing import Floats

FINE = 108  # bits below the largest entries that slices hold: all that hi + lo has
ROUGH = 92  # enough for a step of refinement


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


def _cut(size: int, wanted: int) -> tuple[int, int]:
    """How many slices, and of how many bits, hold so many bits: entries of up to 2^(bits - 1) units each."""
    slices = next(n for n in count(2) if n * int((54 - math.log2(size * n)) / 2) >= wanted)
    return slices, int((54 - math.log2(size * slices)) / 2)


def _slices(matrix: Sum, scale: Floats, slices: int, bits: int) -> list[Floats]:
    hi, lo = matrix.hi / scale, matrix.lo / scale  # powers of two: exact
    found = []
    for number in range(1, slices + 1):
        unit = math.ldexp(1.0, number * bits)
        found.append(np.rint((hi + lo) * unit) / unit)
        hi, lo = two_sum(hi - found[-1], lo)
    return found


def product(left: Sum, right: Sum, wanted: int = FINE) -> tuple[Sum, tuple[Floats, Floats]]:
    """left @ right, and a bound on the error of its entries: the outer product of a column and a row."""
    size = left.hi.shape[-1]
    slices, bits = _cut(size, wanted)
    rows, columns = _scale(left, -1), _scale(right, -2)
    ours = np.concatenate(_slices(left, rows, slices, bits), axis=-1)
    theirs = np.concatenate(_slices(right, columns, slices, bits)[::-1], axis=-2)
    total = Sum(np.zeros(np.broadcast_shapes(rows.shape, columns.shape)), np.zeros(()))
    for depth in range(slices, 0, -1):  # the smallest first
        hi, error = two_sum(total.hi, ours[..., : depth * size] @ theirs[..., (slices - depth) * size :, :])
        total = Sum(hi, total.lo + error)
    # Slices left out, below 2^-(slices bits) of the scales, and roundings of at most so many small parts.
    left_out = size * ((2 * slices + 6) * math.ldexp(1.0, -slices * bits) + slices**2 * 2.0**-104)
    hi, lo = two_sum(total.hi * rows * columns, total.lo * rows * columns)
    return Sum(hi, lo), (rows[..., 0] * left_out, columns[..., 0, :])


def congruence(rows: Sum, matrix: Sum, blur: Floats, wanted: int) -> tuple[Sum, Floats, Floats]:
    """T S T' for any S within `blur` of the matrix; bounds on the errors of its diagonal, and on the norm of all."""
    columns = Sum(np.swapaxes(rows.hi, -1, -2), np.swapaxes(rows.lo, -1, -2))
    half, (first, across) = product(rows, matrix, wanted)
    whole, (second, down) = product(half, columns, wanted)
    sizes = np.abs(rows.hi) * (1 + 1e-10)
    carried = (sizes @ across[..., None])[..., 0]
    blurred = sizes @ blur @ np.swapaxes(sizes, -1, -2)
    norm = _length(first) * _length(carried) + _length(second) * _length(down) + np.linalg.norm(blurred, axis=(-2, -1))
    diagonal = first * carried + second * down + np.diagonal(blurred, axis1=-2, axis2=-1)
    return whole, diagonal * (1 + 1e-9), norm * (1 + 1e-9)


def _length(vectors: Floats) -> Floats:
    return np.asarray(np.linalg.norm(vectors, axis=-1))
