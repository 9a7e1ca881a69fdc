"""Counts, sums and second moments per group; the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gaussveil.statistics.affine import Affine
from gaussveil.statistics.block import Block
from gaussveil.statistics.fixed_point import (
    PRODUCT_BITS,
    SUM_BITS,
    ExactSum,
    FixedPoint,
    add_parts,
    cross_products,
    product_parts,
    scaled,
    sum_columns,
)
from gaussveil.statistics.statistic import State, Statistic, group_counts


@dataclass(frozen=True)
class MomentSums:
    """Exact sums per group: how many records, sum of z, sum of zz' (None unless asked for)."""

    count: ExactSum
    total: ExactSum
    second: ExactSum | None


@dataclass(frozen=True, kw_only=True)
class Moments(Statistic[MomentSums]):
    """Sums of (1, z, zz') per group, z = A_k (x - m_k) clipped to norm ``clip``, in fixed point.

    Each z is truncated toward zero to 2**-40 of the clip (41 bits) and products are exact products of the truncated z,
    so one record moves the sums by at most 1, ``clip`` and ``clip**2`` (Frobenius), exactly. A record whose z overflows
    is clipped, one whose z is undefined counts as z = 0.
    """

    clip: float
    affine: Affine = field(default_factory=Affine)
    second: bool = True
    bits: int = SUM_BITS

    @property
    def fixed_point(self) -> FixedPoint:
        """The public number format of z."""
        return FixedPoint(self.clip, self.bits)

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """Counts (K), sums (K x d), second moments (K x d x d)."""
        self.affine.check(dimension, groups)
        shapes: dict[str, tuple[int, ...]] = {"count": (groups,), "total": (groups, dimension)}
        return shapes | {"second": (groups, dimension, dimension)} if self.second else shapes

    def partial(self, block: Block) -> State:
        """Sum one block."""
        d, groups = len(block.values), block.groups
        totals = np.zeros((groups, d), dtype=np.int64)
        seconds = np.zeros((product_parts(self.bits), groups, d, d), dtype=np.int64)
        for group, values in block.by_group():
            integers = self.fixed_point.truncate(self.affine.apply(values, group))
            totals[group] = sum_columns(integers)
            if self.second:
                seconds[:, group] = cross_products(integers, self.fixed_point)
        state = {"count": group_counts(block), "total": scaled(totals, 0)}
        return state | {"second": add_parts(seconds)} if self.second else state

    def finish(self, state: State) -> MomentSums:
        """The sums, with their units."""
        unit = self.fixed_point.unit
        second = ExactSum(state["second"], unit * unit) if self.second else None
        return MomentSums(ExactSum(state["count"], 1.0), ExactSum(state["total"], unit), second)


@dataclass(frozen=True, kw_only=True)
class Gram(Statistic[ExactSum]):
    """Sum of zz' over all records, z = x clipped to norm ``row_norm`` and truncated toward zero to ``bits`` bits.

    With the default 22 bits each row is truncated at 2**-21 of the row norm or finer, the summed products are exact
    multiples of 2**-42 of its square or finer, and one exact float64 matrix product per block is enough. One record
    moves the matrix by at most ``row_norm**2`` in the Frobenius and the operator norm, exactly, and the matrix stays
    positive semidefinite. ``bits=41`` truncates at 2**-40 and costs about twice as much.
    """

    row_norm: float
    bits: int = PRODUCT_BITS

    @property
    def fixed_point(self) -> FixedPoint:
        """The public number format of a row."""
        return FixedPoint(self.row_norm, self.bits)

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """One matrix per group."""
        return {"gram": (groups, dimension, dimension)}

    def partial(self, block: Block) -> State:
        """Gram matrices of one block."""
        d = len(block.values)
        products = np.zeros((product_parts(self.bits), block.groups, d, d), dtype=np.int64)
        for group, values in block.by_group():
            products[:, group] = cross_products(self.fixed_point.truncate(values), self.fixed_point)
        return {"gram": add_parts(products)}

    def finish(self, state: State) -> ExactSum:
        """The matrix (d x d), or one per group where there are several (K x d x d)."""
        limbs = state["gram"]
        return ExactSum(limbs[:, 0] if limbs.shape[1] == 1 else limbs, self.fixed_point.unit**2)
