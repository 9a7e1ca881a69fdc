"""The cheapest noise that reaches a delta: a root over budgets, from the private side."""

from __future__ import annotations

import math
from collections.abc import Callable

from gaussveil.calibration.class_search import Noise
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.turns import surrounded

# times the guess: no budget beyond is looked at
LEAST = 1e-15
MOST = 1e60
MOST_SEARCHES = 60


class Warm:
    """A search that begins where the last one ended, and remembers how the figure fell with the log of the budget."""

    def __init__(
        self, search: Callable[[float, Noise | None], Noise], begin: Noise | None = None
    ) -> None:
        self._search = search
        self._latest = begin
        self._seen: list[tuple[float, float]] = []

    def __call__(self, budget: float) -> Noise:
        """The search's noise for that budget."""
        self._latest = self._search(budget, self._latest)
        self._seen.append((math.log(budget), self._latest.figure))
        return self._latest

    def slope(self) -> float:
        """Negative: more budget, less delta."""
        if len(self._seen) < 2:
            return -1.0
        (first, before), (second, after) = self._seen[-2:]
        if first == second:
            return -1.0
        return min(-0.5, (before - after) / (first - second))


def cheapest_within(
    noise_at: Callable[[float], Noise], target: float, guess: float, tolerance: float
) -> Noise:
    """The cheapest noise found on the private side of the target: secant steps in a bracket of log budgets.

    Where no budget reaches the target, the noise of the largest one that was tried.
    """
    seen: dict[float, Noise] = {}

    def reaches(budget: float) -> bool:
        if budget not in seen:
            seen[budget] = noise_at(budget)
        return seen[budget].figure <= target

    low, high = surrounded(
        reaches,
        guess,
        factor=1.05,
        squared=True,
        least=LEAST * guess,
        most=MOST * guess,
    )
    if high == math.inf:
        return seen[low]
    if low == 0.0:
        return seen[high]

    def by_secant() -> float:
        """Where a line through the ends of the bracket, of figures over log budgets, reaches the target."""
        private = min(budget for budget in seen if reaches(budget))
        other = max(budget for budget in seen if budget < private)
        lower = seen[other].figure
        share = (lower - target) / (lower - max(seen[private].figure, target - 10))
        if not math.isfinite(share):
            share = 0.5
        return float(other * (private / other) ** min(max(share, 0.1), 0.9))

    def look(budget: float) -> Trial:
        reaches(budget)
        return Trial(seen[budget].figure - target, by_secant())

    cheapest = private_end(
        look, by_secant(), low, high, rtol=tolerance, evaluations=MOST_SEARCHES
    )
    return seen[cheapest]
