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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.typing import Floats

Limbs = NDArray[np.int64]
"""128-bit integers: axis 0 holds four limbs in base 2**32, lowest first; all but the last lie in [0, 2**32)."""

SUM_BITS = 41  # unit <= clip * 2**-40
PRODUCT_BITS = 22  # products of two coordinates have the unit clip**2 * 2**-44 or finer than clip**2 * 2**-42
MAX_ROWS = 2**18  # rows that one call may sum in int64: 2**18 * 2**44 < 2**63

_BASE = np.int64(2**32 - 1)
_LIMBS = 4
_LOW_BITS = 21
_EXACT = 2**53  # integers up to here are float64 numbers
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
        if not (
            math.isfinite(self.clip)
            and 2.0**-_EXPONENT_RANGE <= self.clip <= 2.0**_EXPONENT_RANGE
        ):
            raise ParameterError(
                f"clip must lie in [2**-256, 2**256]. Got {self.clip!r}: state the data in other units."
            )
        checks.whole("bits", self.bits, f"[1, {SUM_BITS}]")

    @property
    def unit(self) -> float:
        """The power of two whose multiples are summed: clip <= unit * 2**bits < 2 * clip."""
        mantissa, exponent = math.frexp(self.clip)
        return math.ldexp(1.0, exponent - (mantissa == 0.5) - self.bits)

    def truncate(self, values: Floats) -> Floats:
        """Clip the columns of ``values`` (d x n, overwritten) to the ball and truncate them: integers, as float64.

        Coordinates are truncated toward zero; a column still longer than the clip is scaled and truncated once more.
        Norms have a relative error below (d/2 + 2) 2**-53 and the scaling adds two roundings, so clipping to
        ``clip * (1 - (d + 8) * 2**-52)`` keeps the true norm at most ``clip`` (derived: docs/sources.md). A coordinate
        that overflows counts as infinitely long; a column with an undefined one becomes 0.
        """
        limit = self.clip / self.unit * (1.0 - (len(values) + 8) * 2.0**-52)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(values, 1.0 / self.unit, out=values)
            np.trunc(values, out=values)
            if self.bits <= PRODUCT_BITS:
                norm = _integer_norms(values)
            else:
                norm = column_norms(values)
        wild = ~np.isfinite(norm)
        if wild.any():
            values[:, wild] = _tamed(values[:, wild])
            norm[wild] = column_norms(values[:, wild])
        long = norm > limit
        if 4 * np.count_nonzero(long) > len(long):
            np.multiply(
                values,
                np.divide(limit, norm, out=np.ones_like(norm), where=long),
                out=values,
            )
            np.trunc(values, out=values)
        elif long.any():  # the same numbers, without touching the other columns
            values[:, long] = np.trunc(values[:, long] * (limit / norm[long]))
        return values


def _integer_norms(integers: Floats) -> Floats:
    """Norms of columns of integers. A sum of squares below 2**53 is exact in any order; others are summed in order."""
    squares = np.einsum("ij,ij->j", integers, integers)
    long = ~(squares < 2.0**53)
    norms: Floats = np.sqrt(squares)
    if long.any():
        norms[long] = column_norms(integers[:, long])
    return norms


def column_norms(values: Floats) -> Floats:
    """Euclidean norm of every column, summed in the order of the rows whatever the number of columns."""
    total: Floats = np.zeros(values.shape[1])
    square = np.empty_like(total)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for row in np.ascontiguousarray(values):
            total += np.multiply(row, row, out=square)
        return np.sqrt(total, out=total)


def _tamed(values: Floats) -> Floats:
    """Columns whose norm overflowed, made finite in the same direction and still longer than any clip."""
    infinite = np.isinf(values)
    shift = 400 - np.frexp(np.where(infinite, 1.0, values))[1].max(
        axis=0, initial=-2000
    )
    finite = np.where(
        infinite.any(axis=0),
        np.sign(values) * infinite * 2.0**400,
        np.ldexp(values, shift),
    )
    return np.where(np.isnan(values).any(axis=0), 0.0, finite)


