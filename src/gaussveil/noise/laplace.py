"""Discrete Laplace noise, exact: Canonne, Kamath and Steinke (2020), Algorithms 1 and 2, vectorised.

The law on Z is proportional to exp(-|x|/scale) with a rational scale; nothing is approximated, so there is no sampler
error.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, isfinite, ldexp, log2, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.errors import ParameterError
from gaussveil.noise.bernoulli import uniform_below
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import Shape, checked_grid, checked_shape, to_lattice
from gaussveil.typing import Integers

SCALE_BITS = 33
LARGEST_SCALE = 2**44
GRID_RATIO = 2.0**-20


def rational_scale(scale: float | Fraction) -> tuple[int, int]:
    """Integers t and s (a power of two) with t/s at least the scale, and within a relative 2^-31 of it."""
    if isinstance(scale, float) and not isfinite(scale):
        raise ParameterError(f"scale must be finite; got {scale}.")
    exact = Fraction(scale)
    if not Fraction(1, 1024) <= exact <= LARGEST_SCALE:
        raise ParameterError(f"scale must lie in [2^-10, 2^44] grids; got {float(exact):.6g}. Choose another grid.")
    bits = max(0, SCALE_BITS - ceil(exact).bit_length())
    if exact < 1:
        bits = SCALE_BITS + 10
    return ceil(exact * 2**bits), 2**bits


def discrete_laplace(scale: float | Fraction, shape: Shape, generator: Generator | None = None) -> Integers:
    """Independent draws on Z of law proportional to exp(-|x|/b); b is `rational_scale(scale)`, never below it."""
    source = default_generator() if generator is None else generator
    numerator, denominator = rational_scale(scale)
    sizes = checked_shape(shape)
    result = np.empty(prod(sizes), dtype=np.int64)
    missing = np.arange(result.size)
    while missing.size:
        # magnitude X of law exp(-X/t): remainder by rejection, quotient by coins of exp(-1)
        remainder = uniform_below(numerator, missing.size, source)
        accepted = bernoulli_exp(remainder, numerator, source)
        magnitude = (remainder + numerator * _geometric(missing.size, source)) // denominator
        negative = (source.uint64(missing.size) & np.uint64(1)).astype(bool)
        accepted &= ~(negative & (magnitude == 0))  # zero must not be counted twice
        result[missing] = np.where(negative, -magnitude, magnitude)
        missing = missing[~accepted]
    return result.reshape(sizes)


def bernoulli_exp(numerators: Integers, denominator: int, generator: Generator) -> NDArray[np.bool_]:
    """Independent coins, true with probability exp(-n/denominator) exactly, 0 <= n <= denominator (Algorithm 1).

    Coins of n/(k denominator), k = 1, 2, ..., are thrown until one fails; the parity of k then has the right law.
    """
    steps = np.zeros(numerators.shape, dtype=np.int64)
    alive = np.arange(numerators.size)
    k = 0
    while alive.size:
        k += 1
        steps[alive] = k
        survives = uniform_below(denominator, alive.size, generator) < numerators[alive]
        survives &= uniform_below(k, alive.size, generator) == 0
        alive = alive[survives]
    return np.asarray(steps % 2 == 1)


def _geometric(count: int, generator: Generator) -> Integers:
    """Number of successes of exp(-1) coins before the first failure."""
    result = np.zeros(count, dtype=np.int64)
    alive = np.arange(count)
    while alive.size:
        alive = alive[bernoulli_exp(np.ones(alive.size, dtype=np.int64), 1, generator)]
        result[alive] += 1
    return result


class LaplaceNoise:
    """Laplace noise on a public power-of-two grid: epsilon is (l1 sensitivity + rounding_l1) / scale, delta is 0.

    `differing` is the number of coordinates in which neighbouring values can differ; `scale` is what is
    drawn, never below the request.
    """

    total_variation = 0.0

    def __init__(
        self, scale: float, shape: Shape = (), grid: float | None = None, differing: int | None = None
    ) -> None:
        if not isfinite(scale) or scale <= 0:
            raise ParameterError(f"scale must be positive; got {scale}.")
        self.shape = checked_shape(shape)
        total = prod(self.shape)
        self.differing = total if differing is None else differing
        if not 1 <= self.differing <= total:
            raise ParameterError(f"differing must lie between 1 and the {total} coordinates; got {differing}.")
        default = GRID_RATIO * scale / self.differing
        self.grid = checked_grid(ldexp(1.0, floor(log2(default))) if grid is None else grid)
        self.rounding_l1 = float(np.nextafter(self.grid * self.differing, np.inf))
        self.lattice_scale = Fraction(*rational_scale(Fraction(scale) / Fraction(self.grid)))

    @property
    def scale(self) -> float:
        """Scale of the noise that is drawn."""
        return float(self.lattice_scale * Fraction(self.grid))

    def add(self, value: ArrayLike, generator: Generator | None = None) -> NDArray[np.float64]:
        """round_g(value) plus noise, as `GaussianNoise.add`: float64 multiples of the grid."""
        lattice = to_lattice(value, self.shape, self.grid)
        return (lattice + discrete_laplace(self.lattice_scale, self.shape, generator)).astype(np.float64) * self.grid
