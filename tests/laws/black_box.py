"""A black-box audit: it sees outputs on two neighbours and nothing else."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom

Scores = NDArray[np.float64]

FALSE_ALARM = 1e-10  # per audit, all thresholds and both bounds together
THRESHOLDS = 8


def upper_end(hits: int, trials: int, level: float) -> float:
    """Clopper-Pearson upper end of a probability."""
    return 1.0 if hits == trials else float(beta.ppf(1 - level, hits + 1, trials - hits))


def lower_end(hits: int, trials: int, level: float) -> float:
    """Clopper-Pearson lower end of a probability."""
    return 1.0 - upper_end(trials - hits, trials, level)


def refutes(hits: int, false_hits: int, trials: int, epsilon: float, delta: float) -> bool:
    """Whether so many hits on one neighbour and on the other contradict P(E) <= e^epsilon P'(E) + delta."""
    level = FALSE_ALARM / (2 * THRESHOLDS)
    return lower_end(hits, trials, level) > exp(epsilon) * upper_end(false_hits, trials, level) + delta


def thresholds(pilot: Scores) -> Scores:
    """Quantiles of scores that are not used again."""
    return np.quantile(pilot, np.linspace(0.3, 0.97, THRESHOLDS))


def counts(scores: Scores, other: Scores, threshold: float) -> tuple[int, int]:
    """How often each neighbour's score exceeds the threshold."""
    return int(np.sum(scores > threshold)), int(np.sum(other > threshold))


def finds_violation(scores: Scores, other: Scores, levels: Scores, epsilon: float, delta: float) -> bool:
    """Whether any threshold refutes the promise."""
    return any(refutes(*counts(scores, other, level), len(scores), epsilon, delta) for level in levels)


def power_lower(scores: Scores, other: Scores, levels: Scores, epsilon: float, delta: float) -> float:
    """Lower bound on the chance that a fresh audit of as many outputs finds a violation (itself wrong 1e-3 of times).

    True hit rates are bounded from the sample, a fresh audit then hits at least `few` and at most `many` times except
    with the probability subtracted.
    """
    trials, best = len(scores), 0.0
    for level in levels:
        hits, false_hits = counts(scores, other, level)
        rate, false_rate = lower_end(hits, trials, 5e-4), upper_end(false_hits, trials, 5e-4)
        few, many = int(binom.ppf(1e-3, trials, rate)), int(binom.ppf(1 - 1e-3, trials, false_rate))
        if refutes(few, many, trials, epsilon, delta):
            best = max(best, 1 - float(binom.cdf(few - 1, trials, rate)) - float(binom.sf(many, trials, false_rate)))
    return best
