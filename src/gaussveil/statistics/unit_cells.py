"""What every unit has in every group of a table: exact integers, bounded unit by unit, then summed.

One pass reads the rows in whatever order they come and adds up, for each unit and group, the number of rows, features
of them in fixed point (each within [-1, 1]) and histograms. All of a unit's rows meet here, so the public map that
bounds it sees the whole unit. Integers make the order irrelevant: engines agree to the bit.

The bounds. A unit keeps at most `groups` groups, those with the smallest public hash of unit and group. Within a group
its rows weigh at most `rows` rows together: of n > rows rows each weighs rows/n. No row is lost to a lottery, a unit's
mean stays its mean, and a million rows of one unit weigh no more than `rows`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.statistics.fixed_point import Limbs, carry, scaled
from gaussveil.statistics.row_hash import hash_rows
from gaussveil.typing import Floats, Integers

ROW_BITS = 36  # a feature of one row is a multiple of 2**-36: 2**27 rows of one unit in one group fit
BIN_BITS = 20  # a row in a bin weighs a multiple of 2**-20

GROUP_KEY = hashlib.blake2b(
    b"gaussveil: groups kept per unit, version 2", digest_size=32
).digest()


@dataclass(frozen=True)
class Feature:
    """A number of each row within [-1, 1], of x clipped to [low, high].

    "value" is its place z between -1 at low and 1 at high, "square" is 2 z^2 - 1, "size" is x over the larger of |low|
    and |high|; "inside" is 1 where low <= x <= high and -1 elsewhere.
    """

    column: str
    low: float
    high: float
    kind: str = "value"

    @property
    def middle(self) -> float:
        """The value of z = 0."""
        if self.kind == "size":
            return 0.0
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """What one unit of z is worth."""
        if self.kind == "size":
            return max(abs(self.low), abs(self.high))
        return self.high / 2 - self.low / 2

    def integers(self, values: Floats) -> Integers:
        """The feature in units of 2**-36, truncated toward zero; every step is elementwise."""
        if self.kind == "inside":
            z = np.where((values >= self.low) & (values <= self.high), 1.0, -1.0)
        else:
            z = np.clip(
                (np.clip(values, self.low, self.high) - self.middle) / self.half,
                -1.0,
                1.0,
            )
            if self.kind == "square":
                z = 2 * z * z - 1
        return np.trunc(z * 2.0**ROW_BITS).astype(np.int64)


@dataclass(frozen=True, repr=False)
class UnitCells:
    """Some units whole: rows (U, G), features (m, U, G) in units of 2**-36, histograms (U, G, bins) in rows."""

    units: pa.Array
    rows: Integers
    features: Integers
    bins: tuple[Integers, ...]

    def bounded(self, rows: int, groups: int) -> UnitCells:
        """Each unit within its bounds, whatever it brought; histograms now in units of 2**-20."""
        counts = np.where(self._kept(groups), self.rows, 0)
        weight = np.where(counts > rows, rows / np.maximum(counts, 1), 1.0) * (
            counts > 0
        )
        limit = np.minimum(counts, rows)
        most = limit * 2**ROW_BITS
        shrunk = weight < 1
        features = np.where(
            shrunk, np.trunc(self.features * weight).astype(np.int64), self.features
        )
        bins = tuple(_weighed(counts, weight[..., None], limit) for counts in self.bins)
        return UnitCells(self.units, limit, np.clip(features, -most, most), bins)

    def _kept(self, groups: int) -> NDArray[np.bool_]:
        touched = self.rows > 0
        many = np.flatnonzero(touched.sum(axis=1) > groups)
        if len(many) == 0:
            return touched
        unit, group = np.nonzero(touched[many])
        order = hash_rows(
            [self.units.take(pa.array(many[unit])), pa.array(group)], GROUP_KEY, 0
        )
        places = np.lexsort((group, order, unit))
        starts = np.flatnonzero(np.r_[True, np.diff(unit[places]) > 0])
        rank = np.arange(len(places)) - np.repeat(
            starts, np.diff(np.r_[starts, len(places)])
        )
        dropped = places[rank >= groups]
        touched[many[unit[dropped]], group[dropped]] = False
        return touched


def _weighed(bins: Integers, weight: Floats, limit: Integers) -> Integers:
    """A unit's histogram, its mass within a group at most `limit` rows: each bin is rounded down."""
    steps = np.floor(bins * weight * 2.0**BIN_BITS * (1 - 2.0**-50)).astype(np.int64)
    exact = np.where(
        weight < 1, steps, bins * 2**BIN_BITS * (weight > 0).astype(np.int64)
    )
    over = exact.sum(axis=-1) > limit * 2**BIN_BITS
    exact[over] = 0  # cannot happen; were it to, the unit's bound holds all the same
    return exact


class UnitTotals(ABC):
    """Sums over units of what a public map makes of each; every array of integers is one exact total."""

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every total."""

    @abstractmethod
    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """The public map: for every total the units' integers, one row per unit; each bounded by itself."""

    def fold(self, chunks: Iterable[UnitCells]) -> dict[str, Limbs]:
        """The totals of many units."""
        state = self.empty()
        for cells in chunks:
            for name, rows in self.vectors(cells).items():
                high = rows >> 32
                low = rows & (2**32 - 1)
                state[name] = carry(
                    state[name]
                    + scaled(high.sum(axis=0), 32)
                    + scaled(low.sum(axis=0), 0)
                )
        return state

    def empty(self) -> dict[str, Limbs]:
        """The totals of nobody."""
        return {
            name: np.zeros((4, *shape), dtype=np.int64)
            for name, shape in self.shapes().items()
        }
