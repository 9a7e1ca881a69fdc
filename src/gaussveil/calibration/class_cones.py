"""Constant queries under one covariance, on few labels and pairs: a linear problem over cones, and its lower bound.

With centres c_i, one covariance N and Schur complements both kinds of constraint are linear in the unknowns:

    |c_i - mu_i|^2 + tr N <= B                 [[I, c_i - mu_i], [., B - tr N]] >= 0    one per label
    (c_i - c_j)' N^-1 (c_i - c_j) <= t         [[N, c_i - c_j], [., t]] >= 0            one per pair
    N >= floor tr(N) / k I

with B or t given and the other one minimised. Any multipliers give a lower bound in closed form (derived:
docs/math/class_noise), so what is said of a gap does not rest on how a point was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gaussveil.spectrum.turns import turn
from gaussveil.typing import Floats

NEARLY = 0.03  # of a step's length, how well it is known
MOST_HALVES = 30  # a step of which less than 1e-9 fits is stuck
POSITIVE_SUM_ROUNDING = 1e-13  # relative, of sums of terms of one sign


class Point(NamedTuple):
    """Centres, one row per label, the covariance, and what is minimised."""

    centres: Floats
    spread: Floats
    goal: float


class Cones(NamedTuple):
    """Symmetric matrices, one per pair, one per label and one for the floor: constraints, multipliers or steps."""

    pairs: Floats
    labels: Floats
    floor: Floats

    def dot(self, other: Cones) -> float:
        """Sum of all products of entries."""
        return float(sum(np.sum(mine * yours) for mine, yours in zip(self, other)))

    def inverse(self) -> Cones:
        """The inverse of every matrix."""
        return Cones(*(np.asarray(np.linalg.inv(part)) for part in self))

    def plus(self, share: float, other: Cones) -> Cones:
        """self + share * other."""
        return Cones(*(mine + share * yours for mine, yours in zip(self, other)))

    def definite(self) -> bool:
        """Whether every matrix is positive definite."""
        try:
            for part in self:
                np.linalg.cholesky(part)
        except np.linalg.LinAlgError:
            return False
        return True

    def room(self, step: Cones) -> float:
        """How much of the step fits, at most 1 and up to NEARLY of it, while every matrix is positive definite."""
        if self.plus(1.0, step).definite():
            return 1.0

        def leaves(share: float) -> bool:
            return not self.plus(share, step).definite()

        return turn(leaves, 0.0, 1.0, rtol=NEARLY, looks=MOST_HALVES).before


class Bound(NamedTuple):
    """What no noise can undercut, and the multipliers that prove it: weights of the pairs, forces on the labels."""

    least: float
    weights: Floats
    forces: Floats


@dataclass(frozen=True, eq=False)
class ConeProblem:
    """Labels' means, pairs of them, and the budget or the squared distance that is given; the other is minimised."""

    means: Floats
    pairs: NDArray[np.intp]
    floor: float
    budget: float | None = None
    square: float | None = None

    @cached_property
    def incidence(self) -> csr_array:
        """1 where a pair begins at a label, -1 where it ends there."""
        count = len(self.pairs)
        columns = np.arange(len(self.pairs))
        entries = np.concatenate([np.ones(count), -np.ones(count)])
        places = (self.pairs.T.ravel(), np.concatenate([columns, columns]))
        return csr_array((entries, places), shape=(len(self.means), count))

    @cached_property
    def order(self) -> int:
        """Sum of the orders of all cones."""
        size = int(self.means.shape[1])
        return (len(self.pairs) + len(self.means)) * (size + 1) + size

    def start(self) -> Point:
        """Means drawn together by one factor, and noise in the shape of the root of their second moments."""
        count, size = self.means.shape
        values, axes = np.linalg.eigh(self.means.T @ self.means / count)
        root = np.sqrt(np.maximum(values, 1e-6 * values[-1]))
        shape = 0.9 * (axes * (root / root.sum())) @ axes.T + 0.1 / size * np.eye(size)
        gaps = self.gaps(self.means)
        trace = float(np.max(np.sum(gaps * np.linalg.solve(shape, gaps.T).T, axis=1)))
        radius = float(np.max(np.sum(self.means**2, axis=1)))
        if self.square is not None:
            kept = self.square / trace / (self.square / trace + 1 / radius)
            spread = 1.5 * kept**2 * trace / self.square
            return Point(
                kept * self.means,
                spread * shape,
                1.3 * ((1 - kept) ** 2 * radius + spread),
            )
        budget = self._given()
        taken = 0.9 * budget / radius
        spread = 0.7 * (budget - taken**2 * radius)
        kept = 1 - taken
        return Point(kept * self.means, spread * shape, 1.5 * kept**2 * trace / spread)

    def gaps(self, centres: Floats) -> Floats:
        """Differences of the pairs."""
        return centres[self.pairs[:, 0]] - centres[self.pairs[:, 1]]

    def cones(self, point: Point) -> Cones:
        """The constraints' matrices at a point."""
        size = self.means.shape[1]
        budget, square = (
            (point.goal, self.square)
            if self.budget is None
            else (self.budget, point.goal)
        )
        pairs = _bordered(self.gaps(point.centres), square)
        pairs[:, :size, :size] = point.spread
        labels = _bordered(point.centres - self.means, budget - np.trace(point.spread))
        labels[:, :size, :size] = np.eye(size)
        return Cones(pairs, labels, self._above_floor(point.spread))

    def moved(self, step: Point) -> Cones:
        """How the constraints' matrices move with a step."""
        size = self.means.shape[1]
        budget, square = (step.goal, 0.0) if self.budget is None else (0.0, step.goal)
        pairs = _bordered(self.gaps(step.centres), square)
        pairs[:, :size, :size] = step.spread
        labels = _bordered(step.centres, budget - np.trace(step.spread))
        return Cones(pairs, labels, self._above_floor(step.spread))

    def pull(self, multipliers: Cones) -> Point:
        """The adjoint of `moved`: slopes in centres, covariance and goal of the product with multipliers."""
        size = self.means.shape[1]
        edges, labels, floor = multipliers
        centres = (
            2 * (self.incidence @ edges[:, :size, size]) + 2 * labels[:, :size, size]
        )
        lost = np.sum(labels[:, size, size]) + self.floor / size * np.trace(floor)
        spread = np.sum(edges[:, :size, :size], axis=0) + floor - lost * np.eye(size)
        if self.budget is None:
            tied = labels
        else:
            tied = edges
        return Point(centres, spread, float(np.sum(tied[:, size, size])))

    def bound(self, multipliers: Cones) -> Bound:
        """A lower bound on the goal from multipliers, none of which has to be optimal; roundings count against it."""
        size = self.means.shape[1]
        weights = multipliers.pairs[:, size, size]
        flows = -multipliers.pairs[:, :size, size]
        forces = self.incidence @ flows
        along = float(np.sum(forces * self.means))
        along -= POSITIVE_SUM_ROUNDING * float(
            np.sum(np.abs(self.incidence) @ np.abs(flows) * np.abs(self.means))
        )
        second = (flows / weights[:, None]).T @ flows
        norm = (1 - self.floor) * float(
            np.linalg.eigvalsh(second)[-1]
        ) + self.floor / size * float(np.trace(second))
        cost = float(np.sum(weights)) * norm * (1 + POSITIVE_SUM_ROUNDING)
        drawn = float(np.sum(np.sqrt(np.sum(forces**2, axis=1)))) ** 2 * (
            1 + POSITIVE_SUM_ROUNDING
        )
        if self.square is not None:
            least = max(along, 0.0) ** 2 / (drawn + self.square * cost)
        else:
            least = (max(along, 0.0) ** 2 / self._given() - drawn) / cost
        return Bound(least * (1 - POSITIVE_SUM_ROUNDING), weights, np.asarray(forces))

    def _given(self) -> float:
        assert self.budget is not None
        return self.budget

    def _above_floor(self, spread: Floats) -> Floats:
        size = len(spread)
        return spread - self.floor * float(np.trace(spread)) / size * np.eye(size)


def _bordered(columns: Floats, corner: float | None) -> Floats:
    """Matrices with the given last columns and rows, and one corner; zero elsewhere."""
    count, size = columns.shape
    matrices = np.zeros((count, size + 1, size + 1))
    matrices[:, :size, size] = columns
    matrices[:, size, :size] = columns
    matrices[:, size, size] = corner
    return matrices
