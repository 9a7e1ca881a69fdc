"""What a forecast of one household would be worth beside its group's, in a sentence, and whether it is of use."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from gaussveil.mechanisms.usefulness import Useful
from gaussveil.typing import Floats

SMALLEST_KEPT = 0.1  # two homes then differ in the release by less than a third of what they differ by, sqrt(0.1)


class ForecastPlan(str):
    """One sentence; `kept` is the share of the variance between `group` households that a forecast of one keeps."""

    kept: float
    group: int

    def __new__(cls, words: str, *, kept: float, group: int) -> Self:
        """From the sentence and its two numbers."""
        made = super().__new__(cls, words)
        made.kept = kept
        made.group = group
        return made

    def useful(self) -> Useful:
        """Whether a forecast of one household tells more than its group's, and what to ask instead."""
        if self.kept >= SMALLEST_KEPT:
            return Useful(
                True,
                f"useful: it keeps {self.kept:.2g} of the variance between {self.group} households",
            )
        return Useful(
            False,
            f"cannot be useful as a forecast of one household: it would keep {self.kept:.2g} of the variance between "
            f"{self.group} households. Ask instead for the group's, which costs nothing of the account; for a feeder's "
            "(MeterFleet); for a group of fewer, more similar households; or at a larger epsilon (--dial shows which)",
        )


def errors_kw(
    forecast: Floats, error: Floats, log_mean: Floats, noise: Floats
) -> tuple[float, float]:
    """Root mean squared error in kW of the plain and of the private forecast, expected over future and noise.

    Derived: the future is log-normal (forecast, error), the released power log-normal (log_mean, noise), independent.
    """
    expected = np.exp(forecast + error / 2)
    squared = np.exp(2 * forecast + 2 * error)
    plain = np.mean(squared - expected**2)
    private = np.mean(
        squared
        + np.exp(2 * log_mean + 2 * noise)
        - 2 * expected * np.exp(log_mean + noise / 2)
    )
    return math.sqrt(plain), math.sqrt(private)
