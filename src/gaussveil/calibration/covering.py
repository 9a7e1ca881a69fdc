"""Proof, for the doubles given, that noise of one covariance covers a set of shifts."""

from __future__ import annotations

import numpy as np
import scipy

from gaussveil.calibration.ellipsoid_dual import blocks
from gaussveil.spectrum.positive_definite import factorises, proof_margin
from gaussveil.typing import Floats


def covers(covariance: Floats, rows: Floats, floor: float) -> bool:
    """Whether S >= floor I and S >= vv' for every row v, proven for the doubles given.

    In coordinates scaled by powers of two (exact) to a diagonal in (1/4, 1], so of a trace below the dimension.
    """
    dim = rows.shape[1]
    margin = proof_margin(dim, dim)
    inverse = np.exp2(-np.ceil(np.log2(covariance.diagonal()) / 2))
    scaled = covariance * np.multiply.outer(inverse, inverse)
    if not factorises(scaled - np.diag(floor * inverse**2 + margin)):
        return False
    threshold = -1.0
    if factorises(scaled - np.diag(np.full(dim, 20 * margin))):
        # The scan's rounding error is then below a tenth, so a value under 0.9 needs no further proof.
        threshold = 0.9
    lower = np.linalg.cholesky(scaled)
    lowered = scaled - np.diag(np.full(dim, margin))
    for block in blocks(rows.shape[0], dim):
        v = rows[block] * inverse
        image = scipy.linalg.solve_triangular(lower, v.T, lower=True, check_finite=False)
        near = v[~(np.einsum("ij,ij->j", image, image) < threshold)]  # an overflow needs the proof, too
        for part in blocks(near.shape[0], dim * dim):
            if not factorises(lowered - near[part, :, None] * near[part, None, :]):
                return False
    return True
