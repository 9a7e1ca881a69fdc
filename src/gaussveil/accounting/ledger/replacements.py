"""What accounts for different neighbours add up to, in the relation that both bound: one person is replaced.

Whoever is replaced is removed and then added, so with delta(e) of what was spent on adding and removing,
P(S) <= e^(2e) Q(S) + (1 + e^e) delta(e) between the two tables, for every e (derived: two steps of the definition).
What was spent on replacements holds for them as it is. Epsilons and deltas of the two add, in whatever order they came.
"""

from __future__ import annotations

import math

from gaussveil.accounting.composition import Composition

_STEPS = 200
_LARGEST = 700.0  # beyond which e^epsilon is no double


def epsilon_of_both(added: Composition, replaced: Composition, delta: float) -> float:
    """Epsilon, at delta, of one person who is replaced; half of delta is for each of the two."""
    return twice(added, delta / 2) + replaced.epsilon(delta / 2)


def twice(added: Composition, delta: float) -> float:
    """Epsilon, at delta, of two neighbours in a row; infinite where none is found."""
    once = 0.0
    for _ in range(_STEPS):
        enough = added.epsilon(delta / (1 + math.exp(once)))
        if enough <= once:
            return 2 * once
        if enough > _LARGEST:
            break
        once = enough * (1 + 1e-9)
    return math.inf
