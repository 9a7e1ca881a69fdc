"""Random allocation: a record takes part in exactly one of T steps (or in k of them), drawn uniformly.

With R the mean of T independent w = exp(z/s - 1/(2 s^2)), z ~ N(0, 1), delta is E(R - a)_+ or E(1 - aR)_+. Moving w to
the ends of its cell of a grid, mean kept, only raises them; sums are convolved (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gaussveil.spectrum.arguments import probability_array
from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.discrete.masses import LossMasses
from gaussveil.spectrum.discrete.tilted_convolution import (
    ConvolutionPlan,
    _chernoff,
    tilted_convolution,
)
from gaussveil.spectrum.gaussian_facts import FAINTER
from gaussveil.spectrum.named_profile import PrivacyProfile, integer, number, store
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.allocation_below import sum_laws
from gaussveil.typing import Floats

# of the grid, and of the one on which windows and orders are chosen
MASS_CELLS = 2**17
FEWER_CELLS = 2**15  # where many epsilons are asked for
MASS_SKETCH_CELLS = 2048
# deviations beyond which outputs are charged to delta; width of epsilons that share a grid
CHARGED_BEYOND = 14.5
SPREAD = 1.0
PLANNED = 0.0625  # width of epsilons that share a plan
MASS_ROUNDING = 1e-12  # of a mass
SAME = 1e-6  # of an epsilon
SURE_DIGITS = 150.0  # e-foldings of what is next to sure
LITTLE = 0.3  # noise multiplier below which losses are too large for a grid, and random steps hide little


@dataclass(frozen=True)
class RandomAllocation(PrivacyProfile):
    """Gaussian sums in `steps` steps; a record, added or removed (`backward`), is in exactly `takes`, drawn uniformly.

    A random partition into as many blocks of steps, one for each time, is revealed: that costs more, never less.
    """

    name: ClassVar[str] = "random-allocation"
    neighbours: ClassVar[str | None] = "add-remove"
    relative_error: ClassVar[float] = 0.0  # values are upper ends
    noise_multiplier: float
    steps: int
    takes: int = 1
    backward: bool = False

    def __post_init__(self) -> None:
        store(
            self,
            "noise_multiplier",
            number("noise_multiplier", self.noise_multiplier, low=0.05, high=1e3),
        )
        store(self, "takes", integer("takes", self.takes, low=1))
        store(self, "steps", integer("steps", self.steps, low=self.takes))

    @property
    def infinity(self) -> float:
        """What outputs beyond the grids are charged, at any epsilon."""
        if self.takes > 1:
            return self._in_blocks().infinity
        return 4.0 * self.steps * float(scipy.special.ndtr(-CHARGED_BEYOND))

    def reversed(self) -> RandomAllocation:
        """The record is added instead of removed."""
        return replace(self, backward=not self.backward)

    @property
    def convolutions(self) -> int:
        """One; of its sums."""
        return 1

    def affordable_nodes(self, work: float) -> float:
        """As many as one sketch of its grid holds."""
        return 2**14

    def fainter(self) -> PrivacyCurve:
        """The same with a little more noise."""
        return replace(self, noise_multiplier=min(self.noise_multiplier / FAINTER, 1e3))

    def lower(self, epsilon: float, count: int = 1) -> float:
        """A lower end of delta of `count` passes: of tests of sums over all outputs, or of the largest of them."""
        sigma = self.noise_multiplier
        steps = self.steps * count
        takes = self.takes * count
        shift = takes / (math.sqrt(steps) * sigma)
        ratio = math.exp(min(epsilon, 600.0))
        z = np.linspace(0.0, 30.0 + 1.0 / sigma, 600)
        plain = scipy.special.log_ndtr(z)
        moved = scipy.special.log_ndtr(z - 1.0 / sigma)
        ahead = np.expm1(takes * moved + (steps - takes) * plain)
        behind = np.expm1(steps * plain)
        if not self.backward:
            largest = np.max(
                ratio * (1.0 + MASS_ROUNDING) * behind - (1.0 - MASS_ROUNDING) * ahead
            )
        else:
            largest = 0.0
        summed = (
            GaussianPair.mean_shift(shift * (1.0 - 4.0 * ULP)).enclose(epsilon).lower
        )
        tested = sum_laws(sigma, self.steps, self.takes, count)
        return max(
            float(largest),
            float(np.max(summed)),
            tested.lower(epsilon, backward=self.backward),
        )

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side."""
        if self.takes > 1 or np.ndim(delta):
            return super().epsilon(delta)
        goal = float(probability_array("delta", delta, np.zeros(())))
        if not goal > self.infinity:
            return super().epsilon(delta)
        tests = sum_laws(self.noise_multiplier, self.steps, 1, 1)

        def below(epsilon: float) -> Trial:
            return Trial(tests.lower(epsilon, backward=self.backward) - goal)

        def above(epsilon: float) -> Trial:
            return Trial(math.log(float(self.delta(epsilon)) / goal))

        limit = float(
            GaussianPair.mean_shift(1.0 / self.noise_multiplier).epsilon(goal)
        )
        guess = private_end(below, 0.1 * limit, 0.0, limit, rtol=1e-6)
        guess = private_end(above, guess, 0.0, math.inf, rtol=SAME)
        return np.float64(guess)

    def _in_blocks(self) -> PrivacyCurve:
        """The curve of several takes, in this direction."""
        curve = _blocks(replace(self, backward=False))
        if self.backward:
            return curve.reversed()
        return curve

    def _divergence(self, epsilon: Floats) -> Any:
        if self.takes > 1:
            return self._in_blocks().delta(epsilon)
        levels = np.ravel(epsilon) * (1.0 - 4.0 * ULP)
        order = np.argsort(np.ravel(epsilon))
        cells = MASS_CELLS if levels.size == 1 else FEWER_CELLS
        upper = np.ones(levels.size)
        while order.size:
            near = int(
                np.searchsorted(levels[order], levels[order[0]] + SPREAD, side="right")
            )
            upper[order[:near]] = _upper(self, levels[order[:near]], cells)
            order = order[near:]
        shift_delta = GaussianPair.mean_shift(
            1.0 / self.noise_multiplier * (1.0 + 8.0 * ULP)
        ).delta(levels)  # of the step
        return np.reshape(
            np.minimum(upper, shift_delta * (1.0 + LOSS_RELATIVE_ERROR) + 1e-300),
            np.shape(epsilon),
        )


