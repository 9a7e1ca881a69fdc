"""Proofs in floating point that symmetric matrices are positive definite.

A Cholesky factorisation that runs to its end in doubles proves that the matrix plus (n+1) u trace, u = 2^-53, on its
diagonal is positive definite (Rump, Verification of positive definiteness, BIT 2006, theorem 2.3; docs/math/noise.md,
"Coloured noise"). Taking more than that off the diagonal first turns it into a proof about the matrix itself.
"""

from __future__ import annotations

import numpy as np

from gaussveil.typing import Floats

UNIT_ROUNDOFF = 2.0**-53


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
