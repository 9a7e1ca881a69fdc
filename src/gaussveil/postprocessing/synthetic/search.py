"""The search for cells of equal mass, as far as it reads released counts alone: ranges, and counts in other cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gaussveil.postprocessing.synthetic.cells import (
    Cells,
    first_cells,
    learning_cells,
)
from gaussveil.postprocessing.synthetic.columns import DATE, DAY_SECONDS, MOMENT, Column
from gaussveil.postprocessing.synthetic.marginals import simplex
from gaussveil.typing import Floats

WINDOWS = (1, 2, 4, 8)  # cells that are looked at together for the ends of a range
BEYOND = 2  # cells beyond those that stand out that a learnt range has
RANGE_DEVIATIONS = (
    5.0  # of its noise that the records beyond an end of a learnt range are worth
)


def first_of(column: Column) -> Cells:
    """The cells of a column of numbers before anything is known of it but its public range."""
    if column.low is not None and column.high is not None:
        return first_cells(column.low, column.high, column.is_whole)
    day = column.kind in (DATE, MOMENT)
    return learning_cells(
        column.is_whole, day, DAY_SECONDS if column.kind == MOMENT else 1.0
    )


def seen_cells(counts: Floats, deviation: float) -> slice:
    """From the first to the last cell where records stand out of the noise, alone or with neighbours together."""
    widths = [width for width in WINDOWS if width <= len(counts)]
    sums = {
        width: np.convolve(counts, np.ones(width), "valid") / math.sqrt(width)
        for width in widths
    }
    core = max(widths, key=lambda width: float(sums[width].max()))
    first = int(np.argmax(sums[core]))
    last = first + core - 1
    for width in widths:
        told = np.flatnonzero(sums[width] > RANGE_DEVIATIONS * deviation)
        below = told[told + width <= first]
        above = told[told > last]
        if len(below):
            first = int(below[0])
        if len(above):
            last = int(above[-1]) + width - 1
    return slice(first, last + 1)


def without_empty_ends(counts: Floats, kept: slice, deviation: float) -> slice:
    """The cells that are kept but the outermost, as long as the records in these do not stand out of the noise.

    Cells that are looked at together may be empty ones in part: below a column of counts, say, negative ones.
    """
    seen = counts[kept]
    noise = RANGE_DEVIATIONS * deviation * np.sqrt(np.arange(1, len(seen) + 1))
    below = np.flatnonzero(np.cumsum(seen) > noise)
    above = len(seen) - 1 - np.flatnonzero(np.cumsum(seen[::-1]) > noise)
    if not len(below) or not len(above):
        return kept
    ends = sorted([int(below[0]), int(above[0])])
    return slice(kept.start + ends[0], kept.start + ends[1] + 1)


def ranged_cells(cells: Cells, kept: slice, day: bool) -> tuple[Cells, slice]:
    """The cells that are kept and their place among all: with room beyond, so that few numbers are moved to an end.

    Two octaves more on either side, of the same sign; of dates nothing. A single value gets a neighbour.
    """
    first = kept.start
    last = kept.stop
    if cells.low[first] == cells.high[last - 1]:
        first = max(first - 1, 0)
        last = min(last + 1, cells.size)
    signed = cells.low + cells.high != 0  # not so the cell of 0 among whole numbers
    for _ in range(0 if day else BEYOND):
        if first > 0 and signed[first] and cells.low[first - 1] * cells.low[first] > 0:
            first -= 1
        reached = last - 1
        if (
            last < cells.size
            and signed[reached]
            and cells.high[last] * cells.high[reached] > 0
        ):
            last += 1
    low = cells.low[first:last]
    high = cells.high[first:last]
    return Cells.of(np.concatenate([low, high]), low[low == high]), slice(first, last)


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


def seen_masses(
    column: Column, cells: Cells, noisy: Floats, deviation: float, unranged: bool
) -> tuple[Cells, Floats]:
    """The cells that stand out of the noise, and what lies in them; of a column without a range, its range's alone."""
    kept: Any = seen_cells(noisy, deviation)
    if unranged:
        day = column.kind in (DATE, MOMENT)
        if not day:
            kept = without_empty_ends(noisy, kept, deviation)
        cells, kept = ranged_cells(cells, kept, day)
        noisy = noisy[kept]
        kept = slice(None)
    masses = np.zeros(cells.size)
    masses[kept] = simplex(noisy[kept], max(float(noisy[kept].sum()), 1.0))
    return cells, masses
