"""An upper end of delta(0) that costs nothing: total variation distances add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.step import Step


def variation(
    steps: Sequence[tuple[Step, int]],
    gaussian: PrivacyLoss | None,
    laws: Sequence[tuple[PrivacyCurve, int]],
) -> float:
    """The sum of the steps' total variation distances, the pair's and the laws'."""
    found = []
    for step, count in steps:
        apart = (2.0 if step.replace else 1.0) / step.noise_multiplier
        found.append(step.sampling_rate * count * math.erf(apart / math.sqrt(8.0)))
    if gaussian is not None:
        found.append(float(gaussian.enclose(0.0).upper))
    for law, count in laws:
        found.append(float(law.delta(0.0)) * (1.0 + law.relative_error) * count)
    return math.fsum(found) * (1.0 + 16.0 * UNIT_ROUNDOFF)
