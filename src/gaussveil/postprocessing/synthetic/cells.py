"""Public cells of a column of numbers: intervals between rising edges, and single values between them.

A cell is an interval (low, high], or one value where low = high. Edges come from public ranges and from what was
released before, so which cell a number lies in is a public function of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gaussveil.typing import Floats, Integers

FIRST_EVEN = 32  # equal steps of a public range, beside halvings towards its ends
HALVINGS = 24
OCTAVES = np.arange(-20, 51)  # of the sizes among which a range is learnt
ATOM_DENSITY = 12.0  # of its neighbours', from which on a narrow cell is a single value
ATOM_SHARE = 0.01  # of the records, at least
ATOM_WIDTH = 0.02  # of the distance between the quartiles that a cell with a single value has at most
MOST_DIGITS = 17
# parts of a last edge's distance from the median, by which what lies beyond is divided
LADDER = (1 / 16, 1 / 4, 1.0)
EMPTY_DEVIATIONS = 2.5  # of its noise that the records beyond a learnt range are worth
OUTER_DEVIATIONS = 4.0  # of its noise that the records of the outermost cells are worth


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of [edges[0], edges[-1]]; `single` says which edges are cells of their own."""

    edges: Floats
    single: tuple[bool, ...]

    @classmethod
    def of(cls, edges: Iterable[float], singles: Iterable[float] = ()) -> Cells:
        """Sorted and distinct; single values that are no edges become some."""
        alone = {float(value) + 0.0 for value in singles}
        every = np.array(sorted({float(edge) + 0.0 for edge in edges} | alone))
        return cls(every, tuple(float(edge) in alone for edge in every))

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats, Integers]:
        """Low and high end of every cell, and the cell of each place: between two edges, or at one."""
        low = []
        high = []
        place = []
        last = len(self.edges) - 1
        for index, edge in enumerate(self.edges):
            if self.single[index]:
                low.append(edge)
                high.append(edge)
                place.append(len(low) - 1)
            else:
                place.append(
                    max(len(low) - 1, 0)
                )  # an edge belongs to the interval below it; the first to its own
            if index < last:
                low.append(edge)
                high.append(self.edges[index + 1])
                place.append(len(low) - 1)
        return np.array(low), np.array(high), np.array(place)

    @property
    def low(self) -> Floats:
        """Lower end of every cell."""
        return self._bounds[0]

    @property
    def high(self) -> Floats:
        """Upper end of every cell."""
        return self._bounds[1]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.low)

    def codes(self, numbers: Floats) -> Integers:
        """Cell of every number, moved into the range if it lies outside; -1 where missing."""
        inside = np.clip(
            np.where(np.isnan(numbers), self.edges[0], numbers),
            self.edges[0],
            self.edges[-1],
        )
        below = np.searchsorted(self.edges, inside, side="left")
        above = np.searchsorted(self.edges, inside, side="right")
        found = self._bounds[2][below + above - 1]
        return np.where(np.isnan(numbers), -1, found).astype(np.int64)

    def codes_or_beyond(self, numbers: Floats, sized: bool) -> Integers:
        """As `codes`, but `size` for a number below the range and `size` + 1 for one above it.

        Of `sized` numbers, which have a zero, those between it and the range are in its nearest cell: they lie as near.
        """
        found = self.codes(numbers)
        low, high = self.edges[[0, -1]].tolist()
        if sized:
            low, high = min(low, 0.0), max(high, 0.0)
        found[numbers < low] = self.size
        found[numbers > high] = self.size + 1
        return found

    def quantiles(self, masses: Floats, shares: Floats) -> Floats:
        """Numbers below which these shares lie, evenly spread in each interval."""
        total = np.concatenate([[0.0], np.cumsum(masses)]) / max(
            float(masses.sum()), 1e-300
        )
        place = np.clip(
            np.searchsorted(total, shares, side="left") - 1, 0, self.size - 1
        )
        part = (shares - total[place]) / np.maximum(
            total[place + 1] - total[place], 1e-300
        )
        return np.asarray(
            self.low[place]
            + np.clip(part, 0.0, 1.0) * (self.high[place] - self.low[place])
        )


