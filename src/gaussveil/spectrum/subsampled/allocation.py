"""Random allocation: a record takes part in exactly one of T steps (or in k of them), drawn uniformly.

Upper ends of delta come from sums over the steps on a lattice that is made for epsilons near each other: `clusters`
share one (derived: docs/math/subsampled).
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
from gaussveil.spectrum.gaussian_facts import FAINTER
from gaussveil.spectrum.named_profile import PrivacyProfile, integer, number, store
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.allocation_below import Told, sum_laws
from gaussveil.spectrum.subsampled.allocation_several import several_takes
from gaussveil.spectrum.subsampled.allocation_single import single_take, window_for
from gaussveil.spectrum.subsampled.allocation_sums import (
    CHARGED_BEYOND,
    MASS_ROUNDING,
)
from gaussveil.typing import Floats

MASS_CELLS = 2**16
MANY_CELLS = (
    2**18
)  # of so many steps that cells would not be small beside what they hold
MANY_STEPS = 20_000
FEWER_CELLS = 2**14  # where many epsilons are asked for, or one is looked for
SAME_GRID = 0.1  # width of epsilons that share a grid, relatively below 1
MANY_ON_GRID = 0.5  # where many epsilons are asked for
SMALLEST = 1e-9  # epsilon that has a grid of its own
NEAR = 1.1  # ratio of both ends of several takes beyond which blocks of steps are asked as well
WIDEST = 1e100  # sums that are told
NEARBY = 1e-4  # from which a slope is taken, relatively
SAME = 1e-7  # of an epsilon
ROUGHLY = 1e-3  # the same of one that is looked for
LITTLE = 0.3  # noise multiplier below which several takes count as known: random steps hide little


@dataclass(frozen=True)
class RandomAllocation(PrivacyProfile):
    """Gaussian sums in `steps` steps; a record, added or removed (`backward`), is in exactly `takes`, drawn uniformly.

    Several takes are told by a sum over the steps; what that leaves open costs more, never less.
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
        """A lower end of delta of `count` passes, of sums told as finely as the upper end's are."""
        quick = self.quick_lower(epsilon, count)
        if count > 1 or self.takes == self.steps:
            return quick
        tested = sum_laws(
            self.noise_multiplier, self.steps, self.takes, 1, _told(self, epsilon)
        )
        return max(quick, tested.lower(epsilon, backward=self.backward))

    def quick_lower(self, epsilon: float, count: int = 1) -> float:
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
        if np.ndim(delta):
            return super().epsilon(delta)
        goal = float(probability_array("delta", delta, np.zeros(())))
        if not goal > self.infinity:
            return super().epsilon(delta)
        limit = float(self._known().epsilon(goal))
        guess = _rough_epsilon(self, goal, limit)
        found = private_end(
            lambda place: self._trial(place, goal, self._cells(), SAME),
            guess,
            0.0,
            math.inf,
            rtol=SAME,
        )
        if self.takes > 1 and found > 0.0 and self.lower(found) * NEAR < goal:
            other = float(self._in_blocks().epsilon(goal))
            if other < found and float(self.delta(other)) <= goal:
                found = other
        return np.float64(found)

    def dp_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon of both directions, from the private side; the other one is looked at first."""
        ahead = self.epsilon(delta)
        other = self.reversed()
        if np.ndim(delta) == 0 and _one(
            other, float(ahead), self._cells() // 4
        ) <= float(np.asarray(delta)):
            return ahead
        return np.maximum(ahead, other.epsilon(delta))

    def _trial(self, epsilon: float, goal: float, cells: int, rtol: float) -> Trial:
        """On a scale of normal deviations, which are nearly linear in epsilon, with Newton's next place."""
        beyond = epsilon * (1.0 + NEARBY) + SMALLEST
        asked, here, there = (
            math.sqrt(-2.0 * math.log(delta))
            for delta in (goal, _one(self, epsilon, cells), _one(self, beyond, cells))
        )
        if not there > here:
            return Trial(asked - here)
        proposal = epsilon + (asked - here) * (beyond - epsilon) / (there - here)
        return Trial(asked - here, proposal * (1.0 + 0.25 * rtol))

    def _cells(self) -> int:
        if self.steps > MANY_STEPS:
            return MANY_CELLS
        return MASS_CELLS

    def _known(self) -> PrivacyCurve:
        """As if the steps were known, rounded up."""
        return GaussianPair.mean_shift(
            math.sqrt(self.takes) / self.noise_multiplier * (1.0 + 8.0 * ULP)
        )

    @property
    def _hides_little(self) -> bool:
        return self.takes > 1 and (
            self.noise_multiplier < LITTLE or self.takes == self.steps
        )

    def _in_blocks(self) -> PrivacyCurve:
        """The curve of one take in each of as many blocks of steps, which are revealed: that costs more, never less."""
        curve = _blocks(replace(self, backward=False))
        if self.backward:
            return curve.reversed()
        return curve

    def _divergence(self, epsilon: Floats) -> Any:
        levels = np.ravel(epsilon)
        if levels.size == 1:
            upper = np.array([_one(self, float(levels[0]), self._cells())])
            if self.takes > 1 and upper[0] > NEAR * self.lower(float(levels[0])):
                upper = np.minimum(upper, self._in_blocks().delta(levels))
            return np.reshape(upper, np.shape(epsilon))
        if (
            self.takes > 1
        ):  # many levels: what grids of their own would cost, blocks have once
            known = np.asarray(self._known().delta(levels)) * (
                1.0 + LOSS_RELATIVE_ERROR
            )
            upper = np.minimum(self._in_blocks().delta(levels), known + 1e-300)
        else:
            upper = _many(self, levels)
        return np.reshape(upper, np.shape(epsilon))


