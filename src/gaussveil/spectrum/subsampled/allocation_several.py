"""Upper ends of delta where a record is in k of T steps, drawn uniformly: of R given G, by its first two moments.

R = e_k(w_1 .. w_T)/(T choose k) is nearly a function of G = sum log(1 + l (w - 1))/l: for l = (k - 1)/(T - 1) they
agree but for products of three. E(1; G), E(R; G) and E(R^2; G) are one convolution each, and

    E (R - a)_+ <= sum over cells of G of [ E(R - a; G) + sqrt( E(1; G) E((R - a)^2; G) ) ] / 2,

likewise 1 - aR. Both draws of E R^2 share j steps with hypergeometric probability (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.curve import mean_shift_delta
from gaussveil.spectrum.subsampled.allocation_below import Told
from gaussveil.spectrum.subsampled.allocation_sums import (
    CHARGED,
    CHARGED_BEYOND,
    MASS_ROUNDING,
    Grid,
    Measures,
    grid_of,
    in_common,
    sums,
)
from gaussveil.typing import Floats

SKETCH_CELLS = 2**11
FACTORS = {
    False: (0.85, 0.9, 0.95, 1.0),
    True: (0.95, 1.0, 1.05, 1.12),
}  # of (k - 1)/(T - 1), of which the best counts
BOTTOM = 15.5  # deviations below which outputs are moved up, where a grid from w = 0 would waste its cells
BESIDE = 2.0  # deviations that the window of sums has more than delta asks for
LARGEST = 300.0  # epsilon whose square of e^epsilon is a double
LARGEST_SHARE = 1.0 - 1e-6


class SeveralTakes(NamedTuple):
    """Measures 1, R and R^2 of the cells of G, what each cell may lack, and what is charged for outputs left out."""

    backward: bool
    measures: tuple[Floats, Floats, Floats]
    errors: tuple[float, float, float]
    relative: float
    left_out: float
    told: Told

    def upper(self, epsilon: float) -> float:
        """An upper end of delta."""
        if epsilon > LARGEST:
            return 1.0
        level = math.exp(epsilon)
        plain, ratio, square = self.measures
        lost, off, away = self.errors
        gains = (-level, 1.0)  # of 1 and R in y = R - a
        first, second, third = (
            level * level,
            2.0 * level,
            1.0,
        )  # of 1, -R and R^2 in y^2
        most = ratio + off
        if self.backward:
            gains = (1.0, -level)
            first, third = third, first
            most = plain + lost
        squares = np.maximum(first * plain - second * ratio + third * square, 0.0)
        squares += first * lost + second * off + third * away
        squares += self.relative * (first * plain + second * ratio + third * square)
        size = np.sqrt((plain + lost) * squares)
        bound = 0.5 * (size + gains[0] * plain + gains[1] * ratio)
        bound += 0.5 * (abs(gains[0]) * lost + abs(gains[1]) * off)
        bound += self.relative * (abs(gains[0]) * plain + abs(gains[1]) * ratio)
        value = float(np.minimum(np.maximum(bound, 0.0), most).sum())
        return min(value * (1.0 + 1e-11) + self.left_out + 1e-290, 1.0)


@lru_cache(maxsize=32)
def several_takes(
    sigma: float, steps: int, takes: int, backward: bool, epsilon: float, cells: int
) -> SeveralTakes:
    """Cells of the sum that tells most of R at about this epsilon."""
    start = (takes - 1.0) / (steps - 1.0)
    goal = _first_guess(sigma, steps, takes, epsilon)
    for _ in range(2):
        goal = max(
            _several(sigma, steps, takes, backward, start, goal, SKETCH_CELLS).upper(
                epsilon
            ),
            1e-290,
        )
    shares = [min(factor * start, LARGEST_SHARE) for factor in FACTORS[backward]]
    tried = [
        _several(sigma, steps, takes, backward, share, goal, SKETCH_CELLS).upper(
            epsilon
        )
        for share in shares
    ]
    return _several(
        sigma,
        steps,
        takes,
        backward,
        shares[int(np.argmin(tried))],
        min([goal, *tried]),
        cells,
    )


def _first_guess(sigma: float, steps: int, takes: int, epsilon: float) -> float:
    """Delta of the mean shift with as large a second moment."""
    common, chance = in_common(steps, takes)
    exponent = np.minimum(common / sigma**2, 600.0)
    shift = math.sqrt(math.log1p(float(chance @ np.expm1(exponent))))
    return float(
        np.maximum(mean_shift_delta(max(shift, 1e-9), np.array(epsilon)), 1e-290)
    )


def _several(
    sigma: float,
    steps: int,
    takes: int,
    backward: bool,
    share: float,
    goal: float,
    cells: int,
) -> SeveralTakes:
    rare = [
        float(scipy.special.ndtri_exp(math.log(CHARGED * goal / 2.0 / count)))
        for count in (steps, takes)
    ]
    top = min(
        max(-rare[0], 0.0 if backward else 1.0 / sigma - rare[1]),
        CHARGED_BEYOND + 1.0 / sigma,
    )
    z = np.linspace(-12.0, top, 2001)
    log_ratio = np.minimum(z / sigma - 0.5 / sigma**2, 600.0)
    g = np.log1p(share * np.expm1(log_ratio)) / share
    means = []
    spreads = []
    for centre in (0.0, 1.0 / sigma):
        weight = np.exp(-0.5 * (z - centre) ** 2)
        weight /= weight.sum()
        means.append(float(weight @ g))
        spreads.append(float(weight @ (g - means[-1]) ** 2))
    width = BESIDE - float(scipy.special.ndtri(min(goal, 0.3)))
    low = steps * means[0] - width * math.sqrt(steps * spreads[0])
    moved = (steps - takes) * means[0] + takes * means[1]
    high = moved + width * math.sqrt((steps - takes) * spreads[0] + takes * spreads[1])
    spacing = max(high - low, float(g[-1] - g[0])) / cells
    grid = grid_of(sigma, share, spacing, top, -BOTTOM)
    return _measured(
        sigma, steps, takes, backward, grid, Told(low, high, top, share, cells)
    )


def _measured(
    sigma: float, steps: int, takes: int, backward: bool, grid: Grid, told: Told
) -> SeveralTakes:
    once = grid.masses * grid.places
    step = Measures(grid.base, grid.masses, once, once * grid.places)
    first = math.floor(
        (told.low - steps * math.log1p(-told.share) / told.share) / grid.spacing
    )
    summed = sums(step, steps, takes, first, told.cells, 0.0)
    scale = math.exp(summed.log_scale)
    plain, ratio, square = (measure * scale for measure in summed.measures)
    lost, off, away = (error * scale for error in summed.errors)
    beyond = float(scipy.special.ndtr(-grid.top))
    left_out = (steps - takes) * beyond + takes * float(
        scipy.special.ndtr(1.0 / sigma - grid.top)
    )
    if backward:
        left_out = steps * (beyond + float(scipy.special.ndtr(grid.bottom)))
    relative = 32.0 * ULP * (takes + 4.0)
    left_out *= 1.0 + MASS_ROUNDING
    return SeveralTakes(
        backward, (plain, ratio, square), (lost, off, away), relative, left_out, told
    )
