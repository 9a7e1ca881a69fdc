"""Smallest-trace covariance that covers a finite set of shift vectors, solved exactly.

For shifts v_1..v_N the noise N(0, S) with v_i' S^-1 v_i <= 1 for every i hides each of them as well as a unit
shift is hidden by N(0, 1).  The cheapest such noise minimises tr(W S).  Derived in docs/math/ellipsoid.md; the
problem is (23) of the mixture paper, solved here through its dual

    max over x >= 0 of  sum_k phi(lambda_k(A(x))) - sum x,    A(x) = sum_i x_i u_i u_i',  u_i = C'v_i,  W = CC'

with phi(a) = 2 sqrt(a), continued linearly below the floor, which is what the constraint S >= floor I becomes.
Its gradient is q - 1 with q_i = u_i' S(x)^-1 u_i and S(x) = max(A(x)^(1/2), floor).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    NumericalError,
    ParameterError,
    ShapeError,
)

Array = NDArray[np.float64]

ROUNDING = float(np.finfo(np.float64).eps) / 2
CHUNK_CELLS = 1 << 20  # doubles held by one block of a full scan or of a batch of Cholesky checks
SWEEPS = 3  # multiplicative updates that find the working set; the cubic power is the fastest that was stable
MAX_NEWTON = 60
MAX_ROUNDS = 60


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

    covariance: Array
    trace: float
    lower_bound: float
    relative_gap: float
    weights: Array
    active: NDArray[np.intp]
    iterations: int
    scans: int


def covering_ellipsoid(
    vectors: ArrayLike, weight: ArrayLike | None = None, relative_gap: float = 1e-9, *, floor: float = 0.0
) -> CoveringEllipsoid:
    """Smallest-trace covariance S with v' S^-1 v <= 1 for every row v of `vectors` (derived: docs/math/ellipsoid.md).

    Rows that span only a subspace leave the optimal S singular; it is then completed by a variance so small that the
    trace stays within `relative_gap` of the infimum.  Noise that is really drawn usually needs more: give `floor`.

    Args:
        vectors: N rows of d coordinates, public; a row and its negative are the same constraint.
        weight: symmetric positive definite W (d, d) of the cost tr(W S); the identity by default.  Columns in
            different units call for a weight: the plain trace neglects the small ones.
        relative_gap: how far above the optimum the trace may be, from 1e-10 to 0.1.
        floor: smallest eigenvalue that S may have.  Exact without a weight; with both, S is lifted to the floor and
            the gap that results is reported even where it exceeds `relative_gap`.

    Raises:
        ShapeError, NotFiniteError, NotSymmetricError, NotPositiveDefiniteError, ParameterError: bad arguments.
        NumericalError: the asked gap cannot be reached in double precision.
    """
    rows = _checked_vectors(vectors)
    count, dim = rows.shape
    root = _checked_weight(weight, dim)
    if not 1e-10 <= relative_gap <= 0.1:
        raise ParameterError(f"relative_gap must lie in [1e-10, 0.1]. Got {relative_gap!r} instead.")
    if not (np.isfinite(floor) and floor >= 0):
        raise ParameterError(f"floor must be a finite variance >= 0. Got {floor!r} instead.")
    size = float(np.abs(rows).max())
    if size == 0.0:
        return _only_floor(count, dim, weight, floor)
    if not (1e-140 <= size <= 1e140 and floor <= 1e280):
        raise ParameterError(
            f"the largest entry of vectors must lie in [1e-140, 1e140] and floor below 1e280, so that squares neither "
            f"overflow nor vanish. Got {size!r} and {floor!r}: change the unit."
        )
    if floor >= (1 + 1e-12) * float(np.einsum("ij,ij->i", rows, rows).max()):
        return _only_floor(count, dim, weight, floor)
    scaled = rows if root is None else _rooted(rows, root)
    unit = float(np.sqrt(np.einsum("ij,ij->i", scaled, scaled).max()))
    scaled = scaled / unit
    # Without a weight the floor enters the dual exactly; with one, its smallest multiple of I is a valid relaxation.
    relaxed = floor / unit**2 * (1.0 if root is None else float(np.linalg.svd(root, compute_uv=False)[-1] ** 2))
    solved = _solve(scaled, relative_gap, relaxed)
    covariance = _proven_cover(rows, solved, root, unit, floor)
    trace = float(np.trace(covariance) if weight is None else np.sum(np.asarray(weight) * covariance))
    bound = solved.lower_bound * unit**2 * (1 - 8 * (dim + 8) * ROUNDING)  # rounding of the singular values
    gap = max(trace / bound - 1, 0.0)
    if gap > relative_gap and (weight is None or floor == 0.0):
        raise NumericalError(
            f"the covering ellipsoid reached a relative gap of {gap:.1e}, not the {relative_gap:.1e} asked for. "
            "Ask for a larger relative_gap, or give a weight that brings the columns to one scale."
        )
    active = solved.support[solved.x > 0]
    weights = np.zeros(count)
    weights[solved.support] = solved.x / solved.x.sum()
    return CoveringEllipsoid(covariance, trace, bound, gap, weights, np.sort(active), solved.iterations, solved.scans)


def _checked_vectors(vectors: ArrayLike) -> Array:
    rows = np.array(vectors, dtype=np.float64, order="C", ndmin=1)
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ShapeError(
            f"vectors must be a matrix of N >= 1 rows and d >= 1 columns. Got shape {rows.shape} instead; "
            "write one vector as [[...]]."
        )
    if not np.isfinite(rows).all():
        raise NotFiniteError("vectors must be finite. Got NaN or infinity: drop or clip those rows by a public rule.")
    return rows


def _checked_weight(weight: ArrayLike | None, dim: int) -> Array | None:
    """Lower Cholesky factor C of the weight."""
    if weight is None:
        return None
    matrix = np.asarray(weight, dtype=np.float64)
    if matrix.shape != (dim, dim):
        raise ShapeError(f"weight must have shape ({dim}, {dim}) to fit the vectors. Got {matrix.shape} instead.")
    if not np.isfinite(matrix).all():
        raise NotFiniteError("weight must be finite. Got NaN or infinity.")
    if not np.array_equal(matrix, matrix.T):
        raise NotSymmetricError("weight must be exactly symmetric. Pass (W + W.T) / 2.")
    factor, info = dpotrf(matrix, lower=1, clean=1)
    if info:
        raise NotPositiveDefiniteError("weight must be positive definite. Add a small multiple of the identity to it.")
    return np.asarray(factor)


def _only_floor(count: int, dim: int, weight: ArrayLike | None, floor: float) -> CoveringEllipsoid:
    if floor == 0.0:
        raise ParameterError("every vector is zero, so the smallest covariance is zero: give floor > 0.")
    cost = float(dim if weight is None else np.trace(np.asarray(weight))) * floor
    none = np.zeros(0, dtype=np.intp)
    return CoveringEllipsoid(floor * np.eye(dim), cost, cost, 0.0, np.zeros(count), none, 0, 1)


def _blocks(count: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK_CELLS // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _rooted(rows: Array, root: Array) -> Array:
    out = np.empty_like(rows)
    for block in _blocks(*rows.shape):
        np.matmul(rows[block], root, out=out[block])
    return out


def _quadratic(rows: Array, root: Array) -> Array:
    """|root' row|^2 for every row, in blocks: one full scan."""
    out = np.empty(rows.shape[0])
    for block in _blocks(*rows.shape):
        image = rows[block] @ root
        np.einsum("ij,ij->i", image, image, out=out[block])
    return out