def sum_columns(integers: Floats) -> NDArray[np.int64]:
    """Exact row sums of a d x n array of integers below 2**41, n <= MAX_ROWS."""
    return np.asarray(integers.astype(np.int64).sum(axis=1))


def cross_products(integers: Floats, fixed: FixedPoint) -> NDArray[np.int64]:
    """Exact ``Z Z'`` of a d x n array of integers that ``fixed`` truncated, n <= MAX_ROWS, in parts.

    Up to 22 bits there is one part: by Cauchy-Schwarz no entry of a block's product exceeds its columns' number times
    the largest squared norm, so a float64 product of ``2**53`` over that square columns (2**9 or more) is exact. Above,
    each integer is split into high and low parts of at most 21 bits, in blocks of 2**11 columns: high x high, high x
    low both ways, low x low. ``add_parts`` puts them together.
    """
    d = len(integers)
    if fixed.bits <= PRODUCT_BITS:
        longest = math.ceil(
            fixed.clip / fixed.unit
        )  # an exact quotient: the unit is a power of two
        return _integer_product(integers, _EXACT // longest**2)[None]
    high = np.trunc(integers * 2.0**-_LOW_BITS)
    low = integers - high * 2.0**_LOW_BITS
    products = _integer_product(
        np.concatenate([high, low]), _EXACT // 2 ** (2 * _LOW_BITS)
    )
    mixed = products[:d, d:]
    return np.stack([products[:d, :d], mixed + mixed.T, products[d:, d:]])


def product_parts(bits: int) -> int:
    """How many parts ``cross_products`` has."""
    if bits <= PRODUCT_BITS:
        return 1
    return 3


def add_parts(parts: NDArray[np.int64]) -> Limbs:
    """The products that ``cross_products`` gave in parts (axis 0)."""
    if len(parts) == 1:
        return scaled(parts[0], 0)
    return carry(
        scaled(parts[0], 2 * _LOW_BITS)
        + scaled(parts[1], _LOW_BITS)
        + scaled(parts[2], 0)
    )


def _integer_product(integers: Floats, block: int) -> NDArray[np.int64]:
    total = np.zeros((len(integers), len(integers)), dtype=np.int64)
    for start in range(0, integers.shape[1], block):
        part = integers[:, start : start + block]
        total += (part @ part.T).astype(np.int64)
    return total


def scaled(values: NDArray[np.int64], shift: int) -> Limbs:
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
            sum(
                self.limbs[place].astype(object) << (32 * place)
                for place in range(_LIMBS)
            ),
            dtype=object,
        )

    def to_float(self) -> Floats:
        """The sums, each rounded once to the nearest float64."""
        return self._shifted(0) * self.unit

    def on_grid(self, grid: float) -> Floats:
        """The sums rounded exactly (half to even) to multiples of a power of two, as float64.

        Unlike ``to_float`` this rounds to a public grid that does not depend on the size of the sum, which is what the
        sensitivity of a rounded sum is stated for; use it with the grid of the noise.
        """
        mantissa, exponent = math.frexp(grid)
        if not (grid > 0 and mantissa == 0.5):
            raise ParameterError(f"grid must be a power of two. Got {grid!r}.")
        shift = exponent - math.frexp(self.unit)[1]
        if shift > 0:
            return self._shifted(shift) * grid
        return self.to_float()

    def _shifted(self, shift: int) -> Floats:
        """The sums over 2**shift rounded to an integer (half to even), then to float64; in int64 where it holds all."""
        limbs = carry(self.limbs.copy())
        low, high = limbs[::2] + (limbs[1::2] << 32)
        if shift > 62 or (high != low >> 63).any():
            held = self.integers()
        else:
            held = low
        return np.asarray(_round_half_even(held, shift), dtype=np.float64)


def _round_half_even(value: Any, shift: int) -> Any:
    """Of an integer or an array of them: its quotient by 2**shift."""
    if shift == 0:
        return value
    quotient = value >> shift
    return quotient + ((value & ((1 << shift) - 1)) + (quotient & 1) > 1 << (shift - 1))
