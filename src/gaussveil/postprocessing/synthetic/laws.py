"""The law of a column in every class, from noisy counts of its cells and noisy means of its scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaussveil.postprocessing.synthetic.cells import (
    OUTER_DEVIATIONS,
    Cells,
    trimmed,
    with_single_values,
    without_empty,
)
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.marginals import (
    MISSING_DEVIATIONS,
    Marginal,
    shrunk,
    simplex,
    smoothed,
)
from gaussveil.spectrum.turns import turn
from gaussveil.typing import Floats, Integers

LEAST_SHARE = 1e-9  # of a cell, so that its score exists
STEEPEST_TILT = 12.0
HEAVY = 0.4  # logarithm per normal score from which on a tail bends outwards
HIDDEN_DEVIATIONS = (
    2.0  # of its noise by which a tail may have more numbers than were counted
)
HALVINGS = 50
RAKES = 10


@dataclass(frozen=True, eq=False)
class SeenColumn:
    """What was released of a column: counts by class (K x (C + 1), missing ones last) and the noise they hold."""

    column: Column
    cells: Cells | None
    counts: Floats
    deviation: float
    prior: Floats | None = None
    """Of columns whose cells were looked for: counts in all classes together."""
    means: Floats | None = None
    """Of these columns, with several classes: mean pooled scores by class."""
    beyond: Floats | None = None
    """Of a learnt range: counts by class of numbers below it and above it (K x 2)."""

    @classmethod
    def of(
        cls,
        column: Column,
        cells: Cells | None,
        released: Floats,
        deviation: float,
        prior: Floats | None = None,
        means: Floats | None = None,
    ) -> SeenColumn:
        """From counts of cells, of numbers beyond a learnt range where there is one, and of missing ones."""
        seen = cls(column, cells, released, deviation, prior, means)
        if cells is None or released.shape[1] == cells.size + 1:
            return seen
        inside = np.delete(released, [cells.size, cells.size + 1], axis=1)
        beyond = released[:, cells.size : cells.size + 2]
        return replace(seen, counts=inside, beyond=beyond)

    def with_beyond(self) -> SeenColumn:
        """Numbers beyond a learnt range, as far as they stand out of the noise, in the outermost cells."""
        if self.beyond is None:
            return self
        least = OUTER_DEVIATIONS * self.together
        kept = np.where(self.beyond.sum(axis=0) > least, self.beyond, 0.0)
        counts = self.counts.copy()
        counts[:, 0] += kept[:, 0]
        counts[:, -2] += kept[:, 1]
        return replace(self, counts=counts, beyond=kept)

    @property
    def shares_beyond(self) -> tuple[float, float]:
        """How much of the column lies below and above its learnt range."""
        if self.beyond is None:
            return 0.0, 0.0
        whole = max(float(self.counts[:, :-1].sum()), 1.0)
        low, high = np.maximum(self.beyond.sum(axis=0), 0.0) / whole
        return float(low), float(high)

    def trimmed(self) -> SeenColumn:
        """With the outermost cells put together until they stand out of the noise; empty ones of a learnt range go."""
        if self.cells is None or self.prior is None:
            return self
        cells = self.cells
        counts = self.counts
        prior = self.prior
        if self.column.low is None:
            cells, counts, prior = without_empty(cells, counts, prior, self.deviation)
        cells, counts, prior = trimmed(cells, counts, prior, self.deviation)
        return replace(self, cells=cells, counts=counts, prior=prior)

    @property
    def together(self) -> float:
        """Noise of the counts of all classes together."""
        return self.deviation * math.sqrt(len(self.counts))


def law_of(seen: SeenColumn, weights: Floats) -> Marginal:
    """The law of a column in every class, of which there are `weights` records."""
    whole = seen
    seen = seen.with_beyond().trimmed()
    if seen.counts.shape[1] == 1:
        return _without_values(len(weights))
    missing = _missing(seen, weights)
    base = _pooled(seen, weights, missing)
    shares = _by_class(seen, weights * (1 - missing), base)
    shares = np.maximum(shares, LEAST_SHARE * shares.sum(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    if seen.cells is None:
        ends = np.arange(shares.shape[1], dtype=np.float64)
        return Marginal(ends, ends, shares, missing, _ordered(shares, weights))
    cells = seen.cells
    low, high = (
        (cells.low, cells.high)
        if seen.column.is_whole
        else with_single_values(cells, base)
    )
    law = Marginal(low, high, shares, missing, None, cells, base)
    law = replace(law, beyond=seen.shares_beyond)
    return replace(law, reach=_reach(law, whole, weights * (1 - missing)))


def _reach(law: Marginal, seen: SeenColumn, weights: Floats) -> tuple[float, float]:
    """How far tails may go: into cells of a learnt range that noise hides, where as many were counted as tails have.

    Fewer may be where a tail bends outwards, as far as noise explains; else it ends before, as that of ages does.
    """
    ends = list(law.ends)
    if seen.cells is None or seen.beyond is None:
        return ends[0], ends[1]
    together = seen.counts[:, :-1].sum(axis=0)
    for place, farthest in enumerate(seen.cells.edges[[0, -1]].tolist()):
        hidden = seen.cells.low >= ends[1] if place else seen.cells.high <= ends[0]
        if not hidden.any():
            continue
        reach = (ends[0], farthest) if place else (farthest, ends[1])
        longer = replace(law, reach=reach)
        told = sum(
            float(records) * longer.share_beyond(ends[place], k, bool(place))
            for k, records in enumerate(weights)
        )
        doubt = HIDDEN_DEVIATIONS * seen.together * math.sqrt(hidden.sum())
        doubt *= law.bends[place] >= HEAVY
        if told <= float(together[hidden].sum()) + doubt:
            ends[place] = farthest
    return ends[0], ends[1]


def counts_of_classes(
    counts: Floats, deviation: float, seen: Sequence[Floats], noise: float
) -> tuple[Floats, float]:
    """Counts of the classes with less noise: the cells of every column add up to them, too.

    Args:
        counts, deviation: noisy counts of the classes, and their noise.
        seen: noisy counts of the cells of columns by class, every row in one of each.
        noise: of these.
    """
    precisions = np.array([1 / (one.shape[1] * noise**2) for one in seen])
    first = 1 / deviation**2
    sums = [part * one.sum(axis=1) for part, one in zip(precisions, seen)]
    together = first + float(precisions.sum())
    better = (first * counts + np.sum(sums, axis=0)) / together
    return np.asarray(better), math.sqrt(1 / together)


def pooled_scores(masses: Floats) -> Floats:
    """Mean normal scores of cells in order, of all classes together."""
    shares = masses + LEAST_SHARE * masses.sum() + 1e-12
    zeros = np.zeros(len(shares))
    return np.asarray(
        Marginal(zeros, zeros, shares[None] / shares.sum(), np.zeros(1)).scores[0]
    )


def tilted(shares: Floats, scores: Floats, mean: float) -> Floats:
    """Shares made larger where scores are higher, or lower, until the mean score is this one (exponential tilting)."""

    def reaches(slope: float) -> bool:
        return float(_leaning(shares, scores, slope) @ scores) >= mean

    low, high = turn(reaches, -STEEPEST_TILT, STEEPEST_TILT, looks=HALVINGS)
    return _leaning(shares, scores, (low + high) / 2)


def ranged(column: Column, marginal: Marginal) -> Column:
    """The column with the range that its cells have, where it was learnt."""
    if column.is_category or column.low is not None:
        return column
    least, most = column.limits
    low = max(marginal.ends[0], least)
    high = min(marginal.ends[1], most)
    if column.is_whole:
        low = math.ceil(low)
        high = math.floor(high)
    return replace(column, low=float(low), high=float(high))


def _leaning(shares: Floats, scores: Floats, slope: float) -> Floats:
    law = shares * np.exp(slope * scores - np.max(slope * scores))
    return np.asarray(law / law.sum())


def _without_values(classes: int) -> Marginal:
    """Of a column of which no value is known: every cell is missing."""
    end = np.zeros(1)
    shares = np.ones((classes, 1))
    return Marginal(end, end, shares, np.ones(classes), np.zeros(1, dtype=np.int64))


def _missing(seen: SeenColumn, weights: Floats) -> Floats:
    """Shares of missing cells by class; none where they do not stand out of the noise."""
    counts = seen.counts[:, -1]
    if counts.sum() < MISSING_DEVIATIONS * seen.together:
        return np.zeros(len(counts))
    return np.asarray(np.clip(counts / weights, 0.0, 0.999))


def _pooled(seen: SeenColumn, weights: Floats, missing: Floats) -> Floats:
    """Shares of the cells in all classes together."""
    together = _listed(seen).sum(axis=0)
    whole = weights.sum() * float(1 - np.average(missing, weights=weights))
    if seen.prior is not None and seen.prior.sum() > 0:
        together = smoothed(
            together, seen.prior * whole / seen.prior.sum(), seen.together
        )
    base = simplex(together, max(whole, 1.0)) + LEAST_SHARE
    return np.asarray(base / base.sum())


def _listed(seen: SeenColumn) -> Floats:
    """Counts of cells; of what is not listed nothing, where it does not stand out of the noise."""
    counts = seen.counts[:, :-1]
    if seen.column.others and counts[:, -1].sum() < MISSING_DEVIATIONS * seen.together:
        return np.concatenate([counts[:, :-1], np.zeros((len(counts), 1))], axis=1)
    return counts


def _by_class(seen: SeenColumn, weights: Floats, base: Floats) -> Floats:
    """Counts of the cells by class: the law of all classes, leaning as far as the means say, and what counts add."""
    counts = _listed(seen)
    laws = np.empty(counts.shape)
    scores = pooled_scores(base)
    for k, row in enumerate(counts):
        records = max(float(weights[k]), 1.0)
        if seen.means is None:
            prior = base
        else:
            prior = tilted(base, scores, float(seen.means[k]))
        if len(counts) == 1:
            laws[k] = simplex(records * prior, records)
            continue
        if seen.cells is None:
            denoise = shrunk
        else:
            denoise = smoothed
        laws[k] = simplex(denoise(row, records * prior, seen.deviation), records)
        if seen.means is not None:
            laws[k] = records * tilted(
                laws[k] / records + LEAST_SHARE, scores, float(seen.means[k])
            )
    if len(counts) > 1:
        return _raked(laws, base)
    return laws


def _raked(laws: Floats, base: Floats) -> Floats:
    """Counts by class that add up to the law of all classes together, which is known better."""
    rows = np.maximum(laws.sum(axis=1, keepdims=True), 1e-9)
    for _ in range(RAKES):
        laws = laws * (base * laws.sum() / np.maximum(laws.sum(axis=0), 1e-12))
        laws = laws * (rows / np.maximum(laws.sum(axis=1, keepdims=True), 1e-12))
    return laws


def _ordered(shares: Floats, weights: Floats) -> Integers:
    """Values of a category from those of the first classes to those of the last; as listed where there are none."""
    if len(shares) < 2:
        return np.arange(shares.shape[1])
    joint = shares * weights[:, None]
    logs = np.log(np.maximum(joint / joint.sum(axis=0), 1e-6))
    centred = logs - np.average(logs, axis=1, weights=joint.sum(axis=0))[:, None]
    _, _, axes = np.linalg.svd(
        centred * np.sqrt(joint.sum(axis=0)), full_matrices=False
    )
    score = axes[0] / np.sqrt(np.maximum(joint.sum(axis=0), 1e-9))
    return np.argsort(score, kind="stable")
