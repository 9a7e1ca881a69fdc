"""Sums over whole units: each unit's rows are added up and bounded together, then charged for as one.

The sum of z z' over a unit's rows (`rows.WeightedRows`; m at most) is weighted by v = min(1, f m/|X'X|), X the unit's
x-parts, in the Frobenius norm, f public. And what rows of a unit have in common: the squares of A s, s the sum of z e
over its rows, e the residual, A public, are shortened and added up, which gives the design effect of each coefficient.
By how much a unit moves either is derived in docs/mechanisms/regression.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import Draws
from gaussveil.mechanisms.regression.rows import WeightedRows
from gaussveil.statistics import ExactSum, FixedPoint
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.fixed_point import column_norms
from gaussveil.statistics.unit_cells import ROW_BITS, UnitCells, UnitTotals
from gaussveil.typing import Floats, Integers

FRACTIONS = tuple(
    2.0 ** (-step / 4) for step in range(17)
)  # f: of the most that a unit's rows could be together
WIDEST = 2**13  # products of a row; beyond, rows are bounded one by one
REACH = 12.0  # a square of a normal law: beyond lies one in a hundred of its mean
Line = tuple[float, ...]
Left = tuple[float, float]  # share of all weight that is left, deviation of its noise


@dataclass(frozen=True, kw_only=True)
class GramReader(CellReader):
    """The upper triangle of each unit's sum of z z', squares over sqrt(2): half the squared length of the matrix."""

    rows: WeightedRows

    @cached_property
    def kind(self) -> Any:
        """Block of every product."""
        size = len(self.present) - self.rows.targets
        names = np.asarray(["1"] + ["x"] * size + ["y"] * self.rows.targets)
        above, below = np.triu_indices(len(names))
        return np.where(
            above == 0, names[below], np.char.add(names[above], names[below])
        )

    @property
    def width(self) -> int:
        """Numbers of one row."""
        return len(self.kind)

    def integers(self, values: dict[str, Floats]) -> Iterator[Integers]:
        """Products of numbers within [-1, 1], row by row in one fixed order."""
        rows = self.rows.weighted(
            np.stack([values[column] for column in self.present])
        )[:-1]
        for i, j in zip(*np.triu_indices(len(rows))):
            if i == j > 0:
                halved = math.sqrt(0.5)
            else:
                halved = 1.0
            yield np.trunc(rows[i] * rows[j] * (halved * 2.0**ROW_BITS)).astype(
                np.int64
            )


@dataclass(frozen=True)
class UnitGrams(UnitTotals):
    """Sum over units of their sums of z z', each within its bounds; last what their weights lack."""

    reader: GramReader
    most: int
    fraction: float = 1.0

    @property
    def unit(self) -> float:
        """The power of two whose multiples are summed."""
        return FixedPoint(float(self.most)).unit

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"sums": (self.reader.width + 1,)}

    def weighted(self, cells: UnitCells) -> tuple[Floats, Floats]:
        """The sums, one column per unit, and |X'X|/m of each before it was weighted."""
        sums = cells.features[:, :, 0] * 2.0**-ROW_BITS
        length = column_norms(sums[self.reader.kind == "xx"]) * (
            math.sqrt(2) / self.most
        )
        weight = np.minimum(1.0, self.fraction / np.maximum(length, 1e-300))
        return np.asarray(weight * sums, dtype=np.float64), length

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """The public map."""
        sums, _ = self.weighted(cells)
        rows = np.vstack((sums, np.maximum(cells.rows[:, 0] - sums[0], 0.0)))
        kind = np.append(self.reader.kind, "1")
        for name, energy in block_energies(
            self.reader.rows.targets, self.fraction
        ).items():
            block = rows[kind == name]
            limit = self.most * math.sqrt(energy) * (1 - (len(block) + 8) * 2.0**-52)
            rows[kind == name] = block * np.minimum(
                1.0, limit / np.maximum(column_norms(block), 1e-300)
            )
        return {"sums": np.trunc(rows / self.unit).astype(np.int64).T}


@dataclass(frozen=True)
class RowsByLength(UnitTotals):
    """How many rows belong to units whose length is at most each of FRACTIONS, and above the next."""

    grams: UnitGrams

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"sums": (len(FRACTIONS),)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """A unit's rows in its place, m at most."""
        place = np.searchsorted(
            -np.asarray(FRACTIONS[1:]), -self.grams.weighted(cells)[1], side="right"
        )
        by_length = (place[:, None] == np.arange(len(FRACTIONS))) * np.minimum(
            cells.rows, self.grams.most
        )
        return {"sums": by_length}


