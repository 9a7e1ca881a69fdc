"""Discrete Gaussian on Z of any width: a fixed small table, widened by convolution.

The draw is z0 + k1 z1 + k2 z2 + ... with independent table draws z of variance t^2 and integers k: a discrete Gaussian
of variance t^2 (1 + k1^2 + k2^2 + ...) up to a smoothing error that Poisson summation bounds. Derived:
docs/math/noise.md, "Convolution".
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, inf, isfinite, isqrt, log1p, pi, prod

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.noise.bernoulli import exp_minus
from gaussveil.noise.generator import Generator
from gaussveil.noise.lattice import Shape, checked_shape
from gaussveil.typing import Integers

MASS_BITS = 128
WORK_BITS = 256
TAIL_WIDTHS = 14  # exp(-14^2/2) is 3e-43
CHUNK = 1 << 14
TABLE_WIDTH = 1024
SMOOTHING_VARIANCE = (
    4  # conditional variance that every convolution leaves; its error is then 5e-35
)
MOST_SQUARED = TABLE_WIDTH**2 // SMOOTHING_VARIANCE - 1
ONE_MULTIPLIER = 480**2
CANDIDATES = 512
LARGEST_VARIANCE = 2**92


class AliasTable:
    """Draws x in Z with probability proportional to exp(-x^2/(2 variance)), up to `total_variation`.

    One word and one comparison a draw (Walker 1977, Vose 1991). Probabilities are integers over 2^128. A word's top
    bits choose the cell and its other bits decide between the cell's two values; a tie, of probability 2^-49 or less,
    is decided by a second word. Derived: docs/math/noise.md, "Table".
    """

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance
        self.bound = isqrt(int(TAIL_WIDTHS**2 * variance)) + 1
        self.index_bits = (2 * self.bound).bit_length()
        cells = 1 << self.index_bits
        # quantisation: every value by at most one unit, and zero by their sum; tail: erfc(t) <= exp(-t^2)
        tail = 1.001 * exp(-(self.bound**2) / (2 * float(variance)))
        self.total_variation = cells * 2.0 ** (1 - MASS_BITS) + tail
        keep, other = _vose(
            self.masses() + [0] * (cells - 2 * self.bound - 1), self.index_bits
        )
        self._threshold = np.array([value >> 64 for value in keep], dtype=np.uint64)
        self._tie_threshold = np.array(
            [value & (2**64 - 1) for value in keep], dtype=np.uint64
        )
        self._jump = np.array(other, dtype=np.int64) - np.arange(cells)
        self._shift, self._mask = (
            np.uint64(64 - self.index_bits),
            np.uint64((1 << (64 - self.index_bits)) - 1),
        )

    def masses(self) -> list[int]:
        """The law over -bound..bound in units of 2^-128; they sum to 2^128 exactly."""
        weights = _gaussian_weights(self.variance, self.bound)
        total = weights[0] + 2 * sum(weights[1:])
        half = [(weight << MASS_BITS) // total for weight in weights]
        half[0] = (1 << MASS_BITS) - 2 * sum(half[1:])
        return half[:0:-1] + half

    def draw(self, count: int, generator: Generator) -> Integers:
        """`count` independent draws."""
        result = np.empty(count, dtype=np.int64)
        for start in range(0, count, CHUNK):  # chunks stay in the cache
            part = result[start : start + CHUNK]
            words = generator.uint64(part.size)
            cell = (words >> self._shift).view(np.int64)
            words &= self._mask
            threshold = self._threshold.take(cell)
            moves = words >= threshold
            ties = words == threshold
            if np.count_nonzero(ties):
                moves[ties] = (
                    generator.uint64(int(ties.sum())) >= self._tie_threshold[cell[ties]]
                )
            np.multiply(self._jump.take(cell), moves, out=part)
            part += cell
            part -= self.bound
        return result


@lru_cache(maxsize=16)
def alias_table(variance: Fraction) -> AliasTable:
    """The table of that variance, built once."""
    return AliasTable(variance)


def _gaussian_weights(variance: Fraction, bound: int) -> list[int]:
    """2^256 exp(-x^2/(2 variance)) for x = 0..bound, each within (x+2)^2 * 4 units."""
    step = exp_minus(1 / variance, WORK_BITS)
    ratio = exp_minus(1 / (2 * variance), WORK_BITS)
    weights = [1 << WORK_BITS]
    for _ in range(bound):
        weights.append(weights[-1] * ratio >> WORK_BITS)
        ratio = ratio * step >> WORK_BITS
    return weights


def _vose(masses: list[int], index_bits: int) -> tuple[list[int], list[int]]:
    """Cells of equal mass 2^(128-index_bits), each shared by its own value (first `keep` units) and another."""
    capacity = 1 << (MASS_BITS - index_bits)
    keep = list(masses)
    other = list(range(len(masses)))
    short = [i for i, mass in enumerate(keep) if mass < capacity]
    rich = [i for i, mass in enumerate(keep) if mass > capacity]
    while short:
        poor = short.pop()
        donor = rich[-1]
        other[poor] = donor
        keep[donor] -= capacity - keep[poor]
        if keep[donor] <= capacity:
            rich.pop()
            if keep[donor] < capacity:
                short.append(donor)
    return keep, other


class DiscreteGaussianNoise:
    """Law on Z proportional to exp(-x^2/(2 variance)), `variance` being at least the one asked for.

    The excess is below a relative 1e-5. Attributes: `variance` (exact), `total_variation` (upper bound for one draw,
    tail included), `bound` (no draw is larger), `table` and `multipliers` (the design; it is public and holds no
    randomness).
    """

    def __init__(self, variance: float | Fraction) -> None:
        if isinstance(variance, float) and not isfinite(variance):
            raise ParameterError(f"variance must be finite. Got {variance}.")
        requested = Fraction(variance)
        if not Fraction(1, 16) <= requested <= LARGEST_VARIANCE:
            raise ParameterError(
                f"variance must lie in [1/16, 2^92] squared grids. Got {float(requested):.6g}. Choose another grid."
            )
        table_variance, self.multipliers = _design(requested)
        self.table = alias_table(table_variance)
        self.variance = table_variance * (1 + sum(k * k for k in self.multipliers))
        self.bound = self.table.bound * (1 + sum(self.multipliers))
        self.total_variation = (1 + len(self.multipliers)) * self.table.total_variation
        partial = table_variance
        for k in self.multipliers:
            conditional = 1 / (1 / table_variance + k * k / partial)
            self.total_variation += smoothing_total_variation(float(conditional), 1)
            partial += k * k * table_variance

    def draw(self, shape: Shape, generator: Generator) -> Integers:
        """Independent draws, int64."""
        sizes = checked_shape(shape)
        result = np.empty(prod(sizes), dtype=np.int64)
        for start in range(0, result.size, CHUNK):  # chunks stay in the cache
            part = result[start : start + CHUNK]
            drawn = self.table.draw(
                (1 + len(self.multipliers)) * part.size, generator
            ).reshape(-1, part.size)
            part[:] = drawn[0]
            for k, more in zip(self.multipliers, drawn[1:]):
                part += np.multiply(more, k, out=more)
        return result.reshape(sizes)


def smoothing_error(smallest_variance: float, dimension: int) -> float:
    """Upper bound of |f - 1| for f(c) = sum over z in Z^dimension of exp(-(z-c)' C^-1 (z-c)/2) / sqrt(det 2 pi C).

    C has eigenvalues of at least `smallest_variance` (at least 1/4). Derived: docs/math/noise.md, "Smoothing".
    """
    nome = exp(-2 * pi**2 * smallest_variance * (1 - 1e-12))
    exponent = dimension * log1p(2 * nome / (1 - nome))
    # a bound beyond 1 says nothing anyway
    if exponent < 1:
        return 1.01 * expm1(exponent)
    return inf


def smoothing_total_variation(smallest_variance: float, dimension: int) -> float:
    """Total variation between densities proportional to p and to p f, where |f - 1| is at most the smoothing error."""
    error = smoothing_error(smallest_variance, dimension)
    if error < 1:
        return min(1.0, error / (2 * (1 - error)))
    return 1.0


@lru_cache(maxsize=256)
def _design(variance: Fraction) -> tuple[Fraction, tuple[int, ...]]:
    """Table variance and multipliers whose law has at least this variance."""
    standard = Fraction(TABLE_WIDTH**2)
    multiple = ceil(variance / standard)
    if multiple <= 1:
        return variance, ()
    multipliers = (
        (isqrt(multiple - 2) + 1,)
        if multiple <= ONE_MULTIPLIER
        else _multipliers(multiple)
    )
    if (
        multiple <= TABLE_WIDTH**2
    ):  # a table of its own, slightly narrower: the variance is met exactly
        return variance / (1 + sum(k * k for k in multipliers)), multipliers
    return standard, multipliers


def _largest_multiplier(partial: int) -> int:
    """Largest k that may follow a partial sum of variance partial * t^2: 1/(1/t^2 + k^2/(partial t^2)) >= 4."""
    return isqrt(partial * MOST_SQUARED)


def _multipliers(multiple: int) -> tuple[int, ...]:
    """Integers with 1 + k1^2 + k2^2 + ... at least `multiple`, and above it by little."""
    prefix: tuple[int, ...] = ()
    partial = 1
    while multiple > _reach(partial):
        prefix += (_largest_multiplier(partial),)
        partial += prefix[-1] ** 2
    excess, *pair = _closest_pair(multiple, partial)
    best = (excess, *prefix, *pair)
    for extra in range(
        1, 16
    ):  # few numbers are sums of two squares, nearly all are sums of three
        if best[0] << 20 <= multiple:
            break
        excess, *pair = _closest_pair(multiple, partial + extra * extra)
        best = min(best, (excess, extra, *prefix, *pair))
    return best[1:]


def _reach(partial: int) -> int:
    """The largest sum that two more multipliers reach."""
    first = partial + _largest_multiplier(partial) ** 2
    return first + _largest_multiplier(first) ** 2


def _closest_pair(multiple: int, partial: int) -> tuple[int, int, int]:
    """Excess and two multipliers with partial + k1^2 + k2^2 = multiple + excess, the smallest that a search finds."""
    largest = _largest_multiplier(partial)
    pairs = []
    for first in range(largest, 0, -max(1, largest // CANDIDATES)):
        rest = multiple - partial - first * first
        if rest > 0:
            second = isqrt(rest - 1) + 1
            if (
                second * second <= (partial + first * first) * MOST_SQUARED
            ):  # as _largest_multiplier says
                pairs.append((second * second - rest, first, second))
    return min(pairs)
