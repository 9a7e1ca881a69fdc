"""Proofs that symmetric matrices are positive definite, in floating point and, where that does not suffice, exactly.

A Cholesky factorisation that runs to its end in doubles proves that the matrix plus (n+1) u trace, u = 2^-53, on its
diagonal is positive definite (Rump, Verification of positive definiteness, BIT 2006, theorem 2.3; docs/math/noise.md,
"Coloured noise"). Taking more than that off the diagonal first turns it into a proof about the matrix itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import fmpz_mat

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.typing import Floats

MOST_EXACT_WORK = 2e10  # size^4 times bits: some seconds of exact arithmetic


def proof_margin(size: int, trace: float) -> float:
    """What to take off the diagonal: twice what is needed, to cover blocked algorithms and the subtraction itself."""
    return 2 * (size + 8) * UNIT_ROUNDOFF * trace


def factorises(matrices: Floats) -> bool:
    """Whether every matrix of the stack has a Cholesky factor in floating point."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


def certainly_positive_definite(matrix: Floats, entry_error: Floats) -> bool:
    """True only if every symmetric matrix within `entry_error` of `matrix` is positive definite.

    Two margins, for the roundings made here too, and a bound of the errors' spectral norm are taken off.
    """
    diagonal = np.diagonal(matrix)
    if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0):
        return False
    # scaling by powers of two is exact and makes the bound insensitive to units
    scale = np.exp2(-np.rint(np.log2(diagonal) / 2))
    scaled = matrix * scale[:, None] * scale
    error_norm = 1.001 * np.max(np.sum(entry_error * scale[:, None] * scale, axis=1))
    shift = 2 * proof_margin(len(scaled), float(np.trace(scaled))) + error_norm + 1e-250
    return factorises(scaled - np.diag(np.full(len(scaled), shift)))


def is_positive_definite(matrix: Sequence[Sequence[float | Fraction]]) -> bool:
    """Whether the symmetric part is positive definite, decided exactly: no rounding is left in the answer.

    Its eigenvalues are real, so all are positive exactly when the coefficients of the characteristic polynomial
    alternate in sign and none is zero (Descartes). Powers of two bring the diagonal near one first: a congruence.
    """
    diagonal = [Fraction(row[place]) for place, row in enumerate(matrix)]
    if any(value <= 0 for value in diagonal):
        return False
    scaled = _near_one(matrix, diagonal)
    if any(value * value > 16 for row in scaled for value in row):
        return False  # the diagonal is below 4: |a_ij|^2 > a_ii a_jj
    rounded = np.array([list(map(float, row)) for row in scaled])
    if certainly_positive_definite(rounded, np.abs(rounded) * UNIT_ROUNDOFF + 1e-300):
        return True
    return _has_positive_roots(scaled)


def _near_one(
    matrix: Sequence[Sequence[float | Fraction]], diagonal: Sequence[Fraction]
) -> list[list[Fraction]]:
    """The symmetric part between two equal diagonal matrices of powers of two that bring its diagonal near one."""
    size = range(len(matrix))
    scale = [
        (value.numerator.bit_length() - value.denominator.bit_length()) // 2
        for value in diagonal
    ]
    return [
        [
            (Fraction(matrix[i][j]) + Fraction(matrix[j][i]))
            / 2
            * Fraction(2) ** (-scale[i] - scale[j])
            for j in size
        ]
        for i in size
    ]


def _has_positive_roots(matrix: Sequence[Sequence[Fraction]]) -> bool:
    """Whether the coefficients of the characteristic polynomial alternate in sign, none of them zero."""
    size = len(matrix)
    denominator = math.lcm(*(value.denominator for row in matrix for value in row))
    if size**4 * denominator.bit_length() > MOST_EXACT_WORK:
        raise NumericalError(
            "Positive definiteness was not decided: the matrix is too large to be treated exactly."
        )
    polynomial = fmpz_mat(
        [[int(value * denominator) for value in row] for row in matrix]
    ).charpoly()
    return all(
        (-1) ** (size - power) * int(polynomial[power]) > 0 for power in range(size)
    )
