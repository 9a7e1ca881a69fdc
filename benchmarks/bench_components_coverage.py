"""Coverage of the 95 % intervals of explained variances that are trusted, of laws with and without long tails.

8,000 rows of five columns, variances from 2 to a tenth, the two leading components; data and noise drawn anew. FULL=1
for 1,000 draws.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bench_regression import DELTA, EPSILONS, FIRST
from gaussveil import PrivatePCA
from gaussveil.accounting import Release
from regression_draws import SampleSums, quick_moments
from regression_sets import Matrix
from side_by_side import side_by_side

COVERED = 1000 if os.environ.get("FULL") else 200
BLOCK = 25  # draws of one law, in one process
DOUBTED = 0.05  # of all intervals: if fewer are trusted there is nothing to judge
ROWS, VARIANCES, KEPT = 8_000, np.array([2.0, 1.0, 0.5, 0.25, 0.1]), 2
LAWS = ("normal", "uniform", "Student's t of 20", "Student's t of 8", "Student's t of 5")
Row = dict[str, Any]
Counts = list[tuple[int, int]]


def run() -> list[Row]:
    begins = range(FIRST, FIRST + COVERED, BLOCK)
    blocks = [(law, tuple(range(begin, begin + BLOCK))) for law in LAWS for begin in begins]
    found = dict(zip(blocks, side_by_side(covered, blocks)))
    return [
        coverage(law, epsilon, np.sum([each[k] for (name, _), each in found.items() if name == law], axis=0))
        for law in LAWS
        for k, epsilon in enumerate(EPSILONS)
    ]


def drawn(law: str, seed: int) -> Matrix:
    """Rows of the law with these variances, columns independent."""
    rng, shape = np.random.default_rng([seed, 8]), (ROWS, len(VARIANCES))
    if law == "normal":
        rows = rng.normal(size=shape)
    elif law == "uniform":
        rows = rng.uniform(-np.sqrt(3), np.sqrt(3), size=shape)
    else:
        freedom = int(law.split()[-1])
        rows = rng.standard_t(freedom, size=shape) * np.sqrt((freedom - 2) / freedom)
    return np.asarray(rows * np.sqrt(VARIANCES))


def covered(block: tuple[str, tuple[int, ...]]) -> Counts:
    """By epsilon, how many intervals are trusted, and how many of those hold the variance."""
    law, seeds = block
    counts = np.zeros((len(EPSILONS), 2), dtype=np.int64)
    for seed in seeds:
        rows = drawn(law, seed)
        sample, reach = SampleSums(rows.T.copy()), np.full(len(VARIANCES), 6.0)
        for count, epsilon in zip(counts, EPSILONS):
            model = PrivatePCA(epsilon=epsilon, delta=DELTA, n_components=KEPT)
            moments = quick_moments(model, sample, -reach, reach, seed)
            model._released = lambda *_, moments=moments: Release(moments, None)  # type: ignore[method-assign]
            low, high = model.fit(rows[:1]).explained_variance_interval_.T
            held = (low <= VARIANCES[:KEPT]) & (VARIANCES[:KEPT] <= high) & model.trusted_
            count += [int(np.sum(model.trusted_)), int(np.sum(held))]
    return [(int(trusted), int(held)) for trusted, held in counts]


def coverage(law: str, epsilon: float, counts: Any) -> Row:
    """Share of the trusted intervals that hold."""
    trusted, held = map(int, counts)
    judged = trusted / (COVERED * KEPT)
    share = held / trusted if judged > DOUBTED else None
    note = f"{COVERED} draws; {judged:.1%} of the intervals are trusted"
    row = {"name": f"{law}, epsilon {epsilon:g}: coverage of 95 % intervals", "ours": share, "peer": 0.95, "goal": 1.0}
    met = share is None or 0.93 <= share <= 0.97
    return row | {"ratio": None if share is None else share / 0.95, "met": met, "note": note}


if __name__ == "__main__":
    for result in run():
        print(result)
