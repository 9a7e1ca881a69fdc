"""Audit of a training run from that run alone: many canaries, each included by a fair coin of its own.

Whoever holds the scores of the canaries (how much the trained model speaks for each having been included) guesses "in"
for those of the highest scores and "out" for those of the lowest. Under a claim the number of right guesses cannot be
large too often (derived: docs/audit.md, "From one run"): let r of m canaries be guessed, p_j the probability of j right
guesses, and F(x) the most that the claim lets an event of probability x grow to when one canary comes or goes. Then

    sum over j >= c of (j/m) p_j  <=  F( sum over j >= c - 1 of ((r - j)/m) p_j )     for every c,

and the largest tail that any p allows is found by a recursion from the tail downwards (Mahloujifar, Melis, Chaudhuri:
Auditing f-differential privacy in one run). For a pair (epsilon, delta) the binomial bound of Steinke, Nasr, Jagielski
(Privacy auditing with one training run, Theorem 5.2) holds as well; of two proven bounds the smaller one is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.accounting import PrivateDiagnostics
from gaussveil.audit.growth import (
    LARGEST_EPSILON,
    ROUNDED_UP,
    Claimed,
    Growth,
    LineGrowth,
    ShiftGrowth,
    growth_of,
)
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.turns import surrounded, turn
from gaussveil.typing import Floats

FEWEST_CANARIES = 10
FEWEST_GUESSES = 16  # of the numbers of guesses that are tried where none is given
UNFAIR = 1e-9  # probability below which the coins are not believed to have been fair
HALVINGS = 60


class OneRunAudit(PrivateDiagnostics):
    """Outcome of an audit from one run: how unlikely its right guesses are under the claim, and lower ends of epsilon.

    Attributes
    ----------
    p_value:
        Upper end of the probability of so many right guesses under the claim, all numbers of guesses that were tried
        counted; None without a claim.
    refuted:
        Whether it is at most 1 - confidence.
    epsilon_lower:
        The run is not (epsilon, delta)-private for any smaller epsilon, unless an event of probability
        1 - confidence happened; whatever its curve is.
    gaussian_epsilon_lower:
        The same if its curve is that of a mean shift, which is the usual model of a noisy training run.
    guesses, right:
        Of the number of guesses that told most.
    """

    __slots__ = (
        "confidence",
        "epsilon_lower",
        "gaussian_epsilon_lower",
        "guesses",
        "p_value",
        "right",
    )

    def __init__(
        self,
        p_value: float | None,
        epsilon_lower: float,
        gaussian_epsilon_lower: float,
        told: Guessed,
        confidence: float,
        delta: float,
    ) -> None:
        self.p_value = p_value
        self.epsilon_lower = epsilon_lower
        self.gaussian_epsilon_lower = gaussian_epsilon_lower
        self.guesses = told.guesses
        self.right = told.right
        self.confidence = confidence
        super().__init__(
            p_value=p_value,
            verdict="no claim"
            if p_value is None
            else "refuted"
            if self.refuted
            else "not refuted",
            confidence=confidence,
            delta=delta,
            epsilon_lower=epsilon_lower,
            gaussian_epsilon_lower=gaussian_epsilon_lower,
            guesses=told.guesses,
            right=told.right,
        )

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted at the confidence asked for."""
        return self.p_value is not None and self.p_value <= 1.0 - self.confidence


@dataclass(frozen=True)
class Guessed:
    """So many right guesses among so many, of so many canaries."""

    canaries: int
    guesses: int
    right: int


