"""The draws of a synthetic table that count pairs of columns: how far each is off, then those that are off most.

How far a pair is off is the sum over its cells of the distance between the number of rows there and a released one.
One row more moves each of these sums by at most 1, as it moves one count of each pair by 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gaussveil.mechanisms.synthetic.budget import Shares
from gaussveil.postprocessing.synthetic.model import SyntheticModel
from gaussveil.postprocessing.synthetic.pairs import (
    CoarseCells,
    CountedPairs,
    all_pairs,
    denoised,
    pair_counts,
    worth_counting,
)
from gaussveil.typing import Floats, Integers

DRAWN_PER_ROW = 4  # rows of the model that say what pairs should be like
FEWEST_DRAWN = 20_000
MOST_DRAWN = 120_000


class Counting(Protocol):
    """What these draws ask of a release's access to the rows."""

    shares: Shares
    allowed: float
    """What one row may lose."""

    def counted(
        self, parts: Sequence[Integers], share: float, touched: int
    ) -> tuple[list[Floats], float]:
        """Counts with noise, and its deviation; a row lies in one cell of `touched` parts."""


def counted_pairs(
    draws: Counting, model: SyntheticModel, places: Sequence[Integers]
) -> CountedPairs | None:
    """Counts of the pairs that the model is farther off than noise would be; `places` are the private rows' cells."""
    coarse = CoarseCells.of(model.marginals, model.weights)
    sizes = coarse.sizes
    size = int(np.clip(DRAWN_PER_ROW * model.rows, FEWEST_DRAWN, MOST_DRAWN))
    rows = model.latents(np.random.default_rng(0), size)
    drawn = coarse.codes(rows.places(model.marginals))
    private = coarse.codes(places)
    pairs = all_pairs(len(sizes))
    part = np.float64(model.rows / size)
    expected: list[Floats] = [part * pair_counts(drawn, sizes, one) for one in pairs]
    counts = [pair_counts(private, sizes, one) for one in pairs]
    gaps = [
        np.abs(count - np.rint(one).astype(np.int64)).sum()
        for count, one in zip(counts, expected)
    ]
    (distances,), doubt = draws.counted(
        [np.array(gaps)], draws.shares.choice, len(pairs)
    )
    squared_loss = draws.shares.pairs * draws.allowed**2
    chosen = worth_counting(distances, doubt, expected, squared_loss)
    if not chosen:
        return None
    noisy, deviation = draws.counted(
        [counts[one] for one in chosen], draws.shares.pairs, len(chosen)
    )
    return CountedPairs(
        coarse,
        {
            pairs[one]: denoised(count, expected[one], deviation)
            for one, count in zip(chosen, noisy)
        },
    )
