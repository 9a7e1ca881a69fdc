"""The stored form of steps on batches of a fixed size, which also bounds replaced records in random batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.spectrum.arguments import epsilon_array
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR
from gaussveil.spectrum.enclosures.interval import UNDERFLOW, Enclosure, stacked
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.named_profile import PrivacyProfile, number, store
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.poisson_subsampled import PoissonSubsampled
from gaussveil.spectrum.subsampled.step import STORED_RATE, Step
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
        store(
            self,
            "noise_multiplier",
            number("noise_multiplier", self.noise_multiplier, low=1e-2, high=1e6),
        )
        store(self, "rate", number("rate", self.rate, low=STORED_RATE, high=1.0))

    def _divergence(self, epsilon: Floats) -> Any:
        shift = 2.0 / self.noise_multiplier * (1.0 + 1e-15)
        return PoissonSubsampled(GaussianPair.mean_shift(shift), self.rate).delta(
            epsilon
        )

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta in balls: that of a step whose noise is half as large, as the record moves twice as far."""
        from gaussveil.spectrum.subsampled.ball_single import enclose_single

        levels = epsilon_array(epsilon, np.zeros(()))
        if self.rate == 1.0:
            return GaussianPair.mean_shift(
                2.0 / self.noise_multiplier * (1.0 + 1e-15)
            ).enclose(levels[()])
        step = Step(0.5 * self.noise_multiplier, self.rate)
        return stacked(
            [enclose_single(step, float(level)) for level in np.ravel(levels)],
            levels.shape,
        )

    def dp_delta_upper(self, epsilon: float) -> float:
        """Delta at one epsilon, from above."""
        return min(float(self.enclose(epsilon).upper) + UNDERFLOW, 1.0)

    def least_factors(self) -> tuple[Factors, ...]:
        """Two pairs of data sets: all other records equal the one replaced, which moves the sum by 2; or all are 0."""
        nearer = Step(0.5 * self.noise_multiplier, self.rate)
        apart = Step(self.noise_multiplier, self.rate, replace=True)
        return Factors(steps=((nearer, 1),)), Factors(steps=((apart, 1),))

    @property
    def largest_shift(self) -> float:
        """The mean shift of a record that is in the batch."""
        return 2.0 / self.noise_multiplier * (1.0 + 1e-12)
