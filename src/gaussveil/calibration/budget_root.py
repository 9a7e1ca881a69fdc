"""The cheapest noise that reaches a delta: a root over budgets, from the private side."""

from __future__ import annotations

import math
from collections.abc import Callable

from gaussveil.calibration.class_search import (
    Noise,
)

MOST = 1e60  # times the guess: no budget beyond is looked at


LEAST = 1e-15


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
    step = 1.05
    high = guess
    best = below = noise_at(high)
    low = high
    while best.figure > target and high < MOST * guess:
        low = high
        below = best
        high = high * step
        step = step**2
        best = noise_at(high)
    if best.figure > target:
        return best
    while below.figure <= target:
        best = below
        high = low
        low = low / step
        step = step**2
        if low < LEAST * guess:
            return best
        below = noise_at(low)
    upper = best.figure
    lower = below.figure
    for _ in range(60):
        if high <= low * (1 + tolerance):
            break
        if lower > target:
            share = (lower - target) / (lower - max(upper, target - 10))
        else:
            share = 0.5
        middle = low * (high / low) ** min(max(share, 0.1), 0.9)
        noise = noise_at(middle)
        if noise.figure <= target:
            best = noise
            high = middle
            upper = noise.figure
        else:
            low = middle
            lower = noise.figure
    return best
