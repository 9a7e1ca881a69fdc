"""Histograms over public bins, of a column or of distances to public centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gaussveil.errors import ParameterError, ShapeError
from gaussveil.statistics.affine import Affine
from gaussveil.statistics.block import Block
from gaussveil.statistics.fixed_point import ExactSum, column_norms, scaled
from gaussveil.statistics.statistic import State, Statistic


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic[ExactSum]):
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
            raise ParameterError(f"edges must be two or more increasing numbers. Got an array of shape {edges.shape}.")

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """Counts (K x bins)."""
        if not self.distance and dimension != 1:
            raise ShapeError(f"a histogram of values reads one column. Got {dimension}: name one or use distance=True.")
        self.affine.check(dimension, groups)
        return {"histogram": (groups, self.bins)}

    def partial(self, block: Block) -> State:
        """Count one block."""
        state = self.empty(len(block.values), block.groups)
        inner = np.asarray(self.edges, dtype=np.float64)[1:-1]
        for group, values in block.by_group():
            mapped = self.affine.apply(values, group)
            with np.errstate(over="ignore", invalid="ignore"):
                measured = column_norms(mapped) if self.distance else mapped[0]
            places = np.searchsorted(inner, measured, side="right")  # NaN, from an overflow, sorts last
            state["histogram"][:, group] = scaled(np.bincount(places, minlength=self.bins).astype(np.int64), 0)
        return state

    def finish(self, state: State) -> ExactSum:
        """The counts."""
        return ExactSum(state["histogram"], 1.0)
