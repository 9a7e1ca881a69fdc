"""One row of a batch: the terms of a loss, its cumulants, and where its contour crosses the real axis."""

from __future__ import annotations

import math
from typing import NamedTuple

from gaussveil.spectrum import formulas
from gaussveil.spectrum.compiled import one_number
from gaussveil.spectrum.compiled.entry import compiled
from gaussveil.spectrum.rules import MANY, NEWTON_STEPS, Region
from gaussveil.typing import Array

crossing = compiled(formulas.crossing)
cumulant_term = compiled(formulas.cumulant_term)
first_coordinate = compiled(formulas.first_coordinate)
forces = compiled(formulas.forces)
highest_order = compiled(formulas.highest_order)
lowest_order = compiled(formulas.lowest_order)
newton_step = compiled(formulas.newton_step)
slope_parts = compiled(formulas.slope_parts)


class TermRow(NamedTuple):
    """The terms of one loss, and what its integrals need of them again and again."""

    gap: Array
    log_ratio: Array
    multiplicity: Array
    energy: Array
    base: Array  # room for 1 + centre * gap
    lowest: float  # variance gap
    highest: float
    threshold: float
    drift: float
    many: bool  # so many coordinates that small logarithms need all their digits
    factor_room: Array


@compiled
def load(
    gap: Array, log_ratio: Array, multiplicity: Array, energy: Array, row: int, threshold: float, room: Array
) -> TermRow:
    """The terms of a row of a batch; those of equal variances (gap zero), which are many at times, merge."""
    count, equal = 0, -1
    drift, total = 0.0, 0.0
    lowest, highest = gap[row, 0], gap[row, 0]
    for term in range(gap.shape[1]):
        drift += multiplicity[row, term] * log_ratio[row, term]
        total += multiplicity[row, term]
        lowest, highest = min(lowest, gap[row, term]), max(highest, gap[row, term])
        if gap[row, term] == 0.0 and log_ratio[row, term] == 0.0:
            if equal >= 0:
                room[2, equal] += multiplicity[row, term]
                room[3, equal] += energy[row, term]
                continue
            equal = count
        room[0, count] = gap[row, term]
        room[1, count] = log_ratio[row, term]
        room[2, count] = multiplicity[row, term]
        room[3, count] = energy[row, term]
        count += 1
    return TermRow(
        room[0, :count],
        room[1, :count],
        room[2, :count],
        room[3, :count],
        room[4, :count],
        lowest,
        highest,
        threshold,
        0.5 * drift + threshold,
        total > MANY,
        room[5:],
    )


@compiled
def cumulant(row: TermRow, order: float) -> float:
    """K at a real order."""
    total = 0.0
    for term in range(row.gap.size):
        total += cumulant_term(
            one_number, order, row.gap[term], row.log_ratio[term], row.multiplicity[term], row.energy[term]
        )
    return total


@compiled
def cumulant_slopes(row: TermRow, order: float) -> tuple[float, float]:
    """K' and K'' at a real order."""
    slope, curvature = 0.0, 0.0
    for term in range(row.gap.size):
        mean, covariance, lean, cube = slope_parts(order, row.gap[term], row.log_ratio[term])
        weight, energy = row.multiplicity[term], row.energy[term]
        slope += energy * mean - weight * covariance
        curvature += weight * lean + 2 * energy * math.exp(row.log_ratio[term]) * cube
    return 0.5 * slope, 0.5 * curvature


@compiled
def saddle(row: TermRow, region: Region) -> tuple[float, float]:
    """Where the contour crosses the real axis, and its width."""
    if region.direction > 0:
        reach = highest_order(one_number, row.lowest) - region.base
    else:
        reach = region.base - lowest_order(one_number, row.highest)
    inverse_reach = 1 / min(reach, region.limit)
    slope, curvature = cumulant_slopes(row, region.base)
    coordinate = first_coordinate(one_number, region.direction, row.threshold, inverse_reach, slope, curvature)
    below, above = -math.inf, math.inf
    centre, stiffness = coordinate, coordinate
    for _ in range(NEWTON_STEPS):
        centre, distance, decay = crossing(one_number, region.base, region.direction, inverse_reach, coordinate)
        slope, curvature = cumulant_slopes(row, centre)
        force, stiffness = forces(region.poles, centre, slope - row.threshold, curvature)
        arrived, coordinate, below, above = newton_step(
            one_number, region.direction, inverse_reach, distance, decay, force, stiffness, coordinate, below, above
        )
        if arrived:
            break
    return centre, formulas.STRETCH / math.sqrt(stiffness)
