"""Columns that are one quantity at successive times: neighbours are linked by scores and by values, others by scores.

Normal scores of two neighbours hang together as two numbers say: their correlation, and that of their values, to which
the few largest ones add most. Of all laws with both the one nearest to correlated normal scores (exponential tilting)
is taken. Rows are drawn column after column (a D-vine, Bedford and Cooke 2002): neighbours by their links, columns
farther apart by the partial correlations of what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.typing import Floats, Integers

EVEN = 16
HALVES = 6  # of the outermost even cells, towards either end
POINTS = 8  # of a cell, at which values are looked up
REACH = 8.0  # deviations beyond which values are moved
WEIGHT = 0.2  # of squares beside departures
TOWARDS_ONE = 0.3
LARGEST_ANCHOR = 0.95
LEAST_VARIANCE = 0.1
LARGEST = 0.995
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
STEPS = 25
LONGEST_STEP = 3.0  # logarithm by which one step may tilt
STEEPEST = 30.0  # logarithm by which all steps may
CLOSE = 1e-4  # of a mean product, at which the steps end
PROJECTIONS = 15
RAKES = 30
RIDGE = 1e-6
LEAST = 1e-15
FARTHEST = 6.0  # score
LEAST_CHANCE = 1e-12


def _edges() -> Floats:
    even = np.arange(1, EVEN) / EVEN
    halves = 0.5 ** np.arange(1, HALVES + 1) / EVEN
    return np.sort(np.concatenate([[0.0, 1.0], even, halves, 1 - halves]))


EDGES = _edges()
"""Of the cells of a score, as shares below them: even ones, and halves towards both ends."""
WIDTHS = np.diff(EDGES)
LIMITS = np.asarray(ndtri(EDGES))
CELLS = len(WIDTHS)


def mean_scores() -> Floats:
    """Mean normal score of every cell."""
    density = np.exp(-np.minimum(LIMITS**2, 1400.0) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(-np.diff(density) / WIDTHS)


@dataclass(frozen=True, eq=False)
class ValueSignals:
    """Values of a column in deviations from their mean, as its released law has both by class, no farther than REACH.

    Example: `ValueSignals.of(marginal).cells` has one number for every class and cell of a score.
    """

    means: Floats
    spreads: Floats
    cells: Floats
    """Of the cells of a score, with mean 0 and variance 1: K x CELLS."""

    @classmethod
    def of(cls, marginal: Marginal) -> ValueSignals:
        """Read off the law of a column."""
        parts = (np.arange(POINTS) + 0.5) / POINTS
        points = ndtri(EDGES[:-1, None] + WIDTHS[:, None] * parts)
        shares = np.repeat(WIDTHS / POINTS, POINTS)
        classes = range(len(marginal.shares))
        values = np.stack([marginal.numbers(points.ravel(), k) for k in classes])
        means = values @ shares
        spreads = np.sqrt((values - means[:, None]) ** 2 @ shares)
        spreads = np.maximum(spreads, 1e-300)
        told = np.clip((values - means[:, None]) / spreads[:, None], -REACH, REACH)
        cells = told.reshape(-1, CELLS, POINTS).mean(axis=2)
        cells = cells - (cells @ WIDTHS)[:, None]
        scale = np.sqrt(cells**2 @ WIDTHS)[:, None]
        return cls(means, spreads, cells / np.maximum(scale, 1e-300))

    def of_rows(self, numbers: Floats, group: Integers) -> Floats:
        """Signals of rows of these classes, NaN where missing."""
        deviations = (numbers - self.means[group]) / self.spreads[group]
        return np.asarray(np.clip(deviations, -REACH, REACH))


def anchors_of(expected: Floats) -> Floats:
    """Correlations near which those of neighbours are looked for: the expected ones, part of the way towards 1.

    A row in which large values go on lies nearer to 1, and would count most, were the anchor the expected one.
    """
    near = np.clip(expected, -LARGEST_ANCHOR, LARGEST_ANCHOR)
    return np.asarray(near + TOWARDS_ONE * (1 - near))


def followed(rows: Floats, anchors: Floats) -> tuple[Floats, Floats]:
    """Of rows of signals of one series: how products of neighbours depart from an anchor, and squares; 0 where missing.

    Departures are the product less the anchor times the mean square: where a correlation is near its anchor, what is
    wrong with the squares hardly moves it, so these may be known less well, and count WEIGHT.
    """
    middle = (rows[:, 1:] ** 2 + rows[:, :-1] ** 2) / 2
    departures = rows[:, 1:] * rows[:, :-1] - anchors * middle
    return np.nan_to_num(departures), np.nan_to_num(WEIGHT * rows**2)


def correlations_of(departures: Floats, squares: Floats, anchors: Floats) -> Floats:
    """Correlations of neighbours, from means of what `followed` gives."""
    variances = np.maximum(squares / WEIGHT, LEAST_VARIANCE)
    middle = (variances[1:] + variances[:-1]) / 2
    found = departures + anchors * middle
    found = found / np.sqrt(variances[1:] * variances[:-1])
    return np.asarray(np.clip(found, -LARGEST, LARGEST))


@dataclass(frozen=True, eq=False)
class Link:
    """How the score of a column follows that of its neighbour: correlated normal scores, some cells made likelier."""

    correlation: float
    ratios: Floats

    @classmethod
    def alike(cls, correlation: float) -> Link:
        """Correlated normal scores as they are."""
        return cls(correlation, np.ones((CELLS, CELLS)))

    @property
    def _rest(self) -> float:
        return float(np.sqrt(1 - self.correlation**2))

    def masses(self) -> Floats:
        """Shares of the cells of both scores."""
        middle = (EDGES[:-1] + EDGES[1:]) / 2
        points = ndtri(middle[:, None] + WIDTHS[:, None] / 2 * NODES)
        below = ndtr((LIMITS - self.correlation * points[..., None]) / self._rest)
        inside = np.einsum("p,ipj->ij", NODE_WEIGHTS / 2, np.diff(below, axis=2))
        return _raked(self.ratios * inside * WIDTHS[:, None] + LEAST)

    def mean_product(self, first: Floats, second: Floats) -> float:
        """Of one signal of the first cell and one of the second."""
        return float(first @ self.masses() @ second)

    def tilted(self, first: Floats, second: Floats, wanted: float) -> Link:
        """The nearest link in which signals of both cells have this mean product, and scores the one they have."""
        start = self.masses()
        scores = mean_scores()
        signals = [np.outer(scores, scores), np.outer(first, second)]
        goals = np.array([float(np.sum(start * signals[0])), wanted])
        masses = start
        tilt = np.zeros_like(start)
        for _ in range(STEPS):
            gap = goals - [float(np.sum(masses * one)) for one in signals]
            if np.abs(gap).max() < CLOSE:
                break
            rest = [_without_margins(masses, one) for one in signals]
            products = [
                [np.sum(masses * one * other) for other in rest] for one in rest
            ]
            step = np.linalg.solve(np.array(products) + RIDGE * np.eye(2), gap)
            change = step[0] * signals[0] + step[1] * signals[1]
            change *= min(1.0, LONGEST_STEP / max(float(np.abs(change).max()), 1e-300))
            if np.abs(tilt + change).max() > STEEPEST:
                break
            tilt = tilt + change
            masses = _raked(masses * np.exp(change - change.max()) + 1e-300)
        return Link(self.correlation, self.ratios * masses / start)

    def following(self, uniform: Floats, score: Floats) -> Floats:
        """Scores of the second column below which these shares lie, given those of the first."""
        below, masses, ends = self._given(score, self.ratios)
        goal = uniform * ends[:, -1]
        place = np.clip(np.sum(ends <= goal[:, None], axis=1) - 1, 0, CELLS - 1)
        rows = np.arange(len(score))
        part = (goal - ends[rows, place]) / np.maximum(masses[rows, place], 1e-300)
        step = below[rows, place + 1] - below[rows, place]
        share = below[rows, place] + np.clip(part, 0.0, 1.0) * step
        found = self.correlation * score + self._rest * ndtri(_chance(share))
        return np.asarray(np.clip(found, -FARTHEST, FARTHEST))

    def before(self, score: Floats, second: Floats) -> Floats:
        """Share below a score of the first column, given that of the second."""
        below, _, ends = self._given(second, self.ratios.T)
        place = _place(score)
        rows = np.arange(len(score))
        part = ndtr((score - self.correlation * second) / self._rest)
        part = part - below[rows, place]
        reached = ends[rows, place] + self.ratios[place, _place(second)] * part
        return _chance(reached / ends[:, -1])

    def _given(self, score: Floats, ratios: Floats) -> tuple[Floats, Floats, Floats]:
        """Of the other column given a score: normal shares below its limits, masses of its cells, sums of these."""
        below = ndtr((LIMITS - self.correlation * score[:, None]) / self._rest)
        masses = ratios[_place(score)] * np.diff(below, axis=1)
        ends = np.concatenate(
            [np.zeros((len(score), 1)), np.cumsum(masses, axis=1)], axis=1
        )
        return below, masses, ends


@dataclass(frozen=True, eq=False)
class Chain:
    """Columns in the order in which they are drawn, those of series last; links to a column from the one before it."""

    order: tuple[int, ...]
    links: dict[int, Link]

    @classmethod
    def of(
        cls, columns: int, series: Sequence[Sequence[int]], links: Sequence[Link]
    ) -> Chain:
        """Of the places of columns: series one after the other, with links in the same order."""
        listed = [place for one in series for place in one]
        order = [place for place in range(columns) if place not in listed] + listed
        later = [place for one in series for place in one[1:]]
        return cls(tuple(order), dict(zip(later, links, strict=True)))

    def scores(
        self, generator: np.random.Generator, size: int, matrix: Floats
    ) -> Floats:
        """Normal scores of rows, in the order of the columns."""
        order = list(self.order)
        parts = partial_correlations(matrix[np.ix_(order, order)])
        free = generator.standard_normal((size, len(order)))
        made: list[Floats] = []
        behind: list[Floats] = []
        for place, column in enumerate(order):
            ahead = free[:, place]
            steps = []
            for earlier in range(place - 1):
                ahead = _onward(parts[earlier, place], ahead, behind[earlier])
                steps.append(ahead)
            for earlier, step in enumerate(steps):
                part = parts[earlier, place]
                behind[earlier] = _without(part, behind[earlier], step)
            if place:
                self._join(column, parts[place - 1, place], ahead, made, behind)
            else:
                made.append(ahead)
            behind.append(made[-1])
        scores = np.empty_like(free)
        scores[:, order] = np.stack(made, axis=1)
        return scores

    def _join(
        self,
        column: int,
        part: float,
        ahead: Floats,
        made: list[Floats],
        behind: list[Floats],
    ) -> None:
        """The scores of a column after those of its neighbour, and what is left of the neighbour's given them."""
        last = made[-1]
        link = self.links.get(column)
        if link is None:
            made.append(_onward(part, ahead, last))
            behind[-1] = _without(part, last, made[-1])
            return
        made.append(link.following(ndtr(ahead), last))
        behind[-1] = ndtri(link.before(last, made[-1]))


