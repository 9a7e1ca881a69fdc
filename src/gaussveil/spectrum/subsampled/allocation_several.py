"""Upper ends of delta where a record is in k of T steps, drawn uniformly: of R given G, by its first moments.

R = e_k(w_1 .. w_T)/(T choose k) is nearly a function of G = sum log(1 + l (w - 1))/l: for l = (k - 1)/(T - 1) they
agree but for products of three. E(R^n; G) is a convolution each, and in a cell of G, with y = R - a or 1 - aR,

    E (y_+; G) <= [ E(y; G) + sqrt( E(1; G) E(y^2; G) ) ] / 2,
    E (y_+; G) <= E(y; G)_+ + 27/256 E((R - c)^4; G) / |c - b|^3,    b = a or 1/a, c next to the mean of R

of which the second one tells that next to nothing comes from where R lies on one side (docs/math/subsampled).
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
from gaussveil.spectrum.subsampled.allocation_draws import shared_steps
from gaussveil.spectrum.subsampled.allocation_sums import (
    CHARGED,
    CHARGED_BEYOND,
    MASS_ROUNDING,
    Grid,
    Measures,
    grid_of,
    sums,
)
from gaussveil.typing import Floats

SKETCH_CELLS = 2**12
CHOICES = {
    False: ((1.0, math.inf), (0.9, math.inf), (0.8, math.inf), (0.6, math.inf)),
    True: ((1.1, math.inf), (1.1, 3.8), (1.4, 2.0), (1.4, 1.5), (1.7, -0.5)),
}  # of l over (k - 1)/(T - 1), and of an output that larger ones may count as, backwards
SAME_CHOICE = 0.15  # width of epsilons that share it, relatively
FEW_TAKES = 12  # whose fourth moments are told
LARGEST_MOMENT = 400.0  # log of E R^4, at most, of these
BOTTOM = 15.5  # deviations below which outputs are moved up, where a grid from w = 0 would waste its cells
BESIDE = {
    2: 2.0,
    4: 6.0,
}  # deviations that the window has more than delta asks for, with so many moments
QUARTIC = 27.0 / 256.0  # (u - 1)_+ <= QUARTIC u^4, which touch at u = 4/3
LARGEST = 300.0  # epsilon whose square of e^epsilon is a double
LARGEST_SHARE = 1.0 - 1e-6


class SeveralTakes(NamedTuple):
    """Measures 1, R, R^2, ... of the cells of G, what each cell may lack, and what is charged for outputs left out."""

    backward: bool
    measures: tuple[Floats, ...]
    errors: tuple[float, ...]
    relative: float
    left_out: float
    told: Told

    @np.errstate(all="ignore")
    def upper(self, epsilon: float) -> float:
        """An upper end of delta."""
        if epsilon > LARGEST:
            return 1.0
        grown = math.exp(epsilon)
        level = 1.0 / grown if self.backward else grown
        plain, ratio = self.measures[:2]
        lost, off = self.errors[:2]
        most = ratio + off
        gain = ratio - level * plain
        if self.backward:
            most = level * (plain + lost)
            gain = -gain
        wrong = off + level * lost + self.relative * (ratio + level * plain)
        size = np.sqrt((plain + lost) * self._central(2, np.asarray(level)))
        bound = np.maximum(0.5 * (gain + size) + wrong, 0.0)
        if len(self.measures) > 4:
            centre = np.where(plain > 0.0, ratio / plain, level)
            beyond = QUARTIC * self._central(4, centre) / np.abs(centre - level) ** 3
            bound = np.fmin(bound, np.maximum(gain, 0.0) + beyond + wrong)
        value = float(np.minimum(bound, most).sum())
        if self.backward:
            value *= grown
        value = value * (1.0 + 1e-11) + self.left_out + 1e-290
        return value if value < 1.0 else 1.0  # also where doubles do not tell

    def _central(self, power: int, centre: Floats) -> Floats:
        """Upper ends of E((R - centre)^power; cell)."""
        total = np.zeros(self.measures[0].size)
        wrong = np.zeros(self.measures[0].size)
        for n in range(power + 1):
            factor = math.comb(power, n) * centre ** (power - n)
            total += (-1.0) ** (power - n) * factor * self.measures[n]
            wrong += factor * (self.errors[n] + self.relative * self.measures[n])
        return np.asarray(np.maximum(total, 0.0) + wrong)


class _Setting(NamedTuple):
    """What is bounded, and about where: a delta of which `goal` is an upper end, or near it."""

    sigma: float
    steps: int
    takes: int
    backward: bool
    goal: float

    @property
    def draws(self) -> int:
        """How many moments are told: more take longer where many steps are shared."""
        known = self.takes <= FEW_TAKES
        if known and 6.0 * self.takes < LARGEST_MOMENT * self.sigma**2:
            return 4
        return 2

    @property
    def top(self) -> float:
        """An output beyond which all others together have a negligible chance."""
        rare = [
            float(scipy.special.ndtri_exp(math.log(CHARGED * self.goal / 2.0 / count)))
            for count in (self.steps, self.takes)
        ]
        if self.backward:
            top = max(-rare[0], 0.0)
        else:
            top = max(-rare[0], 1.0 / self.sigma - rare[1])
        return min(top, CHARGED_BEYOND + 1.0 / self.sigma)


@lru_cache(maxsize=32)
def several_takes(
    sigma: float, steps: int, takes: int, backward: bool, epsilon: float, cells: int
) -> SeveralTakes:
    """Cells of the sum that tells most of R at about this epsilon."""
    about = math.exp(SAME_CHOICE * round(math.log(epsilon) / SAME_CHOICE))
    share, cap = _choice(sigma, steps, takes, backward, about)
    goal = _first_guess(sigma, steps, takes, epsilon)
    setting = _Setting(sigma, steps, takes, backward, goal)
    for _ in range(2):
        tried = _several(setting, share, cap, SKETCH_CELLS).upper(epsilon)
        setting = setting._replace(goal=max(tried, 1e-290))
    return _several(setting, share, cap, cells)


@lru_cache(maxsize=32)
def _choice(
    sigma: float, steps: int, takes: int, backward: bool, epsilon: float
) -> tuple[float, float]:
    """The l and the cap with which delta is least at about this epsilon; any are sound."""
    start = (takes - 1.0) / (steps - 1.0)
    goal = _first_guess(sigma, steps, takes, epsilon)
    setting = _Setting(sigma, steps, takes, backward, goal)
    found = []
    for factor, cap in CHOICES[backward]:
        share = min(factor * start, LARGEST_SHARE)
        upper = _several(setting, share, cap, SKETCH_CELLS).upper(epsilon)
        setting = setting._replace(goal=max(min(upper, setting.goal), 1e-290))
        found.append((share, cap, upper))
    return min(found, key=lambda one: one[2])[:2]


def _first_guess(sigma: float, steps: int, takes: int, epsilon: float) -> float:
    """Delta of the mean shift with as large a second moment."""
    shared = shared_steps(steps, takes, (0.0,))[0]
    exponent = np.minimum(shared.counts[:, 2] / sigma**2, 600.0)
    shift = math.sqrt(
        math.log1p(float(np.exp(shared.log_chances) @ np.expm1(exponent)))
    )
    return float(
        np.maximum(mean_shift_delta(max(shift, 1e-9), np.array(epsilon)), 1e-290)
    )


def _several(setting: _Setting, share: float, cap: float, cells: int) -> SeveralTakes:
    """Cells of a sum with l = share; backwards, where less counts as more, outputs above a cap count as that."""
    sigma, steps, takes, backward, goal = setting
    top = min(setting.top, cap)
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
    width = BESIDE[setting.draws] - float(scipy.special.ndtri(min(goal, 0.3)))
    low = steps * means[0] - width * math.sqrt(steps * spreads[0])
    moved = (steps - takes) * means[0] + takes * means[1]
    high = moved + width * math.sqrt((steps - takes) * spreads[0] + takes * spreads[1])
    spacing = max(high - low, float(g[-1] - g[0])) / cells
    grid = grid_of(sigma, share, spacing, top, -BOTTOM)
    if backward:  # at the place below the cap: less counts as more, and the place above may lie beyond it
        grid.masses[-2] += float(scipy.special.ndtr(-top)) * (1.0 + MASS_ROUNDING)
    return _measured(setting, grid, Told(low, high, setting.top, share, cells))


def _measured(setting: _Setting, grid: Grid, told: Told) -> SeveralTakes:
    sigma, steps, takes, backward, _ = setting
    powers = [grid.masses * grid.places]
    while len(powers) < setting.draws:
        powers.append(powers[-1] * grid.places)
    step = Measures(grid.base, grid.masses, tuple(powers))
    first = math.floor(
        (told.low - steps * math.log1p(-told.share) / told.share) / grid.spacing
    )
    summed = sums(step, steps, takes, first, told.cells, 0.0)
    scale = math.exp(summed.log_scale)
    measures = tuple(measure * scale for measure in summed.measures)
    errors = tuple(error * scale for error in summed.errors)
    if backward:
        left_out = steps * float(scipy.special.ndtr(grid.bottom))
    else:
        left_out = (steps - takes) * float(scipy.special.ndtr(-grid.top))
        left_out += takes * float(scipy.special.ndtr(1.0 / sigma - grid.top))
    relative = 64.0 * ULP * (takes + 4.0)
    left_out *= 1.0 + MASS_ROUNDING
    return SeveralTakes(backward, measures, errors, relative, left_out, told)