def _spectrum(x: Array, rows: Array) -> tuple[Array, Array]:
    """Eigenvalues s and eigenvectors of A(x)^(1/2)."""
    root = rows * np.sqrt(x)[:, None]
    squares, basis = np.linalg.eigh(root.T @ root)
    if squares[0] > 1e-6 * squares[-1]:
        return np.sqrt(squares), basis
    # The Gram matrix has lost the small eigenvalues; the singular values keep them.
    short = rows.shape[0] < rows.shape[1]
    _, singular, basis = np.linalg.svd(root, full_matrices=short)
    return np.concatenate([singular, np.zeros(rows.shape[1] - singular.size)]), basis.T


def _softened(s: Array, floor: float, blur: float) -> tuple[Array, Array, Array]:
    """Smooth majorant of max(s, floor), with the two vectors from which `_curvature` is built.

    sigma^2 = (s^2 + f^2 + sqrt((s^2 - f^2)^2 + w^2)) / 2, w = blur f^2: Newton cycles on the kink of the maximum.
    """
    beyond = (s - floor) * (s + floor)
    width = blur * floor**2
    radius = np.hypot(beyond, width)
    sum_ = radius + np.abs(beyond)
    rise = np.where(beyond > 0, sum_, width**2 / sum_)  # radius + beyond without cancellation
    return np.sqrt(floor**2 + rise / 2), rise, radius


