"""Proof in floating point that a symmetric matrix, known up to entrywise errors, is positive definite."""

from __future__ import annotations

import numpy as np

from gaussveil.typing import Floats

UNIT_ROUNDOFF = 2.0**-53


def certainly_positive_definite(matrix: Floats, entry_error: Floats) -> bool:
    """True only if every symmetric matrix within `entry_error` of `matrix` is positive definite.

    A floating-point Cholesky factorisation that runs to its end proves that the matrix plus (n+1) u trace is definite
    (Rump, Verification of positive definiteness, BIT 2006; docs/math/noise.md, "Coloured noise"). The shift below is
    four times that, to cover blocked algorithms and the roundings made here, plus a bound of the errors' spectral norm.
    """
    diagonal = np.diagonal(matrix)
    if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0):
        return False
    # scaling by powers of two is exact and makes the bound insensitive to units
    scale = np.exp2(-np.rint(np.log2(diagonal) / 2))
    scaled = matrix * scale[:, None] * scale
    size = len(scaled)
    error_norm = 1.001 * np.max(np.sum(entry_error * scale[:, None] * scale, axis=1))
    shift = 4 * (size + 8) * UNIT_ROUNDOFF * float(np.trace(scaled)) + error_norm + 1e-250
    scaled[np.diag_indices(size)] -= shift
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True