def first_cells(low: float, high: float, whole: bool) -> Cells:
    """The first cells of a public range: even steps, and halvings towards both ends and zero."""
    width = high - low
    edges = low + width * np.arange(FIRST_EVEN + 1) / FIRST_EVEN
    halves = width * 0.5 ** np.arange(1, HALVINGS)
    origins = {low, high} | ({0.0} if low < 0 < high else set())
    for origin in origins:
        edges = np.concatenate([edges, origin + halves, origin - halves])
    edges = np.append(edges[(edges >= low) & (edges <= high)], [low, high])
    if whole:
        return whole_cells(edges, low, high)
    return Cells.of(edges, origins)


def learning_cells(whole: bool, day: bool, step: float) -> Cells:
    """Cells among which the range of a column is learnt: octaves of either sign; of dates, months of two centuries."""
    if day:  # from 1900 to 2100, in days since 1970
        months = np.arange(-70 * 12, 130 * 12 + 1) * 30.436875 * step
        return Cells.of(np.rint(months[::6]) - 0.5)
    sizes = 2.0**OCTAVES
    edges = np.concatenate([-sizes[::-1], sizes])
    if whole:
        return whole_cells(edges, edges[0], edges[-1])
    return Cells.of(edges, [0.0])


def whole_cells(edges: Floats, low: float, high: float) -> Cells:
    """Cells of whole numbers: edges lie halfway between two of them."""
    halves = np.floor(edges) + 0.5
    return Cells.of(
        [low - 0.5, high + 0.5, *halves[(halves > low) & (halves < high)].tolist()]
    )


def each_whole(low: float, high: float) -> Cells:
    """A cell for every whole number of a short range."""
    return Cells.of(np.arange(low, high + 2) - 0.5)


def finer_cells(
    cells: Cells, masses: Floats, shares: Floats, whole: bool, least: float
) -> Cells:
    """New cells between the quantiles at these shares; single values stay where at least so many records are."""
    edges = cells.quantiles(masses, shares)
    ends = cells.edges[[0, -1]]
    singles = cells.low[(cells.low == cells.high) & (masses >= least)]
    if whole:
        edges = np.floor(edges) + 0.5
    edges = edges[(edges > ends[0]) & (edges < ends[1])]
    return Cells.of([*ends, *edges], singles)


def with_ladders(cells: Cells, masses: Floats, whole: bool) -> Cells:
    """The cells, the outermost divided: how far numbers reach is seen by counts, not by the tail of those inside."""
    inner = cells.edges[1:-1]
    if len(inner) < 2:
        return cells
    middle = float(cells.quantiles(masses, np.array([0.5]))[0])
    steps = np.concatenate(
        [rungs(float(one), middle, whole) for one in (inner[0], inner[-1])]
    )
    beyond = ((steps > cells.edges[0]) & (steps < inner[0])) | (
        (steps > inner[-1]) & (steps < cells.edges[-1])
    )
    return Cells.of(
        np.concatenate([cells.edges, steps[beyond]]), cells.low[cells.low == cells.high]
    )


def rungs(edge: float, middle: float, whole: bool) -> Floats:
    """Edges beyond a last one, at public parts of its distance from the middle."""
    steps = edge + (edge - middle) * np.array(LADDER)
    return np.floor(steps) + 0.5 if whole else steps


