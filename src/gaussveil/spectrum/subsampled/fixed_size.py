"""The stored form of steps on batches of a fixed size, which also bounds replaced records in random batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.profiles import PoissonSubsampled, PrivacyProfile, _number, _set
from gaussveil.typing import Floats


@dataclass(frozen=True)
class FixedSizeBatch(PrivacyProfile):
    """Gaussian noise on the sum over a batch of a fixed size, drawn without replacement; one record is replaced.

    With q the batch's share of all records and (P, Q) the pair of a replaced record in the batch, whose means are 2
    apart, H_a <= q H_{(a-1+q)/q}(P||Q) for a >= 1 in both directions (Balle, Barthe, Gaboardi 2018, Theorem 9). It also
    holds for a Poisson-sampled batch of rate q, by advanced joint convexity (ibid., Theorem 2).
    """

    name: ClassVar[str] = "fixed-size-batch"
    neighbours: ClassVar[str | None] = "replace"
    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _set(self, "noise_multiplier", _number("noise_multiplier", self.noise_multiplier, low=1e-2, high=1e6))
        _set(self, "rate", _number("rate", self.rate, low=1e-9, high=1.0))

    def _divergence(self, epsilon: Floats) -> Any:
        shift = 2.0 / self.noise_multiplier * (1.0 + 1e-15)
        return PoissonSubsampled(GaussianPair.mean_shift(shift), self.rate).delta(epsilon)
