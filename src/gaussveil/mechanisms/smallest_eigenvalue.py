"""The smallest eigenvalue of an exact Gram matrix, on a public grid and with an error that no data can enlarge.

Floating point errs by a multiple of the largest eigenvalue, which is secret and may be huge. Integer Cholesky
factorisations decide instead: whether G - x I is positive definite, up to remainders far below the grid.
"""

from __future__ import annotations

import numpy as np

from gaussveil.noise.gram_gaussian import Integers, integer_cholesky
from gaussveil.statistics import ExactSum

GRID_BITS = 14  # the grid is 2^14 units of the exact sums: 2^-28 of the squared row norm or finer
FRACTION_BITS = 60  # of the factor: remainders of at most size * 2^-12 units for up to 2^50 rows


def smallest_eigenvalue(gram: ExactSum, largest: float) -> tuple[float, float]:
    """(value, grid): the value, a multiple of the grid, is within two grids of min(smallest eigenvalue, largest).

    Holds for fewer than 2^50 rows and 2^14 columns (derived: docs/mechanisms/random_projection.md).
    """
    matrix, grid = gram.integers(), gram.unit * 2.0**GRID_BITS
    low, high = 0, int(largest / grid) + 1  # G is positive semidefinite; beyond the top nobody asks
    rough = float(np.linalg.eigvalsh(gram.to_float())[0])
    guess = int(min(max(rough, 0.0), largest) / grid)
    reach = 2 + int(min(len(matrix) * 2.0**-50 * float(np.trace(gram.to_float())), largest) / grid)
    # Any probes serve: what counts is that the last success (or 0) lies next to the first failure (or the top).
    probes = [guess - reach, guess + reach]
    while high - low > 1:
        probe = probes.pop() if probes else (low + high) // 2
        if low < probe < high:
            low, high = (probe, high) if _positive_definite(matrix, probe) else (low, probe)
    return low * grid, grid


def _positive_definite(matrix: Integers, steps: int) -> bool:
    shifted = matrix << (2 * FRACTION_BITS)
    shifted[np.diag_indices(len(matrix))] -= steps << (GRID_BITS + 2 * FRACTION_BITS)
    return integer_cholesky(shifted) is not None
