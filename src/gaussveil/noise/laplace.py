"""Discrete Laplace noise, exact: Canonne, Kamath and Steinke (2020), Algorithms 1 and 2, vectorised.

The law on Z is proportional to exp(-|x|/scale) with a rational scale; nothing is approximated, so there is no sampler
error.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isfinite, prod

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.noise.bernoulli import uniform_below
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import Shape, checked_shape
from gaussveil.typing import Integers

SCALE_BITS = 33
LARGEST_SCALE = 2**44


def rational_scale(scale: float | Fraction) -> tuple[int, int]:
    """Integers t and s (a power of two) with t/s at least the scale, and within a relative 2^-31 of it."""
    if isinstance(scale, float) and not isfinite(scale):
        raise ParameterError(f"scale must be finite. Got {scale}.")
    exact = Fraction(scale)
    if not Fraction(1, 1024) <= exact <= LARGEST_SCALE:
        raise ParameterError(
            f"scale must lie in [2^-10, 2^44] grids. Got {float(exact):.6g}. Choose another grid."
        )
    bits = max(0, SCALE_BITS - ceil(exact).bit_length())
    if exact < 1:
        bits = SCALE_BITS + 10
    return ceil(exact * 2**bits), 2**bits


def discrete_laplace(
    scale: float | Fraction, shape: Shape, generator: Generator | None = None
) -> Integers:
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
        magnitude = (
            remainder + numerator * _geometric(missing.size, source)
        ) // denominator
        negative = (source.uint64(missing.size) & np.uint64(1)).astype(bool)
        accepted &= ~(negative & (magnitude == 0))  # zero must not be counted twice
        result[missing] = np.where(negative, -magnitude, magnitude)
        missing = missing[~accepted]
    return result.reshape(sizes)


def bernoulli_exp(
    numerators: Integers, denominator: int, generator: Generator
) -> NDArray[np.bool_]:
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