def _curvature(sigma: Array, rise: Array, radius: Array) -> Array:
    """Divided differences of -1/sigma in s^2: the Hessian of the softened dual in the eigenbasis."""
    slope = np.add.outer(rise, rise) / (2 * np.add.outer(radius, radius))
    return np.asarray(slope / (np.multiply.outer(sigma, sigma) * np.add.outer(sigma, sigma)))


def _dual_value(s: Array, total: float, floor: float) -> float:
    """Lower bound on the optimum from x with spectrum s and sum total, at the better of two multiples of x."""
    free = float(s.sum()) ** 2 / total
    return max(free, float(np.where(s < floor, floor + s**2 / max(floor, 1e-300), 2 * s).sum()) - total)


class _Solved(NamedTuple):
    """Dual solution x on the vectors `support`, with the full scan that proves it."""

    support: NDArray[np.intp]
    x: Array
    variances: Array
    basis: Array
    lower_bound: float
    iterations: int
    scans: int


def _solve(rows: Array, relative_gap: float, floor: float) -> _Solved:
    """Active set around the Newton solver: start from promising vectors, add whatever a full scan finds uncovered."""
    distinct = _distinct(rows)
    if distinct.size < rows.shape[0]:
        solved = _solve_distinct(rows[distinct], relative_gap, floor)
        return solved._replace(support=distinct[solved.support])
    return _solve_distinct(rows, relative_gap, floor)


def _solve_distinct(rows: Array, relative_gap: float, floor: float) -> _Solved:
    count, dim = rows.shape
    room = 24 + 5 * dim
    x = np.full(count, 1.0 / count)
    scans = 0
    index = np.arange(count)
    if count > room:
        for _ in range(SWEEPS):
            s, basis = _spectrum(x, rows)
            q = _quadratic(rows, basis / np.sqrt(np.maximum(s, 1e-9 * s.max())))
            x *= (q / q.max()) ** 3
            x /= x.sum()
            scans += 1
        index = _largest(q, room)
        x = x[index]
    s, basis = _spectrum(x, rows[index])
    # A variance this small costs a quarter of the gap and keeps every matrix invertible.
    spare = relative_gap * float(s.sum()) ** 2 / float(x.sum()) / (4 * dim)
    bottom = max(floor, spare)
    blur = spare / bottom
    iterations = 0
    for _ in range(MAX_ROUNDS):
        index, x, steps = _newton(rows, index, x, bottom, blur, max(1e-3 * relative_gap, 1e-13))
        iterations += steps
        s, basis = _spectrum(x, rows[index])
        bound = _dual_value(s, float(x.sum()), floor)
        # A lift above the rounding of the singular values, so that rounding cannot uncover a thin direction; where
        # thin directions are known less well than that, as much as the gap allows.
        for lift in (16 * dim * ROUNDING * float(s.max()), relative_gap * bound / (2 * dim)):
            variances = _softened(s, bottom, blur)[0] + lift
            q = _quadratic(rows, basis / np.sqrt(variances))
            scans += 1
            excess = max(float(q.max()), 1.0)
            fresh = np.setdiff1d(np.flatnonzero(q > 1 + relative_gap / 16), index)
            done = variances.sum() * excess <= bound * (1 + 0.9 * relative_gap)
            if done or fresh.size:
                break
        if done or fresh.size == 0:
            break
        fresh = fresh[_largest(q[fresh], room)]
        index = np.concatenate([index, fresh])
        x = np.concatenate([x, np.full(fresh.size, float(x.mean()))])
    return _Solved(index, x, variances * excess, basis, bound, iterations, scans)


