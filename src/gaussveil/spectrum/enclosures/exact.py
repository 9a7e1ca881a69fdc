"""What a loss was made from, to the bit: rigorous enclosures start from these and not from rounded reduced terms."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from gaussveil.typing import Array


@dataclass(frozen=True, eq=False)
class ExactTerms:
    """Reduced terms whose doubles are taken as exact; `mean_gap`, where known, is exact and energy is its square."""

    variance_gap: Array
    multiplicity: Array
    energy: Array
    mean_gap: Array | None = None


@dataclass(frozen=True, eq=False)
class ExactMatrices:
    """A pair of Gaussians whose doubles are taken as exact."""

    mean_x: Array
    cov_x: Array
    mean_y: Array
    cov_y: Array


@dataclass(frozen=True, eq=False)
class ExactSource:
    """One exact origin, how often it is composed, and whether X and Y are exchanged."""

    origin: ExactTerms | ExactMatrices
    count: int = 1
    swapped: bool = False

    def copy(self) -> ExactSource:
        """The same numbers in arrays of its own."""
        columns = {name: deepcopy(column) for name, column in vars(self.origin).items()}
        return replace(self, origin=type(self.origin)(**columns))

    def reversed(self) -> ExactSource:
        """The same origin read as Y against X."""
        return replace(self, swapped=not self.swapped)

    def repeated(self, count: int) -> ExactSource:
        """The same origin composed `count` times as often."""
        return replace(self, count=self.count * count)
