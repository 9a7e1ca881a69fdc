"""Normal scores of drawn rows, class by class, and the cells of the columns in which they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.postprocessing.synthetic.series import Chain
from gaussveil.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class Latents:
    """Of every row its class, of every cell its normal score and whether it is missing."""

    group: Integers
    scores: Floats
    missing: NDArray[np.bool_]

    @classmethod
    def drawn(
        cls,
        generator: np.random.Generator,
        size: int,
        weights: Floats,
        correlations: Floats,
        marginals: Sequence[Marginal],
        chain: Chain | None = None,
    ) -> Latents:
        """Rows of a model: classes and missing cells in their shares, scores that are correlated or follow a chain."""
        group = np.searchsorted(
            np.cumsum(weights)[:-1] / weights.sum(),
            even(generator, size),
            side="right",
        )
        scores = np.empty((size, len(marginals)))
        if chain is None:
            scores = generator.standard_normal(scores.shape)
        gaps = np.stack([even(generator, size) for _ in marginals], axis=1)
        for k, matrix in enumerate(correlations):
            chosen = group == k
            if chain is None:
                scores[chosen] = scores[chosen] @ np.linalg.cholesky(matrix).T
            else:
                count = int(np.count_nonzero(chosen))
                scores[chosen] = chain.scores(generator, count, matrix)
        missing = [
            marginal.missing_at(group, gaps[:, place])
            for place, marginal in enumerate(marginals)
        ]
        return cls(group, scores, np.stack(missing, axis=1)).evened(generator)

    def evened(self, generator: np.random.Generator) -> Latents:
        """Scores of each class and column one in each of as many equally likely parts, in the order that they had."""
        scores = np.empty_like(self.scores)
        for k in np.unique(self.group):
            chosen = self.group == k
            scores[chosen] = _evened(generator, self.scores[chosen])
        return Latents(self.group, scores, self.missing)

    def at(self, rows: Integers) -> Latents:
        """These rows."""
        return Latents(self.group[rows], self.scores[rows], self.missing[rows])

    def places(self, marginals: Sequence[Marginal]) -> list[Integers]:
        """Cell of every row in every column; of a missing one, the number of cells."""
        found = []
        for column, marginal in enumerate(marginals):
            place = np.full(len(self.group), len(marginal.low), dtype=np.int64)
            for k in np.unique(self.group):
                chosen = (self.group == k) & ~self.missing[:, column]
                place[chosen] = marginal.cells(self.scores[chosen, column], k)
            found.append(place)
        return found


def even(generator: np.random.Generator, count: int) -> Floats:
    """Uniform numbers, one in each of as many equal parts of [0, 1], in random order: shares come out right."""
    return np.asarray(
        (generator.permutation(count) + generator.random(count)) / max(count, 1)
    )


def _evened(generator: np.random.Generator, scores: Floats) -> Floats:
    count = len(scores)
    places = np.empty(scores.shape, dtype=np.int64)
    np.put_along_axis(
        places, np.argsort(scores, axis=0), np.arange(count)[:, None], axis=0
    )
    return np.asarray(ndtri((places + generator.random(scores.shape)) / max(count, 1)))
