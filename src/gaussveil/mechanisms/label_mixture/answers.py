"""The two draws of labels: a noisy table of classes by cells, and randomised answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from gaussveil.noise import Generator, discrete_laplace, randomised_response, response_probabilities
from gaussveil.postprocessing.label_answers import Answers, NoisyTable
from gaussveil.typing import Integers


def drawn_table(
    codes: Integers, cells: Integers, classes: int, epsilon: float, generator: Generator | None
) -> NoisyTable:
    """The table of these labels with fresh noise: a label moves two counts by one, one that is no class (-1) none."""
    table = np.zeros((classes, int(cells.max()) + 1), dtype=np.int64)
    known = codes >= 0
    np.add.at(table, (codes[known], cells[known]), 1)
    noise = discrete_laplace(2 / Fraction(epsilon), table.shape, generator)
    return NoisyTable((table + noise).astype(np.float64), cells, epsilon)


def drawn_answers(codes: Integers, classes: int, epsilon: float, generator: Generator | None) -> Answers:
    """Every label through K-ary randomised response; one that is no class (-1) answers for its place's class."""
    asked = np.where(codes < 0, np.arange(len(codes)) % classes, codes)
    answers = randomised_response(asked, classes, epsilon, generator)
    return Answers.of(answers, classes, *(float(value) for value in response_probabilities(classes, epsilon)))
