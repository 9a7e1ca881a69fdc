"""How many steps several independent draws of k of T steps share: the weights of moments of R.

R is a mean over draws of products of w, so that R^n is one over n draws, in which a step that is in j of them has w^j.
Draws come one after the other: of the n_j steps that are in j so far, c_j join with hypergeometric probability.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.typing import Floats

SEEN = 1e-20  # share of a moment that each term left out may have; it is charged


class SharedSteps(NamedTuple):
    """Rows of how many steps are in none, one, two, ... of the draws, with logs of their probabilities.

    `missing` bounds what the rows left out give at most, `relative` the error of a probability.
    """

    counts: Floats
    log_chances: Floats
    relative: float
    missing: float


@lru_cache(maxsize=64)
def shared_steps(
    steps: int, takes: int, log_moments: tuple[float, ...]
) -> tuple[SharedSteps, ...]:
    """Of two draws, of three, ..., as many as there are moments: upper ends of log E w^2, log E w^3, ..."""
    draws = len(log_moments) + 1
    grown = np.array([0.0, 0.0, *log_moments])
    falling = np.append(
        0.0,
        np.cumsum(np.log(np.maximum(steps - np.arange((draws + 1.0) * takes), 1.0))),
    )
    relative = 8.0 * ULP * (draws + 1) * takes * (1.0 + math.log(steps)) * draws
    rows = np.array([[steps - takes, takes]])
    logs = np.zeros(1)
    missing = 0.0
    found = []
    for drawn in range(1, draws):
        rows, logs = _joined(rows, logs, steps, takes, falling)
        weights = logs + rows @ grown[: drawn + 2]
        # of draws that are still to come
        later = np.maximum.accumulate(np.diff(grown))[drawn + 1 :].clip(0.0)
        most = takes * float(later.sum())
        kept = weights + most >= weights.max() + math.log(SEEN)
        missing += float(np.exp(weights[~kept] + most).sum()) * (1.0 + 1e-9)
        rows, logs = rows[kept], logs[kept]
        found.append(SharedSteps(rows, logs, relative, missing))
    return tuple(found)


def _joined(
    rows: Floats, logs: Floats, steps: int, takes: int, falling: Floats
) -> tuple[Floats, Floats]:
    """The rows after one more draw."""
    found = []
    chances = []
    drawn = rows.shape[1] - 1
    known = scipy.special.gammaln(np.arange(drawn * takes + 2.0) + 1.0)
    for row, log in zip(rows, logs):
        ranges = [np.arange(min(count, takes) + 1) for count in row[1:].tolist()]
        joining = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1)
        joining = joining.reshape(-1, drawn)
        others = takes - joining.sum(axis=1)
        joining = joining[(others >= 0) & (others <= row[0])]
        others = takes - joining.sum(axis=1)
        gone = steps - int(row[0])
        # (n_0 over c_0) / (T over k), by factors T - i
        chance = log + falling[gone + others] - falling[gone] - falling[takes]
        chance += known[takes] - known[others]
        for column in range(drawn):
            count = int(row[column + 1])
            joined = joining[:, column]
            chance += known[count] - known[joined] - known[count - joined]
        moved = np.column_stack([others, joining])
        after = np.zeros((len(moved), drawn + 2), dtype=np.int64)
        after[:, :-1] = row - moved
        after[:, 1:] += moved
        found.append(after)
        chances.append(chance)
    after, place = np.unique(np.concatenate(found), axis=0, return_inverse=True)
    every = np.concatenate(chances)
    highest = every.max()
    summed = np.bincount(np.ravel(place), weights=np.exp(every - highest))
    return after, highest + np.log(summed)
