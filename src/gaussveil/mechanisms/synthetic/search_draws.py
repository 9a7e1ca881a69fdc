"""The draws of a synthetic table that look for cells: noisy counts in rounds, each in cells that the last one told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gaussveil.mechanisms.synthetic.budget import Shares, cell_shares
from gaussveil.mechanisms.synthetic.records import TableRecords, is_short
from gaussveil.postprocessing.synthetic.cells import Cells
from gaussveil.postprocessing.synthetic.columns import CATEGORY, Column
from gaussveil.postprocessing.synthetic.search import (
    ROUNDS,
    SINGLE_DEVIATIONS,
    Sought,
    looked_for,
)
from gaussveil.typing import Floats, Integers


class Counting(Protocol):
    """What these draws ask of a release's access to the rows."""

    records: TableRecords
    cells: dict[str, Any]
    shares: Shares
    allowed: float
    """What one row may lose."""
    classes: int

    def counted(
        self, parts: Sequence[Integers], share: float, touched: int
    ) -> tuple[list[Floats], float]:
        """Counts with noise, and its deviation; a row lies in one cell of `touched` parts."""


def searched(
    draws: Counting, columns: Sequence[Column], total: float
) -> tuple[list[Column], dict[str, tuple[Cells, Floats]]]:
    """Cells of about equal mass of the columns of numbers, and counts in them: looked for in rounds.

    Returns:
        The columns, those without any value of which no range was found; and the cells of the others by name.
    """
    sought = [
        Sought.first(one)
        for one in columns
        if not one.is_category and not is_short(one)
    ]
    if not sought:
        return list(columns), {}
    touched = len(draws.records.searched)
    looks = looked_for(touched)
    finest = math.sqrt(len(columns) * draws.classes / draws.shares.cells)
    finest /= draws.allowed
    for number, part in enumerate(ROUNDS):
        parts = [
            _bincount(one.cells.codes(draws.cells[one.column.name]), one.cells.size)
            for one in sought
        ]
        counts, deviation = draws.counted(parts, part * draws.shares.search, touched)
        last = number == len(ROUNDS) - 1
        shares = cell_shares(total, finest if last else deviation)
        least = SINGLE_DEVIATIONS * deviation if last else 0.0
        sought = [
            one.seen(noisy, deviation, looks).finer(shares, least)
            for one, noisy in zip(sought, counts)
        ]
    ended = [one.ended(shares) for one in sought]
    known = {
        one.column.name: (one.cells, one.masses)
        for one in ended
        if one.masses is not None
    }
    lost = {one.column.name for one in ended} - known.keys()
    return [_without_values(one) if one.name in lost else one for one in columns], known


def _without_values(column: Column) -> Column:
    """A column of which no range was found: all of its cells are missing."""
    return replace(column, kind=CATEGORY, values=(), grain=None)


def _bincount(place: Integers, size: int) -> Integers:
    return np.bincount(place[place >= 0], minlength=size)
