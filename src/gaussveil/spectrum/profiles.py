"""Named privacy profiles: what a release costs where no pair of Gaussians dominates it.

A profile is a pair of distributions (X = with the record, Y = without) known by its hockey-stick divergences:
`delta(epsilon)` of X from Y for every `epsilon >= 0` and, through `reversed()`, of Y from X. Together they give the
divergence for every real epsilon, since H_a(X||Y) = 1 - a + a H_{1/a}(Y||X), so they compose without further knowledge
(`compose_pessimistic`). A profile is stored as its name, version and parameters; what a version means never changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.constants import LARGEST_EPSILON, MOST_ATOMS, ROUNDED_UP
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.laws.has_law import HasLaw
from gaussveil.spectrum.named_profile import PrivacyProfile as PrivacyProfile
from gaussveil.spectrum.named_profile import (
    integer,
    number,
    store,
)
from gaussveil.spectrum.named_profile import profile_from_dict as profile_from_dict
from gaussveil.spectrum.poisson_subsampled import PoissonSubsampled as PoissonSubsampled
from gaussveil.typing import Floats

if TYPE_CHECKING:
    from flint import arb

    from gaussveil.spectrum.laws.ball_law import BallLaw


@dataclass(frozen=True, init=False)
class RandomisedResponse(HasLaw):
    """Randomised response over `classes` answers: the truth is e^epsilon times as likely as each other answer.

    derived: docs/math. The loss is +epsilon or -epsilon on the two answers in question and 0 on the rest.

    Args:
        epsilon: what the answer promises, between 0 and a million.
        classes: how many answers there are, at least 2.

    Raises:
        ParameterError: a number is out of its range.

    >>> import gaussveil
    >>> round(float(gaussveil.RandomisedResponse(1.0).delta(0.5)), 6)
    0.287649
    """

    name: ClassVar[str] = "randomised-response"
    _epsilon: float
    classes: int

    def __init__(self, epsilon: float, classes: int = 2) -> None:
        store(
            self, "_epsilon", number("epsilon", epsilon, low=0.0, high=LARGEST_EPSILON)
        )
        store(self, "classes", integer("classes", classes, low=2))

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy."""
        return self._epsilon

    def _divergence(self, epsilon: Floats) -> Any:
        others = (self.classes - 1) * np.exp(-self._epsilon)
        return -np.expm1(np.minimum(epsilon - self._epsilon, 0.0)) / (1.0 + others)

    def _in_balls(self, epsilon: arb) -> arb:
        return -(epsilon - self._epsilon).expm1() / (
            1 + (self.classes - 1) * _exp(-self._epsilon)
        )

    def ball_law(self) -> BallLaw:
        """The truth, the other answer in question, and the rest, which say nothing."""
        loss = _exp(0.0) * self._epsilon
        other = 1 / (loss.exp() + self.classes - 1)
        return _law(
            (loss, -loss, 0 * loss),
            (loss.exp() * other, other, (self.classes - 2) * other),
        )


@dataclass(frozen=True)
class ResponseOrNoise(HasLaw):
    """An answer that is one of `classes` at random with probability `noise`, else the truth, against one all at random.

    derived: docs/math. There are two losses: one on the true answer, one on all others; exchanged if `backward`.
    """

    name: ClassVar[str] = "response-or-noise"
    noise: float
    classes: int
    backward: bool = False

    def __post_init__(self) -> None:
        store(
            self,
            "noise",
            number("noise", self.noise, low=float(np.nextafter(0.0, 1.0)), high=1.0),
        )
        store(self, "classes", integer("classes", self.classes, low=2))
        if not isinstance(self.backward, bool):
            raise ParameterError(
                f"'backward' must be True or False. Got {self.backward!r}."
            )

    @property
    def largest_loss(self) -> float:
        """The loss of the true answer or, seen from the other side, that of the others; rounded up."""
        if self.backward:
            loss = -np.log(self.noise)
        else:
            loss = np.log1p((self.classes - 1) * (1.0 - self.noise))
        return float(loss) * (1.0 + 1e-15)

    def reversed(self) -> ResponseOrNoise:
        """The answer at random against the other."""
        return ResponseOrNoise(self.noise, self.classes, not self.backward)

    def _divergence(self, epsilon: Floats) -> Any:
        others = (self.classes - 1) / self.classes  # of all answers
        if self.backward:
            weight = others
        else:
            weight = 1.0 - others * self.noise
        return -weight * np.expm1(np.minimum(epsilon - self.largest_loss, 0.0))

    def _in_balls(self, epsilon: arb) -> arb:
        noise = _exp(0.0) * self.noise
        grown = epsilon.exp()
        if self.backward:
            return (self.classes - 1) * (1 - grown * noise) / self.classes
        return 1 - noise + (noise - grown) / self.classes

    def ball_law(self) -> BallLaw:
        """The true answer, and all others."""
        noise = _exp(0.0) * self.noise
        truth = (self.classes * (1 - noise) + noise).log()
        if self.backward:
            share = _exp(0.0) / self.classes
            return _law((-truth, -noise.log()), (share, (self.classes - 1) * share))
        others = noise * (self.classes - 1) / self.classes
        return _law((truth, noise.log()), (1 - others, others))


