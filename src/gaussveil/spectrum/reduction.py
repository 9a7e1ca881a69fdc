"""From two Gaussians given by matrices to the reduced form (variance gaps and mean gaps).

The eigendecomposition of the whitened DIFFERENCE of covariances gives the gaps: one minus a ratio loses all digits for
near-equal ones. Where ratios span many decades singular values serve (derived: docs/math/spectrum).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussveil.errors import (
    NotPositiveDefiniteError,
    NotSymmetricError,
    NumericalError,
    ShapeError,
)
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.enclosures.exact import ExactMatrices
from gaussveil.spectrum.reduction_rules import (
    agree,
    definite,
    is_noise,
    log_ratio_of,
    scale_of,
    spans_decades,
)
from gaussveil.spectrum.selection import (
    array_namespace,
    compiled_reduction,
    every,
    put_rows,
    take_rows,
    where,
)
from gaussveil.typing import Array

CPU_ELEMENTS = (
    1 << 17
)  # matrix elements reduced at once: what a cache holds, or what fills a device
DEVICE_ELEMENTS = 1 << 23
STRAINED = 3e-15  # error of a reduction in doubles, of a delta, per unit of its strain
LARGEST_INPUT = 1e150  # mean gaps and deviations beyond it are refused: their squares leave the range of doubles


def exact_matrices(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> ExactMatrices:
    """Our own float64 copies of a pair's means and covariances, shapes and finiteness checked."""
    cov_x = float_array("cov_x", cov_x)
    arrays = {
        name: float_array(name, value, like=cov_x)
        for name, value in (
            ("mean_x", mean_x),
            ("cov_x", cov_x),
            ("mean_y", mean_y),
            ("cov_y", cov_y),
        )
    }
    xp = array_namespace(*arrays.values())
    _require_one_dimension(arrays)
    for name, array in arrays.items():
        require_finite(name, array)
    return ExactMatrices(
        **{name: xp.asarray(array, copy=True) for name, array in arrays.items()}
    )


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused below
def reduce_pair(pair: ExactMatrices) -> tuple[Array, Array, Array, Array]:
    """Variance gaps, logs of variance ratios, and mean gaps of (N(mean_x, cov_x), N(mean_y, cov_y)).

    Leading axes are a batch. Last comes for each pair a bound on the relative error that this makes in a delta.
    """
    xp = array_namespace(pair.cov_x)
    dimension = int(pair.cov_x.shape[-1])
    ranked = ((pair.mean_x, 1), (pair.cov_x, 2), (pair.mean_y, 1), (pair.cov_y, 2))
    batch = _broadcast_batch(
        [tuple(array.shape[: array.ndim - rank]) for array, rank in ranked]
    )
    rows = math.prod(batch)
    flat = [
        xp.reshape(
            xp.broadcast_to(array, (*batch, *(dimension,) * rank)),
            (rows, *(dimension,) * rank),
        )
        if batch
        else array[None, ...]
        for array, rank in ranked
    ]
    *columns, strain = _reduced_in_pieces(flat, rows)
    gap, log_ratio, mean_gap = (
        xp.reshape(part, (*batch, dimension)) if batch else part[0, :]
        for part in columns
    )
    if not every(
        xp.abs(gap) / LARGEST_INPUT + xp.abs(log_ratio) + xp.abs(mean_gap)
        <= LARGEST_INPUT
    ):
        raise NumericalError(
            "The two Gaussians are so far apart, measured in cov_y, that doubles cannot hold it: delta is near 1."
        )
    # cov_x is at most so much worse conditioned as its variances, seen from cov_y, are apart
    apart = xp.max(log_ratio, axis=-1) - xp.min(log_ratio, axis=-1)
    error = STRAINED * xp.reshape(strain, batch) * xp.exp(apart)
    return gap, log_ratio, mean_gap, error


