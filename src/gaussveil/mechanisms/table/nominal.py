"""What a request would give of a nominal table, without noise: how wide its noise is can be told before any data."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.means import ProfileDraw
from gaussveil.mechanisms.table.noise import PlannedNoise, TableNoise
from gaussveil.mechanisms.table.profile_noise import ProfileNoise
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
    drawn.profiles = [
        _expected_profile(noise.profile(place), units)
        for place in range(len(request.profiles))
    ]
    return drawn


def _expected_profile(noise: ProfileNoise, units: float) -> ProfileDraw:
    layout = noise.layout
    noise = noise.knowing(units * layout.places / layout.places_touched)
    places = noise.counted
    given = noise.answer.unit_norm
    radii = NOMINAL_NORMS.copy()
    if given is not None:
        radii *= float(np.ravel(given)[0]) / NOMINAL_NORMS[0]
        radii[: np.size(given)] = given
    radii *= noise.rows * math.sqrt(layout.touched)
    smooth, rest = (
        (radius * noise.deviation(name)) ** 2 if name in noise.shares else 0.0
        for name, radius in zip(("smooth", "rest"), radii[1:].tolist())
    )
    nothing = np.zeros(layout.groups.shape)
    counts = np.full(layout.groups.shape, units * noise.rows)
    return ProfileDraw(
        layout, counts, nothing, nothing, places, 0.0, smooth, rest, z=noise.z
    )
