"""The stored form of steps on random batches in which one record is replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from gaussveil.spectrum.profiles import PrivacyProfile, _number, _set
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step
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
        _set(self, "noise_multiplier", _number("noise_multiplier", self.noise_multiplier, low=1e-2, high=1e6))
        _set(self, "rate", _number("rate", self.rate, low=1e-9, high=1.0))

    def _divergence(self, epsilon: Floats) -> Any:
        return _once(Step(self.noise_multiplier, self.rate, replace=True)).delta(epsilon)


@lru_cache(maxsize=64)
def _once(step: Step) -> SubsampledLoss:
    return SubsampledLoss([(step, 1)])
