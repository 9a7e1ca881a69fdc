"""Columns N(0, G + ridge I) where the Gram matrix G is itself secret: integers on one public lattice, one code path.

The law of the output depends on the data through its covariance, so no sensitivity can take up a rounding error: each
is bounded for every G at once and charged as total variation. The draw is A z + D on a lattice far finer than doubles
reach, A the integer Cholesky factor of the exact matrix; only the finished sum is rounded to the public output grid.
Derived: docs/mechanisms/random_projection.md, "What exactly is drawn".
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, inf, isqrt, ldexp, log2, sqrt

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.noise.discrete_gaussian import (
    DiscreteGaussianNoise,
    smoothing_error,
    smoothing_total_variation,
)
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import LARGEST_INTEGER
from gaussveil.typing import Floats

TABLE_VARIANCE = 2**84
STEP_BITS = 40  # multipliers 1, 2^40, 2^80, 2^120 widen the table; each step leaves a conditional variance of about 16
STEPS = 4
LATTICE_VARIANCE = 4  # what sampling a continuous Gaussian on the lattice adds, in squared lattice units
LARGEST_RATIO = (
    2.0**84
)  # of the Gram matrix against the white part; the factor's error is then below 2^-60
OUTPUT_RATIO = 2.0**-26  # output grid against the root of the smallest ridge

Integers = NDArray[np.object_]


class GramGaussian:
    """A public design for `columns` independent draws of N(0, G + ridge I) for any G <= largest I of `size` rows.

    It serves ridges between `smallest_ridge` and `largest_ridge`. Attributes: `grid`, the power of two whose multiples
    come out; `total_variation`, between what is drawn and a post-processing of the continuous law, for all columns
    together and every such G; no randomness.
    """

    def __init__(
        self,
        size: int,
        columns: int,
        *,
        largest: float,
        smallest_ridge: float,
        largest_ridge: float | None = None,
    ) -> None:
        if largest_ridge is None:
            top = smallest_ridge
        else:
            top = largest_ridge
        if (
            size < 1
            or columns < 1
            or not (0 < smallest_ridge <= top < inf and 0 <= largest < inf)
        ):
            raise ParameterError(
                "size and columns must be at least 1, ridges positive and in order, largest finite. "
                f"Got {size}, {columns}, {smallest_ridge!r}, {top!r}, {largest!r}."
            )
        self.size = size
        self.columns = columns
        self.smallest_ridge, self.largest_ridge, self.largest = (
            float(smallest_ridge),
            float(top),
            float(largest),
        )
        self._table = DiscreteGaussianNoise(TABLE_VARIANCE)
        self._white = self._table.variance * sum(
            4 ** (STEP_BITS * step) for step in range(STEPS)
        )
        # The white part is at most half of the smallest ridge; the lattice is as fine as that makes it.
        self._unit = Fraction(2) ** floor(
            log2(smallest_ridge / 2 / self._white) / 2 + 1
        )
        while self._white * self._unit**2 > Fraction(smallest_ridge) / 2:
            self._unit /= 2
        # Eigenvalues of the secret part, against the white part.
        self._ratio = 1.001 * float(
            (Fraction(largest) + Fraction(top)) / (self._unit**2 * self._white)
        )
        if self._ratio > LARGEST_RATIO:
            raise ParameterError(
                f"largest must be below 2^80 smallest ridges. Got {largest!r} and {smallest_ridge!r}: use other units."
            )
        self._inner = DiscreteGaussianNoise(
            Fraction(4) ** ceil(log2(4.2 * (1 + self._ratio)) / 2)
        )
        self.grid = ldexp(1.0, floor(log2(OUTPUT_RATIO * sqrt(smallest_ridge))))
        self.total_variation = self._bound()

    def draw(
        self,
        gram: Integers,
        unit: float,
        ridge: float,
        generator: Generator | None = None,
    ) -> Floats:
        """One matrix of size x columns for G = unit * gram, positive semidefinite integers; multiples of the grid.

        Entries beyond 2^52 grids are cut off there: a public rule that nothing short of 2^50 rows makes likely.
        """
        if not self.smallest_ridge <= ridge <= self.largest_ridge:
            raise ParameterError(
                f"ridge must lie in the design's [{self.smallest_ridge!r}, {self.largest_ridge!r}]. Got {ridge!r}."
            )
        source = default_generator() if generator is None else generator
        shape = (self.size, self.columns)
        factor = self._factor(gram, unit, ridge)
        inner = self._inner.draw(shape, source)
        white = sum(
            self._table.draw(shape, source).astype(object) << (STEP_BITS * step)
            for step in range(STEPS)
        )
        product = fmpz_mat(factor.tolist()) * fmpz_mat(inner.tolist())
        total = np.array(product.tolist(), dtype=object).reshape(shape) + white
        coarse = floor(
            log2(Fraction(self.grid) / self._unit)
        )  # exact: both are powers of two
        steps = (np.frompyfunc(int, 1, 1)(total) + (1 << (coarse - 1))) >> coarse
        return (
            np.asarray(
                np.clip(steps, -LARGEST_INTEGER, LARGEST_INTEGER), dtype=np.float64
            )
            * self.grid
        )

    def _factor(self, gram: Integers, unit: float, ridge: float) -> Integers:
        """Integer A: inner variance A A' + white I is (G + ridge I)/unit^2 + 4 I up to the error that is charged."""
        scale = self._unit**2 * self._inner.variance
        entries = Fraction(unit) / scale
        diagonal = (
            Fraction(ridge) / self._unit**2 + LATTICE_VARIANCE - self._white
        ) / self._inner.variance
        common = entries.denominator * diagonal.denominator
        matrix = gram * (entries.numerator * diagonal.denominator)
        matrix[np.diag_indices(self.size)] += diagonal.numerator * entries.denominator
        factor = integer_cholesky(matrix // common)
        assert (
            factor is not None
        )  # its smallest eigenvalue is at least half a ridge, far above all rounding
        return factor

    def _bound(self) -> float:
        """Tables and convolutions per entry, smoothing per column, and the error of the factor over all columns."""
        conditional = float(1 / (1 / self._table.variance + Fraction(1, 16)))
        wide = STEPS * self._table.total_variation + (
            STEPS - 1
        ) * smoothing_total_variation(0.99 * conditional, 1)
        entries = (
            self.size
            * self.columns
            * (
                wide
                + self._inner.total_variation
                + smoothing_error(LATTICE_VARIANCE, 1)
            )
        )
        inner = float(self._inner.variance)
        columns = self.columns * smoothing_total_variation(
            0.999 * inner / (1 + self._ratio), self.size
        )
        # |E| <= size (2 sqrt(largest entry) + 2) for the integer factor, relative to the smallest ridge
        largest_entry = Fraction(self._ratio) * self._white / self._inner.variance
        error = (
            self.size
            * (2 * sqrt(largest_entry) + 2)
            * self._unit**2
            * self._inner.variance
        )
        relative = float(Fraction(error) / Fraction(self.smallest_ridge))
        return min(
            1.0, 1.001 * (entries + columns + 0.5 * sqrt(self.columns) * relative)
        )


def integer_cholesky(matrix: Integers) -> Integers | None:
    """Lower triangular integers L, or None where a pivot is not positive.

    Nothing is rounded but the pivots' roots and one division per entry, so matrix - L L' holds exactly the remainders:
    entries between 0 and twice the largest diagonal entry of L. None proves that the matrix, changed by such
    remainders, is not positive definite.
    """
    rest = matrix.copy()
    factor = np.zeros_like(matrix)
    for index in range(len(matrix)):
        pivot = rest[index, index]
        if pivot <= 0:
            return None
        root = isqrt(pivot)
        below = rest[index + 1 :, index] // root
        factor[index, index], factor[index + 1 :, index] = root, below
        rest[index + 1 :, index + 1 :] -= np.multiply.outer(below, below)
    return factor
