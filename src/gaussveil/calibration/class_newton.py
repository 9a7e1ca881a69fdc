"""Newton's method on a problem over cones: the weight of the logarithms falls to zero, the point stays inside.

Primal and dual at once, along Helmberg, Rendl, Vanderbei and Wolkowicz, Kojima, Shindoh and Hara, and Monteiro's
direction, with Mehrotra's corrector. The centres of the labels are eliminated first, by one Cholesky factor of a
Laplacian; what is left is one small system for the covariance and the goal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gaussveil.calibration.class_cones import Bound, ConeProblem, Cones, Point
from gaussveil.typing import Floats

STEPS = 80
CAUTION = 0.9  # of the way to a cone's edge, more where both steps are long anyway
STALLED = 0.1  # a predictor that gets no further than this asks for centring
CENTRED = 0.5
LEAST_WEIGHT = 1e-6  # of the logarithms, against the last one
RIDGES = (
    0.0,
    1e-14,
    1e-12,
    1e-10,
)  # of the diagonal, where rounding took positive definiteness
SINGULAR = 1e-15


class Solution(NamedTuple):
    """The best feasible point and bound so far, and where the search stands."""

    point: Point
    bound: Bound
    latest: Point
    multipliers: Cones

    @property
    def gap(self) -> float:
        """How far the point is above the bound, relatively."""
        if self.bound.least > 0:
            return self.point.goal / self.bound.least - 1
        return np.inf


def solve(
    problem: ConeProblem, tolerance: float, begin: Solution | None = None
) -> Solution:
    """A point inside all cones with a gap of at most `tolerance`, or the smallest gap that doubles reach; `begin` is
    an earlier solution of the same problem to go on from.
    """
    if begin is None:
        solution = _begun(problem)
    else:
        solution = begin
    for _ in range(STEPS):
        if solution.gap <= tolerance:
            break
        try:
            latest, multipliers = _step(problem, solution.latest, solution.multipliers)
            bound = problem.bound(multipliers)
        except (LinAlgError, ValueError):
            break  # rounding has eaten a cone: the best so far is feasible, and its bound holds
        if not np.isfinite(latest.goal):
            break
        solution = Solution(
            min(solution.point, latest, key=lambda each: each.goal),
            max(solution.bound, bound, key=lambda each: each.least),
            latest,
            multipliers,
        )
    return solution


def _begun(problem: ConeProblem) -> Solution:
    point = problem.start()
    inverse = problem.cones(point).inverse()
    weight = 1 / problem.pull(inverse).goal
    multipliers = Cones(*(weight * part for part in inverse))
    return Solution(point, problem.bound(multipliers), point, multipliers)


def _step(
    problem: ConeProblem, point: Point, multipliers: Cones
) -> tuple[Point, Cones]:
    """One predictor and one corrected step, each as long as the cones allow."""
    inside = problem.cones(point)
    newton = _Newton(problem, inside.inverse(), multipliers)
    weight = inside.dot(multipliers) / problem.order
    _, moved, turned = newton.direction(0.0, None)
    ahead = inside.room(moved)
    lifted = multipliers.room(turned)
    left = (
        inside.plus(ahead, moved).dot(multipliers.plus(lifted, turned)) / problem.order
    )
    if min(ahead, lifted) < STALLED:
        share = CENTRED
    else:
        share = max(min(1.0, left / weight) ** 3, LEAST_WEIGHT)
    corrector = Cones(
        *(_symmetric(w @ d @ z) for w, d, z in zip(newton.inverse, moved, turned))
    )
    step, moved, turned = newton.direction(share * weight, corrector)
    caution = CAUTION + (0.99 - CAUTION) * min(ahead, lifted)
    ahead = caution * inside.room(moved)
    lifted = caution * multipliers.room(turned)
    moved_point = Point(
        point.centres + ahead * step.centres,
        point.spread + ahead * step.spread,
        point.goal + ahead * step.goal,
    )
    return moved_point, multipliers.plus(lifted, turned)


class _Newton:
    """The linear system of one step: centres eliminated by Cholesky, then covariance and goal."""

    def __init__(
        self, problem: ConeProblem, inverse: Cones, multipliers: Cones
    ) -> None:
        self.problem = problem
        self.inverse = inverse
        self.multipliers = multipliers
        size = problem.means.shape[1]
        self._upper = np.triu_indices(size)
        self._twice = np.where(self._upper[0] == self._upper[1], 1.0, 2.0)
        self._centres = self._of_centres()
        self._across = self._of_centres_and_rest()
        self._rest = self._of_rest()
        self._factor = _factored(self._centres)
        self._carried = cho_solve(self._factor, self._across, check_finite=False)
        self._scale = 1 / np.sqrt(np.diagonal(self._rest))
        left = _symmetric(self._rest - self._across.T @ self._carried) * np.outer(
            self._scale, self._scale
        )
        values, self._axes = np.linalg.eigh(left)
        self._values = np.maximum(values, SINGULAR * values[-1])

    def direction(
        self, weight: float, corrector: Cones | None
    ) -> tuple[Point, Cones, Cones]:
        """The step towards the point where constraint times multiplier is `weight`, and how both move."""
        aims = [
            weight * inverse - held
            for inverse, held in zip(self.inverse, self.multipliers)
        ]
        if corrector is not None:
            aims = [aim - part for aim, part in zip(aims, corrector)]
        slopes = self.problem.pull(self.multipliers.plus(1.0, Cones(*aims)))
        ends = (
            slopes.centres.ravel(),
            np.append(slopes.spread[self._upper] * self._twice, slopes.goal - 1),
        )
        centres, rest = self._solved(*ends)
        # one round of refinement: near the end the system is nearly singular
        more = self._solved(
            ends[0] - self._centres @ centres - self._across @ rest,
            ends[1] - self._across.T @ centres - self._rest @ rest,
        )
        centres = centres + more[0]
        rest = rest + more[1]
        spread = np.zeros((self.problem.means.shape[1],) * 2)
        spread[self._upper] = rest[:-1]
        spread = spread + np.triu(spread, 1).T
        step = Point(centres.reshape(self.problem.means.shape), spread, float(rest[-1]))
        moved = self.problem.moved(step)
        turned = Cones(
            *(
                aim - _symmetric(w @ d @ z)
                for aim, w, d, z in zip(aims, self.inverse, moved, self.multipliers)
            )
        )
        return step, moved, turned

    def _solved(self, centres: Floats, rest: Floats) -> tuple[Floats, Floats]:
        reduced = self._scale * (rest - self._carried.T @ centres)
        solution = self._scale * (
            self._axes @ ((self._axes.T @ reduced) / self._values)
        )
        return cho_solve(
            self._factor, centres, check_finite=False
        ) - self._carried @ solution, solution

    def _of_centres(self) -> Floats:
        """The system's block of the centres: a Laplacian of the pairs' blocks and the labels' own."""
        count, size = self.problem.means.shape
        first, second = self.problem.pairs.T
        edges, own = (
            _of_borders(w, z) for w, z in zip(self.inverse[:2], self.multipliers[:2])
        )
        system = np.zeros((count, size, count, size))
        system[first, :, second, :] = -edges
        system[second, :, first, :] = -edges
        rows = np.arange(count)
        touching = np.abs(self.problem.incidence) @ edges.reshape(len(edges), -1)
        system[rows, :, rows, :] = own + touching.reshape(count, size, size)
        return system.reshape(count * size, count * size)

    def _of_centres_and_rest(self) -> Floats:
        """The block between the centres and (covariance, goal)."""
        count, size = self.problem.means.shape
        rows, columns = self._upper
        w = self.inverse.pairs
        z = self.multipliers.pairs
        mixed = (
            w[:, :size, size][:, None, :, None] * z[:, :size, :size][:, :, None, :]
            + w[:, :size, :size][:, :, :, None] * z[:, :size, size][:, None, None, :]
        )
        mixed = (mixed[:, :, rows, columns] + mixed[:, :, columns, rows]) * (
            self._twice / 2
        )
        block = np.zeros((count, size, len(rows) + 1))
        block[:, :, :-1] = (self.problem.incidence @ mixed.reshape(len(w), -1)).reshape(
            count, size, -1
        )
        labels = _of_corner(self.inverse.labels, self.multipliers.labels)
        block[:, :, :-1] -= labels[:, :, None] * (rows == columns)
        if self.problem.budget is None:
            block[:, :, -1] = labels
        else:
            block[:, :, -1] = self.problem.incidence @ _of_corner(w, z)
        return block.reshape(count * size, -1)

    def _of_rest(self) -> Floats:
        """The block of (covariance, goal)."""
        size = self.problem.means.shape[1]
        many = len(self._twice)
        diagonal = np.where(self._upper[0] == self._upper[1], 1.0, 0.0)
        w = self.inverse.pairs
        z = self.multipliers.pairs
        labels = float(
            self.inverse.labels[:, size, size] @ self.multipliers.labels[:, size, size]
        )
        system = np.zeros((many + 1, many + 1))
        products = w[:, :size, :size].reshape(len(w), -1).T @ z[
            :, :size, :size
        ].reshape(len(z), -1)
        system[:many, :many] = self._of_spread(products) + labels * np.outer(
            diagonal, diagonal
        )
        lifted = np.eye(many) - self.problem.floor / size * np.outer(diagonal, diagonal)
        floor = np.outer(self.inverse.floor, self.multipliers.floor)
        system[:many, :many] += lifted.T @ self._of_spread(floor) @ lifted
        if self.problem.budget is None:
            system[:many, many] = -labels * diagonal
            system[many, many] = labels
        else:
            crossed = _symmetric(z[:, :size, size].T @ w[:, :size, size])
            system[:many, many] = crossed[self._upper] * self._twice
            system[many, many] = float(w[:, size, size] @ z[:, size, size])
        system[many, :many] = system[:many, many]
        return system

    def _of_spread(self, products: Floats) -> Floats:
        """tr(U W V Z) summed over pairs W, Z, for U and V over the entries of a symmetric matrix."""
        size = self.problem.means.shape[1]
        rows, columns = self._upper
        turned = products.reshape(size, size, size, size).transpose(3, 0, 1, 2)
        turned = turned + turned.transpose(1, 0, 2, 3)
        turned = (turned + turned.transpose(0, 1, 3, 2)) / 4
        return _symmetric(
            turned[rows, columns][:, rows, columns] * np.outer(self._twice, self._twice)
        )