def without_empty(
    cells: Cells, counts: Floats, prior: Floats, deviation: float
) -> tuple[Cells, Floats, Floats]:
    """Cells, counts of them by class (missing ones last) and a prior, without outermost ones that hold noise alone.

    Of a learnt range only, which has room to spare.
    """
    together = counts[:, :-1].sum(axis=0)
    noise = EMPTY_DEVIATIONS * deviation * math.sqrt(len(counts))
    first = _empty(together, noise)
    last = cells.size - _empty(together[::-1], noise)
    if last - first < 2 or last - first == cells.size:
        return cells, counts, prior
    low = cells.low[first:last]
    high = cells.high[first:last]
    fewer = Cells.of(np.concatenate([low, high]), low[low == high])
    kept = np.concatenate([counts[:, first:last], counts[:, -1:]], axis=1)
    return fewer, kept, prior[first:last]


def _empty(counts: Floats, noise: float) -> int:
    """How many of the first cells together do not stand out of the noise; of those that divide an outermost one."""
    most = min(len(LADDER), len(counts))
    sums = np.cumsum(counts[:most])
    told = np.flatnonzero(sums > noise * np.sqrt(np.arange(1, most + 1)))
    return int(told[0]) if len(told) else most


def trimmed(
    cells: Cells, counts: Floats, prior: Floats, deviation: float
) -> tuple[Cells, Floats, Floats]:
    """Cells, counts of them by class (missing ones last) and a prior, the outermost put together until they stand out.

    How far the records out there reach is told by the tail of the cells before them, not by noise over a wide range.
    """
    low = cells.low
    high = cells.high
    together = counts[:, :-1].sum(axis=0)
    noise = deviation * math.sqrt(len(counts))
    first = _outer(together, low == high, noise)
    last = cells.size - _outer(together[::-1], (low == high)[::-1], noise)
    if first >= last:
        return cells, counts, prior
    starts = [0, *range(first, last + 1)]
    edges = [low[0], *low[first:last], *high[first - 1 : last], high[-1]]
    fewer = Cells.of(edges, low[low == high])
    summed = np.concatenate(
        [np.add.reduceat(counts[:, :-1], starts, axis=1), counts[:, -1:]], axis=1
    )
    return fewer, summed, np.add.reduceat(prior, starts)


def _outer(counts: Floats, single: NDArray[np.bool_], noise: float) -> int:
    """How many of the first cells have to be put together for their records to stand out of the noise."""
    below = np.cumsum(counts) > OUTER_DEVIATIONS * noise * np.sqrt(
        np.arange(1, len(counts) + 1)
    )
    stops = np.flatnonzero(below | np.append(single[1:], True) | single)
    return int(stops[0]) + 1


def with_single_values(cells: Cells, masses: Floats) -> tuple[Floats, Floats]:
    """Low and high ends of the cells, where narrow cells far denser than their neighbours are a single value.

    That value is the shortest decimal inside: where people's numbers pile up, they are round ones.
    """
    low = cells.low.copy()
    high = cells.high.copy()
    share = masses / max(float(masses.sum()), 1e-300)
    quarters = cells.quantiles(masses, np.array([0.25, 0.75]))
    reach = ATOM_WIDTH * max(
        float(quarters[1] - quarters[0]), float(cells.edges[-1] - cells.edges[0]) / 1e4
    )
    wide = high > low
    density = np.where(wide, share / np.where(wide, high - low, 1.0), 0.0)
    for place in np.flatnonzero(wide & (share > ATOM_SHARE) & (high - low <= reach)):
        beside = [
            density[other]
            for other in (place - 1, place + 1)
            if 0 <= other < cells.size and wide[other]
        ]
        if density[place] > ATOM_DENSITY * max(beside, default=0.0):
            low[place] = high[place] = shortest_decimal(
                float(low[place]), float(high[place])
            )
    return low, high


def shortest_decimal(low: float, high: float) -> float:
    """The number in (low, high] with the fewest decimals."""
    top = math.ceil(math.log10(max(abs(low), abs(high), high - low, 1e-300))) + 1
    for exponent in range(top, top - MOST_DIGITS, -1):
        whole = math.floor(high / 10.0**exponent)
        candidate = float(f"{whole}e{exponent}")
        if low < candidate <= high:
            return candidate
    return high
