"""One draw of discrete Laplace noise: its grid, by how much a unit moves it, its scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from gaussveil.noise import Generator
from gaussveil.noise.laplace import discrete_laplace, rational_scale
from gaussveil.noise.lattice import LARGEST_INTEGER
from gaussveil.statistics import ExactSum
from gaussveil.typing import Floats

FINEST = 2.0**-20  # of what a unit moves, the most that rounding to a grid may add
OUTSIDE = 0.05  # of an interval


@dataclass(frozen=True)
class Design:
    """One draw: a grid, by how many of its steps a unit moves all numbers together, and the scale in steps."""

    grid: float
    shift: int
    scale: float

    @classmethod
    def of(cls, moved: int, numbers: int, epsilon: float, unit: float) -> Design:
        """For so many numbers, multiples of a unit, that move by so much together.

        Where rounding to a coarser grid costs next to nothing they are: each then moves by less than a step more.
        """
        fine = 2.0 ** math.floor(math.log2(FINEST * moved / numbers))
        grid, rounded = (fine, numbers) if fine > unit else (unit, 0)
        shift = math.ceil(Fraction(moved) / Fraction(grid)) + rounded
        return cls(grid, shift, float(np.nextafter(shift / epsilon, math.inf)))

    @cached_property
    def variance(self) -> float:
        """Of what is drawn, in squared rows."""
        numerator, denominator = rational_scale(self.scale)
        half = math.sinh(denominator / numerator / 2)
        return self.grid**2 / (2 * half**2)

    @property
    def reach(self) -> float:
        """Half an interval that holds the noise with 95 %, over the deviation."""
        rate = 1 / self.scale
        steps = math.ceil(-math.log(OUTSIDE * (1 + math.exp(-rate)) / 2) / rate - 1)
        return steps * self.grid / math.sqrt(self.variance)


def noisy(
    design: Design, sums: ExactSum, generator: Generator | None, size: int = 1
) -> Floats:
    """Sums rounded exactly to a draw's grid and multiplied by whole numbers, plus its noise; over them again."""
    steps = sums.on_grid(design.grid) / design.grid
    # A public limit far above any table: within it every integer is a double.
    limit = LARGEST_INTEGER // size
    noise = discrete_laplace(design.scale, sums.shape, generator)
    integers = np.clip(steps, -limit, limit).astype(np.int64) * size + noise
    return integers.astype(np.float64) * (design.grid / size)