def _one(law: RandomAllocation, epsilon: float, cells: int) -> float:
    """An upper end of delta at one epsilon, from a lattice of so many cells."""
    known = float(law._known().delta(epsilon)) * (1.0 + LOSS_RELATIVE_ERROR) + 1e-300
    if law._hides_little:
        return known
    upper = _on_grid(
        law, np.array([epsilon]), _middle(epsilon, SAME_GRID), SAME_GRID, cells
    )
    return min(float(upper[0]), known)


def _many(law: RandomAllocation, levels: Floats) -> Floats:
    """Upper ends at many epsilons, which share grids that are less fine."""
    known = (
        np.asarray(law._known().delta(levels)) * (1.0 + LOSS_RELATIVE_ERROR) + 1e-300
    )
    if law._hides_little:
        return known
    middles = np.array([_middle(level, MANY_ON_GRID) for level in levels.tolist()])
    upper = np.ones(levels.size)
    for middle in np.unique(middles).tolist():
        chosen = np.flatnonzero(middles == middle)
        upper[chosen] = _on_grid(law, levels[chosen], middle, MANY_ON_GRID, FEWER_CELLS)
    return np.minimum(upper, known)


def _middle(epsilon: float, width: float) -> float:
    """The epsilon whose grid serves this one."""
    if epsilon >= 1.0:
        return round(epsilon / width) * width
    return math.exp(round(math.log(max(epsilon, SMALLEST)) / width) * width)


def _on_grid(
    law: RandomAllocation, levels: Floats, middle: float, width: float, cells: int
) -> Floats:
    lowered = levels * (1.0 - 4.0 * ULP)
    setting = law.noise_multiplier, law.steps
    if law.takes == 1:
        apart = min(middle, 1.0) * math.expm1(0.5 * width) * (1.0 + 1e-9)
        return single_take(*setting, law.backward, middle, apart, cells).upper(lowered)
    cells_of = several_takes(*setting, law.takes, law.backward, middle, cells)
    return np.array([cells_of.upper(level) for level in lowered.tolist()])


def _told(law: RandomAllocation, epsilon: float) -> Told | None:
    """How sums are told next to an epsilon; None where the usual way will do."""
    middle = _middle(epsilon, SAME_GRID)
    setting = law.noise_multiplier, law.steps
    if law.takes > 1:
        if law._hides_little:
            return None
        return several_takes(
            *setting, law.takes, law.backward, middle, law._cells()
        ).told
    apart = min(middle, 1.0) * math.expm1(0.5 * SAME_GRID)
    window = window_for(*setting, middle, apart, law.backward)
    if not 1e-6 * law.steps < window.highest - window.lowest < WIDEST:
        return None
    return Told(
        window.lowest - law.steps,
        window.highest - law.steps,
        window.top,
        0.0,
        law._cells(),
    )


def _rough_epsilon(law: RandomAllocation, goal: float, limit: float) -> float:
    """About the epsilon of a delta, by a coarse lattice."""

    def look(epsilon: float) -> Trial:
        return law._trial(epsilon, goal, law._cells() // 16, ROUGHLY)

    sums_shift = law.takes / (math.sqrt(law.steps) * law.noise_multiplier)
    guess = float(GaussianPair.mean_shift(sums_shift).epsilon(goal))
    return private_end(look, min(guess, limit), 0.0, limit, rtol=ROUGHLY)


@lru_cache(maxsize=16)
def _blocks(law: RandomAllocation) -> PrivacyCurve:
    """One allocation in each of `takes` blocks of steps; with little noise as if steps were known, which is more."""
    if (
        law._hides_little or law.steps // law.takes == 1
    ):  # so are the steps, or next to all they hide
        return law._known()
    return compose_pessimistic(
        [replace(law, steps=law.steps // law.takes, takes=1)], [law.takes]
    )
