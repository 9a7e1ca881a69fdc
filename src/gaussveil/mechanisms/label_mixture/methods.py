"""How classes are found where labels alone are protected: randomised answers, a noisy table by cells, or both.

Functions of the labels through `SecretLabels` only and of the public features as they are (corrections F1, F3, F4;
derived: docs/mechanisms/mixture.md, "Label adjacency"). The fourth way, noisy class sums, is that of all mixtures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gaussveil.mechanisms.mixture.budget import RECORDS_PER_MOMENT, records_per_class
from gaussveil.noise import (
    Generator,
    discrete_laplace,
    randomised_response,
    response_probabilities,
)
from gaussveil.postprocessing.intervals import adding_up_to
from gaussveil.postprocessing.label_search import (
    Answers,
    NoisyTable,
    believed,
    likely_classes,
    named_each,
    starting_points,
)
from gaussveil.postprocessing.maximisation import (
    START_DOUBT,
    expectation_maximisation,
    from_cells,
    moments,
)
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.postprocessing.public_features import (
    components,
    hardened,
    nearest_clusters,
    scatter_within,
    well_shaped,
)
from gaussveil.typing import Floats, Integers

METHODS = ("response", "clusters", "sums", "both")
LARGE_CLASSES = 300
ENOUGH_NAMED = 0.5  # of the squared columns
SURELY_NAMED = 20.0  # records a class's answers are worth, above which they need no table beside them
TABLE_EPSILON = 0.2  # of `both`, at most half of epsilon
SEPARATED = 0.3  # share of the features' scatter that lies within K clusters
MOST_CELLS = 200
RECORDS_PER_NOISE = 20  # cells are so large that an even share of one exceeds its noise
TABLE_ROUNDS = 30
SURE = 3.0  # noise scales above which an entry of the table is believed


def choose_method(
    size: int, classes: int, dimension: int, epsilon: float, mean_shift: float
) -> str:
    """The rule for `method="auto"`: N, K, d, epsilon and delta (through its mean shift), nothing else.

    The noise of class sums vanishes as classes grow, whatever their shape: large classes are summed. Otherwise EM on
    randomised labels, where those of a class are worth enough records to find it; below, helped by a table. Where
    columns are too many for the features to show classes, counts by cell stand in for the helped labels.
    """
    strength = records_per_class(size, mean_shift / math.sqrt(2), classes)
    if (
        size >= LARGE_CLASSES * classes
        and 2 * strength / (dimension * (dimension + 1)) >= RECORDS_PER_MOMENT
    ):
        return "sums"
    named = _named(size, classes, epsilon)
    if not well_shaped(size, classes, dimension):
        if named >= ENOUGH_NAMED * dimension**2:
            return "response"
        return "clusters"
    if named >= SURELY_NAMED:
        return "response"
    return "both"


def _named(size: int, classes: int, epsilon: float) -> float:
    """How many records of a class of even size its randomised labels are worth."""
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    return size / classes * (keep - other) ** 2


@dataclass(frozen=True, eq=False)
class SecretLabels:
    """Codes of the labels, -1 where one is no class; what is released of them comes out of these two draws."""

    codes: Integers
    classes: int
    generator: Generator | None

    def table(self, cells: Integers, epsilon: float) -> NoisyTable:
        """Noisy counts of classes x cells (discrete Laplace): a label moves two by one, one that is no class none."""
        table = np.zeros((self.classes, int(cells.max()) + 1), dtype=np.int64)
        complete = self.codes >= 0
        np.add.at(table, (self.codes[complete], cells[complete]), 1)
        noise = discrete_laplace(2 / Fraction(epsilon), table.shape, self.generator)
        return NoisyTable((table + noise).astype(np.float64), cells, epsilon)

    def answers(self, epsilon: float) -> Answers:
        """Every label through K-ary randomised response; one that is no class answers for its place's class."""
        asked = np.where(
            self.codes < 0, np.arange(len(self.codes)) % self.classes, self.codes
        )
        drawn = randomised_response(asked, self.classes, epsilon, self.generator)
        return Answers.of(
            drawn,
            self.classes,
            *map(float, response_probabilities(self.classes, epsilon)),
        )


def from_response(rows: Floats, labels: SecretLabels, epsilon: float) -> Parameters:
    """Randomised labels, then EM in which a label is one more noisy observation of the class."""
    answers = labels.answers(epsilon)
    return likely_classes(
        rows, answers, starting_points(rows, answers, _guides(rows, labels.classes))
    )


def from_both(rows: Floats, labels: SecretLabels, epsilon: float) -> Parameters:
    """A coarse table of classes by clusters, then randomised labels: the two epsilons add up.

    The table has little noise where there are few clusters, so it tells which cluster is which class; the labels
    divide clusters that classes share.
    """
    for_table, for_answers = split_epsilon(epsilon)
    guides = _guides(rows, labels.classes)
    cells = hardened(guides[0] if guides else components(rows, labels.classes))
    table = labels.table(cells, for_table)
    answers = labels.answers(for_answers)
    counts = believed(
        table.noisy,
        adding_up_to(table.noisy.T, np.bincount(cells)).T,
        SURE * 2 / for_table,
    )
    starts = [
        from_cells(rows, cells, counts),
        from_cells(rows, cells, named_each(table.noisy.T).T),
    ]
    return likely_classes(
        rows, answers, [*starting_points(rows, answers, guides), *starts], table
    )


def _guides(rows: Floats, classes: int) -> list[Floats]:
    """Components of the features, as many as classes and twice as many; none where they are no guide to classes."""
    if not well_shaped(len(rows), classes, rows.shape[1]):
        return []
    return [components(rows, count) for count in (classes, 2 * classes)]


def split_epsilon(epsilon: float) -> tuple[float, float]:
    """What `both` spends on the table and on the answers; never more than epsilon together."""
    for_table = min(TABLE_EPSILON, epsilon / 2)
    for_answers = epsilon - for_table
    while Fraction(for_table) + Fraction(for_answers) > Fraction(epsilon):
        for_answers = math.nextafter(for_answers, 0.0)
    return for_table, for_answers


def from_clusters(rows: Floats, labels: SecretLabels, epsilon: float) -> Parameters:
    """A noisy table of classes by cells of the features; the records of a cell share its classes.

    Where the features fall into clusters, only entries well above the noise count, and EM then shares cells out by the
    classes' densities.
    """
    classes = labels.classes
    separated = scatter_within(rows, classes) < SEPARATED
    cells = _cells(rows, classes, epsilon, separated)
    sizes = np.bincount(cells)  # the features are known, so the cells' sizes are
    noisy = labels.table(cells, epsilon).noisy
    counts = adding_up_to(noisy.T, sizes).T
    if not separated:
        return moments(rows, counts[:, cells].T / sizes[cells][:, None])
    counts = believed(noisy, counts, SURE * 2 / epsilon)
    counts = counts / np.maximum(counts.sum(axis=0), 1e-9)
    parameters = from_cells(rows, cells, counts, doubt=0.0)
    offsets = np.log(counts + START_DOUBT / classes)[:, cells].T
    return expectation_maximisation(
        rows, offsets, parameters, TABLE_ROUNDS, weighted=False
    )[1]


def _cells(rows: Floats, classes: int, epsilon: float, separated: bool) -> Integers:
    """Cells of the features alone, none of them empty."""
    if not separated:
        return nearest_clusters(
            rows,
            int(
                np.clip(
                    len(rows) * epsilon / (RECORDS_PER_NOISE * classes),
                    2 * classes,
                    MOST_CELLS,
                )
            ),
        )
    return hardened(components(rows, classes))
