"""Alias table of a discrete Gaussian, in integers: one word and one comparison per draw (Walker 1977, Vose 1991).

Probabilities are integers over 2^128. A word's top bits choose the cell and its other bits decide between the cell's
two values; a tie, of probability 2^-49 or less, is decided by a second word. Derived: docs/math/noise.md, "Table".
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import exp, isqrt

import numpy as np

from gaussveil.noise.bernoulli import exp_minus
from gaussveil.noise.generator import Generator
from gaussveil.typing import Integers

MASS_BITS = 128
WORK_BITS = 256
TAIL_WIDTHS = 14  # exp(-14^2/2) is 3e-43
CHUNK = 1 << 14


class AliasTable:
    """Draws x in Z with probability proportional to exp(-x^2/(2 variance)), up to `total_variation`."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance
        self.bound = isqrt(int(TAIL_WIDTHS**2 * variance)) + 1
        self.index_bits = (2 * self.bound).bit_length()
        cells = 1 << self.index_bits
        # quantisation: every value by at most one unit, and zero by their sum; tail: erfc(t) <= exp(-t^2)
        tail = 1.001 * exp(-(self.bound**2) / (2 * float(variance)))
        self.total_variation = cells * 2.0 ** (1 - MASS_BITS) + tail
        keep, other = _vose(self.masses() + [0] * (cells - 2 * self.bound - 1), self.index_bits)
        self._threshold = np.array([value >> 64 for value in keep], dtype=np.uint64)
        self._tie_threshold = np.array([value & (2**64 - 1) for value in keep], dtype=np.uint64)
        self._jump = np.array(other, dtype=np.int64) - np.arange(cells)

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
        shift = np.uint64(64 - self.index_bits)
        mask = np.uint64((1 << (64 - self.index_bits)) - 1)
        for start in range(0, count, CHUNK):  # chunks stay in the cache
            part = result[start : start + CHUNK]
            words = generator.uint64(part.size)
            cell = (words >> shift).view(np.int64)
            words &= mask
            threshold = self._threshold.take(cell)
            moves = words >= threshold
            ties = words == threshold
            if ties.any():
                moves[ties] = generator.uint64(int(ties.sum())) >= self._tie_threshold[cell[ties]]
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
        poor, donor = short.pop(), rich[-1]
        other[poor] = donor
        keep[donor] -= capacity - keep[poor]
        if keep[donor] <= capacity:
            rich.pop()
            if keep[donor] < capacity:
                short.append(donor)
    return keep, other