def _largest(q: Array, room: int) -> NDArray[np.intp]:
    """Positions of the `room` largest entries; ties go to the first, so that the answer is reproducible."""
    return np.argsort(-q, kind="stable")[:room]


def _distinct(rows: Array) -> NDArray[np.intp]:
    """Positions of the rows that differ by more than their sign from all the others kept, in order."""
    probe = np.abs(np.einsum("ij,j->i", rows, np.cos(np.arange(1.0, rows.shape[1] + 1))))
    order = np.argsort(probe, kind="stable")
    ties = np.flatnonzero(np.diff(probe[order]) == 0.0)
    one, other = rows[order[ties]], rows[order[ties + 1]]
    equal = (one == other).all(axis=1) | (one == -other).all(axis=1)
    return np.sort(np.delete(order, ties[equal] + 1))


def _newton(
    rows: Array, index: NDArray[np.intp], x: Array, floor: float, blur: float, target: float
) -> tuple[NDArray[np.intp], Array, int]:
    """Primal-dual Newton (predictor and corrector) on the dual over the vectors `index`.

    Unknowns x > 0 and z = 1 - q(x) > 0 with x z -> 0; derivative of q in x is -HH'.  Vectors that provably carry no
    weight at the optimum are dropped on the way.
    """
    u = rows[index]
    above, below = np.triu_indices(u.shape[1])
    double = np.where(above == below, 1.0, 2.0)
    x = x + x.mean()
    s, basis = _spectrum(x, u)
    q = _quadratic(u, basis / np.sqrt(np.maximum(s, floor)))
    raise_by = (1.1 * float(q.max())) ** 2
    x, z = x * raise_by, np.maximum(1 - q / np.sqrt(raise_by), 0.05)
    best, stalled, found, soft = np.inf, 0, (index, x), 1.0
    for step in range(MAX_NEWTON):
        s, basis = _spectrum(x, u)
        y = u @ basis
        squares = y * y
        # Sharpened slowly while the floor matters: Newton converges from one blur to a fifth of it, not much further.
        soft = max(blur, soft / 5) if s.min() < 2 * floor else blur
        sigma, rise, radius = _softened(s, floor, soft)
        q = squares @ (1 / sigma)
        z = np.where(1 - q > 2 * z, 1 - q, z)  # a step that overshot has more slack than Newton believed
        keep, low = _screened(s, squares, float(x.sum()), floor)
        error = max(float(x @ (z + np.abs(1 - q - z))) / low, 1e-3 * (float(q.max()) - 1))
        stalled = stalled + 1 if error > best / 2 and soft == blur else 0
        if error < best or soft > blur:
            best, found = error, (index, np.where(z > 0.05, 0.0, x))
        if (error <= target and soft == blur) or stalled > 8:
            break
        half = y[:, above] * y[:, below] * np.sqrt(double * _curvature(sigma, rise, radius)[above, below])
        move = _newton_step(half, x, z, q)
        x, z = x + move[0], z + move[1]
        if not keep.all():
            index, u, x, z = index[keep], u[keep], x[keep], z[keep]
    return *found, step


def _screened(s: Array, squares: Array, total: float, floor: float) -> tuple[NDArray[np.bool_], float]:
    """Vectors that may be active at the optimum (safe rule, docs/math/ellipsoid.md), and a lower bound."""
    ratio = float(s.sum()) / total  # the multiple ratio^2 of x has the largest dual value
    s = s * ratio
    variances = np.maximum(s, floor)
    q = squares @ (1 / variances)
    low = float(np.where(s < floor, floor + s**2 / floor, 2 * s).sum()) - total * ratio**2
    spread = max(float(variances.sum()) * max(float(q.max()), 1.0) - low, 0.0) / float(variances.min())
    return q >= 1 + spread / 2 - np.sqrt(spread + spread**2 / 4) - 1e-9, low


