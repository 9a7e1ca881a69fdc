"""The passes of one fit in their order, and what they may spend: the same for every data set."""

from __future__ import annotations

from collections.abc import Sequence

from gaussveil import checks
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.budget import CAPS, RADIUS_BINS
from gaussveil.mechanisms.mixture.clusters import STEPS, find_clusters
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.stages import Guess, run_stages
from gaussveil.mechanisms.noisy_sums import ROUNDING_SHIFT, SAMPLER_RESERVE
from gaussveil.mechanisms.release_path import Promise
from gaussveil.typing import Floats

ROUNDING_RESERVE = 1 - 2.0**-40  # for the rounding of certified deltas and of the stages' scales


def sampler_error(classes: int, dimension: int) -> float:
    """Total variation of all draws of a fit; each pass checks its own part against the same reserve."""
    moments = 1 + dimension + dimension * (dimension + 1) // 2
    labelled = 1 + dimension + RADIUS_BINS + max(CAPS) * moments
    return SAMPLER_RESERVE * (classes * (labelled + STEPS * (1 + dimension)) + labelled)


def allowed_shift(promise: Promise, classes: int, dimension: int, rows_per_unit: int = 1) -> float:
    """The mean shift that a promise allows one unit over all passes together."""
    shift = mean_shift_for(promise.epsilon, promise.ideal_delta(sampler_error(classes, dimension), ROUNDING_RESERVE))
    if shift <= 4 * ROUNDING_SHIFT:
        raise ParameterError(f"epsilon and delta allow a mean shift of {shift:.3g} only: raise them.")
    if shift <= 4 * ROUNDING_SHIFT * rows_per_unit:
        checks.refuse("rows_per_unit", "smaller: so many rows leave nothing to each", rows_per_unit)
    return shift


def for_stages(mean_shift: float) -> float:
    """What the stages may use: rounding to the lattice takes the rest."""
    return (mean_shift - ROUNDING_SHIFT) * ROUNDING_RESERVE


def staged(
    passes: PrivatePasses,
    classes: int,
    mean_shift: float,
    radius: float,
    middle: Floats,
    nominal_size: int | None,
    shares: Sequence[float] | None = None,
) -> Guess:
    """Clusters first where there are several and no labels, then the stages; `mean_shift` is what a record may lose."""
    left = for_stages(mean_shift)
    start = None
    if passes.group is None and classes > 1:
        start, left = find_clusters(
            passes, classes, mean_shift=left, radius=radius, middle=middle, nominal_size=nominal_size
        )
    return run_stages(
        passes, mean_shift=left, radius=radius, middle=middle, nominal_size=nominal_size, start=start, shares=shares
    )
