"""Pairs of columns that correlated scores do not describe: which they are, their counts, and rows that follow them.

Rows of the model so far say how many rows each cell of a pair should have. Where the private table departs from that,
its noisy counts, less what noise explains, are what drawn rows are chosen by (raking, Deming and Stephan 1940): of all
laws that have these counts the one nearest to the model so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaussveil.postprocessing.synthetic.latents import Latents
from gaussveil.postprocessing.synthetic.marginals import Marginal, simplex
from gaussveil.typing import Floats, Integers

PAIR_CELLS = (
    12  # of a column where pairs are counted, at most; missing ones are one more
)
MOST_PAIRS = 48
FOLDED = math.sqrt(2 / math.pi)  # mean of |x|, x standard normal
NOISE_KEPT = 0.5  # of the noise of counts, about, once they are smoothed
DOUBT = 1.5  # deviations of its noise by which a pair must be off to be counted
RAKES = 5
STAGES = (0.8, 0.97, 1.0)  # of the rows, chosen one stage after the other
POOL = 6  # rows among which every row that is given is chosen
SMALLEST_POOL = 20_000
LEAST_WANTED = 1e-6  # rows of a cell that should have none


@dataclass(frozen=True, eq=False)
class CoarseCells:
    """For every cell of every column the one it belongs to where pairs are counted; the last is that of missing ones.

    Example: `CoarseCells((np.array([0, 0, 1, 2]),)).sizes` is [3]: two cells put together, another, and missing ones.
    """

    cells: tuple[Integers, ...]

    @classmethod
    def of(cls, marginals: Sequence[Marginal], weights: Floats) -> CoarseCells:
        """Of numbers neighbours put together, of categories the rarest, until few are left."""
        return cls(tuple(_coarse(one, weights) for one in marginals))

    @property
    def sizes(self) -> list[int]:
        """Number of cells of every column."""
        return [int(one[-1]) + 1 for one in self.cells]

    def codes(self, places: Sequence[Integers]) -> list[Integers]:
        """Coarse cells of rows, column by column, from their cells."""
        return [cells[place] for cells, place in zip(self.cells, places)]


def _coarse(marginal: Marginal, weights: Floats) -> Integers:
    shares = weights @ (marginal.shares * (1 - marginal.missing)[:, None])
    shares = shares / max(float(shares.sum()), 1e-300)
    if marginal.order is None:
        middle = np.cumsum(shares) - shares / 2
        place = np.floor(middle * PAIR_CELLS).astype(np.int64)
    else:
        place = np.full(len(shares), PAIR_CELLS - 1)
        frequent = np.argsort(-shares, kind="stable")[:PAIR_CELLS]
        place[frequent] = np.arange(len(frequent))
    _, place = np.unique(place, return_inverse=True)
    return np.append(place, place.max(initial=-1) + 1)


def all_pairs(columns: int) -> list[tuple[int, int]]:
    """Places of two columns, each pair once."""
    return [(first, second) for second in range(columns) for first in range(second)]


def pair_counts(
    codes: Sequence[Integers], sizes: Sequence[int], pair: tuple[int, int]
) -> Integers:
    """Rows in each cell of two columns."""
    first, second = pair
    joint = codes[first] * sizes[second] + codes[second]
    counts = np.bincount(joint, minlength=sizes[first] * sizes[second])
    return counts.reshape(sizes[first], sizes[second])


def worth_counting(
    distances: Floats, doubt: float, expected: Sequence[Floats], squared_loss: float
) -> list[int]:
    """Which pairs to count, best together: noise, the more the more pairs, must be less than how far they are off.

    Args:
        distances: by how many rows the cells of each pair are off in sum, in noise of deviation `doubt`.
        expected: rows of these cells as the model has them; chance alone puts the private ones off by their root.
        squared_loss: what one record may lose in all counts together.
    """
    chance = np.array([FOLDED * np.sqrt(one).sum() for one in expected])
    off = distances - chance
    cells = NOISE_KEPT * FOLDED * np.array([one.size for one in expected])
    best = 0.0
    chosen: list[int] = []
    for count in range(1, min(len(distances), MOST_PAIRS) + 1):
        gain = off - cells * math.sqrt(count / squared_loss)
        gain[off < DOUBT * doubt] = -math.inf
        first = np.argsort(-gain, kind="stable")[:count]
        if gain[first].sum() > best:
            best = float(gain[first].sum())
            chosen = np.sort(first).tolist()
    return chosen


def denoised(noisy: Floats, expected: Floats, deviation: float) -> Floats:
    """Shares of the cells of a pair: what was expected, and how counts depart from it beyond noise."""
    total = float(expected.sum())
    counts = expected + low_rank(noisy - expected, deviation)
    return simplex(counts.ravel(), total).reshape(expected.shape) / total


def low_rank(noisy: Floats, deviation: float) -> Floats:
    """A matrix less its white noise: singular values shrunk as far as noise explains them (Gavish and Donoho 2017)."""
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    unit = deviation * math.sqrt(max(noisy.shape))
    ratio = min(noisy.shape) / max(noisy.shape)
    squares = (values / unit) ** 2
    kept = np.maximum((squares - ratio - 1) ** 2 - 4 * ratio, 0.0)
    kept[squares <= (1 + math.sqrt(ratio)) ** 2] = 0.0
    shrunken = unit * np.sqrt(kept / np.maximum(squares, 1e-300))
    return np.asarray((left * shrunken) @ right)


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """Pairs of columns by their places among all but the label, shares of their cells, and how rows get these."""

    coarse: CoarseCells
    shares: dict[tuple[int, int], Floats]

    def chosen(
        self,
        generator: np.random.Generator,
        pool: Latents,
        marginals: Sequence[Marginal],
        size: int,
    ) -> Latents:
        """So many rows of a larger number: most of them first, then others that mend what chance made of these.

        The pool is gone through class by class, so that each class has as many rows as it should; rows are shuffled.
        """
        pool = pool.at(np.argsort(pool.group, kind="stable"))
        tables = self._tables(pool, marginals)
        taken = np.zeros(0, dtype=np.int64)
        for stage in STAGES:
            count = round(stage * size) - len(taken)
            if not count:
                continue
            wanted = [
                stage * size * shares - np.bincount(joint[taken], minlength=len(shares))
                for joint, shares in tables
            ]
            weights = raked([joint for joint, _ in tables], wanted)
            steps = np.cumsum(weights) * (count / weights.sum())
            rows = np.searchsorted(steps, np.arange(count) + generator.random())
            taken = np.append(taken, np.minimum(rows, len(weights) - 1))
        return pool.at(generator.permutation(taken)).evened(generator)

    def _tables(
        self, pool: Latents, marginals: Sequence[Marginal]
    ) -> list[tuple[Integers, Floats]]:
        """Cells of rows and the shares they should have: pairs as counted, every column by class as in the pool."""
        places = pool.places(marginals)
        codes = self.coarse.codes(places)
        sizes = self.coarse.sizes
        tables = [
            (codes[first] * sizes[second] + codes[second], shares.ravel())
            for (first, second), shares in self.shares.items()
        ]
        for place, marginal in zip(places, marginals):
            joint = pool.group * len(marginal.low) + pool.group + place
            tables.append((joint, np.bincount(joint) / len(joint)))
        return tables


def raked(cells: Sequence[Integers], wanted: Sequence[Floats]) -> Floats:
    """Weights of rows with which the cells of each table sum up to what is wanted, nearly (the last one: exactly)."""
    weights = np.ones(len(cells[0]))
    for _ in range(RAKES):
        for joint, counts in zip(cells, wanted):
            seen = np.bincount(joint, weights, minlength=len(counts))
            factors = np.maximum(counts, LEAST_WANTED) / np.maximum(seen, LEAST_WANTED)
            weights *= factors[joint]
    return weights
