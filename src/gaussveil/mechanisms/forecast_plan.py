"""What a forecast of one household would be worth beside its group's, in a sentence, and whether it is of use."""

from __future__ import annotations

from typing import Self

from gaussveil.mechanisms.usefulness import Useful

SMALLEST_KEPT = 0.1  # two homes then differ in the release by less than a third of what they differ by, sqrt(0.1)


class ForecastPlan(str):
    """One sentence; `kept` is the share of the variance between `group` households that a forecast of one keeps."""

    kept: float
    group: int

    def __new__(cls, words: str, *, kept: float, group: int) -> Self:
        """From the sentence and its two numbers."""
        made = super().__new__(cls, words)
        made.kept, made.group = kept, group
        return made

    def useful(self) -> Useful:
        """Whether a forecast of one household tells more than its group's, and what to ask instead."""
        if self.kept >= SMALLEST_KEPT:
            return Useful(True, f"useful: it keeps {self.kept:.2g} of the variance between {self.group} households")
        return Useful(
            False,
            f"cannot be useful as a forecast of one household: it would keep {self.kept:.2g} of the variance between "
            f"{self.group} households. Ask instead for the group's, which costs nothing of the account; for a feeder's "
            "(MeterFleet); for a group of fewer, more similar households; or at a larger epsilon (--dial shows which)",
        )
