"""Counts, sums, second moments and histograms per group, under public affine maps; the Gram matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.statistics.block import Block
from gaussveil.statistics.fixed_point import (
    PRODUCT_BITS,
    SUM_BITS,
    ExactSum,
    FixedPoint,
    add_parts,
    column_norms,
    cross_products,
    product_parts,
    scaled,
    sum_columns,
)
from gaussveil.statistics.statistic import State, Statistic, group_counts, require_shape
from gaussveil.typing import Floats


@dataclass(frozen=True)
class Affine:
    """Centres m_k (K x d) and maps A_k: None, one scale per group (K), per column (K x d), or matrices (K x d x d).

    Everything here is public: released before, or never computed from the data.
    """

    centres: ArrayLike | None = None
    maps: ArrayLike | None = None

    def __post_init__(self) -> None:
        for name in ("centres", "maps"):
            numbers = getattr(self, name)
            if numbers is not None:
                array = np.array(numbers, dtype=np.float64)
                if not np.isfinite(array).all():
                    raise NotFiniteError(
                        f"{name} must be finite: they are public parameters."
                    )
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def check(self, dimension: int, groups: int) -> None:
        """Refuse centres and maps that do not fit the columns and groups of a pass."""
        if self.centres is not None:
            require_shape("centres", np.shape(self.centres), (groups, dimension))
        if self.maps is not None:
            full = (groups, dimension, dimension)
            if np.ndim(self.maps) not in (1, 2, 3):
                raise ShapeError(
                    f"maps must have 1, 2 or 3 dimensions. Got {np.ndim(self.maps)}."
                )
            require_shape("maps", np.shape(self.maps), full[: np.ndim(self.maps)])

    def apply(self, values: Floats, group: int) -> Floats:
        """Map the columns of ``values`` (d x n, may be overwritten)."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # overflow is clipped or zeroed record by record later
            if self.centres is not None:
                values -= np.asarray(self.centres)[group][:, None]
            if self.maps is None:
                return values
            linear = np.asarray(self.maps)[group]
            if linear.ndim < 2:
                values *= linear if linear.ndim == 0 else linear[:, None]
                return values
            # Not a matrix product: its summation order depends on the number of rows and on the processor.
            values = np.ascontiguousarray(values)
            mapped = np.zeros(values.shape)
            product = np.empty(values.shape[1])
            for out, coefficients in zip(mapped, linear.tolist()):
                for row, coefficient in zip(values, coefficients):
                    if coefficient:
                        out += np.multiply(row, coefficient, out=product)
            return mapped


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
        shapes: dict[str, tuple[int, ...]] = {
            "count": (groups,),
            "total": (groups, dimension),
        }
        if self.second:
            return shapes | {"second": (groups, dimension, dimension)}
        return shapes

    def partial(self, block: Block) -> State:
        """Sum one block."""
        d = len(block.values)
        groups = block.groups
        totals = np.zeros((groups, d), dtype=np.int64)
        seconds = np.zeros((product_parts(self.bits), groups, d, d), dtype=np.int64)
        for group, values in block.by_group():
            integers = self.fixed_point.truncate(self.affine.apply(values, group))
            totals[group] = sum_columns(integers)
            if self.second:
                seconds[:, group] = cross_products(integers, self.fixed_point)
        state = {"count": group_counts(block), "total": scaled(totals, 0)}
        if self.second:
            return state | {"second": add_parts(seconds)}
        return state

    def finish(self, state: State) -> MomentSums:
        """The sums, with their units."""
        unit = self.fixed_point.unit
        if self.second:
            second = ExactSum(state["second"], unit * unit)
        else:
            second = None
        return MomentSums(
            ExactSum(state["count"], 1.0), ExactSum(state["total"], unit), second
        )


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
        products = np.zeros(
            (product_parts(self.bits), block.groups, d, d), dtype=np.int64
        )
        for group, values in block.by_group():
            products[:, group] = cross_products(
                self.fixed_point.truncate(values), self.fixed_point
            )
        return {"gram": add_parts(products)}

    def finish(self, state: State) -> ExactSum:
        """The matrix (d x d), or one per group where there are several (K x d x d)."""
        limbs = state["gram"]
        return ExactSum(
            limbs[:, 0] if limbs.shape[1] == 1 else limbs, self.fixed_point.unit**2
        )


@dataclass(frozen=True, kw_only=True)
class BinCounts(Statistic[ExactSum]):
    """How many records of each group fall into each bin ``[edge_i, edge_i+1)``.

    One column is binned by its value; with ``distance=True`` the norm of A_k (x - m_k) is binned instead. What lies
    outside the edges goes to the first or last bin, so a record always counts once: one record moves one count by one.
    """

    edges: Sequence[float]
    distance: bool = False
    affine: Affine = field(default_factory=Affine)

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ParameterError(
                f"edges must be two or more increasing numbers. Got an array of shape {edges.shape}."
            )

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """Counts (K x bins)."""
        if not self.distance and dimension != 1:
            raise ShapeError(
                f"a histogram of values reads one column. Got {dimension}: name one or use distance=True."
            )
        self.affine.check(dimension, groups)
        return {"histogram": (groups, self.bins)}

    def partial(self, block: Block) -> State:
        """Count one block."""
        state = self.empty(len(block.values), block.groups)
        inner = np.asarray(self.edges, dtype=np.float64)[1:-1]
        for group, values in block.by_group():
            mapped = self.affine.apply(values, group)
            with np.errstate(over="ignore", invalid="ignore"):
                if self.distance:
                    measured = column_norms(mapped)
                else:
                    measured = mapped[0]
            places = np.searchsorted(
                inner, measured, side="right"
            )  # NaN, from an overflow, sorts last
            state["histogram"][:, group] = scaled(
                np.bincount(places, minlength=self.bins).astype(np.int64), 0
            )
        return state

    def finish(self, state: State) -> ExactSum:
        """The counts."""
        return ExactSum(state["histogram"], 1.0)
