"""What a request would give of a nominal table, without noise: how wide its noise is can be told before any data."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.means import ProfileDraw
from gaussveil.mechanisms.table.noise import PlannedNoise, TableNoise
from gaussveil.mechanisms.table.profile import place_noise, stage_shares
from gaussveil.mechanisms.table.request import Request

NOMINAL_RANGE = 4.0  # what is learnt of a table whose values are of size 1
NOMINAL_NORMS = np.array(
    [2.0, 1.0, 1.0]
)  # the same of curves: whole, and about their rough part


def as_planned(noise: TableNoise, request: Request) -> TableNoise:
    """Noise designed for many cells and any range serves what was found: variances and losses stay as planned."""
    return PlannedNoise(request, noise.mean_shift, noise.key_error, design=noise)


def nominal_deviations(
    noise: TableNoise, units: int = 1000, place: float = 0.0
) -> dict[str, float]:
    """Standard deviation of every number, with so many units in every group, at a place of their ranges (-1 to 1)."""
    if noise.request.learning:
        nominal = noise.request.with_ranges(
            dict.fromkeys(noise.request.learning, NOMINAL_RANGE)
        )
        noise = as_planned(noise, nominal)
    columns = Estimates(noise, expected(noise, float(units), place)).columns()
    return {name: float(one.deviation.flat[0]) for name, one in columns.items()}


def expected(noise: TableNoise, units: float, place: float = 0.0) -> Drawn:
    """What would be drawn without noise if every group had this many units, in the middle of every range.

    Or elsewhere between the ends of stated ranges, which are at -1 and 1.
    """
    request = noise.request
    rows = units * request.rows
    one = np.full(1, rows)
    widths = [one.bins.size + 1 for one in request.histograms] + [
        one.bins.size for one in request.cumulatives
    ]
    bins = [np.full((1, width), rows / width) for width in widths]
    drawn = Drawn(
        one if request.counted else None,
        [place * one for _ in request.features],
        [one / 2 for _ in request.lone_sums],
        bins[: len(request.histograms)],
        bins[len(request.histograms) :],
        [one.expected(rows) for one in noise.searches()],
    )
    for place, answer in enumerate(request.profiles):
        drawn.profiles.append(
            _expected_profile(answer, request, noise.losses[f"profile {place}"], units)
        )
    return drawn


def _expected_profile(
    answer: Any, request: Request, loss: float, units: float
) -> ProfileDraw:
    layout = request.layout
    rows = request.rows
    losses = {"rest": loss} | {
        name: loss * share for name, share in stage_shares(answer, layout).items()
    }
    radii = NOMINAL_NORMS * (
        1.0
        if answer.unit_norm is None
        else float(np.ravel(answer.unit_norm)[0]) / NOMINAL_NORMS[0]
    )
    radii[: np.size(answer.unit_norm)] = (
        radii[0] if answer.unit_norm is None else answer.unit_norm
    )
    smooth, rest = (
        (rows * radii[1:]) ** 2 * layout.touched / [losses["smooth"], losses["rest"]]
    ).tolist()
    nothing = np.zeros(layout.groups.shape)
    counts = np.full(layout.groups.shape, units * rows)
    places = place_noise(layout, rows, losses["units"])
    alone = layout.moments == layout.functions
    return ProfileDraw(
        layout, counts, nothing, nothing, places, 0.0, smooth, 0.0 if alone else rest
    )
