"""From two Gaussians given by matrices to the reduced form (variance gaps and mean gaps).

With S_Y = G G', the eigendecomposition of the whitened DIFFERENCE G^-1 (S_Y - S_X) G^-T gives the variance gaps; one minus the
eigenvalues of the whitened S_X would lose all digits for near-equal covariances. Where the variance ratios span many
decades the difference in turn loses the small ones, and the singular values of G^-1 chol(S_X) are used (derived: docs/math/spectrum).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gaussveil.errors import NotPositiveDefiniteError, NotSymmetricError, ShapeError
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.selection import put_rows, take_rows, where

Array = Any

SYMMETRY_TOLERANCE = 1e-10
UNIT_ROUNDOFF = 2.0**-53
WIDE_RATIO = 1e-4  # variance ratios below this (against the largest) are taken from singular values
ROWS_AT_ONCE = 1 << 19


def reduce_pair(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> tuple[Array, Array, Array]:
    """Variance gaps, logs of variance ratios, and mean gaps of (N(mean_x, cov_x), N(mean_y, cov_y)); leading axes are a batch."""
    cov_x = float_array("cov_x", cov_x)
    cov_y = float_array("cov_y", cov_y, like=cov_x)
    mean_x, mean_y = float_array("mean_x", mean_x, like=cov_x), float_array("mean_y", mean_y, like=cov_x)
    xp = array_namespace(cov_x, cov_y, mean_x, mean_y)
    dimension = _common_dimension(mean_x, cov_x, mean_y, cov_y)
    for name, array in (("mean_x", mean_x), ("cov_x", cov_x), ("mean_y", mean_y), ("cov_y", cov_y)):
        require_finite(name, array)
    try:
        batch = np.broadcast_shapes(mean_x.shape[:-1], cov_x.shape[:-2], mean_y.shape[:-1], cov_y.shape[:-2])
    except ValueError:
        raise ShapeError(
            "The leading axes of mean_x, cov_x, mean_y and cov_y must broadcast. Got "
            f"{mean_x.shape[:-1]}, {cov_x.shape[:-2]}, {mean_y.shape[:-1]} and {cov_y.shape[:-2]}."
        ) from None
    rows = int(np.prod(batch, dtype=np.int64))
    flat = [
        xp.reshape(xp.broadcast_to(array, (*batch, *array.shape[array.ndim - tail :])), (rows, *(dimension,) * tail))
        for array, tail in ((mean_x, 1), (cov_x, 2), (mean_y, 1), (cov_y, 2))
    ]
    pieces = []
    for start in range(0, max(rows, 1), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, rows)
        pieces.append(_reduce_rows(*(array[start:stop, ...] for array in flat), first_row=start))
    return tuple(xp.reshape(xp.concat(list(part)), (*batch, dimension)) for part in zip(*pieces))  # type: ignore[return-value]


def _common_dimension(mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array) -> int:
    for name, mean in (("mean_x", mean_x), ("mean_y", mean_y)):
        if mean.ndim < 1 or mean.shape[-1] < 1:
            raise ShapeError(f"'{name}' must have shape (..., d) with d >= 1. Got {tuple(mean.shape)}.")
    for name, cov in (("cov_x", cov_x), ("cov_y", cov_y)):
        if cov.ndim < 2 or cov.shape[-1] != cov.shape[-2]:
            raise ShapeError(f"'{name}' must have shape (..., d, d). Got {tuple(cov.shape)}.")
    sizes = {mean_x.shape[-1], mean_y.shape[-1], cov_x.shape[-1], cov_y.shape[-1]}
    if len(sizes) > 1:
        raise ShapeError(f"mean_x, cov_x, mean_y and cov_y must share one dimension d. Got {sorted(sizes)}.")
    return int(mean_x.shape[-1])


def _reduce_rows(
    mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array, first_row: int
) -> tuple[Array, Array, Array]:
    xp = array_namespace(cov_y)
    dimension = cov_y.shape[-1]
    scale = _power_of_two_scale(cov_y, first_row)
    cov_x, cov_y = (
        _symmetric(name, cov) * scale[:, :, None] * scale[:, None, :]
        for name, cov in (("cov_x", cov_x), ("cov_y", cov_y))
    )
    factor_y, factor_x = _cholesky("cov_y", cov_y, first_row), _cholesky("cov_x", cov_x, first_row)
    shift = ((mean_x - mean_y) * scale)[:, :, None]
    whitened = xp.linalg.solve(factor_y, xp.concat([cov_y - cov_x, shift], axis=-1))
    difference = xp.linalg.solve(factor_y, xp.matrix_transpose(whitened[:, :, :dimension]))
    gap, axes = xp.linalg.eigh((difference + xp.matrix_transpose(difference)) / 2)
    widest = xp.max(xp.abs(gap), axis=-1, keepdims=True)
    gap = xp.where(xp.abs(gap) <= 4 * dimension * UNIT_ROUNDOFF * widest, 0.0 * gap, gap)
    mean_gap = (xp.matrix_transpose(axes) @ whitened[:, :, dimension:])[:, :, 0]
    log_ratio = xp.log1p(-xp.minimum(gap, xp.full_like(gap, 1 - UNIT_ROUNDOFF)))
    largest = xp.maximum(1 - xp.min(gap, axis=-1), 1 + 0 * gap[:, 0])
    wide = where(1 - xp.max(gap, axis=-1) < WIDE_RATIO * largest)
    if wide.shape[0]:
        left, roots, _ = xp.linalg.svd(xp.linalg.solve(take_rows(factor_y, wide), take_rows(factor_x, wide)))
        shifts = take_rows(whitened, wide)[:, :, dimension:]
        gap = put_rows(gap, wide, (1 - roots) * (1 + roots))
        log_ratio = put_rows(log_ratio, wide, 2 * xp.log(roots))
        mean_gap = put_rows(mean_gap, wide, (xp.matrix_transpose(left) @ shifts)[:, :, 0])
    return gap, log_ratio, mean_gap


def _power_of_two_scale(cov_y: Array, first_row: int) -> Array:
    """Exact scaling that brings the variances of Y near one, so that graded matrices keep their digits."""
    xp = array_namespace(cov_y)
    variances = xp.linalg.diagonal(cov_y)
    if not bool(xp.all(variances > 0)):
        row = int(xp.argmax(xp.astype(xp.any(variances <= 0, axis=-1), xp.int8)))
        raise _not_definite("cov_y", first_row + row)
    return 2.0 ** -xp.round(xp.log2(variances) / 2)


def _symmetric(name: str, cov: Array) -> Array:
    xp = array_namespace(cov)
    transposed = xp.matrix_transpose(cov)
    variances = xp.sqrt(xp.abs(xp.linalg.diagonal(cov)))
    allowed = SYMMETRY_TOLERANCE * variances[:, :, None] * variances[:, None, :]
    if not bool(xp.all(xp.abs(cov - transposed) <= allowed)):
        raise NotSymmetricError(
            f"'{name}' must be symmetric. Got a matrix that differs from its transpose; pass (C + C.T) / 2."
        )
    return (cov + transposed) / 2


def _cholesky(name: str, cov: Array, first_row: int) -> Array:
    """Lower factor; singular to working precision counts as not positive definite."""
    xp = array_namespace(cov)
    try:
        factor = xp.linalg.cholesky(cov)
    except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's own LinAlgError is a RuntimeError
        smallest = xp.min(xp.linalg.eigvalsh(cov), axis=-1)
        raise _not_definite(name, first_row + int(xp.argmin(smallest))) from None
    pivots = xp.linalg.diagonal(factor) ** 2 / xp.linalg.diagonal(cov)
    weakest = xp.min(pivots, axis=-1)
    if not bool(xp.all(weakest > 4 * cov.shape[-1] * UNIT_ROUNDOFF)):
        raise _not_definite(name, first_row + int(xp.argmin(weakest)))
    return factor


def _not_definite(name: str, row: int) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"'{name}' must be positive definite. Got a singular or indefinite matrix (flat batch index {row}); a deterministic "
        "or degenerate output has no Gaussian density: add noise to it or drop the redundant coordinates."
    )
