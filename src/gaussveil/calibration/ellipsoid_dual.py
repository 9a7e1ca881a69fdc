"""The dual of the covering-ellipsoid problem: active set, primal-dual Newton, safe screening.

    max over x >= 0 of  sum_k phi(lambda_k(A(x))) - sum x,    A(x) = sum_i x_i u_i u_i'

with phi(a) = 2 sqrt(a), continued linearly below the floor, which is what the constraint S >= floor I becomes.
Its gradient is q - 1 with q_i = u_i' S(x)^-1 u_i and S(x) = max(A(x)^(1/2), floor).  Derived: docs/math/ellipsoid.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.typing import Floats

CHUNK_CELLS = (
    1 << 20
)  # doubles held by one block of a full scan or of a batch of Cholesky checks
SWEEPS = 3  # multiplicative updates that find the working set; the cubic power is the fastest that was stable
MAX_NEWTON = 60
MAX_ROUNDS = 60


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of at most CHUNK_CELLS / width rows, so that a pass over all vectors needs bounded memory."""
    step = max(1, CHUNK_CELLS // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _quadratic(rows: Floats, root: Floats) -> Floats:
    """|root' row|^2 for every row, in blocks: one full scan."""
    out = np.empty(rows.shape[0])
    for block in blocks(*rows.shape):
        image = rows[block] @ root
        np.einsum("ij,ij->i", image, image, out=out[block])
    return out


def _spectrum(
    x: Floats, rows: Floats, *, accurate: bool = False
) -> tuple[Floats, Floats]:
    """Eigenvalues s and eigenvectors of A(x)^(1/2); `accurate` to a few units of rounding of the largest."""
    root = rows * np.sqrt(x)[:, None]
    if not accurate:
        squares, basis, info = scipy.linalg.lapack.dsyevd(root.T @ root, lower=1)
        if info == 0 and squares[0] > 1e-6 * squares[-1]:
            return np.sqrt(squares), basis
    # The Gram matrix has lost the small eigenvalues; the singular values keep them.
    count, dim = rows.shape
    if count > dim:
        root = np.asarray(np.linalg.qr(root, mode="r"))
    _, singular, basis = np.linalg.svd(root, full_matrices=count < dim)
    return np.concatenate([singular, np.zeros(dim - singular.size)]), basis.T


def _softened(s: Floats, floor: float, blur: float) -> tuple[Floats, Floats | float]:
    """Smooth majorant sigma of max(s, floor), and the divided differences of sigma^2 in s^2.

    sigma^2 = (s^2 + f^2 + sqrt((s^2 - f^2)^2 + w^2)) / 2, w = blur f^2: a kink has no Newton step.
    """
    if s.min() > 1e8 * floor:
        return s, 1.0  # equal to rounding
    beyond = (s - floor) * (s + floor)
    width = blur * floor**2
    radius = np.hypot(beyond, width)
    total = radius + np.abs(beyond)
    rise = np.where(
        beyond > 0, total, width**2 / total
    )  # radius + beyond without cancellation
    return np.sqrt(floor**2 + rise / 2), np.add.outer(rise, rise) / (
        2 * np.add.outer(radius, radius)
    )


def _dual_value(s: Floats, total: float, floor: float) -> float:
    """Lower bound on the optimum from x with spectrum s and sum total, at the better of two multiples of x."""
    if total > 0:
        free = float(s.sum()) ** 2 / total
    else:
        free = 0.0
    return max(
        free,
        float(np.where(s < floor, floor + s**2 / max(floor, 1e-300), 2 * s).sum())
        - total,
    )


class DualSolution(NamedTuple):
    """Dual solution x on the vectors `support`, with the full scan that proves it."""

    support: NDArray[np.intp]
    x: Floats
    variances: Floats
    basis: Floats
    lower_bound: float
    iterations: int
    scans: int


def solve_dual(rows: Floats, relative_gap: float, floor: float) -> DualSolution:
    """Active set around the Newton solver: start from promising vectors, add whatever a full scan finds uncovered."""
    distinct = _distinct(rows)
    if distinct.size < rows.shape[0]:
        solved = _solve_distinct(rows[distinct], relative_gap, floor)
        return solved._replace(support=distinct[solved.support])
    return _solve_distinct(rows, relative_gap, floor)


def _solve_distinct(rows: Floats, relative_gap: float, floor: float) -> DualSolution:
    count, dim = rows.shape
    room = 24 + 5 * dim
    x = np.full(count, 1.0 / count)
    scans = 0
    index = np.arange(count)
    if count > room:
        for _ in range(SWEEPS):
            s, basis = _spectrum(x, rows)
            q = _quadratic(rows, basis / np.sqrt(np.maximum(s, 1e-9 * s.max())))
            x *= q * q * q
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
        index, x, steps = _newton(
            rows, index, x, bottom, blur, max(1e-2 * relative_gap, 1e-13)
        )
        iterations += steps
        s, basis = _spectrum(x, rows[index], accurate=True)
        bound = _dual_value(s, float(x.sum()), floor)
        # A lift above the rounding of the singular values, so that rounding cannot uncover a thin direction; where
        # thin directions are known less well than that, as much as the gap allows.
        for lift in (
            16 * dim * UNIT_ROUNDOFF * float(s.max()),
            relative_gap * bound / (2 * dim),
        ):
            variances = _softened(s, bottom, blur)[0] + lift
            q = _quadratic(rows, basis / np.sqrt(variances))
            scans += 1
            excess = max(float(q.max()), 1.0)
            uncovered = q > 1 + relative_gap / 16
            uncovered[index] = False
            fresh = np.flatnonzero(uncovered)
            done = variances.sum() * excess <= bound * (1 + 0.9 * relative_gap)
            if done or fresh.size:
                break
        if done or fresh.size == 0:
            break
        fresh = fresh[_largest(q[fresh], room)]
        index = np.concatenate([index, fresh])
        start = (
            float(x.mean()) or 1.0 / fresh.size
        )  # none had weight where the floor covered all
        x = np.concatenate([x, np.full(fresh.size, start)])
    return DualSolution(index, x, variances * excess, basis, bound, iterations, scans)


def _largest(q: Floats, room: int) -> NDArray[np.intp]:
    """Positions of the `room` largest entries; ties go to the first, so that the answer is reproducible."""
    return np.argsort(-q, kind="stable")[:room]


def _distinct(rows: Floats) -> NDArray[np.intp]:
    """Positions of the rows that differ by more than their sign from all the others kept, in order."""
    probe = np.abs(
        np.einsum("ij,j->i", rows, np.cos(np.arange(1.0, rows.shape[1] + 1)))
    )
    ordered = np.sort(probe)
    if (ordered[1:] > ordered[:-1]).all():
        return np.arange(rows.shape[0])
    order = np.argsort(probe, kind="stable")
    ties = np.flatnonzero(np.diff(probe[order]) == 0.0)
    one = rows[order[ties]]
    other = rows[order[ties + 1]]
    equal = (one == other).all(axis=1) | (one == -other).all(axis=1)
    return np.sort(np.delete(order, ties[equal] + 1))


def _newton(
    rows: Floats,
    index: NDArray[np.intp],
    x: Floats,
    floor: float,
    blur: float,
    target: float,
) -> tuple[NDArray[np.intp], Floats, int]:
    """Primal-dual Newton (predictor and corrector) on the dual over the vectors `index`.

    Unknowns x > 0 and z = 1 - q(x) > 0 with x z -> 0; derivative of q in x is -HH'.  Vectors that provably carry no
    weight at the optimum are dropped on the way.
    """
    u = rows[index]
    above, below = np.triu_indices(u.shape[1])
    double = np.where(above == below, 1.0, 2.0)
    x = x + 0.1 * x.mean()
    s, basis = _spectrum(x, u)
    q = _quadratic(u, basis / np.sqrt(np.maximum(s, floor)))
    raise_by = (1.03 * float(q.max())) ** 2
    x = x * raise_by
    z = np.maximum(1 - q / np.sqrt(raise_by), 0.015)
    best = np.inf
    stalled = 0
    steps = 0
    solution = (index, x, z)
    for _ in range(MAX_NEWTON):
        s, basis = _spectrum(x, u)
        y = u @ basis
        squares = y * y
        sigma, slope = _softened(s, floor, blur)
        q = squares @ (1 / sigma)
        slack = 1 - q
        z = np.where(
            slack > 2 * z, slack, z
        )  # a step that overshot has more slack than Newton believed
        error = (
            float(x @ (z + np.abs(slack - z))) * float(x.sum()) / float(s.sum()) ** 2
        )
        error = max(error, -1e-2 * float(slack.min()))
        if error > best / 2:
            stalled = stalled + 1
        else:
            stalled = 0
        if error < best:
            best = error
            solution = (index, x, z)
        if error <= target or stalled > 8:
            break
        curvature = slope / (
            np.multiply.outer(sigma, sigma) * np.add.outer(sigma, sigma)
        )
        half = (
            y.take(above, axis=1)
            * y.take(below, axis=1)
            * np.sqrt(double * curvature[above, below])
        )
        dx, dz, centre = _newton_step(half, x, z, slack)
        steps += 1
        if blur < 1 and s.min() < 2 * floor:
            shorter = _overshoot(u, x, dx, q, floor, blur, centre)
            dx = shorter * dx
            dz = shorter * dz
        if error < 0.05 and x.size > 2 * u.shape[1]:
            keep = _unscreened(s, squares, float(x.sum()), floor)
            index = index[keep]
            u = u[keep]
            x = x[keep]
            z = z[keep]
            dx = dx[keep]
            dz = dz[keep]
        x = x + dx
        z = z + dz
    index, x, z = solution
    return index, np.where(z > 0.05, 0.0, x), steps


def _overshoot(
    u: Floats,
    x: Floats,
    dx: Floats,
    q: Floats,
    floor: float,
    blur: float,
    centre: float,
) -> float:
    """Part of the step after which the (concave) barrier function stops rising; only the floor makes this needed.

    Just above the floor q falls steeply and just below it not at all, so that plain Newton can jump to and fro.
    """
    start = float((q - 1 + centre / x) @ dx)
    lower = 0.0
    upper = 1.0
    part = 1.0
    for _ in range(40):
        trial = x + part * dx
        s, basis = _spectrum(trial, u)
        q = _quadratic(u, basis / np.sqrt(_softened(s, floor, blur)[0]))
        slope = float((q - 1 + centre / trial) @ dx)
        if start <= 0 or abs(slope) <= 0.5 * start or (slope > 0 and part == 1.0):
            break
        lower, upper = (part, upper) if slope > 0 else (lower, part)
        part = (lower + upper) / 2
    return part


def _unscreened(
    s: Floats, squares: Floats, total: float, floor: float
) -> NDArray[np.bool_]:
    """Vectors that may be active at the optimum; the others provably are not (docs/math/ellipsoid.md).

    Where the floor covers all of them none is, and one stays: the next full scan asks about those not among them.
    """
    ratio = (
        float(s.sum()) / total
    )  # the multiple ratio^2 of x has the largest dual value
    s = s * ratio
    variances = np.maximum(s, floor)
    q = squares @ (1 / variances)
    low = (
        float(np.where(s < floor, floor + s**2 / floor, 2 * s).sum()) - total * ratio**2
    )
    spread = max(float(variances.sum()) * max(float(q.max()), 1.0) - low, 0.0) / float(
        variances.min()
    )
    return np.asarray(
        q
        >= min(1 + spread / 2 - np.sqrt(spread + spread**2 / 4) - 1e-9, float(q.max()))
    )


def _newton_step(
    half: Floats, x: Floats, z: Floats, slack: Floats
) -> tuple[Floats, Floats, float]:
    """Mehrotra's step for z = slack = 1 - q(x), x z = 0, damped to stay inside, and the x z it aims at; `half` is H."""
    point = np.array([x, z])
    stiffness = z / x
    pull = 1 / np.sqrt(stiffness)
    scaled = half * pull[:, None]
    wide = scaled.shape[0] <= scaled.shape[1]
    if wide:
        system = scaled @ scaled.T
    else:
        system = scaled.T @ scaled
    diagonal = system.reshape(-1)[:: system.shape[0] + 1]  # a view
    diagonal += 1.0
    factor, info = scipy.linalg.lapack.dpotrf(system, lower=1)
    if info:
        # Only the direction is affected: the certificate never rests on this factorisation.
        diagonal *= 1 + 4 * system.shape[0] * UNIT_ROUNDOFF
        factor, info = scipy.linalg.lapack.dpotrf(system, lower=1)
    if info:
        raise NumericalError(
            "a Newton system of the covering ellipsoid is singular. Bring the vectors to one scale."
        )

    def solve(product: Floats | float) -> Floats:
        centred = product / x
        right = pull * (centred - slack)
        if wide:
            dx = pull * scipy.linalg.lapack.dpotrs(factor, right, lower=1)[0]
        else:
            dx = pull * (
                right
                - scaled
                @ scipy.linalg.lapack.dpotrs(factor, scaled.T @ right, lower=1)[0]
            )
        return np.array([dx, centred - z - stiffness * dx])

    def reach(move: Floats) -> float:
        return -1 / min(float((move / point).min()), -1e-300)

    mean = float(x @ z) / x.size
    move = solve(0.0)
    ahead = min(1.0, reach(move))
    there = point + ahead * move
    left = max(float(there[0] @ there[1]) / x.size / mean, 0.0)
    if left > 1e-3:
        move = solve(left**3 * mean - ahead**2 * move[0] * move[1])
    move *= min(1.0, max(0.995, min(1 - left, 0.99999)) * reach(move))
    return move[0], move[1], left**3 * mean
