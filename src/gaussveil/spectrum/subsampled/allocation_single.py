"""Upper ends of delta where a record is in one of T steps: of the mean of T likelihood ratios w, on a lattice.

A window of sums is convolved, tilted to where they equal the threshold (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.subsampled.allocation_sums import (
    CHARGED,
    CHARGED_BEYOND,
    MASS_ROUNDING,
    TINY,
    Grid,
    Measures,
    Sums,
    grid_of,
    sums,
)
from gaussveil.typing import Floats

SURELY = 1e-9  # relatively; by so much a single w exceeds all thresholds
WRAPPED = 60.0  # e-foldings that a tilt takes from sums that are wrapped around
RARE = 14.0  # e-foldings below delta
SKETCH = 501  # outputs
STEEPEST = 1e6  # e-foldings of a tilt from end to end, the rounding of which is charged
LOWEST_GOAL = -650.0
TILTED = 8.0  # e-foldings by which sums at the threshold may be rarer than with the best tilt
BOTTOM = 15.5  # deviations below which outputs are moved up, where a grid from w = 0 would waste its cells


class Window(NamedTuple):
    """The last output, ends of sums of w, orders of the tilt and of what is left out, ends of next to all sums."""

    top: float
    low: float
    high: float
    tilt: float
    beyond: float
    lowest: float
    highest: float


class SingleTake(NamedTuple):
    """Sums of a window, ready for thresholds near the one it was made for."""

    sigma: float
    steps: int
    backward: bool
    grid: Grid
    above: Floats  # mass of all cells from each one on, away from the threshold
    sums: Floats  # sums of these
    error_above: Floats
    error_sums: Floats
    first: int  # number of the first cell; of the last one's negative if backward
    beyond: float

    def upper(self, epsilon: Floats) -> Floats:
        """Upper ends of delta."""
        sign = -1.0 if self.backward else 1.0
        level = np.exp(np.clip(sign * epsilon, -690.0, 690.0))
        place = sign * self.steps * level / self.grid.spacing
        start = np.clip(np.floor(place) + 1.0 - self.first, 0, self.above.size - 1)
        index = start.astype(np.int64)
        over = np.maximum(self.first + start - place, 0.0) + 8.0 * ULP * np.abs(place)
        mass = self.sums[index + 1] + over * self.above[index]
        mass += self.error_sums[index + 1] + over * self.error_above[index]
        value = (
            mass * (1.0 + 16.0 * self.above.size * ULP) * self.grid.spacing / self.steps
        )
        if self.backward:
            value = value / level
        inside = place >= self.first  # cells below the window are not counted
        return np.where(
            inside,
            np.minimum(value + self.beyond + self._cut(level) + 1e-290, 1.0),
            1.0,
        )

    def _cut(self, level: Floats) -> Floats:
        """What outputs beyond the grid give, X(B) - a Y(B) where one of them makes R exceed a, or 1/a."""
        top = self.grid.top
        if self.backward:
            under = (
                self.steps
                * float(scipy.special.ndtr(self.grid.bottom))
                * (1.0 + MASS_ROUNDING)
            )
        surely = math.exp(
            min(top / self.sigma - 0.5 / self.sigma**2, 690.0)
        ) > self.steps * level * (1.0 + 1e-12)
        plain = float(scipy.special.ndtr(-top))
        if self.backward:
            return under + np.where(
                surely, 0.0, self.steps * plain * (1.0 + MASS_ROUNDING)
            )
        moved = float(scipy.special.log_ndtr(top - 1.0 / self.sigma))
        without = -math.expm1(self.steps * math.log1p(-plain)) * (1.0 - MASS_ROUNDING)
        with_record = -math.expm1(moved + (self.steps - 1) * math.log1p(-plain))
        with_record *= 1.0 + MASS_ROUNDING
        rest = np.maximum(with_record - level * without, 0.0)
        return np.asarray(np.where(surely, rest, with_record))


@lru_cache(maxsize=48)
def single_take(
    sigma: float, steps: int, backward: bool, middle: float, apart: float, cells: int
) -> SingleTake:
    """Sums for epsilons no farther apart from the middle than that."""
    window = window_for(sigma, steps, middle, apart, backward)
    ends = [
        math.exp(min(output / sigma - 0.5 / sigma**2, 690.0))
        for output in (-BOTTOM, window.top)
    ]
    reach = ends[1]
    if ends[0] > 2.0 * (ends[1] - ends[0]):
        reach -= ends[0]
    spacing = max(window.high - window.low, reach) / cells
    steepest = STEEPEST / max(window.high, ends[1])
    tilt = min(max(window.tilt, -steepest), steepest)
    grid = grid_of(sigma, 0.0, spacing, window.top, -BOTTOM)
    first = math.floor(window.low / spacing) - 1
    size = int(
        scipy.fft.next_fast_len(math.ceil(window.high / spacing) + 2 - first, real=True)
    )
    summed = sums(
        Measures(grid.base, grid.masses), steps, 1, first, size, tilt * spacing
    )
    return _cumulated(sigma, steps, backward, grid, summed, window.beyond * spacing)


def _cumulated(
    sigma: float, steps: int, backward: bool, grid: Grid, summed: Sums, beyond: float
) -> SingleTake:
    size = summed.measures[0].size
    number = summed.first + np.arange(float(size))
    ends = np.abs(summed.tilt * number[[0, -1]]).max() + abs(summed.log_scale)
    slack = 4.0 * ULP * (steps * abs(summed.tilt) * grid.masses.size + ends)
    factor = np.exp(np.minimum(summed.log_scale - summed.tilt * number + slack, 600.0))
    mass = summed.measures[0] * factor
    error = summed.errors[0] * factor
    first = summed.first
    outside = _beyond(
        grid, steps, backward, beyond, first if backward else first + size - 1
    )
    tiny = grid.masses <= TINY
    outside += steps * float((grid.masses * (1.0 + grid.places))[tiny].sum())
    if backward:
        mass = mass[::-1]
        error = error[::-1]
        first = -(first + size - 1)
    above, sums_above = _suffix_sums(mass)
    error_above, error_sums = _suffix_sums(error)
    return SingleTake(
        sigma,
        steps,
        backward,
        grid,
        above,
        sums_above,
        error_above,
        error_sums,
        first,
        outside,
    )


def _suffix_sums(mass: Floats) -> tuple[Floats, Floats]:
    above = np.cumsum(mass[::-1])[::-1]
    return above, np.append(np.cumsum(above[::-1])[::-1], 0.0)


def _beyond(grid: Grid, steps: int, backward: bool, order: float, end: int) -> float:
    """Chernoff's bound of X's probability of sums above the window, or of Y's below it if backward."""
    if backward and end <= 0:
        return 0.0
    with np.errstate(divide="ignore"):
        logs = order * (grid.base + np.arange(grid.masses.size)) + np.log(grid.masses)
    peak = float(logs.max())
    grown = np.exp(logs - peak)
    total = math.log(float(grown.sum())) + peak
    bound = steps * total
    if not backward:
        bound += math.log(float(grown @ grid.places)) + peak - total
    size = abs(bound) + abs(order * end) + steps * abs(total)
    return math.exp(min(bound - order * end + 1e-12 * (1.0 + size), 0.0)) * 1.001


