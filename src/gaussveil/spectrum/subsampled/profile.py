"""The stored form of steps on random batches in which one record is replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.named_profile import PrivacyProfile, number, store
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import STORED_RATE, Step
from gaussveil.typing import Floats


@dataclass(frozen=True)
class ReplacedInBatch(PrivacyProfile):
    """Gaussian noise on the sum over a Poisson-sampled batch; one record of norm at most 1 is replaced by another.

    The pair is (1-q) N(0, s^2) + q N(1, s^2) against the same with N(-1, s^2) (Lebeda, Regehr, Kamath, Steinke 2024).
    """

    name: ClassVar[str] = "poisson-subsampled-replace"
    neighbours: ClassVar[str | None] = "replace"
    relative_error: ClassVar[float] = 0.0  # values are upper ends
    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        store(
            self,
            "noise_multiplier",
            number("noise_multiplier", self.noise_multiplier, low=1e-2, high=1e6),
        )
        store(self, "rate", number("rate", self.rate, low=STORED_RATE, high=1.0))

    @property
    def step(self) -> Step:
        """The step that it stands for."""
        return Step(self.noise_multiplier, self.rate, replace=True)

    def factors(self) -> Factors:
        """That step."""
        return Factors(steps=((self.step, 1),))

    @property
    def largest_shift(self) -> float:
        """The mean shift of a record that takes part."""
        return 2.0 / self.noise_multiplier * (1.0 + 1e-12)

    def _divergence(self, epsilon: Floats) -> Any:
        return _once(self.step).delta(epsilon)


@lru_cache(maxsize=64)
def _once(step: Step) -> SubsampledLoss:
    return SubsampledLoss([(step, 1)])
