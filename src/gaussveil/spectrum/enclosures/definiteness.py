"""Whether a matrix of exact numbers is positive definite, decided in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from flint import fmpz_mat

from gaussveil.errors import NumericalError

MOST_WORK = 2e10  # size^4 times bits: some seconds


def is_positive_definite(matrix: Sequence[Sequence[float | Fraction]]) -> bool:
    """Whether the symmetric part is positive definite; no rounding anywhere.

    Its eigenvalues are real, so all are positive exactly when the coefficients of the characteristic polynomial
    alternate in sign and none is zero (Descartes). Powers of two bring the diagonal near one first: a congruence.
    """
    size = range(len(matrix))
    diagonal = [Fraction(matrix[i][i]) for i in size]
    if any(value <= 0 for value in diagonal):
        return False
    scale = [_half_exponent(value) for value in diagonal]
    scaled = [
        [(Fraction(matrix[i][j]) + Fraction(matrix[j][i])) / 2 * Fraction(2) ** (-scale[i] - scale[j]) for j in size]
        for i in size
    ]
    if any(value * value > 16 for row in scaled for value in row):  # |a_ij|^2 <= a_ii a_jj fails
        return False
    denominator = math.lcm(*(value.denominator for row in scaled for value in row))
    if len(size) ** 4 * denominator.bit_length() > MOST_WORK:
        raise NumericalError("Positive definiteness was not decided: the matrix is too large to be treated exactly.")
    polynomial = fmpz_mat([[int(value * denominator) for value in row] for row in scaled]).charpoly()
    return all((-1) ** (len(size) - power) * int(polynomial[power]) > 0 for power in size)


def _half_exponent(value: Fraction) -> int:
    return (value.numerator.bit_length() - value.denominator.bit_length()) // 2
