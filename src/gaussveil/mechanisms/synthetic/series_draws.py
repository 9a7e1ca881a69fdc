"""The draw of a synthetic table that says how values of a series follow each other: products of neighbours, squares.

A row's products and squares, in released deviations and no farther than a public reach, are one vector, clipped to a
public ball; its sum over the rows is one draw, however many columns there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gaussveil.mechanisms.synthetic.budget import Shares
from gaussveil.mechanisms.synthetic.records import TableRecords
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.marginals import Marginal, smoothed
from gaussveil.postprocessing.synthetic.series import (
    Chain,
    Link,
    ValueSignals,
    anchors_of,
    correlations_of,
    followed,
)
from gaussveil.typing import Floats, Integers

MEAN_NOISE = 0.016  # of the mean of a departure
BALLS = (4.0, 120.0)  # radii of the ball, at least and at most


class Summing(Protocol):
    """What the draw asks of a release's access to the rows."""

    records: TableRecords
    cells: dict[str, Any]
    shares: Shares
    allowed: float
    """What one row may lose."""
    group: Integers

    def summed(
        self, vectors: dict[str, Floats], radius: float, share: float
    ) -> tuple[Floats, float]:
        """Noisy sums of vectors in a ball, and the noise's deviation."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What is released so far of neighbours of every series: correlated normal scores, and values of their cells."""

    series: list[list[int]]
    """Places of the columns."""
    signals: dict[int, ValueSignals]
    plain: list[list[Link]]
    cells: list[list[Floats]]

    @classmethod
    def of(
        cls,
        series: list[list[int]],
        marginals: Sequence[Marginal],
        correlations: Floats,
        weights: Floats,
    ) -> Neighbours:
        """Links by correlations alone, of all classes together."""
        parts = weights / weights.sum()
        signals = {
            place: ValueSignals.of(marginals[place]) for one in series for place in one
        }
        return cls(
            series,
            signals,
            [
                [
                    Link.alike(float(parts @ correlations[:, first, second]))
                    for first, second in pairwise(one)
                ]
                for one in series
            ],
            [[parts @ signals[place].cells for place in one] for one in series],
        )

    @property
    def expected(self) -> list[Floats]:
        """Correlations of neighbours as the scores alone say."""
        return [
            np.array(
                [link.mean_product(*ends) for link, ends in zip(links, pairwise(cells))]
            )
            for links, cells in zip(self.plain, self.cells)
        ]

    @property
    def anchors(self) -> list[Floats]:
        """Correlations about which products are looked at."""
        return [anchors_of(one) for one in self.expected]

    def tilted(self, wanted: Sequence[Floats]) -> list[Link]:
        """Links that have these correlations, one series after the other."""
        return [
            link.tilted(first, second, float(goal))
            for links, cells, goals in zip(self.plain, self.cells, wanted)
            for link, first, second, goal in zip(links, cells, cells[1:], goals)
        ]

    def vectors(self, rows: Sequence[Floats]) -> Floats:
        """Departures and squares of signals of all series, a row each."""
        parts = [
            part
            for one, anchors in zip(rows, self.anchors)
            for part in followed(one, anchors)
        ]
        return np.concatenate(parts, axis=1)

    def correlations(
        self, sums: Floats, present: Sequence[Floats], both: Sequence[Floats]
    ) -> list[Floats]:
        """Correlations of neighbours, from sums of vectors and the numbers of rows that have a column, and two."""
        sizes = [size for one in self.series for size in (len(one) - 1, len(one))]
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        return [
            correlations_of(
                departures / np.maximum(pairs, 1.0),
                squares / np.maximum(ones, 1.0),
                anchors,
            )
            for departures, squares, ones, pairs, anchors in zip(
                parts[::2], parts[1::2], present, both, self.anchors
            )
        ]


def linked_series(
    draws: Summing,
    columns: Sequence[Column],
    marginals: Sequence[Marginal],
    correlations: Floats,
    weights: Floats,
) -> Chain:
    """Links of the neighbours of every series, without columns that have no values; `weights` are the rows by class."""
    names = [one.name for one in columns]
    known = {one.name for one in columns if not one.is_category}
    series = [
        [names.index(name) for name in one if name in known]
        for one in draws.records.series
    ]
    series = [one for one in series if len(one) > 1]
    if not series:
        return Chain.of(len(columns), [], [])
    near = Neighbours.of(series, marginals, correlations, weights)
    rows = [
        np.stack(
            [
                near.signals[place].of_rows(draws.cells[names[place]], draws.group)
                for place in one
            ],
            axis=1,
        )
        for one in series
    ]
    share = draws.shares.series
    radius = ball_of(float(weights.sum()), share, draws.allowed)
    vectors = near.vectors(rows)
    named = {f"{place}": vector for place, vector in enumerate(vectors.T)}
    sums, deviation = draws.summed(named, radius, share)
    present = [
        np.stack([1 - marginals[place].missing for place in one]) for one in series
    ]
    found = near.correlations(
        sums,
        [one @ weights for one in present],
        [(one[1:] * one[:-1]) @ weights for one in present],
    )
    noise = deviation / float(weights.sum())
    wanted = [smoothed(*pair, noise) for pair in zip(found, near.expected)]
    return Chain.of(len(columns), series, near.tilted(wanted))


def ball_of(records: float, share: float, allowed: float) -> float:
    """The radius at which noise is what a correlation may bear; more rows allow a larger one, which moves less."""
    radius = MEAN_NOISE * math.sqrt(share) * allowed * records
    return float(np.clip(radius, *BALLS))