def partial_correlations(matrix: Floats) -> Floats:
    """Above the diagonal: the correlation of two columns given all that lie between them."""
    found = np.zeros_like(matrix)
    count = len(matrix)
    for first in range(count):
        for second in range(first + 1, count):
            part = slice(first, second + 1)
            inverse = np.linalg.inv(matrix[part, part])
            scale = np.sqrt(inverse[0, 0] * inverse[-1, -1])
            found[first, second] = -inverse[0, -1] / scale
    return np.clip(found, -0.9999, 0.9999)


def _points(edges: Floats) -> Floats:
    """Scores at even shares of each cell between such edges."""
    parts = (np.arange(POINTS) + 0.5) / POINTS
    return np.asarray(ndtri(edges[:-1, None] + np.diff(edges)[:, None] * parts))


def _onward(part: float, score: Floats, other: Floats) -> Floats:
    return np.asarray(np.sqrt(1 - part**2) * score + part * other)


def _without(part: float, score: Floats, other: Floats) -> Floats:
    return np.asarray((score - part * other) / np.sqrt(1 - part**2))


def _place(scores: Floats) -> np.ndarray:
    return np.clip(np.searchsorted(LIMITS, scores, side="right") - 1, 0, CELLS - 1)


def _chance(share: Floats) -> Floats:
    return np.clip(share, LEAST_CHANCE, 1 - LEAST_CHANCE)


def _raked(masses: Floats) -> Floats:
    """With the cells' widths as sums of rows and of columns."""
    for _ in range(RAKES):
        masses = masses * (WIDTHS / masses.sum(axis=1))[:, None]
        masses = masses * (WIDTHS / masses.sum(axis=0))
    return masses


def _without_margins(masses: Floats, signal: Floats) -> Floats:
    """A signal of both cells less what each of them says alone."""
    for _ in range(PROJECTIONS):
        signal = (
            signal - (np.sum(masses * signal, axis=1) / masses.sum(axis=1))[:, None]
        )
        signal = signal - np.sum(masses * signal, axis=0) / masses.sum(axis=0)
    return signal
