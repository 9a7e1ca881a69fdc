"""What a running total would be worth: its errors beside those of independent noise and of a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Charge
from gaussveil.mechanisms.running_total.design import TotalDesign
from gaussveil.mechanisms.usefulness import Useful, about
from gaussveil.shown import Shown

PART = 0.1  # of a total, that its error may be


@dataclass(frozen=True, eq=False, repr=False)
class TotalPlan(Shown):
    """What a running total would be like, before anything is spent; deviations of errors, in units of the readings."""

    steps: int
    total_sd: float
    """Of all totals of a run, in the mean of squares."""
    last_sd: float
    daily_sd: float | None
    """Of a day's sum late in a run; None where a run is shorter."""
    weekly_sd: float | None
    independent_sd: float
    """In the mean of squares, with independent noise on every reading."""
    tree_sd: float
    """In the mean of squares, with a binary tree."""
    charge: Charge

    def useful(self, total: float) -> Useful:
        """Whether a total about as large as that is known to a tenth; in words, from public numbers."""
        share = self.last_sd / checks.positive("total", total)
        if share <= PART:
            return Useful(
                True, f"useful: the error of the last total is {share:.2g} of it"
            )
        return Useful(
            False,
            f"cannot be useful: the error of the last total, {self.last_sd:.3g}, is {share:.2g} of it; it needs one "
            f"of about {about(self.last_sd / PART)}. Ask instead for the total of about {about(share / PART)} times as "
            "many meters, or for a longer time",
        )

    def describe(self) -> str:
        """Say it in plain text."""
        spans = (("a day", self.daily_sd), ("a week", self.weekly_sd))
        sums = "".join(
            f"; {sd:.3g} on the sum of {name}" for name, sd in spans if sd is not None
        )
        return (
            f"error {self.total_sd:.3g} on a total (root mean square), {self.last_sd:.3g} on the last of {self.steps}"
            f"{sums}; a binary tree would have {self.tree_sd:.3g}, independent noise {self.independent_sd:.3g}"
        )

    __str__ = describe

    def _facts(self) -> dict[str, str]:
        return {
            "error of a total": f"{self.total_sd:.3g}",
            "of the last": f"{self.last_sd:.3g}",
            "with a tree": f"{self.tree_sd:.3g}",
            "with independent noise": f"{self.independent_sd:.3g}",
        }


def figures(design: TotalDesign) -> TotalPlan:
    """The plan of one design."""
    unit = design.size / design.mean_shift
    steps = design.every
    return TotalPlan(
        steps=steps,
        total_sd=design.root_mean_square(),
        last_sd=design.sd(0, steps),
        daily_sd=_late(design, 24.0),
        weekly_sd=_late(design, 168.0),
        independent_sd=unit * math.sqrt(design.takes * (steps + 1) / 2),
        tree_sd=unit * tree_error(steps, design.takes, design.separation),
        charge=design.charge,
    )


def _late(design: TotalDesign, length: float) -> float | None:
    samples = round(length / design.sample_period)
    if 1 <= samples <= design.every:
        return design.sd(design.every - samples, design.every)
    return None


def tree_error(steps: int, takes: int = 1, separation: int = 1) -> float:
    """Root mean square error of totals from a binary tree's nodes, per unit of change and mean shift.

    A total is the sum of as many nodes as its number has binary ones; a record is in one node of every level a take.
    """
    squares = 0.0
    for level in range(1 + math.ceil(math.log2(steps))):
        inside = min(takes, -(-min(1 << level, steps) // separation))
        full, rest = divmod(takes, inside)
        squares += full * inside**2 + rest**2
    ones = float(np.mean([number.bit_count() for number in range(1, steps + 1)]))
    return math.sqrt(squares * ones)
