"""What one unit adds to the draws of its curve: where it was, and how far its values there are from a centre.

A unit's curve is there only in the groups that it has rows in; nothing is filled in elsewhere. Every map here is public
and bounds each unit by itself: counts by `groups_per_unit` and `rows_per_group`, everything else by a ball.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.table.layout import Layout
from gaussveil.statistics import FixedPoint
from gaussveil.statistics.fixed_point import column_norms
from gaussveil.statistics.unit_cells import ROW_BITS, Feature, UnitCells, UnitTotals
from gaussveil.typing import Floats, Integers

OCTAVES = np.arange(-20, 21)


@dataclass(frozen=True, eq=False)
class Presence(UnitTotals):
    """Rows of every place, all its moments together: integers, a unit at most rows x moments at a place."""

    layout: Layout
    rows: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """One number per place."""
        return {"sums": (self.layout.places,)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """Each unit's rows, at most `rows` in a group and in at most `touched` groups."""
        rows = cells.bounded(self.rows, self.layout.touched).rows
        return {"sums": rows[:, self.layout.groups].sum(axis=2)}


@dataclass(frozen=True, eq=False)
class Curves(UnitTotals):
    """Sums over units of one part of their curves, scaled into a ball; or a histogram of the part's norms by octave.

    The parts: "presence", rows less their mean over the moments of a place, as shares of the bound; of the values,
    summed over rows and less the centre for each row, "rough" (about nothing) and "smooth", the coefficients in the
    smooth functions at each place, and "rest", what these leave.
    """

    feature: Feature
    layout: Layout
    rows: int
    part: str
    radius: float | None = None
    centre: Floats | None = None
    length: float | None = None
    """Of the ball that parts are brought to, times which over the radius; the radius where it is None."""

    @property
    def fixed(self) -> FixedPoint:
        """The format of what is summed."""
        assert self.radius is not None
        return FixedPoint(self.radius if self.length is None else self.length)

    @property
    def signed(self) -> bool:
        """Whether units above the centre and below it have a histogram each, the lower first."""
        return self.part == "smooth"

    @property
    def size(self) -> tuple[int, int]:
        """Shape of the part: places, and moments or functions."""
        whole = self.part in ("presence", "rest")
        return (
            self.layout.places,
            self.layout.moments if whole else self.layout.functions,
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The part's length, or the number of octaves."""
        if self.radius is None:
            return {"sums": ((1 + self.signed) * len(OCTAVES),)}
        return {"sums": (self.size[0] * self.size[1],)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """Each unit's part within the ball of the radius, to the last bit (`FixedPoint`)."""
        here = cells.bounded(self.rows, self.layout.touched)
        there = here.rows.any(axis=1)
        part = self._part(here.rows[there], here.features[0][there])
        if self.radius is None:
            place = octave(column_norms(part))
            if self.signed:
                place = place + len(OCTAVES) * (self._level(part) > 0)
            sums = np.zeros(
                (part.shape[1], (1 + self.signed) * len(OCTAVES)), dtype=np.int64
            )
            sums[np.arange(len(sums)), place] = 1
        else:
            if self.length is not None:
                part *= self.length / self.radius
            sums = self.fixed.truncate(part).T.astype(np.int64)
        return {"sums": sums}

    def _level(self, part: Floats) -> Floats:
        """How far units lie above the centre in the constant, all places together."""
        total = np.zeros(part.shape[1])
        for level in part[:: self.layout.functions]:
            total += level
        return total

    def _part(self, rows: Integers, features: Integers) -> Floats:
        """The part of every unit (numbers x units); every step is elementwise, in one order, for all engines alike."""
        groups = self.layout.groups
        counts = np.ascontiguousarray(rows.T[groups], dtype=np.float64)
        if self.part == "presence":
            cells = counts / self.rows
            cells = cells - _mean_over_moments(cells)[:, None]
        else:
            cells = self.feature.middle * counts
            cells += self.feature.half * (
                np.ascontiguousarray(features.T[groups]) * 2.0**-ROW_BITS
            )
            if self.centre is not None:
                cells -= self.centre[..., None] * counts
            if self.part == "rest":
                cells = self.layout.rest(cells)
            else:
                cells = self.layout.smooth(cells)
        return cells.reshape(cells.shape[0] * cells.shape[1], cells.shape[2])


def _mean_over_moments(cells: Floats) -> Floats:
    total = np.zeros((cells.shape[0], cells.shape[2]))
    for moment in range(cells.shape[1]):
        total += cells[:, moment]
    return np.asarray(total / cells.shape[1])


def octave(norms: Floats) -> Integers:
    """Which octave a norm lies in, the outermost taking what lies beyond."""
    exponents = np.frexp(norms)[1].astype(np.int64)  # norm in [2^(e-1), 2^e)
    exponents = np.where(
        np.isinf(norms), OCTAVES[-1], np.where(norms > 0, exponents, OCTAVES[0])
    )
    return np.asarray(np.clip(exponents, OCTAVES[0], OCTAVES[-1]) - OCTAVES[0])
