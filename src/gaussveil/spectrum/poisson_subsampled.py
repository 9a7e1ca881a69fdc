"""`PoissonSubsampled`: a mechanism that runs on rows which each take part at random."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gaussveil.errors import InputError, ParameterError
from gaussveil.spectrum.constants import NOISE_ROUNDING, ULP
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.named_profile import (
    PROFILE_RELATIVE_ERROR,
    number,
    store,
)
from gaussveil.spectrum.named_profile import PrivacyProfile as PrivacyProfile
from gaussveil.spectrum.named_profile import profile_from_dict as profile_from_dict
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.step import SMALLEST_RATE, STORED_RATE, Step
from gaussveil.typing import Floats

if TYPE_CHECKING:
    pass

# of a squared mean shift that the contour takes on a random batch
SMALLEST_ENERGY = 1e-12
LARGEST_ENERGY = 1e4


@dataclass(frozen=True)
class PoissonSubsampled(PrivacyProfile):
    """A mechanism run on rows that each take part independently with probability `rate`, add/remove adjacency.

    With (P, Q) the base's pair and q the rate, the pair is (qP + (1-q)Q, Q), exchanged if `backward` (Zhu, Dong, Wang
    2022, Theorem 11). Splitting positive parts gives it exactly from the base (derived: docs/math): for a = e^epsilon
    H_a(qP+(1-q)Q || Q) = q H_{(a-1+q)/q}(P||Q), and H_a(Q || qP+(1-q)Q) = c H_{aq/c}(Q||P) with c = 1 - a(1-q), or 0
    where c <= 0.
    """

    name: ClassVar[str] = "poisson-subsampled"
    neighbours: ClassVar[str | None] = "add-remove"
    base: PrivacyCurve
    rate: float
    backward: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.base, PrivacyCurve):
            raise InputError(
                f"'base' must be a privacy loss or profile. Got {type(self.base).__name__}."
            )
        if self.base.neighbours not in (None, self.neighbours):
            raise InputError(
                "'base' must be a loss of added or removed records. Got one of replaced records."
            )
        store(self, "rate", number("rate", self.rate, low=STORED_RATE, high=1.0))
        if not isinstance(self.backward, bool):
            raise ParameterError(
                f"'backward' must be True or False. Got {self.backward!r}."
            )

    @property
    def relative_error(self) -> float:
        """The base's error and that of the shifted epsilon."""
        return self.base.relative_error + PROFILE_RELATIVE_ERROR

    @property
    def infinity(self) -> float:
        """The row must take part; seen from the other side its absence is always possible unless the rate is 1."""
        if self.backward:
            certain = self.base.reversed()
        else:
            certain = self.base
        if self.backward and self.rate < 1.0:
            return 0.0
        return self.rate * certain.infinity

    @property
    def largest_loss(self) -> float:
        """The base's largest loss after amplification, rounded up."""
        if self.backward:
            base = self.base.reversed()
        else:
            base = self.base
        largest = base.largest_loss
        if not self.backward:
            if self.rate < 1.0:
                value = np.logaddexp(np.log1p(-self.rate), largest + np.log(self.rate))
            else:
                value = largest
        else:
            if base.infinity > 0.0 and self.rate < 1.0:
                kept = 0.0
            else:
                kept = np.exp(-largest)
            if self.rate < 1.0:
                value = -np.log1p(-self.rate * (1.0 - kept))
            else:
                value = largest
        return float(value) * (1.0 + 1e-14) + 1e-15

    def reversed(self) -> PoissonSubsampled:
        """The other direction: a row is added instead of removed."""
        return PoissonSubsampled(self.base, self.rate, not self.backward)

    def factors(self) -> Factors | None:
        """A step of the contour, where the base is one mean shift that it takes; its noise is rounded down."""
        energies = self.base.shift_energies
        if energies is None or not SMALLEST_RATE <= self.rate < 1.0:
            return None
        if not SMALLEST_ENERGY <= math.fsum(energies) <= LARGEST_ENERGY:
            return None
        energy = sum(map(Fraction, energies))
        multiplier = 1.0 / math.sqrt(math.fsum(energies))
        while Fraction(multiplier) ** 2 * energy > 1:  # less noise costs more
            multiplier = math.nextafter(multiplier, 0.0)
        return Factors(
            steps=((Step(multiplier, self.rate, backward=self.backward), 1),)
        )

    def fainter(self) -> PrivacyCurve:
        """The same of the fainter base."""
        return replace(self, base=self.base.fainter())

    @property
    def rounded_by(self) -> float:
        """The noise is rounded by less than 2^-49 of it, and a shift of the mean by x is no variation above x/2."""
        if self.factors() is not None:
            return (
                self.rate
                * math.sqrt(math.fsum(self.base.shift_energies or [0.0]))
                * NOISE_ROUNDING
            )
        return 0.0

    def rounded_down(self) -> PrivacyCurve:
        """Where it is a step with its noise rounded down, a fainter one."""
        if self.factors() is not None:
            return self.fainter()
        return self

    @property
    def largest_shift(self) -> float:
        """That of the base: random batches only hide."""
        return self.base.largest_shift

    @property
    def convolutions(self) -> int:
        """As many as of the base."""
        return self.base.convolutions

    def affordable_nodes(self, work: float) -> float:
        """As many as of the base."""
        return self.base.affordable_nodes(work)

    def _divergence(self, epsilon: Floats) -> Any:
        q = self.rate
        rest = 1.0 - self.rate
        if not self.backward:
            return q * self.base.worst_delta(self.shifted(epsilon))
        weight = (
            q
            - np.expm1(np.minimum(epsilon, 1.0 - np.log(rest) if rest > 0.0 else 0.0))
            * rest
        )
        weight = np.clip(weight + 8.0 * ULP * q, 0.0, q)
        shifted = epsilon + np.log(q / np.where(weight > 0.0, weight, q))
        return weight * self.base.reversed().worst_delta(shifted * (1.0 - 8.0 * ULP))

    def shifted(self, epsilon: Floats | float) -> Floats:
        """log((a - 1 + q)/q); rounding may only lower it, which raises delta."""
        small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / self.rate)
        large = (
            epsilon
            - np.log(self.rate)
            + np.log1p((self.rate - 1.0) * np.exp(-np.maximum(epsilon, 0.5)))
        )
        return np.asarray(np.where(epsilon < 1.0, small, large) * (1.0 - 8.0 * ULP))