@dataclass(frozen=True)
class Laplace(HasLaw):
    """Laplace noise of scale b on a value that moves by at most s in l1 norm, `shift_over_scale` = s/b.

    derived: docs/math. In one dimension delta = 1 - exp((epsilon - s/b)/2), the worst case of the l1 ball.

    Args:
        shift_over_scale: s/b, the epsilon of pure differential privacy, between 0 and a million.

    Raises:
        ParameterError: it is out of its range.

    >>> import gaussveil
    >>> float(gaussveil.Laplace(0.5).epsilon(0.0))
    0.5
    """

    name: ClassVar[str] = "laplace"
    shift_over_scale: float

    def __post_init__(self) -> None:
        store(
            self,
            "shift_over_scale",
            number(
                "shift_over_scale", self.shift_over_scale, low=0.0, high=LARGEST_EPSILON
            ),
        )

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy."""
        return self.shift_over_scale

    def _divergence(self, epsilon: Floats) -> Any:
        return -np.expm1(np.minimum(epsilon - self.shift_over_scale, 0.0) / 2.0)

    def _in_balls(self, epsilon: arb) -> arb:
        return -((epsilon - self.shift_over_scale) / 2).expm1()

    def ball_law(self) -> BallLaw:
        """Outputs beyond either value, and those between: there the loss is linear and its density e^{l/2}."""
        loss = _exp(0.0) * self.shift_over_scale
        between = (0 * loss, loss, _exp(0.0) / 2, loss * (-loss / 2).exp() / 2)
        return _law((loss, -loss), (_exp(0.0) / 2, (-loss).exp() / 2), (between,))

    def renyi(self, order: Any) -> Any:
        """Renyi divergence of an order above 1, rounded up (Mironov 2017, Proposition 6)."""
        orders = float_array("order", order, np.zeros(()))
        if not np.all(orders > 1.0):
            raise ParameterError("'order' must be > 1. Got a value <= 1, or NaN.")
        shift = self.shift_over_scale
        power = 2.0 * orders - 1.0
        gain = np.log1p((orders - 1.0) / power * np.expm1(-shift * power)) / (
            orders - 1.0
        )
        return ((shift + gain) * ROUNDED_UP + 1e-15 * shift)[()]


@dataclass(frozen=True)
class DiscreteLaplace(HasLaw):
    """Integer noise with probabilities proportional to exp(-|i|/scale) on an integer that moves by `shift`.

    derived: docs/math. With r = exp(-1/scale) the loss is (shift - 2j)/scale with probability r^j (1-r)/(1+r) for
    0 < j < shift, and shift/scale with probability 1/(1+r); the sums over the losses above epsilon are geometric.

    Args:
        shift: how far one record moves the integer, at least 1.
        scale: of the noise, above 0.

    Raises:
        ParameterError: a number is out of its range.

    >>> import gaussveil
    >>> gaussveil.DiscreteLaplace(shift=1, scale=2.0).largest_loss
    0.5
    """

    name: ClassVar[str] = "discrete-laplace"
    shift: int
    scale: float

    def __post_init__(self) -> None:
        store(self, "shift", integer("shift", self.shift, low=1))
        store(
            self, "scale", number("scale", self.scale, low=self.shift / LARGEST_EPSILON)
        )

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy, rounded up."""
        return _rounded_up(Fraction(self.shift) / Fraction(self.scale))

    def _divergence(self, epsilon: Floats) -> Any:
        rate = 1.0 / self.scale
        inside = np.clip(
            np.ceil((self.shift - epsilon * self.scale) / 2.0) - 1.0, 0.0, None
        )
        outer = -np.expm1(np.minimum(epsilon - self.largest_loss, 0.0))
        # The geometric sums are arranged as products of nonnegative factors, so that nothing cancels.
        inner = np.exp(-rate) * -np.expm1(
            np.minimum(epsilon - (self.shift - inside - 1.0) / self.scale, 0.0)
        )
        return (outer - np.expm1(-inside * rate) * inner) / (1.0 + np.exp(-rate))

    def _in_balls(self, epsilon: arb) -> arb:
        level = Fraction(
            float(epsilon.mid())
        )  # a double: the last inner loss above it is found exactly
        inside = max(math.ceil((self.shift - level * Fraction(self.scale)) / 2) - 1, 0)
        rate = 1 / (_exp(0.0) * self.scale)
        outer = (epsilon - self.shift * rate + inside * rate).exp()
        falling = (-rate).exp()
        return (1 + falling - (-(inside + 1) * rate).exp() - outer) / (1 + falling)

    def factors(self) -> Factors | None:
        """Itself, unless it has too many atoms."""
        if self.shift <= MOST_ATOMS:
            return super().factors()
        return None

    def ball_law(self) -> BallLaw:
        """Noise beyond either value, and each value between."""
        rate = _exp(0.0) / self.scale
        falling = (-rate).exp()
        between = [
            falling**j * (1 - falling) / (1 + falling) for j in range(1, self.shift)
        ]
        masses = (1 / (1 + falling), *between, falling**self.shift / (1 + falling))
        losses = tuple((self.shift - 2 * j) * rate for j in range(self.shift + 1))
        return _law(losses, masses, spacing=-2 * rate)


