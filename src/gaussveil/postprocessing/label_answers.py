"""What is released of labels, and how likely it is: a noisy table of classes by cells, and randomised answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from gaussveil.postprocessing.public_features import summed
from gaussveil.typing import Floats, Integers


@dataclass(frozen=True)
class NoisyTable:
    """Counts of classes x cells with discrete Laplace noise of scale 2/epsilon."""

    noisy: Floats
    cells: Integers
    epsilon: float

    def log_likelihood(self, shares: Floats) -> float:
        """Of the noisy counts where the records are shared out so, up to a constant."""
        return -float(np.abs(self.noisy - summed(self.cells, shares).T).sum()) * self.epsilon / 2


@dataclass(frozen=True)
class Answers:
    """Randomised labels: unbiased indicators of the classes, and log-probabilities of the answer given each class."""

    unbiased: Floats
    log_label: Floats
    count_noise: float
    """Deviation of a class's unbiased count."""

    @classmethod
    def of(cls, answers: Integers, classes: int, keep: float, other: float) -> Answers:
        """Answers that are the label with probability `keep`, and each other class with probability `other`."""
        return cls(
            (np.eye(classes)[answers] - other) / (keep - other),
            np.where(answers[:, None] == np.arange(classes), math.log(keep), math.log(other)),
            math.sqrt(len(answers) * other * (1 - other)) / (keep - other),
        )


def believed(noisy: Floats, counts: Floats, least: float) -> Floats:
    """Entries above the noise, and every class's best claim (one cell each, as far as there are cells)."""
    kept = np.where(noisy >= least, counts, 0.0)
    rows, columns = linear_sum_assignment(-noisy)
    for k, cell in zip(rows, columns):
        if not kept[k].any():
            kept[k, cell] = max(counts[k, cell], 1.0)
    for cell in np.flatnonzero(kept.sum(axis=0) == 0):
        kept[np.argmax(noisy[:, cell]), cell] = 1.0
    return np.asarray(kept)
