"""The best common covariance and shifts for constant queries, to a proven gap, whatever the number of labels.

At the optimum few labels are held by their budget and few pairs by their distance; the others are in nobody's way. So a
small problem (`class_cones`) is solved on some labels and pairs, and whoever turns out to be in the way joins it. Its
lower bound holds for the whole problem, which has more constraints. In a complete graph a label outside it is put
where the convex hull of the centres inside it is nearest to its own mean: nothing in a hull is further apart than its
corners, so no pair of such labels has to be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gaussveil.calibration.class_cones import ConeProblem, Point
from gaussveil.calibration.class_gradient import Edges, LabelModels
from gaussveil.calibration.class_newton import solve
from gaussveil.calibration.class_search import Noise
from gaussveil.typing import Floats

GAP = 3e-7  # relative, of what is minimised, that is asked of the whole
SOLVED = GAP / 3  # and of the small problems
ROUGH = 3e-3  # of the first ones, while labels still join
ROUNDS = 60
SEEDS = 12  # labels that the first problem holds
JOINING = (
    10  # labels that may join it in a round; half of those it holds where that is more
)
PAIRED = 20  # labels up to which every pair is held; beyond, the longest of each
LONGEST = 8  # pairs of a label that it enters with, and of late ones, for each label
PLACINGS = 400  # steps towards the hull
SETTLED = 1e-9  # of the weights: steps that change less end it
AT_ONCE = 1 << 16  # edges whose distances are held at a time
MOST_UNKNOWNS = 4800  # centres' coordinates of a small problem: a step costs their cube


Places = NDArray[np.intp]


class _Whole(NamedTuple):
    """Centres of all labels, the covariance, and what of the goal they reach; feasible."""

    centres: Floats
    spread: Floats
    goal: float


def solvable(models: LabelModels, edges: Edges) -> bool:
    """Whether the method can hold the problem: any complete graph, others of some hundred labels."""
    return _complete(models, edges) or models.means.size <= MOST_UNKNOWNS


def least_common_noise(
    models: LabelModels,
    edges: Edges,
    anchors: Floats,
    floor: float,
    *,
    budget: float | None = None,
    square: float | None = None,
) -> Noise:
    """One covariance, at least `floor` of its mean variance in every direction, and shifts, by one question of two.

    With `budget`: the smallest worst squared Mahalanobis distance of an edge's centres. With `square`: the smallest
    budget that keeps it. `gap` of the answer says how far above the least it is at most, relatively; `figure` is the
    log of its worst squared distance.

    Args:
        anchors: one row per label, the same for labels of one component; near the centre of their means.
    """
    own = models.means - anchors
    unit = float(np.max(np.sum(own**2, axis=1)))
    asked = _Asked(
        own / np.sqrt(unit),
        edges,
        _complete(models, edges),
        floor,
        None if budget is None else budget / unit,
        square,
    )
    whole, least = asked.answer()
    centres = np.sqrt(unit) * whole.centres
    spreads = np.broadcast_to(unit * whole.spread, (len(own), *whole.spread.shape))
    if square is None:
        distance = whole.goal
    else:
        distance = asked.worst_square(whole.centres, whole.spread)
    if least > 0:
        gap = whole.goal / least - 1
    else:
        gap = np.inf
    return Noise(
        centres - own, np.array(spreads), float(np.log(distance)), max(gap, 0.0)
    )


def _complete(models: LabelModels, edges: Edges) -> bool:
    count = len(models.means)
    return len(edges) == count * (count - 1) // 2


@dataclass(frozen=True, eq=False)
class _Asked:
    """The whole problem, in units of its largest mean."""

    means: Floats
    edges: Edges
    complete: bool
    floor: float
    budget: float | None
    square: float | None

    def answer(self) -> tuple[_Whole, float]:
        """The best feasible noise and the largest lower bound."""
        labels = self._seeds()
        pairs = self._entering(self.means, np.eye(self.means.shape[1]), labels, 0)
        best: _Whole | None = None
        least = -np.inf
        tolerance = ROUGH
        problem = self._small(labels, pairs)
        solution = None
        for _ in range(ROUNDS):
            solution = solve(problem, tolerance, solution)
            point = solution.point
            least = max(least, solution.bound.least)
            outside = np.setdiff1d(np.arange(len(self.means)), labels)
            centres = np.empty_like(self.means)
            centres[labels] = point.centres
            centres[outside] = nearest_in_hull(point.centres, self.means[outside])
            whole = self._feasible(centres, point, labels)
            if best is None or whole.goal < best.goal:
                best = whole
            if best.goal - least <= GAP * least:
                break
            joining = self._in_the_way(centres, point, outside)
            late = self._late(point, labels, pairs)
            if len(joining) or len(late):
                held = len(labels)
                labels = np.concatenate([labels, joining])
                pairs = np.concatenate(
                    [pairs, late, self._entering(centres, point.spread, labels, held)]
                )
                problem = self._small(labels, pairs)
                solution = None
            elif tolerance == SOLVED:
                break
            else:
                tolerance = SOLVED
        assert best is not None
        return best, least

    def worst_square(self, centres: Floats, spread: Floats) -> float:
        """Largest squared Mahalanobis distance of an edge's centres."""
        return float(np.max(_squares(centres, self.edges, spread)))

    def _small(self, labels: Places, pairs: Edges) -> ConeProblem:
        return ConeProblem(
            self.means[labels], pairs, self.floor, self.budget, self.square
        )

    def _seeds(self) -> Places:
        """The label farthest from its anchor, then whichever is farthest from those before; all in other graphs."""
        if not self.complete:
            return np.arange(len(self.means), dtype=np.intp)
        chosen = [int(np.argmax(np.sum(self.means**2, axis=1)))]
        nearest = np.full(len(self.means), np.inf)
        while len(chosen) < min(SEEDS, len(self.means)):
            nearest = np.minimum(
                nearest, np.sum((self.means - self.means[chosen[-1]]) ** 2, axis=1)
            )
            chosen.append(int(np.argmax(nearest)))
        return np.array(chosen)

    def _edges_among(self, labels: Places) -> Edges:
        """Edges as places in `labels`."""
        if self.complete:
            return np.column_stack(np.triu_indices(len(labels), 1))
        return self.edges

    def _entering(
        self, centres: Floats, spread: Floats, labels: Places, held: int
    ) -> Edges:
        """Pairs of the labels from the place `held` on: all where labels are few, else the longest of each."""
        edges = self._edges_among(labels)
        edges = np.asarray(edges[np.max(edges, axis=1) >= held])
        if len(labels) <= PAIRED:
            return edges
        squares = _squares(centres[labels], edges, spread)
        chosen: set[int] = set()
        for place in range(held, len(labels)):
            mine = np.flatnonzero((edges[:, 0] == place) | (edges[:, 1] == place))
            chosen.update(mine[np.argsort(squares[mine])[-LONGEST:]].tolist())
        return np.asarray(edges[sorted(chosen)])

    def _late(self, point: Point, labels: Places, pairs: Edges) -> Edges:
        """Edges among the labels that are longer than the pairs looked at may be, the longest first."""
        edges = self._edges_among(labels)
        count = len(labels)
        edges = edges[~np.isin(edges @ [count, 1], pairs @ [count, 1])]
        if not len(edges):
            return edges
        squares = _squares(point.centres, edges, point.spread)
        if self.square is None:
            limit = point.goal
        else:
            limit = self.square
        order = np.argsort(-squares)[: LONGEST * count]
        return np.asarray(edges[order[squares[order] > (1 + SOLVED) * limit]])

    def _in_the_way(self, centres: Floats, point: Point, outside: Places) -> Places:
        """Labels that cannot afford the hull, those that lack most first."""
        if self.budget is None:
            budget = point.goal
        else:
            budget = self.budget
        costs = np.sum(
            (centres[outside] - self.means[outside]) ** 2, axis=1
        ) + np.trace(point.spread)
        many = max(JOINING, (len(self.means) - len(outside)) // 2)
        order = np.argsort(-costs)[:many]
        return np.asarray(outside[order[costs[order] > (1 + SOLVED) * budget]])

    def _feasible(self, centres: Floats, point: Point, labels: Places) -> _Whole:
        """The centres with a covariance that makes up for labels and pairs that the small problem did not hold."""
        longest = float(
            np.max(_squares(point.centres, self._edges_among(labels), point.spread))
        )
        drawn = float(np.max(np.sum((centres - self.means) ** 2, axis=1)))
        trace = float(np.trace(point.spread))
        if self.square is not None:
            spread = point.spread * max(1.0, longest / self.square)
            return _Whole(centres, spread, drawn + float(np.trace(spread)))
        left = (self.budget or 0.0) - drawn
        if left <= 0:
            return _Whole(centres, point.spread, np.inf)
        return _Whole(centres, point.spread * (left / trace), longest * trace / left)


def nearest_in_hull(corners: Floats, targets: Floats) -> Floats:
    """For every target (row) a point of the corners' convex hull near it: accelerated projected gradients.

    Any answer is in the hull, to rounding; how near it is to the nearest point bears on cost alone.
    """
    if not len(targets):
        return np.array(targets)
    middle = corners.mean(axis=0)
    corners = corners - middle
    targets = targets - middle
    gram = corners @ corners.T
    wanted = targets @ corners.T
    step = 1 / max(float(np.linalg.eigvalsh(gram)[-1]), np.finfo(float).tiny)
    weights = np.full((len(targets), len(corners)), 1 / len(corners))
    ahead = weights
    speed = 1.0
    for _ in range(PLACINGS):
        moved = _on_simplex(ahead - step * (ahead @ gram - wanted))
        change = moved - weights
        if float(np.max(np.abs(change))) < SETTLED:
            weights = moved
            break
        # where momentum points uphill it is dropped, row by row
        uphill = np.sum((ahead - moved) * change, axis=1, keepdims=True) > 0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = moved + np.where(uphill, 0.0, (speed - 1) / faster) * change
        weights = moved
        speed = faster
    return np.asarray(weights @ corners + middle)


def _on_simplex(rows: Floats) -> Floats:
    """The nearest points with entries at least 0 that sum to 1."""
    falling = -np.sort(-rows, axis=1)
    excess = np.cumsum(falling, axis=1) - 1
    count = np.arange(1, rows.shape[1] + 1)
    last = np.sum(falling * count > excess, axis=1) - 1
    level = excess[np.arange(len(rows)), last] / (last + 1)
    moved = np.maximum(rows - level[:, None], 0.0)
    return np.asarray(moved / np.sum(moved, axis=1, keepdims=True))


def _squares(centres: Floats, edges: Edges, spread: Floats) -> Floats:
    """Squared Mahalanobis distances of the edges' centres."""
    widths, axes = np.linalg.eigh(spread)
    whitened = centres @ axes / np.sqrt(widths)
    squares = np.empty(len(edges))
    for begin in range(0, len(edges), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        squares[part] = np.sum(
            (whitened[edges[part, 0]] - whitened[edges[part, 1]]) ** 2, axis=1
        )
    return squares
