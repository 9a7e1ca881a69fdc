"""The search for cells of equal mass, as far as it reads released counts alone: ranges, and counts in other cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from gaussveil.postprocessing.synthetic.cells import (
    Cells,
    finer_cells,
    first_cells,
    learning_cells,
    rungs,
    with_ladders,
)
from gaussveil.postprocessing.synthetic.columns import DATE, DAY_SECONDS, MOMENT, Column
from gaussveil.postprocessing.synthetic.marginals import GAP, MIDDLE, simplex
from gaussveil.typing import Floats

WINDOWS = (1, 2, 4, 8)  # cells that are looked at together for the ends of a range
BEYOND = 2  # octaves beyond those that stand out that a learnt range has
FALSE_CHANCE = 1e-6  # that empty cells stand out of the noise, in any column and round
ROUNDS = (0.3, 0.3, 0.4)  # of the counts that look for cells, their parts
FOUND_CHANCE = (
    0.95  # that all ranges are found from the number of rows on that a plan names
)
MIDDLE_CELLS = 2  # in which that share of a column's numbers lies: half of them within a factor of four
MIDDLE_SHARE = 0.5
EMPTY_SHARE = 0.02  # of the records up to which a cell holds next to nothing
SINGLE_DEVIATIONS = 5.0  # of its noise that records of one value are, to be kept apart


def first_of(column: Column) -> Cells:
    """The cells of a column of numbers before anything is known of it but its public range."""
    if column.low is not None and column.high is not None:
        return first_cells(column.low, column.high, column.is_whole)
    day = column.kind in (DATE, MOMENT)
    return learning_cells(
        column.is_whole, day, DAY_SECONDS if column.kind == MOMENT else 1.0
    )


def standing_out(cells: int, looks: int) -> float:
    """Deviations of its noise beyond which a count stands out, so many cells being looked at so many times.

    Every window of cells is looked at, and every sum from either end: all of them together are wrong with a chance of
    FALSE_CHANCE at most, whatever the column holds.
    """
    windows = sum(max(cells - width + 1, 0) for width in WINDOWS)
    return float(-ndtri(FALSE_CHANCE / (looks * (windows + 2 * cells))))


def looked_for(columns: int) -> int:
    """How many counts look for cells of so many columns."""
    return columns * len(ROUNDS)


def standing_out_of(column: Column, looks: int) -> float:
    """Deviations beyond which counts of the first cells of a column stand out."""
    return standing_out(first_of(column).size, looks)


def records_to_stand_out(column: Column, looks: int, columns: int) -> float:
    """How many records a column must have to be found, in deviations of a count's noise.

    So many columns are all found with FOUND_CHANCE where half of the numbers of each lie within a factor of four (of
    dates, within a year); of numbers that are spread wider more are needed.
    """
    luck = -ndtri((1 - FOUND_CHANCE) / max(columns, 1))
    least = standing_out_of(column, looks) + luck
    return float(least * math.sqrt(MIDDLE_CELLS) / MIDDLE_SHARE)


def seen_cells(counts: Floats, least: float) -> slice | None:
    """From the first to the last cell where records stand out of the noise, alone or with neighbours together.

    Records stand out from `least` on, of one cell; None where none do.
    """
    widths = [width for width in WINDOWS if width <= len(counts)]
    sums = {
        width: np.convolve(counts, np.ones(width), "valid") / math.sqrt(width)
        for width in widths
    }
    core = max(widths, key=lambda width: float(sums[width].max()))
    if sums[core].max() <= least:
        return None
    first = int(np.argmax(sums[core]))
    last = first + core - 1
    for width in widths:
        told = np.flatnonzero(sums[width] > least)
        below = told[told + width <= first]
        above = told[told > last]
        if len(below):
            first = int(below[0])
        if len(above):
            last = int(above[-1]) + width - 1
    return slice(first, last + 1)


def without_empty_ends(counts: Floats, kept: slice, least: float) -> slice:
    """The cells that are kept but the outermost, as long as the records in these do not stand out of the noise.

    Cells that are looked at together may be empty ones in part: below a column of counts, say, negative ones.
    """
    seen = counts[kept]
    noise = least * np.sqrt(np.arange(1, len(seen) + 1))
    below = np.flatnonzero(np.cumsum(seen) > noise)
    above = len(seen) - 1 - np.flatnonzero(np.cumsum(seen[::-1]) > noise)
    if not len(below) or not len(above):
        return kept
    ends = sorted([int(below[0]), int(above[0])])
    return slice(kept.start + ends[0], kept.start + ends[1] + 1)


def ranged_cells(cells: Cells, kept: slice, day: bool) -> tuple[Cells, slice]:
    """The cells that are kept and their place among all: with room beyond, so that few numbers are moved to an end.

    Two octaves more on either side, of the same sign; of dates half a year. A single value gets a neighbour.
    """
    first = kept.start
    last = kept.stop
    if cells.low[first] == cells.high[last - 1]:
        first = max(first - 1, 0)
        last = min(last + 1, cells.size)
    if day:
        first = max(first - 1, 0)
        last = min(last + 1, cells.size)
    else:
        for _ in range(BEYOND):
            first, last = _octave_more(cells, first, last)
    low = cells.low[first:last]
    high = cells.high[first:last]
    return Cells.of(np.concatenate([low, high]), low[low == high]), slice(first, last)


def _octave_more(cells: Cells, first: int, last: int) -> tuple[int, int]:
    """First and last place with one more cell on either side, where it is of the same sign."""
    signed = cells.low + cells.high != 0  # not so the cell of 0 among whole numbers
    if first > 0 and signed[first] and cells.low[first - 1] * cells.low[first] > 0:
        first -= 1
    reached = last - 1
    if (
        last < cells.size
        and signed[reached]
        and cells.high[last] * cells.high[reached] > 0
    ):
        last += 1
    return first, last


def gap_ends(cells: Cells, masses: Floats) -> Floats:
    """Ends of stretches that hold next to nothing, are long beside the spread, and have numbers on both sides."""
    held = np.flatnonzero(masses > EMPTY_SHARE * masses.sum())
    low, high = cells.quantiles(masses, np.array([MIDDLE, 1 - MIDDLE]))
    ends = [
        (cells.high[below], cells.low[above])
        for below, above in pairwise(held)
        if cells.low[above] - cells.high[below] > GAP * (high - low)
    ]
    return np.array(ends).ravel()


def moved(cells: Cells, masses: Floats, finer: Cells) -> Floats:
    """Masses of cells, evenly spread, as those of other cells."""
    below = np.concatenate([[0.0], np.cumsum(masses)])
    found = np.zeros(finer.size)
    for place, (low, high) in enumerate(zip(finer.low, finer.high)):
        start, end = (
            _below(cells, below, edge, low == high, upper)
            for edge, upper in ((low, False), (high, True))
        )
        found[place] = end - start
    return np.maximum(found, 0.0)


def _below(
    cells: Cells, below: Floats, edge: float, single: bool, upper: bool
) -> float:
    """Mass below an edge; a single value counts where the cell asked for is that value, at its upper end."""
    at = np.flatnonzero((cells.low == edge) & (cells.high == edge))
    if len(at):
        # The interval above the value starts after it, the interval below ends before it.
        if single:
            after = upper
        else:
            after = not upper
        return float(below[at[0] + 1] if after else below[at[0]])
    place = int(
        np.clip(np.searchsorted(cells.high, edge, side="left"), 0, cells.size - 1)
    )
    width = cells.high[place] - cells.low[place]
    if width > 0:
        part = (edge - cells.low[place]) / width
    else:
        part = 1.0
    return float(
        below[place] + np.clip(part, 0.0, 1.0) * (below[place + 1] - below[place])
    )


@dataclass(frozen=True, eq=False)
class Sought:
    """A column of numbers whose cells are looked for: those to be counted next, and what counts told so far.

    As long as nothing stands out of the noise the same cells are counted again, and their counts put together.

    Example: `Sought.first(column).seen(noisy, 15.0, 3)` has masses where records stand out of noise of 15.
    """

    column: Column
    cells: Cells
    masses: Floats | None = None
    """Records in the cells, about; None as long as nothing stands out."""
    counts: Floats | None = None
    variance: float = math.inf

    @classmethod
    def first(cls, column: Column) -> Sought:
        """Before anything is known but the public range."""
        return cls(column, first_of(column))

    @property
    def is_learnt(self) -> bool:
        """Whether the range is not given."""
        return self.column.low is None

    def seen(self, noisy: Floats, deviation: float, looks: int) -> Sought:
        """After one more count of its cells; `looks` is the number of counts of all columns.

        Returns:
            The cells that stand out, with their masses; itself with more counts where none do.
        """
        variance = deviation**2
        if self.counts is not None:
            parts = np.array([1 / self.variance, 1 / variance]) / (
                1 / self.variance + 1 / variance
            )
            noisy = parts[0] * self.counts + parts[1] * noisy
            variance = 1 / (1 / self.variance + 1 / variance)
        least = standing_out(self.cells.size, looks) * math.sqrt(variance)
        kept: Any = seen_cells(noisy, least)
        if kept is None:
            if self.masses is not None:
                return self
            return replace(self, counts=noisy, variance=variance)
        cells = self.cells
        if self.is_learnt and self.masses is None:
            day = self.column.kind in (DATE, MOMENT)
            kept = without_empty_ends(noisy, kept, least)
            cells, kept = ranged_cells(cells, kept, day)
            noisy = noisy[kept]
            kept = slice(None)
        masses = np.zeros(cells.size)
        masses[kept] = simplex(noisy[kept], max(float(noisy[kept].sum()), 1.0))
        return replace(self, cells=cells, masses=masses, counts=None)

    def finer(self, shares: Floats, least: float) -> Sought:
        """With cells between the quantiles at these shares; single values stay where at least so many records are.

        So do the ends of what parts clusters: without them a quantile inside a cluster would be its only edge.
        """
        if self.masses is None:
            return self
        guess = self._with_outer_steps()
        assert guess.masses is not None
        whole = self.column.is_whole
        cells = finer_cells(guess.cells, guess.masses, shares, whole, least)
        edges = np.concatenate([cells.edges, gap_ends(self.cells, self.masses)])
        return guess._moved_to(Cells.of(edges, cells.low[cells.low == cells.high]))

    def ended(self, shares: Floats) -> Sought:
        """After the last count: even cells of a given range where nothing stood out, finer ends of a learnt one."""
        if self.masses is not None:
            if not self.is_learnt:
                return self
            return self._moved_to(
                with_ladders(self.cells, self.masses, self.column.is_whole)
            )
        if self.is_learnt:
            return self
        even = replace(self, masses=self.cells.high - self.cells.low)
        return even.finer(shares, math.inf)

    def _with_outer_steps(self) -> Sought:
        """The outermost intervals that hold records divided by ladders, each step with as many records.

        Inside them nothing was counted: were records spread evenly over a wide range, most edges would lie where none
        are, and the next count would tell no more.
        """
        assert self.masses is not None
        cells = self.cells
        held = np.flatnonzero((cells.low < cells.high) & (self.masses > 0))
        if not len(held):
            return self
        middle = float(cells.quantiles(self.masses, np.array([0.5]))[0])
        outer = [
            (place, start)
            for place, start in (
                (int(held[0]), float(cells.high[held[0]])),
                (int(held[-1]), float(cells.low[held[-1]])),
            )
            if not cells.low[place] < middle < cells.high[place]
        ]
        steps = [rungs(start, middle, self.column.is_whole) for _, start in outer]
        kept = [
            one[(one > cells.low[place]) & (one < cells.high[place])]
            for one, (place, _) in zip(steps, outer)
        ]
        single = cells.low[cells.low == cells.high]
        divided = Cells.of(np.concatenate([cells.edges, *kept]), single)
        masses = moved(cells, self.masses, divided)
        for place, _ in outer:
            inside = (
                (divided.low >= cells.low[place])
                & (divided.high <= cells.high[place])
                & (divided.low < divided.high)
            )
            masses[inside] = self.masses[place] / np.count_nonzero(inside)
        return replace(self, cells=divided, masses=masses)

    def _moved_to(self, cells: Cells) -> Sought:
        assert self.masses is not None
        return replace(self, cells=cells, masses=moved(self.cells, self.masses, cells))
