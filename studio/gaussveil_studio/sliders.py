"""How far the sliders of Explore reach, and which of them stand for a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gaussveil.spectrum import PrivacyLoss

MOST_COORDINATES = 64
LARGEST_RATIO = 1e3
LARGEST_SHIFT = 50.0


def coordinates(loss: PrivacyLoss) -> dict[str, Any] | None:
    """The sliders that stand for a loss; None where it is beyond them or has too many coordinates for a link."""
    gap = np.asarray(loss.variance_gap)
    energy = np.asarray(loss.energy)
    counts = np.asarray(loss.multiplicity)
    if gap.ndim != 1 or np.any(counts != 1) or not 1 <= len(gap) <= MOST_COORDINATES:
        return None
    ratio = 1.0 - gap
    shift = np.sqrt(energy)
    if not np.all(
        (ratio >= 1.0 / LARGEST_RATIO)
        & (ratio <= LARGEST_RATIO)
        & (shift <= LARGEST_SHIFT)
    ):
        return None
    return {"variance_ratio": ratio.tolist(), "mean_shift": shift.tolist(), "times": 1}