def audit_one_run(
    scores: ArrayLike,
    included: ArrayLike,
    claim: Claimed | None = None,
    *,
    delta: float,
    guesses: int | Sequence[int] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> OneRunAudit:
    """Audit one training run by the scores of canaries of which each was included by a fair coin of its own.

    Args:
        scores: one number for each canary: the higher, the more the trained model speaks for its having been included.
            They may depend on each other in any way; they may depend on `included` through the model alone.
        included: whether each canary was included.
        claim: what is said of the run when one record comes or goes: (epsilon, delta), an `Accountant` or any privacy
            curve.
        delta: at which delta lower ends of epsilon are told.
        guesses: how many canaries are guessed, half of them "in" and half "out"; all others are abstained from. Of
            several numbers the best counts, at the price of a Bonferroni correction; by default m, m/2, m/4, ..., seven
            at most.
        confidence: one less the probability of a false accusation, and of each lower end's being too high.
        seed: of the coin that puts equal scores in order.

    Returns:
        A `OneRunAudit`: what was guessed, a lower end of epsilon, and whether the claim is refuted.

    Raises:
        ParameterError: a number is out of range, or the coins were not fair.
        ShapeError: there is not one score and one coin for each canary, or there are too few canaries.
        NotFiniteError: a score is NaN or infinite.

    >>> import numpy as np
    >>> from gaussveil import audit_one_run
    >>> coins = np.random.default_rng(0).random(2000) < 0.5
    >>> scores = coins + np.random.default_rng(1).normal(size=2000)   # a mean shift of 1
    >>> audit_one_run(scores, coins, (0.1, 1e-5), delta=1e-5).refuted
    True
    """
    marks, coins = _checked(scores, included)
    checks.real("delta", delta, "[0, 1)")
    checks.real("confidence", confidence, "(0, 1)")
    numbers = _numbers_of_guesses(guesses, len(marks))
    tried = _guessed(marks, coins, numbers, seed)
    level = (1.0 - confidence) / len(tried)

    p_value = None
    if claim is not None:
        growth, pairs = growth_of(claim)
        p_value = min(
            1.0, len(tried) * min(_chance(guessed, growth, pairs) for guessed in tried)
        )

    def refutes_pair(one: Guessed, epsilon: float) -> bool:
        return (
            is_rarer(one, LineGrowth.of_pair(epsilon, delta), level)
            or binomial_chance(one, epsilon, delta) <= level
        )

    def refutes_shift(one: Guessed, shift: float) -> bool:
        return is_rarer(one, ShiftGrowth(shift), level)

    lower_ends = [_largest(partial(refutes_pair, guessed)) for guessed in tried]
    shift = max(_largest(partial(refutes_shift, guessed)) for guessed in tried)
    if shift > 0.0 and delta > 0.0:
        gaussian = float(GaussianPair.mean_shift(shift).dp_epsilon(delta))
    else:
        gaussian = 0.0
    told = tried[int(np.argmax(lower_ends))]
    return OneRunAudit(p_value, max(lower_ends), gaussian, told, confidence, delta)


def right_guesses_chance(found: Guessed, growth: Growth) -> float:
    """Upper end of the probability of at least so many right guesses under a claim: the largest feasible tail."""
    if _least_mass(found, growth, 1.0) <= 1.0:
        return 1.0

    def is_too_large(log_tail: float) -> bool:
        return _least_mass(found, growth, math.exp(log_tail)) > 1.0

    log_tail = turn(is_too_large, -700.0, 0.0, looks=HALVINGS).after
    return min(1.0, math.exp(log_tail) * ROUNDED_UP)


def is_rarer(found: Guessed, growth: Growth, chance: float) -> bool:
    """Whether at least so many right guesses are proven to have less than this chance under a claim."""
    return _least_mass(found, growth, chance / ROUNDED_UP) > 1.0


def _least_mass(found: Guessed, growth: Growth, tail: float) -> float:
    """Least total probability of numbers of right guesses whose tail from `right` on is `tail`; infinite above 1.

    All of the tail lies at `right`, and every lower number gets no more than the inequality above it asks for:
    probability that is moved down serves every other inequality better.
    """
    canaries = found.canaries
    guesses = found.guesses
    inverse = growth.least_before()
    right = tail * found.right / canaries
    wrong = tail * (guesses - found.right) / canaries
    total = tail
    for number in range(found.right - 1, -1, -1):
        wanting = inverse(right) - wrong
        if wanting <= 0.0:
            return total
        probability = wanting * canaries / (guesses - number)
        wrong += wanting
        right += number / canaries * probability
        total += probability
        if total > 1.0:
            return math.inf
    return total


def binomial_chance(found: Guessed, epsilon: float, delta: float) -> float:
    """Upper end of the same probability under (epsilon, delta), by Theorem 5.2 of Steinke, Nasr, Jagielski."""
    success = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(scipy.stats.binom.sf(found.right - 1, found.guesses, success))
    below = scipy.stats.binom.pmf(
        np.arange(found.right - 1, -1, -1), found.guesses, success
    )
    if found.right:
        most = float(np.max(np.cumsum(below) / np.arange(1, found.right + 1)))
    else:
        most = 0.0
    return min(1.0, (tail + 2.0 * found.canaries * delta * most) * ROUNDED_UP)


def _chance(
    found: Guessed, growth: Growth, pairs: Sequence[tuple[float, float]]
) -> float:
    """The smaller of both bounds."""
    chances = [binomial_chance(found, epsilon, delta) for epsilon, delta in pairs]
    return min([right_guesses_chance(found, growth), *chances])


def _checked(
    scores: ArrayLike, included: ArrayLike
) -> tuple[Floats, NDArray[np.bool_]]:
    marks = np.asarray(scores, dtype=np.float64)
    coins = np.asarray(included)
    if marks.ndim != 1 or marks.shape != coins.shape or len(marks) < FEWEST_CANARIES:
        raise ShapeError(
            f"'scores' and 'included' must be one number and one truth value for each of at least {FEWEST_CANARIES} "
            f"canaries. Got shapes {marks.shape} and {coins.shape}."
        )
    if not np.all(np.isfinite(marks)):
        raise NotFiniteError(
            "'scores' must be finite: give a canary without a score the same as an undecided one"
        )
    if coins.dtype != np.bool_ and not np.all((coins == 0) | (coins == 1)):
        raise ParameterError("'included' must hold truth values, one for each canary")
    coins = coins.astype(np.bool_)
    fair = float(scipy.stats.binomtest(int(coins.sum()), len(coins), 0.5).pvalue)
    if fair < UNFAIR:
        raise ParameterError(
            f"'included' must come of fair coins, one for each canary. Got {int(coins.sum())} of {len(coins)}."
        )
    return marks, coins


def _numbers_of_guesses(
    guesses: int | Sequence[int] | None, canaries: int
) -> list[int]:
    if guesses is None:
        numbers = [canaries >> halvings for halvings in range(7)]
        return [number for number in numbers if number >= FEWEST_GUESSES] or [canaries]
    numbers = [int(number) for number in np.atleast_1d(np.asarray(guesses)).tolist()]
    if not numbers or not all(2 <= number <= canaries for number in numbers):
        raise ParameterError(
            f"'guesses' must be whole numbers from 2 to the {canaries} canaries. Got {guesses!r}."
        )
    return numbers


def _guessed(
    marks: Floats, coins: NDArray[np.bool_], numbers: Sequence[int], seed: int
) -> list[Guessed]:
    """Right guesses: "in" for the highest scores, "out" for the lowest; equal scores stand in a random order."""
    order = np.lexsort((np.random.default_rng(seed).random(len(marks)), marks))
    sorted_coins = coins[order]
    outcomes = []
    for number in numbers:
        inside = number // 2
        outside = number - inside
        right = int(sorted_coins[len(marks) - inside :].sum()) + int(
            (~sorted_coins[:outside]).sum()
        )
        outcomes.append(Guessed(len(marks), number, right))
    return outcomes


def _largest(refutes: Callable[[float], bool]) -> float:
    """The largest number that is refuted, from below, by halving; 0 where none is."""

    def stands(number: float) -> bool:
        return not refutes(number)

    low, high = surrounded(stands, 1.0, factor=2.0, least=1.0, most=LARGEST_EPSILON)
    if high == math.inf:
        return low
    return turn(stands, low, high, looks=24).before
