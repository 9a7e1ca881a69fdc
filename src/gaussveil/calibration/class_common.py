"""Constant queries under one common covariance: a convex problem, and what is known of it in closed form.

With R the largest radius of the smallest balls around the means of each connected component, a budget of R^2 lets every
label release its component's centre: delta is 0. Small deltas come from releasing nearly the centre, and among noises
that shrink all means by one factor the best is known in closed form (derived: docs/math/class_noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gaussveil.calibration.class_convex import least_common_noise, solvable
from gaussveil.calibration.class_gradient import Edges, LabelModels, WorstShift
from gaussveil.calibration.class_search import (
    DRAWN_FLOOR,
    Noise,
    Shared,
    descend,
    measured,
)
from gaussveil.calibration.ellipsoid import covering_ellipsoid
from gaussveil.typing import Floats

BALL_STEPS = 2000
FLOOR = 1e-4  # smallest variance of the closed form against the mean one
LIFTED_FLOOR = DRAWN_FLOOR * (
    1 + 1e-9
)  # of the best noise: nothing is left to lift before it is drawn
SOLVED = 1e-3  # a proven gap above this is worth a look at the closed form
SHARPNESS = (40.0, 160.0, 640.0, 2500.0)  # where a graph is too large for the method


@dataclass(frozen=True, eq=False)
class Cover:
    """Centres that the labels can be drawn to, the largest distance to them, and the covariance of the differences."""

    centres: Floats
    radius: float
    gaps: Floats

    @classmethod
    def of(cls, models: LabelModels, edges: Edges) -> Cover:
        """Enclosing balls of the components, and the edges to cover."""
        count = len(models.means)
        joined = coo_array(
            (np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count)
        )
        _, component = connected_components(joined, directed=False)
        centres = np.empty_like(models.means)
        for number in np.unique(component):
            members = component == number
            centres[members] = enclosing_centre(models.means[members])
        radius = float(np.max(np.linalg.norm(models.means - centres, axis=1)))
        return cls(
            centres, radius, models.means[edges[:, 0]] - models.means[edges[:, 1]]
        )

    @cached_property
    def covariance(self) -> Floats:
        """The covering ellipsoid of the edges: the least noise of all that leaves the means where they are."""
        size = self.gaps.shape[1]
        largest = float(np.max(np.sum(self.gaps**2, axis=1)))
        if largest == 0:
            return np.eye(size)
        return covering_ellipsoid(
            self.gaps, relative_gap=1e-6, floor=FLOOR * largest / size
        ).covariance

    def shrunk(self, models: LabelModels, budget: float) -> Noise:
        """The best noise that draws all means to their centres by one factor (closed form)."""
        taken = min(budget / self.radius**2, 1.0)
        shifts = taken * (self.centres - models.means)
        left = budget - (taken * self.radius) ** 2
        return Noise(shifts, self.spread(len(shifts), left), np.inf)

    def reaching(self, models: LabelModels, square: float, means: bool) -> Noise:
        """The cheapest such noise, or without `means` of any, with worst squared Mahalanobis distance `square`."""
        trace = float(np.trace(self.covariance))
        if not means:
            return Noise(
                0 * models.means, self.spread(len(models.means), trace / square), np.inf
            )
        return self.shrunk(models, 1 / (square / trace + 1 / self.radius**2))

    def spread(self, count: int, trace: float) -> Floats:
        """The covering covariance with a given trace, once per label."""
        one = self.covariance * (trace / np.trace(self.covariance))
        return np.array(np.broadcast_to(one, (count, *one.shape)))


def enclosing_centre(points: Floats) -> Floats:
    """Centre of the smallest ball around points (rows), by Frank-Wolfe with exact steps on its dual.

    Welzl's method is exact but slow beyond a few dimensions; any centre is sound, its radius is measured.
    """
    weights = np.full(len(points), 1 / len(points))
    best = points.mean(axis=0)
    radius = np.inf
    for _ in range(BALL_STEPS):
        centre = weights @ points
        squares = np.sum((points - centre) ** 2, axis=1)
        far = int(np.argmax(squares))
        if squares[far] < radius:
            best = centre
            radius = float(squares[far])
        held = weights > 0
        near = int(np.flatnonzero(held)[np.argmin(squares[held])])
        # move weight from the nearest supported point to the farthest (pairwise steps converge geometrically)
        direction = points[far] - points[near]
        length = float(direction @ direction)
        gain = squares[far] - squares[near]
        if length == 0 or gain <= 1e-13 * radius:
            break
        step = min(gain / (2 * length), weights[near])
        weights[far] += step
        weights[near] -= step
    return np.asarray(best)


def common_noise(
    models: LabelModels, edges: Edges, cover: Cover, budget: float, means: bool
) -> Noise:
    """One covariance, and shifts if `means`, with the smallest worst Mahalanobis distance; `figure`: log square."""
    objective = WorstShift(models, edges)
    if not means:
        # the covering ellipsoid is the exact answer
        return measured(
            objective,
            Noise(0 * models.means, cover.spread(len(models.means), budget), np.inf),
        )
    if not solvable(models, edges):
        start = measured(objective, cover.shrunk(models, budget))
        shape = partial(Shared.around, budget=budget, means=True)
        return descend(
            objective,
            start,
            shape,
            sharpness=SHARPNESS,
            iterations=200,
            far_enough=-np.inf,
        )
    found = least_common_noise(
        models, edges, cover.centres, LIFTED_FLOOR, budget=budget
    )
    if found.gap is not None and found.gap <= SOLVED:
        return found
    return min(
        found,
        measured(objective, cover.shrunk(models, budget)),
        key=lambda noise: noise.figure,
    )


def cheapest_common_noise(
    models: LabelModels, edges: Edges, cover: Cover, square: float
) -> Noise:
    """One covariance and shifts of the smallest cost at a worst squared Mahalanobis distance; `figure`: its log."""
    if not solvable(models, edges):
        return cover.reaching(models, square, True)
    found = least_common_noise(
        models, edges, cover.centres, LIFTED_FLOOR, square=square
    )
    if found.gap is not None and found.gap <= SOLVED:
        return found
    return min(
        found, cover.reaching(models, square, True), key=lambda noise: noise.cost
    )
