"""`GroupCurve`: the privacy of a group of records, from the curve of one (derived: docs/math/profiles).

If no test of neighbours has a true-positive rate above g at a false-positive rate, none of data sets that k records
apart lie between has one above g applied k times. g is the least of the lines delta + e^epsilon x and, as either
direction may come first, of 1 - e^-epsilon (1 - delta - x), and of 1: any set of epsilons gives an upper end.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gaussveil.checks import whole
from gaussveil.errors import ParameterError
from gaussveil.spectrum.constants import ROUNDED_UP
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Floats

LEVELS = 400  # epsilons at which the curve of one record is looked at
SMALLEST = 1e-18  # of its deltas
SLACK = 1.001  # of the probability of infinite losses: where the curve comes as near to it, nothing else is left
FARTHEST = 600.0
AT_A_TIME = 256  # epsilons that are compared with all corners
MOST_MEMBERS = 1000


class GroupCurve(PrivacyCurve):
    """An upper end of the curve of any two data sets that differ in `members` records, from that of one record."""

    def __init__(self, curve: PrivacyCurve, members: int) -> None:
        if curve.batch_shape:
            raise ParameterError(
                "groups are known of one curve at a time. Got a batch of label edges."
            )
        self.curve = curve
        self.members = whole("members", members, f"[1, {MOST_MEMBERS}]")

    def _brief(self) -> dict[str, str]:
        return {"members": str(self.members)}

    @property
    def neighbours(self) -> str | None:
        """Those of the curve."""
        return self.curve.neighbours

    @property
    def infinity(self) -> float:
        """What a test reaches that never accuses wrongly."""
        return float(self._corners[1][0])

    @property
    def largest_loss(self) -> float:
        """Of pure losses as many as there are members."""
        sides = (self.curve, self.curve.reversed())
        return max(side.largest_loss for side in sides) * self.members * ROUNDED_UP

    def reversed(self) -> GroupCurve:
        """Itself: it speaks of the worse direction."""
        return self

    def affordable_nodes(self, work: float) -> float:
        """A few thousand, each of which looks at all corners."""
        return 2**11

    def _divergence(self, epsilon: Floats) -> Any:
        rates, corners = self._corners
        levels = np.ravel(epsilon)
        best = np.empty(levels.size)
        for start in range(0, levels.size, AT_A_TIME):
            block = levels[start : start + AT_A_TIME]
            weight = np.exp(np.minimum(block, 700.0))[:, None]
            best[start : start + AT_A_TIME] = np.max(corners - weight * rates, axis=1)
        best = np.maximum(best, corners[0])
        best[levels >= self.largest_loss] = corners[0]
        return np.reshape(best, np.shape(epsilon))

    @cached_property
    def _corners(self) -> tuple[Floats, Floats]:
        """False-positive rates and upper ends of the true-positive rates there; between them lines are above."""
        rates, first = self._of_one
        x, y = rates, first
        for _ in range(self.members - 1):
            # Where what was found so far meets a corner.
            reached = np.interp(rates, y, x)
            places = np.unique(np.concatenate([x, reached]))
            meeting = np.interp(places, x, y)
            x = places
            y = np.minimum(np.interp(meeting, rates, first) * ROUNDED_UP, 1.0)
        return x, y

    @cached_property
    def _of_one(self) -> tuple[Floats, Floats]:
        """Corners of the least of the lines, for one record."""
        ahead = self.curve
        smallest = min(max(SMALLEST, SLACK * self._surely), 1.0)
        reach = float(np.max(ahead.dp_epsilon(smallest)))
        reach = min(max(reach, 1e-9), FARTHEST)
        levels = reach * np.linspace(0.0, 1.0, LEVELS) ** 1.5
        sides = {id(side): side for side in (ahead, ahead.reversed())}.values()
        deltas = np.max(
            [
                np.asarray(side.delta(levels)) * (1.0 + side.relative_error)
                for side in sides
            ],
            axis=0,
        )
        deltas = np.minimum(deltas * ROUNDED_UP, 1.0)
        grown = np.exp(levels)
        # The last line is that of 1, which all tests are below: others reach it before they end.
        slopes = np.concatenate([grown[::-1], 1.0 / grown[1:], [0.0]])
        missing = (1.0 - deltas[1:]) / grown[1:]
        starts = np.concatenate([deltas[::-1], 1.0 - missing, [1.0]])
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.diff(starts) / -np.diff(slopes)
        rates = np.clip(rates, 0.0, 1.0)
        rates = np.maximum.accumulate(np.nan_to_num(rates))
        values = np.maximum(
            starts[:-1] + slopes[:-1] * rates, starts[1:] + slopes[1:] * rates
        )
        rates = np.concatenate([[0.0], rates, [1.0]])
        values = np.concatenate([[starts[0]], values, [1.0]])
        values = np.minimum(np.maximum.accumulate(values) * ROUNDED_UP, 1.0)
        kept = np.append(np.diff(rates) > 0.0, True)
        kept[0] = True
        return rates[kept], values[kept]

    @property
    def _surely(self) -> float:
        sides = (self.curve, self.curve.reversed())
        return max(side.infinity for side in sides)
