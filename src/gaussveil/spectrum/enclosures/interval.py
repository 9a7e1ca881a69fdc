"""Intervals of doubles around a probability, rounded outwards from Arb balls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from flint import arb

Ends = Any  # a float, or an array of floats for a batch


UNDERFLOW = (
    2.0**-1060
)  # above what steps that leave the range of doubles take off a delta


@dataclass(frozen=True)
class Enclosure:
    """A closed interval around delta, or arrays of such ends; the logs go on where doubles underflow.

    `proven` tells whether both ends are proven: every rounding is counted, as in ball arithmetic, so that delta surely
    lies between them. Otherwise they were computed in doubles whose errors are estimated.

    Args:
        lower, upper: ends of delta.
        log_lower, log_upper: their logarithms.
        proven: whether both ends are.

    >>> from gaussveil import Laplace
    >>> ends = Laplace(1.0).enclose(0.5)
    >>> bool(ends.lower <= Laplace(1.0).delta(0.5) <= ends.upper), ends.proven
    (True, True)
    """

    lower: Ends
    upper: Ends
    log_lower: Ends
    log_upper: Ends
    proven: bool = True

    @classmethod
    def of(cls, lower: Ends, upper: Ends, *, proven: bool) -> Enclosure:
        """The interval between two ends, whose logarithms are taken here.

        Args:
            lower, upper: the ends.
            proven: whether both are.

        Returns:
            The interval, an array of them for arrays of ends.
        """
        with np.errstate(divide="ignore"):
            log_lower = np.log(lower)[()]
            log_upper = np.log(upper)[()]
        return cls(
            np.asarray(lower)[()], np.asarray(upper)[()], log_lower, log_upper, proven
        )

    @property
    def relative_width(self) -> Ends:
        """(upper - lower) / upper, from the logs; 0 for an interval of one point."""
        same = np.equal(self.log_lower, self.log_upper)
        with np.errstate(invalid="ignore"):
            return np.where(
                same, 0.0, -np.expm1(np.subtract(self.log_lower, self.log_upper))
            )[()]

    def larger(self, other: Enclosure) -> Enclosure:
        """Around the larger of two numbers, each between its ends.

        Args:
            other: the other number's interval.

        Returns:
            The interval from the larger lower to the larger upper end; proven where both are.
        """
        ends = {
            end: np.maximum(getattr(self, end), getattr(other, end))[()] for end in ENDS
        }
        return Enclosure(**ends, proven=self.proven and other.proven)


ENDS = ("lower", "upper", "log_lower", "log_upper")
ZERO = Enclosure(0.0, 0.0, -math.inf, -math.inf)
UNKNOWN = Enclosure(0.0, 1.0, -math.inf, 0.0)


def stacked(places: Sequence[Enclosure], shape: tuple[int, ...]) -> Enclosure:
    """Enclosures of many places as one, with arrays of ends; plain ends where there is one place alone."""
    ends = {
        end: np.reshape(np.array([getattr(place, end) for place in places]), shape)[()]
        for end in ENDS
    }
    return Enclosure(**ends, proven=all(place.proven for place in places))


def exp_up(log: Any) -> Any:
    """e^log, rounded up from logs that are upper ends; above 0 wherever the log is finite, at most 1."""
    raised = np.nextafter(np.nextafter(np.exp(log), np.inf), np.inf)
    return np.where(np.isneginf(log), 0.0, np.minimum(raised, 1.0))[()]


def log_down(probability: float) -> float:
    """log of a probability above 0, so much below it that `exp_up` does not exceed the probability."""
    log = math.log(probability)
    return log - 2.0**-50 * (1.0 - log)


def outward(value: arb, *, up: bool) -> float:
    """A double on the given side of every point of the ball."""
    from flint import arb  # only where there are balls

    if up:
        edge = value.upper()
    else:
        edge = value.lower()
    guess = float(edge.mid())
    if math.isinf(guess) or math.isnan(guess):
        if up:
            return math.inf
        return -math.inf
    for _ in range(4):
        if (arb(guess) >= value) if up else (arb(guess) <= value):
            return guess
        guess = math.nextafter(guess, math.inf if up else -math.inf)
    if up:
        return math.inf
    return -math.inf


def from_log(log_upper: arb) -> Enclosure:
    """Interval from 0 up to e^log_upper."""
    from flint import arb

    top = min(outward(log_upper, up=True), 0.0)
    upper = min(outward(arb(top).exp(), up=True), 1.0)
    return Enclosure(0.0, upper, -math.inf, top)


def from_scaled(scaled: arb, level: arb) -> Enclosure:
    """Interval of scaled * e^level, within [0, 1]."""
    if not scaled > 0:
        return from_log(scaled.abs_upper().log() + level)
    log_value = scaled.log() + level
    value = scaled * level.exp()
    lower = min(max(outward(value, up=False), 0.0), 1.0)
    upper = min(outward(value, up=True), 1.0)
    return Enclosure(
        lower,
        upper,
        min(outward(log_value, up=False), 0.0),
        min(outward(log_value, up=True), 0.0),
    )


def intersection(one: Enclosure, other: Enclosure) -> Enclosure:
    """What two intervals around one number have in common; proven if each of its ends is that of a proven one."""
    if one.log_lower >= other.log_lower:
        lower_from = one
    else:
        lower_from = other
    if one.log_upper <= other.log_upper:
        upper_from = one
    else:
        upper_from = other
    return Enclosure(
        max(one.lower, other.lower),
        min(one.upper, other.upper),
        lower_from.log_lower,
        upper_from.log_upper,
        proven=lower_from.proven and upper_from.proven,
    )
