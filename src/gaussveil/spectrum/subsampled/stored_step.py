"""The profile that an account keeps of a step on random batches."""

from __future__ import annotations

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.poisson_subsampled import PoissonSubsampled
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.step import Step


def stored(step: Step) -> PoissonSubsampled | FixedSizeBatch:
    """The step as a profile, whose shift is rounded up; of a replaced record a bound of both directions."""
    if step.replace:
        return FixedSizeBatch(step.noise_multiplier, step.sampling_rate)
    shift = 1.0 / step.noise_multiplier * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return PoissonSubsampled(
        GaussianPair.mean_shift(shift), step.sampling_rate, step.backward
    )