@dataclass(frozen=True)
class ScoreSquares(UnitTotals):
    """Sums over units of the squares of A s; a line of coefficients, the level first, and a matrix A of each target."""

    grams: UnitGrams
    lines: tuple[Line, ...]
    parts: tuple[tuple[Line, ...], ...]
    limit: float

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"sums": (sum(map(len, self.parts)),)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """A unit's squares, no longer than `limit`."""
        sums, _ = self.grams.weighted(cells)
        columns = len(self.grams.reader.present) + 1
        place = np.zeros((columns, columns), dtype=np.int64)
        place[np.triu_indices(columns)] = range(len(sums))
        place = np.maximum(place, place.T)
        sums[np.diag(place)[1:]] *= math.sqrt(2)
        squares = []
        for target, line, part in zip(
            place[len(self.lines[0]) :], self.lines, self.parts
        ):
            with np.errstate(over="ignore", invalid="ignore"):
                scores = [
                    sums[target[a]] - _combined(line, sums[place[a]])
                    for a in range(len(line))
                ]
                squares += [_combined(each, scores) ** 2 for each in part]
        return {
            "sums": FixedPoint(self.limit)
            .truncate(np.stack(squares))
            .astype(np.int64)
            .T
        }


def _combined(line: Line, rows: Any) -> Floats:
    """Sum of the rows with these weights, elementwise: no product whose order depends on the number of columns."""
    total = np.zeros(len(rows[0]))
    for weight, row in zip(line, rows):
        total += weight * row
    return total


@dataclass
class WholeUnits:
    """Passes over whole units, whose sums are read once where they fit in memory; `units`: centre and scale."""

    draws: Draws
    units: Floats
    kept: list[UnitCells] = field(default_factory=list)

    @cached_property
    def grams(self) -> UnitGrams:
        """Sums that are not weighted down."""
        table = self.draws.table
        centre, scale = (tuple(side.tolist()) for side in self.units.T)
        rows = WeightedRows(
            centre=centre, scale=scale, row_norm=1.0, targets=len(table.targets)
        )
        reader = GramReader(
            table.source.view.unit or "", (), present=table.columns, rows=rows
        )
        return UnitGrams(reader, table.source.rows_per_unit)

    def sums(self, totals: UnitTotals, unit: float) -> ExactSum:
        """One pass."""
        state = self.draws.table.source.fold_units(self.grams.reader, totals, self.kept)
        return ExactSum(state["sums"], unit)

    def left_by(self, mean_shift: float) -> dict[float, Left]:
        """What share of their weight all rows keep, for every f."""
        self.draws.spend_row(mean_shift**2)
        scale = 1 / mean_shift
        longest = np.asarray(FRACTIONS)
        rows = self.draws.noisy(
            noise_design(scale, longest.shape, 1),
            self.sums(RowsByLength(self.grams), 1.0),
        )
        weights = np.minimum(1.0, longest[:, None] / longest)
        total = max(float(rows.sum()), scale)
        left = weights @ rows / total
        doubt = scale * np.linalg.norm(weights - left[:, None], axis=1) / total
        return dict(zip(FRACTIONS, zip(left.tolist(), doubt.tolist()))) | {
            1.0: (1.0, 0.0)
        }

    def effects(
        self,
        grams: UnitGrams,
        lines: Floats,
        parts: Floats,
        count: float,
        mean_shift: float,
    ) -> Floats:
        """Design effect of every coefficient, targets first; what its noise leaves open is added, up to all rows alike.

        `lines` and `parts` hold coefficients and A of every target, A such that rows by themselves give `count`.
        """
        limit = grams.most**2 * math.sqrt(REACH**2 + 3 * lines.size)
        matrices = tuple(tuple(map(tuple, part)) for part in parts.tolist())
        squares = ScoreSquares(
            grams, tuple(map(tuple, lines.tolist())), matrices, limit
        )
        self.draws.spend_row(mean_shift**2)
        noise = limit / (grams.most * mean_shift)
        sums = self.sums(squares, FixedPoint(limit).unit)
        squares_of_scores = self.draws.noisy(
            noise_design(noise, sums.shape, lines.size), sums
        ).reshape(lines.shape)
        return np.minimum(
            (np.maximum(squares_of_scores, noise) + noise) / count, float(grams.most)
        )


def block_energies(targets: int, fraction: float = 1.0) -> dict[str, float]:
    """The largest squared length by which one row moves each block, the diagonal halved; of m rows m^2 times it."""
    k = float(targets)
    f = fraction
    return {"1": 1.0, "x": f, "y": k, "xx": f**2 / 2, "xy": f * k, "yy": k**2 / 2}
