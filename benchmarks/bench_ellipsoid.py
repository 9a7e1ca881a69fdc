"""Covering ellipsoid against CVXPY + Clarabel, in one process.

The peer solves the problem as it is stated, one Schur complement per vector.  A second peer row, without a goal, is
the same problem in the inverse P = S^-1 (N linear constraints and a single matrix inequality), the best form we know
for an SDP solver.  All times are CPU seconds of this process: the median of our runs, and for the peer
the best of three solves (one where a solve takes most of a minute).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

from gaussveil.calibration.ellipsoid import CoveringEllipsoid, covering_ellipsoid

GOAL_GAP = 1e-8


def mixture(count: int, dim: int, seed: int = 0, classes: int = 5) -> np.ndarray:
    """Rows of a Gaussian mixture: the shifts of a class sum when one record joins or leaves."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(classes, dim))
    factors = rng.normal(size=(classes, dim, dim))
    label = rng.integers(classes, size=count)
    return centres[label] + np.einsum("nij,nj->ni", factors[label], rng.normal(size=(count, dim)))


def schur_problem(vectors: np.ndarray) -> cp.Problem:
    dim = vectors.shape[1]
    covariance = cp.Variable((dim, dim), symmetric=True)
    one = np.ones((1, 1))
    constraints = [cp.bmat([[covariance, v[:, None]], [v[None, :], one]]) >> 0 for v in vectors]
    return cp.Problem(cp.Minimize(cp.trace(covariance)), constraints)


def inverse_problem(vectors: np.ndarray) -> cp.Problem:
    dim = vectors.shape[1]
    precision = cp.Variable((dim, dim), symmetric=True)
    inverse = cp.Variable((dim, dim), symmetric=True)
    above, below = np.triu_indices(dim)
    products = vectors[:, above] * vectors[:, below] * np.where(above == below, 1.0, 2.0)
    coupling = cp.bmat([[inverse, np.eye(dim)], [np.eye(dim), precision]]) >> 0
    return cp.Problem(cp.Minimize(cp.trace(inverse)), [products @ precision[above, below] <= 1, coupling])


def peer_times(
    build: Callable[[np.ndarray], cp.Problem], vectors: np.ndarray, repeats: int = 3
) -> tuple[float, float, float]:
    """Optimal trace, CPU seconds inside Clarabel, CPU seconds from the vectors to the answer."""
    unit = float(np.sqrt((vectors**2).sum(axis=1).mean()))
    start = time.process_time()
    problem = build(vectors / unit)
    data, chain, inverse_data = problem.get_problem_data(cp.CLARABEL, solver_opts={})
    compile_time = time.process_time() - start
    solve_times = []
    for _ in range(repeats):
        start = time.process_time()
        solution = chain.solve_via_data(problem, data)
        solve_times.append(time.process_time() - start)
    problem.unpack_results(solution, chain, inverse_data)
    return float(problem.value) * unit**2, min(solve_times), compile_time + min(solve_times)


def our_time(vectors: np.ndarray, repeats: int) -> tuple[CoveringEllipsoid, float]:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = covering_ellipsoid(vectors)
        times.append(time.process_time() - start)
    return result, statistics.median(times)


def row(
    name: str, ours: float, peer: float | None, goal: float | None, ratio: float | None, met: bool
) -> dict[str, Any]:
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met}


def run() -> list[dict[str, Any]]:
    rows = []
    our_time(mixture(50, 2), 3)  # imports and first calls
    for count, dim, goal in ((1000, 3, 200.0), (1409, 12, 1000.0)):
        vectors = mixture(count, dim)
        result, ours = our_time(vectors, 15)
        size = f"covering ellipsoid N={count} d={dim}"
        gap = result.relative_gap
        rows.append(row(f"{size}: certified relative gap", gap, None, GOAL_GAP, None, gap <= GOAL_GAP))
        trace, solve, total = peer_times(schur_problem, vectors, repeats=3 if dim == 3 else 1)
        agree = abs(trace / result.trace - 1) < 1e-5  # the peer's own tolerance
        ratio = solve / ours
        rows.append(row(f"{size}: s, Clarabel alone", ours, solve, goal, ratio, agree and ratio >= goal))
        ratio = total / ours
        rows.append(row(f"{size}: s, CVXPY and Clarabel", ours, total, goal, ratio, agree and ratio >= goal))
        trace, solve, total = peer_times(inverse_problem, vectors)
        agree = abs(trace / result.trace - 1) < 1e-5
        rows.append(row(f"{size}: s, Clarabel alone, inverse form", ours, solve, None, solve / ours, agree))
        rows.append(row(f"{size}: s, CVXPY and Clarabel, inverse form", ours, total, None, total / ours, agree))
    result, ours = our_time(mixture(100_000, 12), 1)
    met = ours <= 5.0 and result.relative_gap <= GOAL_GAP
    rows.append(row("covering ellipsoid N=100000 d=12: s", ours, None, 5.0, None, met))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
