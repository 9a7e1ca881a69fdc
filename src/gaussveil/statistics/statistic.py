"""What a mergeable statistic is: partial over a block, merge, finish. One code for every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from gaussveil.errors import ShapeError
from gaussveil.statistics.block import Block
from gaussveil.statistics.fixed_point import ExactSum, Limbs, carry, scaled

Result = TypeVar("Result")
State = dict[str, Limbs]
"""Named arrays of 128-bit integers: plain int64, so any engine can ship them."""


class Statistic(ABC, Generic[Result]):
    """Integer sums over records, indifferent to their order and to how they are partitioned."""

    @abstractmethod
    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """Shape of every sum for records of ``dimension`` columns in ``groups`` groups; refuses what does not fit."""

    @abstractmethod
    def partial(self, block: Block) -> State:
        """The sums of one block of records."""

    @abstractmethod
    def finish(self, state: State) -> Result:
        """The statistic in the owner's units."""

    def empty(self, dimension: int, groups: int) -> State:
        """The sums of no record at all."""
        return {
            name: np.zeros((4, *shape), dtype=np.int64)
            for name, shape in self.shapes(dimension, groups).items()
        }

    def fold(self, blocks: Iterable[Block], dimension: int, groups: int) -> State:
        """The sums of many blocks. Carries are left to the end: 2**30 blocks fit before a limb could overflow."""
        state = self.empty(dimension, groups)
        for block in blocks:
            for name, part in self.partial(block).items():
                state[name] += part
        return {name: carry(total) for name, total in state.items()}

    def merge(self, a: State, b: State) -> State:
        """The sums of two disjoint sets of records."""
        return {name: carry(a[name] + b[name]) for name in a}


@dataclass(frozen=True)
class RowCount(Statistic[ExactSum]):
    """How many records each group has. Private like any other statistic: release it only with noise."""

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """One count per group."""
        return {"count": (groups,)}

    def partial(self, block: Block) -> State:
        """Count a block."""
        return {"count": group_counts(block)}

    def finish(self, state: State) -> ExactSum:
        """The counts."""
        return ExactSum(state["count"], 1.0)


def group_counts(block: Block) -> Limbs:
    """Records per group, exactly."""
    if block.codes is None:
        return scaled(np.array([block.rows], dtype=np.int64), 0)
    return scaled(np.bincount(block.codes, minlength=block.groups).astype(np.int64), 0)


def require_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse a public parameter whose shape does not fit the columns and groups of a pass."""
    if shape != expected:
        raise ShapeError(
            f"{name} must have the shape {expected} (groups, columns, ...). Got {shape}."
        )
