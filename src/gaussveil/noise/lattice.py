"""The public power-of-two lattice on which every release lies."""

from __future__ import annotations

from math import frexp, isfinite

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import NotFiniteError, ParameterError

LARGEST_INTEGER = 2**52


def checked_grid(grid: float) -> float:
    """The grid, if it is a power of two of ordinary size."""
    value = float(grid)
    if not isfinite(value) or value <= 0 or frexp(value)[0] != 0.5:
        raise ParameterError(f"grid must be a positive power of two; got {value!r}.")
    if not 2.0**-400 <= value <= 2.0**400:
        raise ParameterError(f"grid must lie between 2^-400 and 2^400; got {value!r}. Rescale the value.")
    return value


def to_lattice(array: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """The nearest lattice points, as integers; refuses what is not finite or too large for exact arithmetic."""
    if not np.all(np.isfinite(array)):
        raise NotFiniteError("value must be finite. Clip or impute by a public rule first.")
    with np.errstate(over="ignore"):
        steps = array / grid  # exact: the grid is a power of two
    if np.any(np.abs(steps) >= LARGEST_INTEGER):
        raise ParameterError(f"value must be below 2^52 grids of {grid!r}. Clip it or choose a coarser grid.")
    return np.rint(steps).astype(np.int64)
