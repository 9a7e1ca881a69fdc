"""How far |F| has fallen beyond a height of the line Re s = c: by moments next to c, by paths of outputs above that.

    log |M(c+iy)/M(c)|      0 |**           y^2 V/2 (1 - ratio y^2), a parabola in y^2: the larger of both ends
                              |  **
                              |    ****---- the best path of outputs beside the real ones (`LineCells.falls`)
                              +-----|-----> y
                                 y_1 = root(1/(2 ratio))        ratio = E (L - L')^4 / (24 V)

(docs/math/subsampled, "Beyond the last node").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from gaussveil.spectrum.subsampled.line_cells import LineCells
from gaussveil.spectrum.turns import surrounded, turn


class Fall(NamedTuple):
    """One step with its count: bounds beside its outputs, V and ratio of its loss at c, and log M(c)."""

    uses: int
    cells: LineCells
    variance: float
    ratio: float
    log_moment: float


class Falling:
    """log of a bound on |F| at all heights above one, over |F(c)|; `beside` is that of what stands beside the steps."""

    def __init__(self, beside: Callable[[float], float], steps: Sequence[Fall]) -> None:
        self.beside = beside
        self.steps = steps
        ratio = max((step.ratio for step in steps), default=0.0)
        self.middle = 0.0
        if ratio > 0.0:
            self.middle = math.sqrt(0.5 / ratio)

    def at(self, height: float) -> float:
        """The bound above a height."""
        by_paths = self.beside(height)
        if not self.steps:
            return by_paths
        if height >= self.middle:
            return by_paths + self._by_paths(height)
        by_moments = by_paths
        for step in self.steps:
            fallen = min(
                (y**2 * (1.0 - step.ratio * y**2) for y in (height, self.middle)),
            )
            by_moments -= 0.5 * step.uses * step.variance * fallen
        return max(by_moments, by_paths + self._at_middle)

    @cached_property
    def _at_middle(self) -> float:
        return self._by_paths(self.middle)

    def _by_paths(self, height: float) -> float:
        return sum(
            step.uses * step.cells.falls(height, step.log_moment) for step in self.steps
        )


def falling_height(falling: Falling, goal: float, least: float, most: float) -> float:
    """Where what is left should have fallen to e^goal times the height; infinite above most."""

    def has_fallen(height: float) -> bool:
        return falling.at(height) < goal + math.log(height)

    if not (least < most and has_fallen(most)):
        return math.inf
    start = min(least * math.sqrt(max(-2.0 * goal, 1.0)), most)  # of a normal loss
    near = surrounded(has_fallen, start, factor=1.2, least=least, most=most)
    if near.before == 0.0 or near.after == math.inf:
        return near.after
    return turn(has_fallen, *near, rtol=0.1, by_ratio=True).after
