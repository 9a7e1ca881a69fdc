"""Profiles of mixtures: Gaussian noise on a value that moves by a random amount, and a mechanism chosen in public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.spectrum.constants import NOISE_ROUNDING
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.gaussian_facts import FAINTER
from gaussveil.spectrum.named_profile import PrivacyProfile, number, store
from gaussveil.spectrum.poisson_subsampled import PoissonSubsampled
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.turns import turns
from gaussveil.typing import Floats

LARGEST_SHIFT = 30.0


@dataclass(frozen=True)
class GaussianMixture(PrivacyProfile):
    """sum_i p_i N(c_i, 1) against N(0, 1), c_i >= 0, exchanged if `backward` (derived: docs/math/profiles)."""

    name: ClassVar[str] = "gaussian-mixture"
    neighbours: ClassVar[str | None] = "add-remove"
    relative_error: ClassVar[float] = 1e-9
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]
    backward: bool = False

    def __post_init__(self) -> None:
        for field, high in (("shifts", LARGEST_SHIFT), ("probabilities", 1.0)):
            store(
                self,
                field,
                tuple(
                    number(field, value, low=0.0, high=high)
                    for value in getattr(self, field)
                ),
            )
        if any(0.0 < shift < 1e-4 for shift in self.shifts):
            raise ParameterError(
                "shifts must be 0 or at least 1e-4. Got a smaller one."
            )
        if (
            len(self.shifts) != len(self.probabilities)
            or not abs(sum(self.probabilities) - 1.0) <= 1e-9
        ):
            raise ParameterError(
                "probabilities must be one for each shift, and add up to 1. These do not."
            )

    def reversed(self) -> GaussianMixture:
        """X and Y exchanged."""
        return GaussianMixture(self.shifts, self.probabilities, not self.backward)

    def factors(self) -> Factors | None:
        """A step on a random batch, where there are two amounts and one of them is nothing; its noise rounded down."""
        if len(self.shifts) != 2 or min(self.shifts) != 0.0:
            return None
        shift, rate = max(zip(self.shifts, self.probabilities))
        if not (shift and rate):
            return None
        return Factors(
            steps=(
                (
                    Step(
                        math.nextafter(1.0 / shift, 0.0), rate, backward=self.backward
                    ),
                    1,
                ),
            )
        )

    def fainter(self) -> PrivacyCurve:
        """The same with smaller shifts."""
        return replace(
            self,
            shifts=tuple(
                max(shift * FAINTER, min(shift, 1e-4)) for shift in self.shifts
            ),
        )

    @property
    def rounded_by(self) -> float:
        """The noise is rounded by less than 2^-49 of it, and a shift of the mean by x is no variation above x/2."""
        if self.factors() is not None:
            return self.largest_shift * NOISE_ROUNDING
        return 0.0

    def rounded_down(self) -> PrivacyCurve:
        """Where it is a step with its noise rounded down, a fainter one."""
        if self.factors() is not None:
            return self.fainter()
        return self

    @property
    def largest_shift(self) -> float:
        """The largest amount."""
        return max(self.shifts)

    @property
    def largest_loss(self) -> float:
        """Unbounded, but for the other direction of a mixture that may not move at all."""
        still = sum(
            p for shift, p in zip(self.shifts, self.probabilities) if shift == 0.0
        )
        if self.backward and still > 0.0:
            return -float(np.log(still)) * (1.0 + 1e-15) + 1e-15
        return np.inf

    @np.errstate(all="ignore")
    def _divergence(self, epsilon: Floats) -> Any:
        levels = np.asarray(epsilon, dtype=np.float64)[..., None]
        shifts = np.array(self.shifts)
        weights = np.log(np.array(self.probabilities))
        if self.backward:
            goal = -levels
        else:
            goal = levels

        def exceeds(place: Floats) -> NDArray[np.bool_]:
            loss = np.logaddexp.reduce(
                weights + shifts * (place - 0.5 * shifts), axis=-1, keepdims=True
            )
            return np.asarray(loss >= goal)

        low, high = turns(
            exceeds, np.full(levels.shape, -60.0), np.full(levels.shape, 1e5), 90
        )
        edge = 0.5 * (low + high)
        near = edge - shifts
        if self.backward:
            share = scipy.special.softmax(
                weights + shifts * (edge - 0.5 * shifts), axis=-1
            )
            terms = share * tail_less(-edge, shifts)
        else:
            terms = np.exp(weights) * tail_less(near, shifts)
        return np.where(levels[..., 0] < self.largest_loss, terms.sum(axis=-1), 0.0)


def tail_less(place: Floats, shift: Floats) -> Floats:
    """phi(x) (m(x) - m(x + shift)), m the Mills ratio: a tail less another one that starts with the same density."""
    mills = np.sqrt(np.pi / 2.0) * scipy.special.erfcx(
        np.maximum(place, -5.0) / np.sqrt(2.0)
    )
    other = np.sqrt(np.pi / 2.0) * scipy.special.erfcx((place + shift) / np.sqrt(2.0))
    density = np.exp(-0.5 * place * place) / np.sqrt(2.0 * np.pi)
    direct = scipy.special.ndtr(-place) - np.where(density > 0.0, density * other, 0.0)
    return np.asarray(np.where(place > -5.0, density * (mills - other), direct))


@dataclass(frozen=True)
class PublicChoice(PrivacyProfile):
    """One of several mechanisms, drawn with the given weights, and all are told which: deltas are averaged."""

    name: ClassVar[str] = "public-choice"
    weights: tuple[float, ...]
    parts: tuple[PrivacyCurve, ...]

    def __post_init__(self) -> None:
        store(
            self,
            "weights",
            tuple(
                number("weights", value, low=0.0, high=1.0) for value in self.weights
            ),
        )
        store(self, "parts", tuple(self.parts))
        if (
            len(self.weights) != len(self.parts)
            or not 1.0 - 1e-9 <= sum(self.weights) <= 1.0 + 1e-9
        ):
            raise ParameterError(
                "weights must be one for each part, and add up to 1. These do not."
            )
        if not all(isinstance(part, PrivacyCurve) for part in self.parts):
            raise ParameterError("parts must be privacy profiles. Got something else.")
        if len({part.neighbours for part in self.parts} - {None}) > 1:
            raise ParameterError(
                "parts must speak of the same neighbours. These do not."
            )

    @property
    def relative_error(self) -> float:
        """The largest of the parts', and of the sum."""
        return max(part.relative_error for part in self.parts) + 1e-13

    @property
    def neighbours(self) -> str | None:
        """Those of the parts."""
        kinds = (part.neighbours for part in self.parts)
        return next(filter(None, kinds), None)

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss."""
        return float(_average(self.weights, [part.infinity for part in self.parts]))

    @property
    def largest_loss(self) -> float:
        """The largest of the parts'."""
        return max(part.largest_loss for part in self.parts)

    def reversed(self) -> PublicChoice:
        """X and Y exchanged in each."""
        return PublicChoice(self.weights, tuple(part.reversed() for part in self.parts))

    @property
    def convolutions(self) -> int:
        """Those of all parts."""
        return sum(part.convolutions for part in self.parts)

    @property
    def largest_shift(self) -> float:
        """The largest of the parts'."""
        return max(part.largest_shift for part in self.parts)

    def _divergence(self, epsilon: Floats) -> Any:
        return _average(self.weights, [part.delta(epsilon) for part in self.parts])


def _average(weights: Sequence[float], values: Sequence[Any]) -> Any:
    return sum(weight * value for weight, value in zip(weights, values)) / min(
        sum(weights), 1.0
    )


@dataclass(frozen=True)
class ReplacedInSample(PoissonSubsampled):
    """A sample of which a record is replaced; `base` is the pair of one that is in it (derived: docs/math/profiles)."""

    name: ClassVar[str] = "replaced-in-sample"
    neighbours: ClassVar[str | None] = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            self.backward
            or not isinstance(self.base, PrivacyProfile)
            or self.base.reversed() != self.base
        ):
            raise ParameterError(
                "base must be a profile that is its own reverse. Got another one."
            )

    def reversed(self) -> ReplacedInSample:
        """Itself: either record may be the one replaced."""
        return self
