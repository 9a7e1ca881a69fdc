"""The public power-of-two lattice on which every release lies."""

from __future__ import annotations

from math import frexp, isfinite
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError

LARGEST_INTEGER = 2**52

Shape = int | tuple[int, ...]


def checked_grid(grid: float) -> float:
    """The grid, if it is a power of two of ordinary size."""
    value = float(grid)
    if not isfinite(value) or value <= 0 or frexp(value)[0] != 0.5:
        raise ParameterError(f"grid must be a positive power of two. Got {value!r}.")
    if not 2.0**-400 <= value <= 2.0**400:
        raise ParameterError(
            f"grid must lie between 2^-400 and 2^400. Got {value!r}. Rescale the value."
        )
    return value


def checked_shape(shape: Shape) -> tuple[int, ...]:
    """The shape as a tuple of nonnegative integers."""
    if isinstance(shape, tuple):
        sizes = tuple(map(index, shape))
    else:
        sizes = (index(shape),)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"shape must hold nonnegative integers. Got {sizes}.")
    return sizes


def to_lattice(
    value: ArrayLike, shape: tuple[int, ...], grid: float
) -> NDArray[np.int64]:
    """The nearest lattice points, as integers; refuses what is not finite or too large for exact arithmetic."""
    given = np.asarray(value)
    if given.shape != shape:
        raise ShapeError(
            f"value must have the design's shape {shape}. Got {given.shape}."
        )
    # wider types would be rounded twice, and integers beyond 2^53 as well: more than the grid accounts for
    if given.dtype.kind not in "biuf" or given.dtype.itemsize > 8:
        raise ParameterError(
            f"value must hold real numbers of at most 64 bits. Got {given.dtype}."
        )
    array = given.astype(np.float64)
    if given.dtype.kind in "iu" and np.any(np.abs(array) >= 2.0**53):
        raise ParameterError(
            "integer values must be below 2^53. Clip them by a public rule first."
        )
    with np.errstate(over="ignore"):
        steps = array / grid  # exact: the grid is a power of two
    if np.count_nonzero(np.abs(steps) < LARGEST_INTEGER) < steps.size:
        if not np.all(np.isfinite(array)):
            raise NotFiniteError(
                "value must be finite. Clip or impute by a public rule first."
            )
        raise ParameterError(
            f"value must be below 2^52 grids of {grid!r}. Clip it or choose a coarser grid."
        )
    return np.rint(steps).astype(np.int64)
