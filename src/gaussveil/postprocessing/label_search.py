"""The classes that answers, table and features make likely: many starts, their ends, and what the ends agree on.

Post-processing throughout: labels come in as `Answers` and `NoisyTable` alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from gaussveil.postprocessing.maximisation import (
    PRIOR_RECORDS,
    doubted,
    expectation_maximisation,
    from_cells,
    log_joint,
    moments,
    posterior_shares,
)
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.postprocessing.public_features import hardened, summed, well_shaped
from gaussveil.postprocessing.shrinkage import positive
from gaussveil.typing import Floats, Integers

TRIAL_ROUNDS = 25
EM_ROUNDS = 200
NAMING_ROUNDS = 100
FOLLOWED = 4  # starts that are followed to their ends
SAME_END = 0.02  # ends whose log-likelihoods differ by less are one
LAST_RECORDS = 1e-3  # worth of the pooled covariance in a released class, where records are many for the columns


@dataclass(frozen=True)
class NoisyTable:
    """Counts of classes x cells with discrete Laplace noise of scale 2/epsilon."""

    noisy: Floats
    cells: Integers
    epsilon: float

    def log_likelihood(self, shares: Floats) -> float:
        """Of the noisy counts where the records are shared out so, up to a constant."""
        return (
            -float(np.abs(self.noisy - summed(self.cells, shares).T).sum())
            * self.epsilon
            / 2
        )


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
            np.where(
                answers[:, None] == np.arange(classes), math.log(keep), math.log(other)
            ),
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


def starting_points(
    rows: Floats, answers: Answers, found: Sequence[Floats]
) -> list[Parameters]:
    """Where EM begins: unbiased class means, and mixtures fitted to the features whose components get classes' names.

    The likelihood has several maxima, and a start from the labels alone often ends in a wrong one; components of the
    features are near the right one as soon as their names are. `found` are the components' shares, none where the
    columns are too many for components to show classes.
    """
    classes = answers.unbiased.shape[1]
    middle = rows.mean(axis=0)
    counts = positive(answers.unbiased.sum(axis=0), answers.count_noise)
    means = middle + (answers.unbiased.T @ (rows - middle)) / counts[:, None]
    _, _, covariances = moments(rows, np.full((len(rows), classes), 1 / classes))
    starts = [(counts / counts.sum(), means, covariances)]
    for parts in found:
        cells = hardened(parts)
        for evidence in (answers.log_label, answers.unbiased):
            starts.append(
                from_cells(rows, cells, named_each(summed(cells, evidence)).T)
            )
        starts.append(
            moments(rows, doubted(parts @ _named_softly(parts, answers.log_label)))
        )
    return starts


def likely_classes(
    rows: Floats,
    answers: Answers,
    starts: list[Parameters],
    table: NoisyTable | None = None,
) -> Parameters:
    """Every start is followed for some rounds, under its own names and the best ones; the best to their ends.

    Records are then shared out as the ends do, each end as likely as it is: of two ends about equally likely, the mean
    of their class moments is nearer the truth than either.
    """

    def followed(
        begun: list[Parameters], rounds: int
    ) -> list[tuple[float, Parameters]]:
        ends = []
        for start in begun:
            likelihood, end = expectation_maximisation(
                rows, answers.log_label, start, rounds
            )
            if table is not None:
                likelihood += table.log_likelihood(
                    posterior_shares(answers.log_label + log_joint(rows, *end))
                )
            ends.append((likelihood, end))
        return sorted(ends, key=lambda pair: -pair[0])

    if len(starts) == 1:  # too many columns: classes need what they borrow
        return followed(starts, EM_ROUNDS)[0][1]
    tried = [end for _, end in followed(starts, TRIAL_ROUNDS)]
    renamed = [_renamed(rows, answers, end, table) for end in tried]
    best = followed(tried[:FOLLOWED] + renamed, TRIAL_ROUNDS)[:FOLLOWED]
    ends = _distinct(followed([end for _, end in best], EM_ROUNDS))
    shares = [
        posterior_shares(answers.log_label + log_joint(rows, *end)) for _, end in ends
    ]
    chances = softmax(np.array([likelihood for likelihood, _ in ends]))
    shaped = well_shaped(len(rows), answers.unbiased.shape[1], rows.shape[1])
    return moments(
        rows,
        np.tensordot(chances, np.stack(shares), 1),
        LAST_RECORDS if shaped else PRIOR_RECORDS,
    )


def _distinct(ends: list[tuple[float, Parameters]]) -> list[tuple[float, Parameters]]:
    """One of each group of ends that starts share; they come in order of likelihood."""
    return [
        end
        for place, end in enumerate(ends)
        if place == 0 or ends[place - 1][0] - end[0] > SAME_END
    ]


def _renamed(
    rows: Floats, answers: Answers, found: Parameters, table: NoisyTable | None
) -> Parameters:
    """The same Gaussians under the names that fit answers and table best: one name each, so evidence adds up."""
    shares = posterior_shares(log_joint(rows, *found))  # of the features alone
    evidence = shares.T @ answers.log_label
    if table is not None:
        counts = summed(table.cells, shares).T
        evidence -= (
            np.abs(counts[:, None] - table.noisy[None]).sum(axis=2) * table.epsilon / 2
        )
    order = linear_sum_assignment(-evidence.T)[1]
    return found[0][order], found[1][order], found[2][order]


def named_each(evidence: Floats) -> Floats:
    """Cells x classes, 0 or 1: every class has a cell as far as there are cells; the others go to their likeliest."""
    named = np.zeros(evidence.shape)
    named[np.arange(len(evidence)), np.argmax(evidence, axis=1)] = 1.0
    cells, classes = linear_sum_assignment(-evidence)
    named[cells] = 0.0
    named[cells, classes] = 1.0
    return named


def _named_softly(parts: Floats, log_label: Floats) -> Floats:
    """The likeliest classes of every component, the components as they are: a concave problem, so one maximum."""
    classes = log_label.shape[1]
    names = np.full((parts.shape[1], classes), 1 / classes)
    label = np.exp(log_label)
    for _ in range(NAMING_ROUNDS):
        joint = (parts @ names) * label
        # each record's doubt is shared among its components as their names explain its answer
        names = names * (parts.T @ (label / joint.sum(axis=1, keepdims=True)))
        names /= np.maximum(
            names.sum(axis=1, keepdims=True), 1e-300
        )  # of a component without records nothing is left
    return np.asarray(names)