def _broadcast_batch(leading: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the batch, from the leading axes of the four arguments."""
    if not any(leading):
        return ()
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        raise ShapeError(
            "The leading axes of mean_x, cov_x, mean_y and cov_y must broadcast. "
            f"Got {leading[0]}, {leading[1]}, {leading[2]} and {leading[3]}."
        ) from None


def _reduced_in_pieces(flat: Sequence[Array], rows: int) -> Sequence[Array]:
    """Columns of all pairs of a flat batch, so many pairs at once as memory holds."""
    xp = array_namespace(flat[1])
    elements = CPU_ELEMENTS if xp is np else DEVICE_ELEMENTS
    at_once = elements // int(flat[1].shape[-1]) ** 2 + 1
    if at_once < rows and compiled_reduction(flat[1]) is not None:
        at_once = rows  # it needs no room but for its results
    pieces = []
    for start in range(0, max(rows, 1), at_once):
        stop = min(start + at_once, rows)
        pieces.append(_reduce_piece(start, *(array[start:stop, ...] for array in flat)))
    if len(pieces) == 1:
        return pieces[0]
    return [xp.concat(list(column)) for column in zip(*pieces)]


def _require_one_dimension(arrays: dict[str, Array]) -> None:
    for name in ("mean_x", "mean_y"):
        shape = tuple(arrays[name].shape)
        if len(shape) < 1 or shape[-1] < 1:
            raise ShapeError(
                f"'{name}' must have shape (..., d) with d >= 1. Got {shape}."
            )
    for name in ("cov_x", "cov_y"):
        shape = tuple(arrays[name].shape)
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ShapeError(f"'{name}' must have shape (..., d, d). Got {shape}.")
    sizes = {array.shape[-1] for array in arrays.values()}
    if len(sizes) > 1:
        raise ShapeError(
            f"mean_x, cov_x, mean_y and cov_y must share one dimension d. Got {sorted(sizes)}."
        )


def _reduce_piece(first_row: int, *arrays: Array) -> tuple[Array, ...]:
    """A piece of the batch: compiled where that is at hand, all rows or the rest by the array library."""
    xp = array_namespace(arrays[1])
    compiled = compiled_reduction(arrays[1])
    if compiled is None:
        return _reduce_rows(
            first_row + xp.arange(arrays[0].shape[0], device=arrays[0].device), *arrays
        )
    *columns, left = compiled.reduce_rows(*arrays)
    if not every(~left):
        rest = where(left)
        again = _reduce_rows(
            first_row + rest, *(take_rows(array, rest) for array in arrays)
        )
        columns = [
            put_rows(column, rest, update) for column, update in zip(columns, again)
        ]
    return tuple(columns)


def _reduce_rows(
    places: Array, mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array
) -> tuple[Array, Array, Array, Array]:
    """The reduction of a flat batch whose rows have the given places in the whole, and how strained it is."""
    xp = array_namespace(cov_y)
    dimension = cov_y.shape[-1]
    scale = _power_of_two_scale(cov_y, places)
    cov_x, cov_y = (
        _symmetric(name, cov) * scale[:, :, None] * scale[:, None, :]
        for name, cov in (("cov_x", cov_x), ("cov_y", cov_y))
    )
    factor_y = _cholesky("cov_y", cov_y, places)
    shift = ((mean_x - mean_y) * scale)[:, :, None]
    whitened = xp.linalg.solve(factor_y, xp.concat([cov_y - cov_x, shift], axis=-1))
    strain = _strain(cov_y, factor_y)
    difference = xp.linalg.solve(
        factor_y, xp.matrix_transpose(whitened[:, :, :dimension])
    )
    gap, axes = xp.linalg.eigh((difference + xp.matrix_transpose(difference)) / 2)
    gap = _rounded_away(gap)
    mean_gap = _rounded_away(
        (xp.matrix_transpose(axes) @ whitened[:, :, dimension:])[:, :, 0]
    )
    log_ratio = log_ratio_of(xp, gap)
    wide = where(spans_decades(xp, xp.min(gap, axis=-1), xp.max(gap, axis=-1)))
    if wide.shape[0]:  # every singular or indefinite cov_x is among these
        factor_x = _cholesky("cov_x", take_rows(cov_x, wide), take_rows(places, wide))
        left, roots, _ = xp.linalg.svd(
            xp.linalg.solve(take_rows(factor_y, wide), factor_x)
        )
        shifts = take_rows(whitened, wide)[:, :, dimension:]
        gap = put_rows(gap, wide, (1 - roots) * (1 + roots))
        log_ratio = put_rows(log_ratio, wide, 2 * xp.log(roots))
        mean_gap = put_rows(
            mean_gap, wide, _rounded_away((xp.matrix_transpose(left) @ shifts)[:, :, 0])
        )
    return gap, log_ratio, mean_gap, strain


def _strain(cov: Array, factor: Array) -> Array:
    """The trace of each matrix times that of its inverse: at least its condition number."""
    xp = array_namespace(cov)
    trace = xp.sum(xp.linalg.diagonal(cov), axis=-1)
    inverse = xp.linalg.inv(factor)
    return trace * xp.sum(inverse * inverse, axis=(-2, -1))


def _rounded_away(values: Array) -> Array:
    """Zero for what is rounding noise beside the largest."""
    xp = array_namespace(values)
    largest = xp.max(xp.abs(values), axis=-1, keepdims=True)
    return xp.where(is_noise(xp, values, largest, values.shape[-1]), 0.0, values)


def _power_of_two_scale(cov_y: Array, places: Array) -> Array:
    xp = array_namespace(cov_y)
    variances = xp.linalg.diagonal(cov_y)
    if not bool(xp.all(variances > 0)):
        row = int(xp.argmax(xp.astype(xp.any(variances <= 0, axis=-1), xp.int8)))
        raise _not_definite("cov_y", places[row])
    return scale_of(xp, variances)


def _symmetric(name: str, cov: Array) -> Array:
    xp = array_namespace(cov)
    transposed = xp.matrix_transpose(cov)
    variances = xp.linalg.diagonal(cov)
    if not bool(
        xp.all(agree(xp, cov, transposed, variances[:, :, None], variances[:, None, :]))
    ):
        raise NotSymmetricError(
            f"'{name}' must be symmetric. Got a matrix that differs from its transpose; pass (C + C.T) / 2."
        )
    return (cov + transposed) / 2


def _cholesky(name: str, cov: Array, places: Array) -> Array:
    """Lower factor; singular to working precision counts as not positive definite."""
    xp = array_namespace(cov)
    try:
        factor = xp.linalg.cholesky(cov)
    except (
        np.linalg.LinAlgError,
        RuntimeError,
    ):  # PyTorch's own LinAlgError is a RuntimeError
        smallest = xp.min(xp.linalg.eigvalsh(cov), axis=-1)
        raise _not_definite(name, places[int(xp.argmin(smallest))]) from None
    weakest = xp.min(xp.linalg.diagonal(factor) ** 2 / xp.linalg.diagonal(cov), axis=-1)
    if not bool(xp.all(definite(weakest, cov.shape[-1]))):
        raise _not_definite(name, places[int(xp.argmin(weakest))])
    return factor


def _not_definite(name: str, place: Array) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"'{name}' must be positive definite. Got a singular or indefinite matrix (flat batch index {int(place)}). A "
        "degenerate output has no Gaussian density: add noise to it or drop the redundant coordinates."
    )
