"""Laplace noise of means and sums within balls, where groups stand for themselves: epsilon shared by what was drawn.

Theorem (derived: docs/math/tables.md, "Laplace"). All draws of a profile have integer noise of one law, exp(-|i|/b), on
numbers that a unit moves by a stated number of steps; the steps of all draws add up to D. How many a later draw takes
may depend on what earlier ones gave: the whole is dominated by one number that moves by D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from gaussveil.mechanisms.noisy_sums import NoisySums
from gaussveil.mechanisms.table.answers import Sum
from gaussveil.mechanisms.table.laplace_designs import Design, noisy
from gaussveil.mechanisms.table.profile_noise import ProfileNoise
from gaussveil.postprocessing.intervals import Variances
from gaussveil.statistics import ExactSum
from gaussveil.typing import Floats

STEPS = 2**20  # by which a unit moves all draws together
FEWEST_STEPS = 64  # of a number, for which the finest grid is good enough
FAR = 2.0  # times as many deviations as of Gaussian noise until it strays less than once in a million draws
DOUBTED = 2.0  # deviations by which units may be fewer than a count says: too little learnt is worse than too much
COUNTED = 0.02  # of epsilon, for how many units there are
SUMMED = 0.3  # for the counts of places where they are multiplied by the centre
# Of epsilon at one unit times epsilon, falling with this power of it; at least and at most. A centre's error times that
# of a count falls as the square of the units and the noise of values as their number: .4 is best for both together.
LEARNT = {
    "places": (1.15, 0.4, 0.005, 0.15),
    "rough": (1.15, 0.4, 0.005, 0.15),
    "norm of rough": (0.54, 1 / 3, 0.01, 0.12),
    "norm of smooth": (0.81, 1 / 3, 0.015, 0.18),
}
OF_A_PLACE = "places", "rough"  # where the units of one place decide


@dataclass(frozen=True)
class LaplaceProfileNoise(ProfileNoise):
    """Laplace noise of all draws of one profile, for an epsilon (which stands in `loss`)."""

    far: ClassVar[float] = FAR
    units: float = math.inf
    """How many units there are, as far as draws have told: of few units more is spent on learning."""

    @property
    def design(self) -> Design:
        """What all draws together are dominated by: one number that moves by all steps."""
        return Design(1.0, STEPS, float(np.nextafter(STEPS / self.loss, math.inf)))

    def ball(self, name: str, radius: float) -> float:
        """The length that a part of this radius is scaled to."""
        return self.size(name)

    @property
    def variance(self) -> float:
        """Of one number that a unit moves by 1, which has all of epsilon."""
        return self.design.variance / STEPS**2

    @property
    def drawable(self) -> bool:
        """Whether one row is more than a few steps."""
        few = replace(self, units=0.0)
        return (
            min(one.size(name) for one in (self, few) for name in one.steps)
            >= FEWEST_STEPS
        )

    @cached_property
    def steps(self) -> dict[str, int]:
        """By how many steps a unit moves each draw."""
        places = self.layout.places / self.layout.places_touched
        shares = {"units": COUNTED}
        for name, (one, power, least, most) in LEARNT.items():
            worth = max(self.units, 1.0) * self.loss
            if name in OF_A_PLACE:
                worth /= places
            shares[name] = min(max(one / worth**power, least), most)
        if isinstance(self.answer, Sum):
            shares["places"] = SUMMED
        found = {name: math.floor(share * STEPS) for name, share in shares.items()}
        return found | {"smooth": STEPS - sum(found.values())}

    @cached_property
    def shares(self) -> dict[str, float]:
        """How epsilon is divided among the draws."""
        return {name: steps / STEPS for name, steps in self.steps.items()}

    def described(self) -> dict[str, object]:
        """The shares of many units, and those of few, for the certificate."""
        few = replace(self, units=0.0)
        return {"shares": self.shares, "shares of few units": few.shares}

    def knowing(self, units: float) -> Self:
        """The noise of what is drawn once it is known how many units there are, by so few as there may be."""
        doubted = DOUBTED * math.sqrt(self.layout.places) * self.deviation("units")
        return replace(self, units=units - doubted / self.rows)

    def size(self, name: str) -> float:
        """Of a row, of a unit in a histogram or of the radius of a part, in steps; whole but for a radius.

        Numbers in a ball that a unit has in k groups add up to at most sqrt(k) radii, and each is rounded to a step.
        """
        steps = self.steps[name]
        touched = self.layout.touched
        if name in ("units", "places"):
            return steps // (self.rows * touched)
        if name in ("rough", "smooth"):
            widest = np.nextafter(math.sqrt(touched), math.inf)
            return float(np.nextafter((steps - touched) / widest, 0.0))
        return steps

    @property
    def z(self) -> float:
        """Half a 95 % interval over the deviation."""
        return self.design.reach

    def deviation(self, name: str) -> float:
        """Of a count in a histogram of norms, or over the radius of a number in a part."""
        return math.sqrt(self.design.variance) / self.size(name)

    @property
    def places(self) -> Variances:
        """Noise of the rows at a place."""
        return Variances(self.deviation("units") ** 2)

    def refined(
        self, draws: NoisySums, places: Floats, sums: ExactSum
    ) -> tuple[Floats, Variances]:
        """Rows at each place drawn once more, both weighed."""
        again = self._drawn(draws, "places", sums, int(self.size("places")))
        second = self.deviation("places") ** 2
        together = self.counted
        weighed = places / self.places.own + again / second
        return together.own * weighed, together

    @property
    def counted(self) -> Variances:
        """Noise of the rows at a place, drawn twice."""
        first = self.places.own
        second = self.deviation("places") ** 2
        return Variances(first * second / (first + second))

    def drawn_places(self, draws: NoisySums, sums: ExactSum) -> Floats:
        """Rows at each place."""
        return self._drawn(draws, "units", sums, int(self.size("units")))

    def drawn_counts(
        self, draws: NoisySums, name: str, sums: ExactSum, differing: int
    ) -> Floats:
        """A histogram of norms."""
        return self._drawn(draws, name, sums, int(self.size(name)))

    def drawn_sums(
        self, draws: NoisySums, name: str, sums: ExactSum, radius: float
    ) -> Floats:
        """Sums of a part, which come in steps."""
        return self._drawn(draws, name, sums) * (radius / self.size(name))

    def _drawn(
        self, draws: NoisySums, name: str, sums: ExactSum, size: int = 1
    ) -> Floats:
        draws.spend(self.losses[name])
        return noisy(self.design, sums, draws.generator, size)