def _newton_step(half: Array, x: Array, z: Array, q: Array) -> tuple[Array, Array]:
    """Mehrotra's step for z = 1 - q(x), x z = 0, damped to stay inside; `half` is H."""
    pull = np.sqrt(x / z)
    scaled = half * pull[:, None]
    wide = scaled.shape[0] <= scaled.shape[1]
    system = scaled @ scaled.T if wide else scaled.T @ scaled
    system.flat[:: system.shape[0] + 1] += 1.0
    factor, info = dpotrf(system, lower=1)
    if info:
        # Only the direction is affected: the certificate never rests on this factorisation.
        system.flat[:: system.shape[0] + 1] *= 1 + 4 * system.shape[0] * ROUNDING
        factor, info = dpotrf(system, lower=1)
    if info:
        raise NumericalError("a Newton system of the covering ellipsoid is singular. Bring the vectors to one scale.")

    def solve(product: Array | float) -> tuple[Array, Array]:
        right = pull * (product / x - 1 + q)
        if wide:
            dx = pull * dpotrs(factor, right, lower=1)[0]
        else:
            dx = pull * (right - scaled @ dpotrs(factor, scaled.T @ right, lower=1)[0])
        return dx, (product - z * dx) / x - z

    def reach(dx: Array, dz: Array) -> float:
        return 1 / max(float((-dx / x).max()), float((-dz / z).max()), 1e-300)

    mean = float(x @ z) / x.size
    dx, dz = solve(0.0)
    ahead = min(1.0, reach(dx, dz))
    left = max(float((x + ahead * dx) @ (z + ahead * dz)) / x.size / mean, 0.0)
    dx, dz = solve(left**3 * mean - ahead**2 * dx * dz)
    damp = min(1.0, max(0.995, min(1 - left, 0.99999)) * reach(dx, dz))
    return damp * dx, damp * dz


def _proven_cover(rows: Array, solved: _Solved, root: Array | None, unit: float, floor: float) -> Array:
    """The covariance in the user's coordinates, its diagonal raised by the least that proves the covering."""
    factor = solved.basis * (unit * np.sqrt(solved.variances))
    if root is not None:
        factor = solve_triangular(root, factor, lower=True, trans="T")
    covariance = factor @ factor.T
    if root is not None and floor > 0:
        values, basis = np.linalg.eigh(covariance)
        covariance = (basis * np.maximum(values, floor)) @ basis.T
    covariance = (covariance + covariance.T) / 2
    dim = rows.shape[1]
    raised = 16 * dim * (dim + 8) * ROUNDING
    while raised < 1e-3:
        candidate = covariance + np.diag(raised * covariance.diagonal())
        if _covers(candidate, rows, floor):
            return candidate
        raised *= 4
    raise NumericalError("the covering could not be proven in double precision. Bring the vectors to one scale.")


def _covers(covariance: Array, rows: Array, floor: float) -> bool:
    """Whether S >= floor I and S >= vv' for every row v, proven for the doubles given.

    In coordinates scaled by powers of two (exact) to a diagonal in (1/4, 1], a Cholesky factorisation that succeeds
    after subtracting `margin` from the diagonal proves semidefiniteness (Rump 2006, theorem 2.3).
    """
    dim = rows.shape[1]
    margin = 2 * dim * (dim + 8) * ROUNDING
    inverse = np.exp2(-np.ceil(np.log2(covariance.diagonal()) / 2))
    scaled = covariance * np.multiply.outer(inverse, inverse)
    if not _definite(scaled - np.diag(floor * inverse**2 + margin)):
        return False
    threshold = -1.0
    if _definite(scaled - np.diag(np.full(dim, 20 * margin))):
        # The scan's rounding error is then below a nineteenth, so a value under 0.9 needs no further proof.
        threshold = 0.9
    lower = np.linalg.cholesky(scaled)
    lowered = scaled - np.diag(np.full(dim, margin))
    for block in _blocks(rows.shape[0], dim):
        v = rows[block] * inverse
        image = solve_triangular(lower, v.T, lower=True)
        near = v[np.einsum("ij,ij->j", image, image) >= threshold]
        for part in _blocks(near.shape[0], dim * dim):
            if not _definite(lowered - near[part, :, None] * near[part, None, :]):
                return False
    return True


def _definite(matrices: Array) -> bool:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True
