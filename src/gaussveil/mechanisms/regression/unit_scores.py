"""What rows of one unit have in common: design effects of coefficients, from the squares of each unit's part in them.

A unit adds A s to the sampling error of a fit: s the sum of z e over its rows (`rows.WeightedRows`), e the weighted
residual, A a matrix; both come from moments that were released before, so they are public. The sum over units of the
squares of A s, over what rows all by themselves would give, is the design effect of each coefficient. Rows of a unit
that are all alike give m^2, and the squares of a unit are shortened to m^2 sqrt(REACH^2 + 3 coefficients), in the l2
norm and in fixed point: a unit moves the sums by no more, and noise of that over t has the pair of N(t, 1) and N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import Draws
from gaussveil.mechanisms.regression.rows import WeightedRows
from gaussveil.statistics import ExactSum, FixedPoint
from gaussveil.statistics.unit_cells import ROW_BITS, CellReader, UnitCells, UnitTotals
from gaussveil.typing import Floats, Integers

REACH = 12.0  # a square of a normal law: beyond lies one in a hundred of its mean
FARTHEST = 2.0  # residual: no target and no prediction that makes sense lies beyond [-1, 1]
Line = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ScoreReader(CellReader):
    """The sums of z e of each unit, for one target after the other; `lines` are the coefficients, the level first."""

    rows: WeightedRows
    lines: tuple[Line, ...]

    @property
    def width(self) -> int:
        """Numbers of one row."""
        return sum(map(len, self.lines))

    def integers(self, values: dict[str, Floats]) -> Iterator[Integers]:
        """Over FARTHEST within [-1, 1], row by row in one fixed order."""
        rows = self.rows.weighted(np.stack([values[column] for column in self.present]))
        for target, line in zip(rows[-1 - len(self.lines) : -1], self.lines):
            error = target - _combined(line, rows)
            error = np.clip(error / FARTHEST, -1.0, 1.0) * 2.0**ROW_BITS
            yield from (np.trunc(each * error).astype(np.int64) for each in rows[: len(line)])


@dataclass(frozen=True)
class ScoreSquares(UnitTotals):
    """Sums over units of the squares of A s; one matrix A of each target."""

    parts: tuple[tuple[Line, ...], ...]
    limit: float

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"squares": (sum(map(len, self.parts)),)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """A unit's squares, no longer than `limit`."""
        sums = cells.features[:, :, 0] * (FARTHEST * 2.0**-ROW_BITS)
        own = np.split(sums, np.cumsum([len(part) for part in self.parts])[:-1])
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.stack([_combined(line, each) ** 2 for part, each in zip(self.parts, own) for line in part])
        return {"squares": FixedPoint(self.limit).truncate(found).astype(np.int64).T}


def _combined(line: Line, rows: Floats) -> Floats:
    """Sum of the rows with these weights, elementwise: no product whose order depends on the number of columns."""
    total = np.zeros(rows.shape[1])
    for weight, row in zip(line, rows):
        total += weight * row
    return total


def unit_effects(draws: Draws, units: Floats, lines: Floats, parts: Floats, count: float, mean_shift: float) -> Floats:
    """Design effect of every coefficient, targets first; what its noise leaves open is added, up to all rows alike.

    `lines` and `parts` hold coefficients and A of every target, A such that rows by themselves would give `count`.
    """
    table, most = draws.table, draws.table.source.rows_per_unit
    centre, scale = (tuple(side.tolist()) for side in units.T)
    rows = WeightedRows(centre=centre, scale=scale, row_norm=1.0, targets=len(lines))
    limit = most**2 * math.sqrt(REACH**2 + 3 * lines.size)
    reader = ScoreReader(
        table.source.view.unit or "", (), present=table.columns, rows=rows, lines=tuple(map(tuple, lines.tolist()))
    )
    squares = ScoreSquares(tuple(tuple(map(tuple, part)) for part in parts.tolist()), limit)
    draws.spend(mean_shift**2)
    sums = ExactSum(table.source.fold_units(reader, squares, [])["squares"], FixedPoint(limit).unit)
    noise = limit / mean_shift
    found = draws.noisy(noise_design(noise, sums.shape, lines.size), sums).reshape(lines.shape)
    return np.minimum((np.maximum(found, noise) + noise) / count, float(most))
