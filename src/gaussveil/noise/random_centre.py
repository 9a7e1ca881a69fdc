"""Exact lattice noise around a random centre: how N(mean(D), S(D) + v I) is drawn when S itself is private.

The centre mean + F w is computed in floating point, w from an exact discrete Gaussian; it is rounded to a fine public
grid and covered by exact lattice noise of a public width s. Grid, width, tables and the number of random words are
functions of public numbers alone. Derived: docs/mechanisms/gaussian_output.md, "How it is drawn".
"""

from __future__ import annotations

import math
from fractions import Fraction

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.noise import (
    DiscreteGaussianNoise,
    GaussianNoise,
    Generator,
    default_generator,
)
from gaussveil.noise.discrete_gaussian import smoothing_total_variation
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.typing import Floats

INNER_VARIANCE = (
    2**40
)  # of the integers behind w: their spacing is 2^-20 of w's standard deviation
HEADROOM = (
    2.0**51
)  # grids that a centre may measure; noise on top of it stays below 2^52
ALLOWED_ERRORS = (
    64  # units in the last place for the arithmetic that made mean and factor
)


class RandomCentre:
    """Public design for draws of N(mean, F F' + exact_variance I), whatever the mean and F.

    The mean is no longer than `mean_bound` and no eigenvalue of F F' exceeds `largest_variance`; solving for them
    may enlarge roundings by `growth`. Attributes: `noise`, the exact lattice noise; `total_variation`, all that
    separates the law drawn from a post-processing of the continuous one; `arithmetic_allowance`, what of it pays for
    floating-point arithmetic, in standard deviations of the noise.
    """

    def __init__(
        self,
        *,
        exact_variance: float,
        largest_variance: float,
        dimension: int,
        mean_bound: float,
        growth: float = 1.0,
        remedy: str = "a smaller mean_bound may help",
    ) -> None:
        largest_variance = checks.real("largest_variance", largest_variance, "[0, inf)")
        mean_bound = checks.real("mean_bound", mean_bound, "[0, inf)")
        dimension = checks.whole("dimension", dimension)
        self.dimension = dimension
        self.mean_bound = mean_bound
        self._inner = DiscreteGaussianNoise(Fraction(INNER_VARIANCE))
        self._spread = 1.0 / math.sqrt(float(self._inner.variance))
        deviation = math.sqrt(exact_variance)
        widest = math.sqrt(largest_variance)
        span = (
            widest * self._inner.bound * self._spread * math.sqrt(dimension)
        )  # no centre lies further from its mean
        reach = mean_bound + span
        grid = 2.0 ** math.ceil(math.log2(max(reach, 2.0**12 * deviation) / HEADROOM))
        if grid > 2.0**-24 * deviation:
            raise ParameterError(
                f"outputs as long as {reach:.3g} would need a grid that is coarse against noise of deviation "
                f"{deviation:.3g}: {remedy}."
            )
        self.noise = GaussianNoise(deviation, dimension, grid)
        ratio = largest_variance / exact_variance
        smoothing = smoothing_total_variation(
            float(self._inner.variance) / (1 + ratio), dimension
        )
        lost = (
            growth
            * UNIT_ROUNDOFF
            * (ALLOWED_ERRORS * mean_bound + (ALLOWED_ERRORS + dimension) * span)
        )
        self.arithmetic_allowance = lost / deviation
        self.total_variation = (
            self.noise.total_variation
            + self.noise.centre_total_variation
            + dimension * self._inner.total_variation
            + smoothing
            + 0.4 * self.arithmetic_allowance
        )

    def draw(
        self, mean: Floats, factor: Floats, generator: Generator | None = None
    ) -> Floats:
        """One draw: float64 multiples of the grid."""
        source = default_generator() if generator is None else generator
        standard = self._inner.draw(self.dimension, source) * self._spread
        return self.noise.add(mean + factor @ standard, source)
