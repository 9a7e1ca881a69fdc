"""How a synthetic table divides its squared mean shift, and how finely it looks: functions of public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.noisy_sums import SAMPLER_RESERVE
from gaussveil.postprocessing.synthetic.pairs import MOST_PAIRS, PAIR_CELLS
from gaussveil.typing import Floats

SHORT_RANGE = 48  # whole numbers of a range in which each is a cell
MOST_CELLS = 64
FEWEST_CELLS = 6
MOST_VALUES = 128  # of a category
MOST_CLASSES = 16  # of a label
CELL_DEVIATIONS = 12.0  # of its noise that a cell's records are, about
FEWER_DEVIATIONS = 6.0  # the same as long as there are few cells
FEW_CELLS = 12
TAIL_DEVIATIONS = 3.0
FIRST_CELLS_MOST = 512
PARTS = {
    "counts": 0.02,
    "search": 0.2,
    "means": 0.08,
    "cells": 0.35,
    "dependence": 0.35,
    "choice": 0.02,
    "pairs": 0.25,
    "series": 0.25,
}
BESIDE_SERIES = 0.12  # the part of dependence where neighbours of a series are linked
WITHIN_BALL = 0.95  # of Gaussian scores, that are summed as they are
FINDING = 0.06  # where values of categories are found


@dataclass(frozen=True)
class Shares:
    """Parts of the squared mean shift that each draw may use; they add up to 1."""

    counts: float
    found: float
    search: float
    means: float
    cells: float
    dependence: float
    choice: float
    pairs: float
    series: float

    @classmethod
    def of(
        cls,
        searched: int,
        finding: int,
        columns: int,
        labelled: bool,
        categories: int,
        series: int = 0,
    ) -> Shares:
        """Nothing for what is not drawn: no numbers are searched for, no values found, a single column depends not.

        Pairs are counted where there are categories, which may hang together in any way; neighbours of `series` linked.
        """
        parts = dict(PARTS)
        if not searched:
            parts["search"] = 0.0
        if not searched or not labelled:
            parts["means"] = 0.0
        if columns < 2:
            parts["dependence"] = 0.0
        if columns < 2 or not categories:
            parts["choice"] = 0.0
            parts["pairs"] = 0.0
        if series:
            parts["dependence"] = BESIDE_SERIES
        else:
            parts["series"] = 0.0
        parts["found"] = FINDING if finding else 0.0
        total = sum(parts.values())
        return cls(**{name: part / total for name, part in parts.items()})

    def deviations(self, shift: float, touched: Mapping[str, int]) -> dict[str, float]:
        """Noise of each draw of counts, a record of mean shift `shift` lying in so many of its cells."""
        shares = {name: getattr(self, name) for name in touched}
        return {
            name: math.sqrt(touched[name] / share) / shift
            for name, share in shares.items()
            if share
        }


def cells_for(records: float, deviation: float) -> int:
    """Number of cells of equal mass in which so many records stand out of the noise."""
    few = min(records / (FEWER_DEVIATIONS * deviation), FEW_CELLS)
    many = records / (CELL_DEVIATIONS * deviation)
    return int(np.clip(max(few, many), FEWEST_CELLS, MOST_CELLS))


def cell_shares(records: float, deviation: float) -> Floats:
    """Shares below the edges of the cells: even ones, and halves towards both ends as long as records stand out."""
    count = cells_for(records, deviation)
    shares = np.arange(1, count) / count
    halves = math.floor(
        math.log2(max(records / count / (TAIL_DEVIATIONS * deviation), 1.0))
    )
    tail = 0.5 ** np.arange(1, min(halves, 8) + 1) / count
    return np.sort(np.concatenate([shares, tail, 1 - tail]))


def sampler_error(classes: int, columns: int) -> float:
    """Total variation of all draws: a bound that no release changes."""
    cells = columns * (
        3 * FIRST_CELLS_MOST
        + classes * (2 * MOST_CELLS + MOST_VALUES + FIRST_CELLS_MOST)
    )
    moments = columns + classes * (
        16 + 1 + columns + 4 * (2 + 2 * columns + columns**2)
    )
    pairs = columns**2 + MOST_PAIRS * (PAIR_CELLS + 1) ** 2
    return SAMPLER_RESERVE * (cells + moments + classes + pairs)
