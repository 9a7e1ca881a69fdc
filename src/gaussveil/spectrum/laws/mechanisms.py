"""The exponential mechanism and discrete Gaussian noise, by the laws of their losses (derived: docs/math/profiles)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gaussveil.spectrum.constants import LARGEST_EPSILON, MOST_ATOMS, ULP
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.laws.has_law import FiniteLosses, HasLaw
from gaussveil.spectrum.named_profile import integer, number, store
from gaussveil.typing import Floats

if TYPE_CHECKING:
    from flint import arb

    from gaussveil.spectrum.laws.ball_law import BallLaw

SMALLEST_EPSILON = 1e-9
ATOMS_REACH = (
    16.0  # deviations of discrete noise whose values are told apart: e^-128 is beyond
)


@dataclass(frozen=True, init=False)
class Exponential(HasLaw):
    """The exponential mechanism, whose log-probabilities move by at most `epsilon` against each other.

    With scores of sensitivity 1 answers are drawn with probabilities proportional to e^(epsilon score / 2), or to
    e^(epsilon score) if a record moves all scores in the same direction. Losses lie in an interval of width epsilon
    (Dong, Durfee, Rogers 2020); over all such mechanisms the largest divergence is (1 - e^((x - epsilon)/2))^2 /
    (1 - e^-epsilon) at x, which is that of one pair: its losses have the density e^(l/2) on (-epsilon, epsilon).

    >>> from gaussveil import Exponential
    >>> float(Exponential(1.0).delta(1.0)), float(Exponential(1.0).epsilon(0.0))
    (0.0, 1.0)
    """

    name: ClassVar[str] = "exponential"
    _epsilon: float

    def __init__(self, epsilon: float) -> None:
        store(
            self,
            "_epsilon",
            number("epsilon", epsilon, low=SMALLEST_EPSILON, high=LARGEST_EPSILON),
        )

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy."""
        return self._epsilon

    def _divergence(self, epsilon: Floats) -> Any:
        return np.expm1(
            np.minimum(epsilon - self._epsilon, 0.0) / 2.0
        ) ** 2 / -math.expm1(-self._epsilon)

    def _in_balls(self, epsilon: arb) -> arb:
        from flint import arb

        return ((epsilon - self._epsilon) / 2).expm1() ** 2 / -(
            -arb(self._epsilon)
        ).expm1()

    def ball_law(self) -> BallLaw:
        """One piece, and no atoms."""
        from flint import arb

        from gaussveil.spectrum.laws.ball_law import BallLaw, BallPiece

        width = arb(self._epsilon)
        return BallLaw(
            (),
            (),
            (BallPiece(arb(0), width, arb(0.5), width / (2 * (width / 2).sinh())),),
        )


@dataclass(frozen=True)
class DiscreteGaussian(HasLaw):
    """Integer noise with probabilities proportional to exp(-i^2 / (2 sigma^2)) on an integer that moves by `shift`.

    The loss at i is shift (2 i - shift) / (2 sigma^2), i under X being the shift and the noise. Noise beyond REACH
    sigma is charged: above as an infinite loss, below as the loss at the last value.

    Args:
        sigma: its parameter, close to the standard deviation.

    >>> from gaussveil import DiscreteGaussian
    >>> round(float(DiscreteGaussian(2.0).delta(1.0)), 5)
    0.00725
    """

    name: ClassVar[str] = "discrete-gaussian"
    relative_error: ClassVar[float] = 0.0  # values are upper ends
    sigma: float
    shift: int = 1

    def __post_init__(self) -> None:
        store(self, "sigma", number("sigma", self.sigma, low=0.1, high=1e5))
        store(self, "shift", integer("shift", self.shift, low=1))
        number("shift / sigma", self.shift / self.sigma, low=0.0, high=1e2)

    @property
    def reach(self) -> int:
        """The largest noise that is told apart."""
        return math.ceil(ATOMS_REACH * self.sigma) + 1

    @property
    def infinity(self) -> float:
        """Bound on the probability of noise beyond the reach, on one side."""
        return math.exp(-0.5 * (self.reach / self.sigma) ** 2) * 2.0

    @property
    def rounded_by(self) -> float:
        """What is charged on both sides."""
        return 2.0 * self.infinity

    @property
    def largest_loss(self) -> float:
        """At the last value."""
        return (
            self.shift
            * (self.shift + 2.0 * self.reach)
            / (2.0 * self.sigma**2)
            * (1.0 + 8.0 * ULP)
        )

    def factors(self) -> Factors | None:
        """Itself, unless it has too many atoms."""
        if 2 * self.reach < MOST_ATOMS:
            return super().factors()
        return None

    @property
    def finite(self) -> HasLaw:
        """The noise up to the reach."""
        return FiniteLosses(self)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats]:
        """Losses in ascending order, and the probabilities of each and all above, under X and under Y."""
        noise = np.arange(-float(self.reach), self.reach + 1.0)
        mass = np.exp(-0.5 * (noise / self.sigma) ** 2)
        mass /= mass.sum()
        losses = self.shift * (self.shift + 2.0 * noise) / (2.0 * self.sigma**2)
        other = mass * np.exp(-losses)
        return (
            losses,
            np.append(np.cumsum(mass[::-1])[::-1], 0.0),
            np.append(np.cumsum(other[::-1])[::-1], 0.0),
        )

    def _divergence(self, epsilon: Floats) -> Any:
        losses, above, other = self._sums
        place = np.searchsorted(losses, epsilon)
        ratio = np.exp(np.minimum(epsilon, 700.0))
        rounding = (16.0 + 4.0 * losses.size + 8.0 * float(np.abs(losses).max())) * ULP
        return (
            np.maximum(above[place] - ratio * other[place], 0.0)
            + rounding * above[place]
            + 2.0 * self.infinity
        )

    def _in_balls(self, epsilon: arb) -> arb:
        law = self.ball_law()
        delta = law.infinity
        for loss, mass in zip(law.losses, law.masses):
            part = -mass * (epsilon - loss).expm1()
            delta += part if part > 0 else 0 if part < 0 else part.union(0)
        return delta.union(delta - 2 * law.infinity)  # as these are charged

    def ball_law(self) -> BallLaw:
        """Each value of the noise up to the reach."""
        from flint import arb

        from gaussveil.spectrum.laws.ball_law import BallLaw

        half = 1 / (2 * arb(self.sigma) ** 2)
        noise = range(-self.reach, self.reach + 1)
        sizes = [(-half * i * i).exp() for i in noise]
        whole = sum(sizes, arb(0))
        rest = arb(self.infinity)
        masses = [size / whole for size in sizes]
        masses[0] += rest
        losses = tuple(half * self.shift * (self.shift + 2 * i) for i in noise)
        return BallLaw(losses, tuple(masses), (), rest, 2 * half * self.shift)
