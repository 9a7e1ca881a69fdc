"""The stored form of steps on batches of a fixed size, which also bounds replaced records in random batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR, UNIT
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
    relative_error: ClassVar[float] = 2.0 * LOSS_RELATIVE_ERROR
    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _set(self, "noise_multiplier", _number("noise_multiplier", self.noise_multiplier, low=1e-2, high=1e6))
        _set(self, "rate", _number("rate", self.rate, low=1e-9, high=1.0))

    def _divergence(self, epsilon: Floats) -> Any:
        shift = 2.0 / self.noise_multiplier * (1.0 + 1e-15)
        return PoissonSubsampled(GaussianPair.mean_shift(shift), self.rate).delta(epsilon)

    def ends(self, epsilon: float) -> tuple[float, float]:
        """Rigorous ends of delta, but for what underflows."""
        less, more = (GaussianPair.mean_shift(2.0 / self.noise_multiplier * (1.0 + e)) for e in (-1e-15, 1e-15))
        level = float(PoissonSubsampled(less, self.rate).shifted(epsilon))
        low, high = float(less.enclose(level * (1.0 + 24.0 * UNIT)).lower), float(more.enclose(level).upper)
        return self.rate * low * (1.0 - 4.0 * UNIT), self.rate * high * (1.0 + 4.0 * UNIT)
