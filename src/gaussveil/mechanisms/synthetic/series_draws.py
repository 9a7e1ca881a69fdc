"""The draw of a synthetic table that says how values of a series follow each other: steps of neighbours, and squares.

A row's squared steps and squares, in released deviations and no farther than a public reach, are one vector, clipped to
a public ball; its sum over the rows is one draw, however many columns there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    correlations_of,
    followed,
)
from gaussveil.typing import Floats, Integers

MEAN_NOISE = 0.012  # of the mean of a squared step
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
    signals = {
        place: ValueSignals.of(marginals[place]) for one in series for place in one
    }
    vectors: dict[tuple[int, bool], Floats] = {}
    for one in series:
        rows = [
            signals[place].of_rows(draws.cells[names[place]], draws.group)
            for place in one
        ]
        steps, squares = followed(np.stack(rows, axis=1))
        vectors |= {(place, True): step for place, step in zip(one[1:], steps.T)}
        vectors |= {(place, False): square for place, square in zip(one, squares.T)}
    share = draws.shares.series
    radius = ball_of(float(weights.sum()), share, draws.allowed)
    named = {f"{place} {step}": vector for (place, step), vector in vectors.items()}
    sums, deviation = draws.summed(named, radius, share)
    told = dict(zip(vectors, sums.tolist()))
    noise = deviation / float(weights.sum())
    links: list[Link] = []
    for one in series:
        present = np.array([1 - marginals[place].missing for place in one])
        both = np.maximum((present[1:] * present[:-1]) @ weights, 1.0)
        steps = np.array([told[place, True] for place in one[1:]]) / both
        squares = np.array([told[place, False] for place in one])
        squares = squares / np.maximum(present @ weights, 1.0)
        found = correlations_of(steps, squares)
        links += _links(one, found, noise, signals, correlations, weights)
    return Chain.of(len(columns), series, links)


def _links(
    places: Sequence[int],
    found: Floats,
    noise: float,
    signals: dict[int, ValueSignals],
    correlations: Floats,
    weights: Floats,
) -> list[Link]:
    """Links of one series that have the correlations found, as far as these are no noise."""
    parts = weights / weights.sum()
    cells = [parts @ signals[place].cells for place in places]
    plain = [
        Link.alike(float(parts @ correlations[:, first, second]))
        for first, second in pairwise(places)
    ]
    expected = np.array(
        [link.mean_product(*pair) for link, pair in zip(plain, pairwise(cells))]
    )
    wanted = smoothed(found, expected, noise)
    return [
        link.tilted(first, second, float(goal))
        for link, first, second, goal in zip(plain, cells, cells[1:], wanted)
    ]


def ball_of(records: float, share: float, allowed: float) -> float:
    """The radius at which noise is what a correlation may bear; more rows allow a larger one, which moves less."""
    radius = MEAN_NOISE * math.sqrt(share) * allowed * records
    return float(np.clip(radius, *BALLS))
