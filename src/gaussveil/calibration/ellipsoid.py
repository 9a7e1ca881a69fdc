"""Smallest-trace covariance that covers a finite set of shift vectors, solved exactly.

For shifts v_1..v_N the noise N(0, S) with v_i' S^-1 v_i <= 1 for every i hides each of them as well as a unit shift is
hidden by N(0, 1). The cheapest such noise minimises tr(W S): (23) of the mixture paper, solved through its dual
(`ellipsoid_dual`, with u_i = C'v_i, W = CC'; derived: docs/math/ellipsoid.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.calibration.ellipsoid_dual import DualSolution, blocks, solve_dual
from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    NumericalError,
    ParameterError,
    ShapeError,
)
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.positive_definite import factorises, proof_margin
from gaussveil.typing import Floats

CHANGE_UNIT = "squares would overflow or vanish; change the unit."


@dataclass(frozen=True)
class CoveringEllipsoid:
    """Covariance S with v_i' S^-1 v_i <= 1 for every vector, of smallest tr(W S) up to `relative_gap`.

    Attributes:
        covariance: S, positive definite; the covering holds for these very doubles, proven by Cholesky
            factorisations with a margin for rounding.
        trace: tr(W S), or tr(S) without a weight.
        lower_bound: no covering covariance has a smaller (weighted) trace.
        relative_gap: trace / lower_bound - 1.
        weights: the dual solution p, one entry per vector, summing to 1; zero off the active vectors.
        active: indices of the vectors with positive weight; S depends on these alone.
        iterations: Newton steps taken.
        scans: passes over all the vectors.
    """

    covariance: Floats
    trace: float
    lower_bound: float
    relative_gap: float
    weights: Floats
    active: NDArray[np.intp]
    iterations: int
    scans: int


def covering_ellipsoid(
    vectors: ArrayLike,
    weight: ArrayLike | None = None,
    relative_gap: float = 1e-9,
    *,
    floor: float = 0.0,
) -> CoveringEllipsoid:
    """Smallest-trace covariance S with v' S^-1 v <= 1 for every row v of `vectors` (derived: docs/math/ellipsoid.md).

    Rows that span only a subspace leave the optimal S singular; it is then completed by a variance so small that the
    trace stays within `relative_gap` of the infimum.  Noise that is really drawn usually needs more: give `floor`.

    Args:
        vectors: N rows of d coordinates, public; a row and its negative are the same constraint.
        weight: symmetric positive definite W (d, d) of the cost tr(W S); the identity by default.  Columns in
            different units call for a weight: the plain trace neglects the small ones.
        relative_gap: how far above the optimum the trace may be, from 1e-10 to 0.1.
        floor: smallest eigenvalue that S may have.  Part of the optimisation without a weight; with both, S is
            lifted to the floor afterwards.  With a floor, read `relative_gap` of the result: it is certified, but
            may exceed what was asked (always covering, at worst dearer).

    A gap that cannot be reached in double precision raises NumericalError.

    Returns:
        A `CoveringEllipsoid`: the covariance, its trace, and by how much another might be smaller.

    Raises:
        ShapeError: the vectors are no table, or the weight is not square of their width.
        NotFiniteError: a vector or weight is NaN or infinite.
        NotSymmetricError: the weight is not symmetric.
        NotPositiveDefiniteError: the weight has an eigenvalue that is not positive.
        ParameterError: the gap or the floor is out of range.
        NumericalError: the gap cannot be reached in doubles.

    >>> import gaussveil
    >>> gaussveil.covering_ellipsoid([[1.0, 0.0], [0.0, 2.0]]).covariance.round(6).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """
    rows = _checked_vectors(vectors)
    count, dim = rows.shape
    root = _checked_weight(weight, dim)
    checks.real("relative_gap", relative_gap, "[1e-10, 0.1]")
    checks.real("floor", floor, "[0, inf)")
    size = float(np.abs(rows).max())
    if size == 0.0:
        return _only_floor(count, dim, weight, floor)
    if not 1e-140 <= size <= 1e140:
        raise ParameterError(
            f"the largest entry of vectors must lie in [1e-140, 1e140]: {CHANGE_UNIT}"
        )
    if floor >= (1 + 1e-12) * float(np.einsum("ij,ij->i", rows, rows).max()):
        return _only_floor(count, dim, weight, floor)
    scaled = rows if root is None else rows @ root
    unit = float(np.sqrt(np.einsum("ij,ij->i", scaled, scaled).max()))
    if not 1e-140 <= unit <= 1e140:
        raise ParameterError(
            f"weighted, the longest vector must have length in [1e-140, 1e140]: {CHANGE_UNIT}"
        )
    scaled = scaled / unit
    # Without a weight the floor enters the dual exactly; with one, its smallest multiple of I is a valid relaxation.
    narrowest = 1.0
    if root is not None:
        narrowest = float(np.linalg.svd(root, compute_uv=False)[-1] ** 2)
    relaxed = floor / unit**2 * narrowest
    solved = solve_dual(scaled, relative_gap, relaxed)
    covariance = _proven_cover(rows, solved, root, unit, floor)
    trace = _weighted_trace(covariance, weight)
    bound = (
        solved.lower_bound * unit**2 * (1 - 16 * dim * (dim + 8) * UNIT_ROUNDOFF)
    )  # rounding of the singular values
    gap = max(trace / bound - 1, 0.0)
    if gap > relative_gap and floor == 0.0:
        raise NumericalError(
            f"the covering ellipsoid reached a relative gap of {gap:.1e}, not the {relative_gap:.1e} asked for. "
            "Ask for a larger relative_gap, or give a weight that brings the columns to one scale."
        )
    active = solved.support[solved.x > 0]
    weights = np.zeros(count)
    weights[solved.support] = solved.x / (float(solved.x.sum()) or 1.0)
    return CoveringEllipsoid(
        covariance,
        trace,
        bound,
        gap,
        weights,
        np.sort(active),
        solved.iterations,
        solved.scans,
    )


def _checked_vectors(vectors: ArrayLike) -> Floats:
    rows = np.array(float_array("vectors", vectors), order="C")
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ShapeError(
            f"vectors must be a matrix of N >= 1 rows and d >= 1 columns. Got shape {rows.shape}; "
            "write one vector as [[...]]."
        )
    if not np.isfinite(rows).all():
        raise NotFiniteError(
            "vectors must be finite. Got NaN or infinity: drop or clip those rows by a public rule."
        )
    return rows


def _checked_weight(weight: ArrayLike | None, dim: int) -> Floats | None:
    """Lower Cholesky factor C of the weight."""
    if weight is None:
        return None
    matrix = np.asarray(float_array("weight", weight))
    if matrix.shape != (dim, dim):
        raise ShapeError(
            f"weight must have shape ({dim}, {dim}) to fit the vectors. Got {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise NotFiniteError("weight must be finite. Got NaN or infinity.")
    if not np.array_equal(matrix, matrix.T):
        raise NotSymmetricError("weight must be exactly symmetric. Pass (W + W.T) / 2.")
    factor, info = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
    if info:
        raise NotPositiveDefiniteError(
            "weight must be positive definite. Add a small multiple of the identity to it."
        )
    return np.asarray(factor)


def _only_floor(
    count: int, dim: int, weight: ArrayLike | None, floor: float
) -> CoveringEllipsoid:
    if floor == 0.0:
        raise ParameterError(
            "every vector is zero, so the smallest covariance is zero: give floor > 0."
        )
    cost = float(dim if weight is None else np.trace(np.asarray(weight))) * floor
    none = np.zeros(0, dtype=np.intp)
    return CoveringEllipsoid(
        floor * np.eye(dim), cost, cost, 0.0, np.zeros(count), none, 0, 1
    )


def _proven_cover(
    rows: Floats, solved: DualSolution, root: Floats | None, unit: float, floor: float
) -> Floats:
    """The covariance in the user's coordinates, its diagonal raised by the least that proves the covering."""
    factor = solved.basis * (unit * np.sqrt(solved.variances))
    if root is not None:
        factor = scipy.linalg.solve_triangular(root, factor, lower=True, trans="T")
    covariance = factor @ factor.T
    if root is not None and floor > 0:
        values, basis = np.linalg.eigh(covariance)
        covariance = (basis * np.maximum(values, floor)) @ basis.T
    covariance = (covariance + covariance.T) / 2
    dim = rows.shape[1]
    raised = 16 * dim * (dim + 8) * UNIT_ROUNDOFF
    while raised < 1e-3:
        candidate = covariance + np.diag(raised * covariance.diagonal())
        if covers(candidate, rows, floor):
            return candidate
        raised *= 4
    raise NumericalError(
        "the covering could not be proven in double precision. Bring the vectors to one scale."
    )


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
        image = scipy.linalg.solve_triangular(
            lower, v.T, lower=True, check_finite=False
        )
        near = v[
            ~(np.einsum("ij,ij->j", image, image) < threshold)
        ]  # an overflow needs the proof, too
        for part in blocks(near.shape[0], dim * dim):
            if not factorises(lowered - near[part, :, None] * near[part, None, :]):
                return False
    return True


def _weighted_trace(covariance: Floats, weight: ArrayLike | None) -> float:
    if weight is None:
        return float(np.trace(covariance))
    return float(np.sum(np.asarray(weight) * covariance))
