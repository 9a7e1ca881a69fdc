"""White noise and one draw that all coordinates share: covariance a I + b 11', without a matrix."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.noise.discrete_gaussian import DiscreteGaussian, smoothing_total_variation
from gaussveil.noise.gaussian import GaussianNoise
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import LARGEST_INTEGER, Shape
from gaussveil.typing import Integers


class SharedNoise(GaussianNoise):
    """Noise of at least variance `own` in every coordinate plus variance `shared` in one number added to all of them.

    The draw is D + 1 D1 with D white on the lattice and D1 one lattice number: Theorem 1 of docs/math/noise.md with
    A = 1, so up to a stated total variation it is the lattice Gaussian of covariance own I + shared 11' + (2 grid)^2 I.
    `covariance` and `continuous_covariance` are those of the white part alone.
    """

    def __init__(self, own: float, shared: float, shape: Shape, differing: int | None = None) -> None:
        super().__init__(sqrt(own) * (1 + 2.0**-52), shape, differing=differing)
        self.shared = DiscreteGaussian(max(Fraction(shared) / Fraction(self.grid) ** 2, Fraction(1)))
        count = int(np.prod(self.shape))
        conditional = 1 / (1 / self.shared.variance + count / self.white.variance)
        self.total_variation += self.shared.total_variation
        self.total_variation += smoothing_total_variation(float(conditional) * (1 - 1e-12), 1)
        if self.shared.bound + self.white.bound >= LARGEST_INTEGER:
            raise ParameterError(f"shared noise must stay below 2^52 grids. Got variances {own!r} and {shared!r}.")

    def draw(self, generator: Generator | None = None) -> Integers:
        """The noise alone, in units of the grid."""
        source = default_generator() if generator is None else generator
        return super().draw(source) + self.shared.draw((), source)