def _of_borders(inverse: Floats, multipliers: Floats) -> Floats:
    """tr(U W V Z) for U and V over the borders (last columns and rows) of the matrices."""
    size = inverse.shape[-1] - 1
    w = inverse[:, :size, size]
    z = multipliers[:, :size, size]
    block = inverse[:, size, size][:, None, None] * multipliers[:, :size, :size]
    block = block + multipliers[:, size, size][:, None, None] * inverse[:, :size, :size]
    return _symmetric(
        block + w[:, :, None] * z[:, None, :] + z[:, :, None] * w[:, None, :]
    )


def _of_corner(inverse: Floats, multipliers: Floats) -> Floats:
    """tr(U W V Z) for U over the borders and V the corner."""
    size = inverse.shape[-1] - 1
    first = inverse[:, :size, size] * multipliers[:, size, size][:, None]
    return np.asarray(
        first + inverse[:, size, size][:, None] * multipliers[:, :size, size]
    )


def _factored(system: Floats) -> tuple[Floats, bool]:
    for ridge in RIDGES:
        try:
            factor, lower = cho_factor(
                system + ridge * np.diag(np.diagonal(system)),
                lower=True,
                check_finite=False,
            )
        except LinAlgError:
            continue
        return np.asarray(factor), bool(lower)
    raise LinAlgError("the system of a Newton step is not positive definite")


def _symmetric(matrices: Floats) -> Floats:
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)
