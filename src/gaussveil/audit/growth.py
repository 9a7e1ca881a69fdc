"""The most that a claim lets the probability of an event grow to when one canary comes or goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from gaussveil import checks
from gaussveil.accounting.accountant import Accountant
from gaussveil.errors import ParameterError
from gaussveil.spectrum import PrivacyCurve
from gaussveil.typing import Floats

Claimed: TypeAlias = tuple[float, float] | Accountant | PrivacyCurve
GRID = 0.1  # steps of the epsilons at which a claim's curve is asked
LARGEST_EPSILON = 60.0
ROUNDED_UP = 1.0 + 1e-9  # more than the recursion's rounding


class Growth(Protocol):
    """F(x): the most that an event of probability x grows to under a claim."""

    def least_before(self) -> Callable[[float], float]:
        """The inverse x(a), the least probability that can grow to a; to be asked for growing a."""
        ...


@dataclass(frozen=True)
class ShiftGrowth:
    """Of a mean shift: F(x) = Phi(Phi^-1(x) + shift)."""

    shift: float

    def least_before(self) -> Callable[[float], float]:
        """Phi(Phi^-1(a) - shift), a little less."""

        def inverse(grown: float) -> float:
            return float(ndtr(ndtri(min(grown, 1.0)) - self.shift)) * (1.0 - 1e-13)

        return inverse


@dataclass(frozen=True)
class LineGrowth:
    """F(x) = min over lines of (slope x + start), the steepest line first."""

    slopes: Floats
    starts: Floats

    @classmethod
    def of_pair(cls, epsilon: float, delta: float) -> LineGrowth:
        """Of (epsilon, delta): the line itself and that of the complements of events."""
        shrunk = math.exp(-epsilon)
        return cls(
            np.array([math.exp(epsilon), shrunk]),
            np.array([delta, 1.0 - shrunk * (1.0 - delta)]),
        )

    @classmethod
    def of_curve(cls, delta: Callable[[float], float]) -> LineGrowth:
        """Of upper ends of delta, the worse direction of each epsilon."""
        lines = []
        for epsilon in np.arange(0.0, LARGEST_EPSILON, GRID).tolist():
            upper = min(delta(epsilon), 1.0)
            lines.append(cls.of_pair(epsilon, upper))
            if upper < 1e-14:
                break
        slopes = np.concatenate([line.slopes for line in lines])
        starts = np.concatenate([line.starts for line in lines])
        order = np.argsort(-slopes, kind="stable")
        return cls(slopes[order], starts[order])

    def least_before(self) -> Callable[[float], float]:
        """The largest of the lines (a - start)/slope, of which ever steeper ones count as a grows."""
        steepness, starts, ends = self._envelope()
        place = 0

        def inverse(grown: float) -> float:
            nonlocal place
            while grown > ends[place]:
                place += 1
            return max((grown - starts[place]) * steepness[place], 0.0)

        return inverse

    def _envelope(self) -> tuple[list[float], list[float], list[float]]:
        """The lines that are somewhere the largest, by growing steepness, and where the next one overtakes each."""
        order = np.lexsort((self.starts, -self.slopes))
        slopes, first = np.unique(-self.slopes[order], return_index=True)
        steepness: list[float] = []
        starts: list[float] = []
        ends: list[float] = []
        for steep, start in zip(
            (-1.0 / slopes).tolist(), self.starts[order][first].tolist()
        ):
            meeting = -math.inf
            while steepness:
                meeting = (steep * start - steepness[-1] * starts[-1]) / (
                    steep - steepness[-1]
                )
                if not ends or meeting > ends[-1]:
                    break
                steepness.pop()
                starts.pop()
                ends.pop()
            if steepness:
                ends.append(meeting)
            steepness.append(steep)
            starts.append(start)
        return steepness, starts, [*ends, math.inf]


def growth_of(claim: Claimed) -> tuple[Growth, list[tuple[float, float]]]:
    """What a claim lets grow, and pairs (epsilon, delta) that it implies."""
    if isinstance(claim, tuple):
        if len(claim) != 2:
            raise ParameterError(
                f"'claim' must be (epsilon, delta), an Accountant or a privacy curve. Got {claim!r}."
            )
        epsilon = checks.epsilon(claim[0])
        delta = checks.real("delta", claim[1], "[0, 1]")
        return LineGrowth.of_pair(epsilon, delta), [(epsilon, delta)]
    asked: Callable[[float], Any]
    if isinstance(claim, Accountant):
        asked = claim.delta
    elif isinstance(claim, PrivacyCurve):
        asked = claim.dp_delta_upper
    else:
        raise ParameterError(
            f"'claim' must be (epsilon, delta), an Accountant or a privacy curve. Got {claim!r}."
        )
    return LineGrowth.of_curve(lambda epsilon: float(np.max(asked(epsilon)))), []
