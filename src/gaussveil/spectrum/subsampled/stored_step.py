"""The profile that an account keeps of a step on random batches, and the last grid, which is made of such profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.poisson_subsampled import PoissonSubsampled
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.step import Step

LAST_BINS = 2**18  # of the last grid, which answers within a second or two
Counted = Sequence[tuple[Any, int]]


def stored(step: Step) -> PoissonSubsampled | FixedSizeBatch:
    """The step as a profile, whose shift is rounded up; of a replaced record a bound of both directions."""
    if step.replace:
        return FixedSizeBatch(step.noise_multiplier, step.sampling_rate)
    shift = 1.0 / step.noise_multiplier * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return PoissonSubsampled(
        GaussianPair.mean_shift(shift), step.sampling_rate, step.backward
    )


def last_grid(
    steps: Counted, gaussian: PrivacyCurve | None, laws: Counted
) -> PrivacyCurve:
    """A pessimistic composition of steps, a Gaussian loss and laws."""
    parts: list[tuple[Any, int]] = [(stored(step), count) for step, count in steps]
    if gaussian is not None:
        parts.append((gaussian, 1))
    parts += laws
    items = [curve for curve, _ in parts]
    counts = [count for _, count in parts]
    return compose_pessimistic(items, counts, max_bins=LAST_BINS)