@dataclass(frozen=True, init=False)
class ApproximatePoint(HasLaw):
    """Any mechanism of which nothing but (epsilon, delta)-differential privacy is known, in both directions.

    Dominated by "reveal with probability delta, else randomised response" (Kairouz, Oh, Viswanath 2017).

    Args:
        epsilon: between 0 and a million.
        delta: a probability.

    Raises:
        ParameterError: a number is out of its range.

    >>> import gaussveil
    >>> float(gaussveil.ApproximatePoint(1.0, 1e-6).delta(1.0))
    1e-06
    """

    name: ClassVar[str] = "approximate-dp"
    _epsilon: float
    _delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        store(
            self, "_epsilon", number("epsilon", epsilon, low=0.0, high=LARGEST_EPSILON)
        )
        store(self, "_delta", number("delta", delta, low=0.0, high=1.0))

    @property
    def infinity(self) -> float:
        """The point's delta."""
        return self._delta

    @property
    def largest_loss(self) -> float:
        """The point's epsilon."""
        return self._epsilon

    def _divergence(self, epsilon: Floats) -> Any:
        response = -np.expm1(np.minimum(epsilon - self._epsilon, 0.0)) / (
            1.0 + np.exp(-self._epsilon)
        )
        return self._delta + (1.0 - self._delta) * response

    def _in_balls(self, epsilon: arb) -> arb:
        revealed = _exp(0.0) * self._delta
        if not epsilon < self._epsilon:
            return revealed
        return revealed - (1 - revealed) * (epsilon - self._epsilon).expm1() / (
            1 + _exp(-self._epsilon)
        )

    @property
    def finite(self) -> ApproximatePoint:
        """Randomised response alone."""
        return ApproximatePoint(self._epsilon, 0.0)

    def ball_law(self) -> BallLaw:
        """Randomised response, unless the record is revealed."""
        loss = _exp(0.0) * self._epsilon
        revealed = _exp(0.0) * self._delta
        truth = (1 - revealed) / (1 + (-loss).exp())
        return _law((loss, -loss), (truth, truth * (-loss).exp()), (), revealed)


def _law(*columns: Any, **more: Any) -> BallLaw:
    """A law by its columns; pieces are middle, half, tilt and weight."""
    from gaussveil.spectrum.laws.ball_law import law

    return law(*columns, **more)


def _exp(exponent: float) -> arb:
    """e^exponent as a ball."""
    from flint import arb

    return arb(exponent).exp()


def _rounded_up(value: Fraction) -> float:
    """The least double that is not below the value."""
    nearest = float(value)
    if nearest >= value:
        return nearest
    return float(np.nextafter(nearest, np.inf))
