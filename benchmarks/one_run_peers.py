"""Lower bounds of epsilon from one training run, as two papers state them; nothing here imports gaussveil.

Each takes m canaries, r guesses and v right ones. Both are compared with `gaussveil.audit_one_run` at the same guesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

HALVINGS = 40
LARGEST = 30.0


def largest_refuted(refuted: Callable[[float], bool]) -> float:
    """The end of the values that are refuted, by halving."""
    low, high = 0.0, LARGEST
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def by_pairs(canaries: int, guesses: int, right: int, delta: float, level: float) -> float:
    """Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, Theorem 5.2.

    P(right guesses >= v) <= P(B >= v) + 2 m delta max over i of P(v - i <= B < v)/i, B binomial with e^eps/(1 + e^eps).
    """

    def refuted(epsilon: float) -> bool:
        chance = 1.0 / (1.0 + math.exp(-epsilon))
        steps = np.arange(1, right + 1)
        below = np.cumsum(scipy.stats.binom.pmf(right - steps, guesses, chance))
        tail = float(scipy.stats.binom.sf(right - 1, guesses, chance))
        return tail + 2.0 * canaries * delta * float(np.max(below / steps, initial=0.0)) <= level

    return largest_refuted(refuted)


def by_tradeoff(canaries: int, guesses: int, right: int, level: float) -> float:
    """The mean shift by Mahloujifar, Melis, Chaudhuri, "Auditing f-differential privacy in one run", Theorem 9.

    Of a run whose tail at v is `level`, shares h_i of wrong and r_i of right guesses among the events of at least i are
    found from v downwards; what they add up to beyond the share of canaries that is guessed refutes the claim.
    """

    def refuted(shift: float) -> bool:
        wrong = level * (guesses - right) / canaries
        rightly = level * right / canaries
        for number in range(right - 1, -1, -1):
            least = float(scipy.special.ndtr(scipy.special.ndtri(min(rightly, 1.0)) - shift))  # the claim's inverse
            grown = max(wrong, least)
            rightly += number / (guesses - number) * (grown - wrong)
            wrong = grown
            if rightly + wrong > guesses / canaries:
                return True
        return False

    return largest_refuted(refuted)