def window_for(
    sigma: float, steps: int, middle: float, apart: float, backward: bool
) -> Window:
    """A window by moments of a sketch. Any is sound; the last outputs are charged, or decide alone."""
    sign = -1.0 if backward else 1.0
    place = steps * math.exp(max(min(sign * middle, 690.0), -690.0))
    farther = math.exp(apart) * (1.0 + SURELY)
    decisive = sigma * math.log(place * farther) + 0.5 / sigma
    log_goal = 0.0
    for _ in range(3):
        rare = float(
            scipy.special.ndtri_exp(max(math.log(CHARGED / steps) + log_goal, -1e4))
        )
        top = max(
            min(1.0 / sigma - rare, CHARGED_BEYOND + 1.0 / sigma, decisive), -10.0
        )
        z = np.linspace(-12.0, top, SKETCH)
        w = np.exp(z / sigma - 0.5 / sigma**2)
        weight = np.exp(-0.5 * z * z) * ((z[1] - z[0]) / math.sqrt(2.0 * math.pi))
        spread = math.sqrt(steps * float(weight @ (w / w[-1]) ** 2)) + 1.0
        orders = np.geomspace(1e-2, 1e5, 64) / spread / w[-1]
        grown, moved = _log_moments(orders, w, weight, steps)
        fallen, _ = _log_moments(-orders, w, weight, steps)
        towards = fallen if backward else grown
        bounds = towards - sign * orders * place
        chosen = int(np.argmin(bounds))
        least = np.flatnonzero(np.append(0.0, bounds) <= bounds[chosen] + TILTED)[0]
        tilt = float(orders[chosen])
        scale = tilt * place if backward else tilt * steps
        log_goal = max(
            min(float(bounds[chosen]) - math.log(scale) - 5.0, 0.0), LOWEST_GOAL
        )
    charged = log_goal + math.log(CHARGED)
    tilt = float(np.append(0.0, orders)[least])
    size = float(np.append(0.0, towards)[least])
    further = orders > 1.05 * tilt
    ahead = ((towards - size + RARE) / np.maximum(orders - tilt, 1e-300))[further]
    lowest = max(
        min(float(((log_goal - RARE - fallen) / orders).max()), place / farther), 0.0
    )
    highest = max(
        float(((grown - log_goal + RARE) / orders).min()), 1.001 * farther * place
    )
    if backward:
        ends = (charged - fallen) / orders
        beyond = -float(orders[int(np.argmax(ends))])
        wide = min(highest, place + WRAPPED / max(tilt, 1e-300))
        low = min(float(ends.max()), -float(ahead.min(initial=0.0)))
        return Window(
            top,
            max(low, 0.0),
            max(wide, 1.001 * farther * place),
            -tilt,
            beyond,
            lowest,
            highest,
        )
    ends = (moved - charged) / orders
    beyond = float(orders[int(np.argmin(ends))])
    further_out = float(ahead.min()) if ahead.size else 0.0
    high = max(float(ends.min()), further_out, 1.001 * farther * place)
    return Window(top, lowest, high, tilt, beyond, lowest, max(high, highest))


def _log_moments(
    orders: Floats, w: Floats, weight: Floats, steps: int
) -> tuple[Floats, Floats]:
    """Of all steps without the record, and of those with it."""
    exponent = np.multiply.outer(orders, w)
    peak = exponent.max(axis=1)
    grown = np.exp(exponent - peak[:, None])
    plain = np.log(grown @ weight) + peak
    return steps * plain, (steps - 1) * plain + np.log(grown @ (weight * w)) + peak
