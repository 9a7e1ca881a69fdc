"""Fixed-point numbers and exact integer sums: the arithmetic under every statistic.

What is computed. A record z in R^d is clipped to ``|z|_2 <= clip`` and each coordinate is truncated toward zero to a
multiple of a public power of two, ``unit <= clip * 2**(1 - bits)``. Truncation toward zero never lengthens a vector and
the clipping leaves room for its own rounding, so the record that is really summed, ``unit * integers``, satisfies
``|unit * integers|_2 <= clip`` **exactly**, not up to rounding. Sums of such integers, and of their products, are kept
without any rounding in 128 bits. Hence (mathematics: "Noise that is really drawn", sums):

* one record moves a sum by at most ``clip`` and a second-moment matrix by at most ``clip**2`` in the Frobenius norm;
* the order and the partitioning of the records do not matter: engines agree to the bit.

Every floating-point step before the truncation is elementwise (IEEE add, multiply, divide, square root in one fixed
order per record), never a library reduction or matrix product, whose order depends on the number of rows and on the
processor. Matrix products are used only on integers so small that no product or partial sum reaches 2**53.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError

Float = NDArray[np.float64]
Limbs = NDArray[np.int64]
"""128-bit integers: axis 0 holds four limbs in base 2**32, lowest first; all but the last lie in [0, 2**32)."""

SUM_BITS = 41  # unit <= clip * 2**-40
PRODUCT_BITS = 22  # products of two coordinates have the unit clip**2 * 2**-44 or finer than clip**2 * 2**-42
MAX_ROWS = 2**18  # rows that one call may sum in int64: 2**18 * 2**44 < 2**63

_BASE = np.int64(2**32 - 1)
_LIMBS = 4
_LOW_BITS = 21
_SAFE_ROWS = {1: 2 ** (53 - 2 * PRODUCT_BITS), 2: 2 ** (53 - 2 * _LOW_BITS)}  # rows per exact matrix product
_EXPONENT_RANGE = 256


@dataclass(frozen=True)
class FixedPoint:
    """The format of one kind of record: public clip, public power-of-two unit.

    ``bits`` is the number of bits of the largest integer: 41 for sums and, where 22 or fewer, second moments need one
    matrix product instead of three.
    """

    clip: float
    bits: int = SUM_BITS

    def __post_init__(self) -> None:
        if not (math.isfinite(self.clip) and 2.0**-_EXPONENT_RANGE <= self.clip <= 2.0**_EXPONENT_RANGE):
            raise ParameterError(
                f"clip must lie in [2**-256, 2**256]. Got {self.clip!r}: state the data in other units."
            )
        if not 1 <= self.bits <= SUM_BITS:
            raise ParameterError(f"bits must be an integer in [1, {SUM_BITS}]. Got {self.bits!r}.")

    @property
    def unit(self) -> float:
        """The power of two whose multiples are summed: clip <= unit * 2**bits < 2 * clip."""
        mantissa, exponent = math.frexp(self.clip)
        return math.ldexp(1.0, exponent - (mantissa == 0.5) - self.bits)

    def truncate(self, values: Float) -> Float:
        """Clip the columns of ``values`` (d x n, overwritten) to the ball and truncate them: integers, as float64.

        The norm is computed with a relative error below (d/2 + 2) 2**-53 and the scaling adds two roundings, so
        clipping to ``clip * (1 - (d + 8) * 2**-52)`` keeps the true norm at most ``clip`` (derived: docs/math). A
        column that overflows is scaled first; one that is not finite becomes 0.
        """
        limit = self.clip * (1.0 - (len(values) + 8) * 2.0**-52)
        norm = column_norms(values)
        wild = ~np.isfinite(norm)
        if wild.any():
            values[:, wild], norm[wild] = _tamed(values[:, wild], limit)
        factor = np.full_like(norm, 1.0)
        np.divide(limit, norm, out=factor, where=norm > limit)
        factor *= 1.0 / self.unit
        np.multiply(values, factor, out=values)
        return np.trunc(values, out=values)


def column_norms(values: Float) -> Float:
    """Euclidean norm of every column, summed in the order of the rows whatever the number of columns."""
    total: Float = np.zeros(values.shape[1])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        square = np.empty_like(total)
        for row in values:
            total += np.multiply(row, row, out=square)
        return np.sqrt(total, out=total)


def _tamed(values: Float, limit: float) -> tuple[Float, Float]:
    """Columns whose norm overflowed: scaled by 2**-600 where finite (they are clipped anyway), 0 where not."""
    finite = np.isfinite(values)
    values = np.where(finite.all(axis=0), np.where(finite, values, 0.0) * 2.0**-600, 0.0)
    norm = column_norms(values)
    # A norm that overflowed exceeds every clip even after scaling; dividing by it clips to the ball.
    return values * np.where(norm > 0, limit / np.where(norm > 0, norm, 1.0), 0.0), np.zeros_like(norm)


def sum_columns(integers: Float) -> Limbs:
    """Exact row sums of a d x n array of integers below 2**41, n <= MAX_ROWS."""
    return scaled(integers.astype(np.int64).sum(axis=1), 0)


def cross_products(integers: Float, bits: int) -> Limbs:
    """Exact ``Z Z'`` of a d x n array of integers whose columns have norm at most 2**bits, n <= MAX_ROWS.

    Up to 22 bits: by Cauchy-Schwarz a block of 2**9 columns cannot exceed 2**53, so its float64 product is exact.
    Above: each integer is split into high and low parts of at most 21 bits, in blocks of 2**11 columns.
    """
    d = len(integers)
    if bits <= PRODUCT_BITS:
        return scaled(_integer_product(integers, _SAFE_ROWS[1]), 0)
    high = np.trunc(integers * 2.0**-_LOW_BITS)
    low = integers - high * 2.0**_LOW_BITS
    products = _integer_product(np.concatenate([high, low]), _SAFE_ROWS[2])
    mixed = products[:d, d:]
    total = scaled(products[:d, :d], 2 * _LOW_BITS) + scaled(mixed, _LOW_BITS) + scaled(mixed.T, _LOW_BITS)
    return carry(total + scaled(products[d:, d:], 0))


def _integer_product(integers: Float, block: int) -> Limbs:
    total = np.zeros((len(integers), len(integers)), dtype=np.int64)
    for start in range(0, integers.shape[1], block):
        part = integers[:, start : start + block]
        total += (part @ part.T).astype(np.int64)
    return total


def scaled(values: Limbs, shift: int) -> Limbs:
    """``values * 2**shift`` as limbs; int64 values, shift below 60 and not 30 or 31 modulo 32."""
    place, bits = divmod(shift, 32)
    limbs = np.zeros((_LIMBS, *np.shape(values)), dtype=np.int64)
    limbs[place] = (values & _BASE) << bits
    limbs[place + 1] = (values >> 32) << bits
    return carry(limbs)


def carry(limbs: Limbs) -> Limbs:
    """Bring limbs into their one canonical form, so that equal integers are equal arrays."""
    for place in range(_LIMBS - 1):
        limbs[place + 1] += limbs[place] >> 32
        limbs[place] &= _BASE
    return limbs


@dataclass(frozen=True)
class ExactSum:
    """An array of exact sums: integers times a public power of two."""

    limbs: Limbs
    unit: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of sums."""
        return self.limbs.shape[1:]

    def integers(self) -> NDArray[np.object_]:
        """The sums in units, as Python integers."""
        return np.asarray(
            sum(self.limbs[place].astype(object) << (32 * place) for place in range(_LIMBS)), dtype=object
        )

    def to_float(self) -> Float:
        """The sums, each rounded once to the nearest float64."""
        return _floats(self.integers()) * self.unit

    def on_grid(self, grid: float) -> Float:
        """The sums rounded exactly (half to even) to multiples of a power of two, as float64.

        Unlike ``to_float`` this rounds to a public grid that does not depend on the size of the sum, which is what the
        sensitivity of a rounded sum is stated for; use it with the grid of the noise.
        """
        mantissa, exponent = math.frexp(grid)
        if not (grid > 0 and mantissa == 0.5):
            raise ParameterError(f"grid must be a power of two. Got {grid!r}.")
        shift = exponent - math.frexp(self.unit)[1]
        if shift <= 0:
            return self.to_float()
        return _floats(np.frompyfunc(lambda value: _round_half_even(value, shift), 1, 1)(self.integers())) * grid


def _round_half_even(value: int, shift: int) -> int:
    quotient, rest = value >> shift, value & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return quotient + (rest > half or (rest == half and quotient & 1 == 1))


def _floats(integers: NDArray[np.object_]) -> Float:
    return np.asarray(integers, dtype=object).astype(np.float64)