@lru_cache(maxsize=16)
def _blocks(law: RandomAllocation) -> PrivacyCurve:
    """One allocation in each of `takes` blocks of steps; with little noise as if steps were known, which is more."""
    known = law.noise_multiplier < LITTLE or law.steps // law.takes == 1
    if known:  # so are the steps, or next to all they hide
        return GaussianPair.mean_shift(
            math.sqrt(law.takes) / law.noise_multiplier * (1.0 + 8.0 * ULP)
        )
    return compose_pessimistic(
        [replace(law, steps=law.steps // law.takes, takes=1)], [law.takes]
    )


def _rounded(epsilon: float, law: RandomAllocation) -> float:
    """An epsilon near by whose threshold of R is no smaller: neighbours share what is planned."""
    if law.backward:
        return math.floor(epsilon / PLANNED) * PLANNED
    return math.ceil(epsilon / PLANNED) * PLANNED


@lru_cache(maxsize=64)
def _plan(
    sigma: float, steps: int, low: float, high: float, sign: float
) -> ConvolutionPlan:
    """Windows and orders, from a sketch."""
    sketch = _chords(sigma, low, high, (high - low) / MASS_SKETCH_CELLS, sign)
    return ConvolutionPlan.of([(sketch, steps)], 1e-60)


def _upper(law: RandomAllocation, epsilon: Floats, cells: int) -> Floats:
    """Upper ends of delta at increasing epsilons not far apart."""
    steps = law.steps
    sigma = law.noise_multiplier
    if law.backward:
        sign = -1.0
    else:
        sign = 1.0
    threshold = np.exp(np.clip(sign * epsilon, -690.0, 690.0))  # of R
    far = min(CHARGED_BEYOND / sigma + 0.5 / sigma**2, 690.0)
    top = math.exp(
        min(sign * _rounded(float(epsilon[0 if law.backward else -1]), law), 690.0)
    )
    # a single w so large makes the sum exceed all thresholds, whatever the others are, or next to surely
    decides = steps * top
    spread = math.sqrt(2.0 * SURE_DIGITS * steps) * math.exp(min(0.5 / sigma**2, 600.0))
    enough = max(min(2.0 * decides, decides - steps + spread), 4.0)
    high = min(max(enough, 4.0 * math.exp(-far)), math.exp(far))
    if math.exp(-far) > 1e-3 * high:
        low = math.exp(-far)
    else:
        low = 0.0
    plan = _plan(sigma, steps, low, high, sign)
    place = sign * steps * threshold
    nearest = float(place.min())
    best = np.full(place.size, np.inf)
    bottom = min(
        plan.bottom, nearest
    )  # sums above any place must lie in the window; those below it only add
    masses = _chords(
        sigma,
        low,
        high,
        interval := max(plan.top - bottom, high - low) / cells,
        sign,
    )
    first = math.floor(bottom / interval) - 1
    size = int(
        scipy.fft.next_fast_len(
            max(math.ceil(plan.top / interval) - first, 0) + 4, real=True
        )
    )
    values = interval * np.arange(first, first + size)
    ended = interval * (first + size - 1)
    # Beyond the window: at most the largest (x - place) e^(-order (x - ended)), times the moment.
    beyond = np.maximum(ended - place, 1.0 / plan.top_order) / steps
    beyond = beyond * _chernoff([(masses, steps)], plan.top_order, ended)
    start = np.clip(np.floor(place / interval) + 1 - first, 0, size - 1).astype(
        np.int64
    )
    spots = [
        int(np.argmax(np.append(plan.means[:-1] >= place[at], True))) for at in (0, -1)
    ]
    for order in {
        float(plan.orders[max(spot - back, 0)]) for spot in spots for back in (0, 2)
    }:
        tilted, error, log_scale, slack = tilted_convolution(
            [(masses, steps)], order, size
        )
        mass = np.maximum(np.roll(tilted, -(first % size)), 0.0) * np.exp(
            np.minimum(order * (nearest - values), 0.0)
        )
        above = np.cumsum(mass[::-1])[::-1]
        sums = np.append(np.cumsum(above[::-1])[::-1], 0.0)
        over = np.maximum(values[start] - place, 0.0) + 8.0 * ULP * np.abs(place)
        series = 2.0 / (-math.expm1(-2.0 * order * interval)) ** 3
        charged = (
            1.001
            * error
            * interval
            * math.sqrt(min(series, size**3.0))
            * np.exp(order * (nearest - place))
        )
        scale = (
            math.exp(min(log_scale + slack - order * nearest, 600.0))
            * (1.0 + 16.0 * size * ULP)
            / steps
        )
        best = np.minimum(
            best,
            (interval * sums[start + 1] + over * above[start] + charged) * scale
            + beyond,
        )
    return np.minimum(
        (best / threshold if law.backward else best)
        + 1e-290
        + _cut_off(law, masses, threshold),
        1.0,
    )


def _chords(
    sigma: float, low: float, high: float, interval: float, sign: float
) -> LossMasses:
    """Masses at multiples of the interval, from cell to cell with the mean of w there; at their negatives if asked."""
    index = np.arange(
        math.floor(low / interval), math.ceil(high / interval) + 1, dtype=np.float64
    )
    z = sigma * np.log(np.maximum(index * interval, 1e-300)) + 0.5 / sigma
    left = index[:-1]
    right = index[1:]
    # from the smaller tail
    side = np.where(z[:-1] > 0.0, -1.0, 1.0)
    ndtr = scipy.special.ndtr
    probability, mean = (
        side * (ndtr(side * (z[1:] - m)) - ndtr(side * (z[:-1] - m)))
        for m in (0.0, 1.0 / sigma)
    )
    up = mean / interval - left * probability
    down = right * probability - mean / interval
    nodes, weights = np.polynomial.legendre.leggauss(6)
    narrow = np.flatnonzero(
        z[1:] - z[:-1] < 0.2
    )  # there by quadrature, as nothing cancels in it
    half = 0.5 * sigma * np.log1p(1.0 / left[narrow])[:, None]
    density = (
        half
        * weights
        * np.exp(-0.5 * (z[narrow][:, None] + half * (1.0 + nodes)) ** 2)
        / math.sqrt(2 * math.pi)
    )
    up[narrow] = left[narrow] * (density * np.expm1(half * (1.0 + nodes) / sigma)).sum(
        axis=1
    )
    down[narrow] = right[narrow] * (
        density * -np.expm1(half * (nodes - 1.0) / sigma)
    ).sum(axis=1)
    mass = np.append(np.maximum(down, 0.0), 0.0) + np.append(
        ndtr(z[0]), np.maximum(up, 0.0)
    )
    mass *= 1.0 + MASS_ROUNDING * (1.0 + 0.1 * sigma)
    return LossMasses(
        interval, int(index[0] if sign > 0 else -index[-1]), mass[:: int(sign)], 0.0
    )


def _cut_off(law: RandomAllocation, masses: LossMasses, threshold: Floats) -> Floats:
    """What outputs beyond the grid give: X(B) - a Y(B), B that one is above it, and a Y(B) where R is below a then.

    That is not, or so rare that the other w are far below their mean: they are not negative, which bounds it.
    """
    steps = law.steps
    sigma = law.noise_multiplier
    ends = np.abs([masses.first, masses.last]) * masses.interval
    low, high = (
        sigma * math.log(max(end, 1e-300)) + 0.5 / sigma for end in sorted(ends)
    )
    plain = float(scipy.special.ndtr(-high))
    place = steps * threshold
    gap = np.maximum((steps - 1) * (1.0 - 1e-12) - place + ends.max(), 0.0)
    square = 2.0 * steps * math.exp(min(sigma**-2, 600.0)) * (1.0 + 1e-12)
    below = np.where(ends.max() >= place, 0.0, np.exp(-gap * gap / square))
    if law.backward:
        under = float(scipy.special.ndtr(low))
        return steps * (under + below * plain) * (1.0 + MASS_ROUNDING)
    moved = float(scipy.special.log_ndtr(high - 1.0 / sigma))
    without = -math.expm1(steps * math.log1p(-plain)) * (1.0 - MASS_ROUNDING)
    with_record = -math.expm1(moved + (steps - 1) * math.log1p(-plain))
    with_record *= 1.0 + MASS_ROUNDING
    missed = below * np.minimum(steps * plain * (1.0 + MASS_ROUNDING), 1.0)
    inside = with_record - threshold * (without - missed)
    return np.asarray(np.minimum(inside, with_record))
