"""Steps on batches that every record is in: plain Gaussian noise."""

from __future__ import annotations

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.subsampled.step import Step


def surely_drawn(step: Step, count: int) -> PrivacyLoss:
    """The mean shift of such steps, rounded up; twice as far where a record is replaced."""
    energy = 1.0 / step.noise_multiplier**2
    if step.replace:
        energy = 4.0 / step.noise_multiplier**2
    energy *= 1.0 + 4.0 * UNIT_ROUNDOFF
    return PrivacyLoss.from_terms([0.0], [1.0], [energy]) ** count
