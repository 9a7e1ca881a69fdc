"""What is released of labels: a noisy table of classes by cells, randomised answers, and how likely each is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gaussveil.mechanisms.label_mixture.feature_cells import summed
from gaussveil.noise import Generator, discrete_laplace, randomised_response, response_probabilities
from gaussveil.typing import Floats, Integers


@dataclass(frozen=True)
class NoisyTable:
    """Counts of classes x cells with discrete Laplace noise; a label moves two of them by one each."""

    noisy: Floats
    cells: Integers
    epsilon: float

    @classmethod
    def drawn(
        cls, codes: Integers, cells: Integers, classes: int, epsilon: float, generator: Generator | None
    ) -> NoisyTable:
        """The table of these labels with fresh noise; a label that is no class (-1) is not counted."""
        table = np.zeros((classes, int(cells.max()) + 1), dtype=np.int64)
        known = codes >= 0
        np.add.at(table, (codes[known], cells[known]), 1)
        noise = discrete_laplace(2 / Fraction(epsilon), table.shape, generator)
        return cls((table + noise).astype(np.float64), cells, epsilon)

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
    def drawn(cls, codes: Integers, classes: int, epsilon: float, generator: Generator | None) -> Answers:
        """Every label through K-ary randomised response; one that is no class (-1) answers for its place's class."""
        asked = np.where(codes < 0, np.arange(len(codes)) % classes, codes)
        answers = randomised_response(asked, classes, epsilon, generator)
        keep, other = (float(value) for value in response_probabilities(classes, epsilon))
        return cls(
            (np.eye(classes)[answers] - other) / (keep - other),
            np.where(answers[:, None] == np.arange(classes), math.log(keep), math.log(other)),
            math.sqrt(len(codes) * other * (1 - other)) / (keep - other),
        )
