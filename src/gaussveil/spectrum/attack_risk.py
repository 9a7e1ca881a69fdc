"""What a privacy curve means to an attacker who tells two neighbouring data sets apart.

All follows from delta in both directions: the best test of Y against X that accuses Y wrongly with probability a misses
X with probability f(a) = max over epsilon of 1 - delta(epsilon) - e^epsilon a (Dong, Roth, Su 2022, Proposition 2.12).
Any epsilon gives a value that is not above f, so a coarse search errs on the safe side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import scipy

from gaussveil.errors import ParameterError
from gaussveil.shown import Shown
from gaussveil.spectrum import contour
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Floats

FALSE_POSITIVES = np.concatenate([np.geomspace(1e-6, 0.05, 4), np.linspace(0.1, 0.5, 4)])  # where regret is sought
ROUNDING = 2.0**-50  # of a bound of the trade-off, which is below 1 with all of its terms
HIGHEST = 12.0  # log of the largest mean shift that is looked for
GRID = np.linspace(0.0, 1.0, 65) ** 2


class GaussianDP(NamedTuple):
    """A mu whose Gaussian curve lies above, and the most it overstates a true-positive rate by where sought."""

    mu: float
    regret: float


class AttackRisk(Shown, ABC):
    """Risks that follow from both directions of a privacy curve."""

    @abstractmethod
    def delta(self, epsilon: Any) -> Any:
        """Divergence of X from Y at each epsilon >= 0."""

    @abstractmethod
    def epsilon(self, delta: Any) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`."""

    @abstractmethod
    def reversed(self) -> AttackRisk:
        """The same pair with X and Y exchanged."""

    def __add__(self, other: Any) -> Any:
        """The curve of both together."""
        from gaussveil.spectrum import composed

        return composed([(self, 1), (other, 1)]) if isinstance(other, AttackRisk) else NotImplemented

    def __mul__(self, count: int) -> Any:
        """The same as ``**`` of losses, as charges are repeated."""
        from gaussveil.spectrum import composed

        return composed([(self, count)])

    __rmul__ = __mul__

    @abstractmethod
    def tradeoff(self, type_one_error: Any) -> Any:
        """Smallest type II error of a test of Y against X at the given type I error."""

    def advantage(self) -> Any:
        """Largest true-positive rate less false-positive rate of any attack: delta(0), the total variation."""
        return np.maximum(self.delta(0.0), self.reversed().delta(0.0))[()]

    def true_positive_rate(self, false_positive_rate: Any) -> Any:
        """Largest true-positive rate of any attack with the given false-positive rate, in the worse direction."""
        missed = np.minimum(self.tradeoff(false_positive_rate), self.reversed().tradeoff(false_positive_rate))
        return (1.0 - missed)[()]

    def mu(self, smallest_delta: float = 1e-10) -> GaussianDP:
        """A mu such that mu-Gaussian differential privacy has no smaller delta wherever delta is not negligible.

        A mixture's far tail is that of the noise alone: over all of it only the mu without sampling would do. The curve
        is therefore compared down to `smallest_delta`. The regret is the largest of eight gaps of true-positive rates.
        """
        if not 0.0 < smallest_delta < 1.0:
            raise ParameterError(f"smallest_delta must be strictly between 0 and 1. Got {smallest_delta!r}.")
        if getattr(self, "batch_shape", ()):
            raise ParameterError("mu is known of one pair at a time. Got a batch of label edges.")
        if not np.any(getattr(self, "variance_gap", 1.0)):
            return GaussianDP(math.sqrt(math.fsum(getattr(self, "energy", ()))) * (1.0 + 1e-15), 0.0)
        largest = max(_largest_shift(side, float(side.epsilon(smallest_delta))) for side in (self, self.reversed()))
        gaussian = scipy.special.ndtr(scipy.special.ndtri(FALSE_POSITIVES) + largest)
        return GaussianDP(largest, max(float(np.max(gaussian - self.true_positive_rate(FALSE_POSITIVES))), 0.0))


@np.errstate(all="ignore")
def _largest_shift(side: AttackRisk, reach: float) -> float:
    """A mean shift, rounded up, whose delta is nowhere below the side's at epsilons up to the reach.

    As functions of e^epsilon both are convex: one is below its chords, on which the other, of slope
    -Phi(-epsilon/mu - mu/2), comes down most where their slopes are equal, or at an end.
    """
    if reach == math.inf:  # losses are infinite with more than the smallest delta, which no mean shift has
        return math.inf
    levels = reach * np.linspace(0.0, 1.0, 129) ** 2
    deltas = np.asarray(side.delta(levels), dtype=np.float64) * (1.0 + getattr(side, "relative_error", 1e-9))
    first, start = levels[:-1], np.minimum(deltas[:-1], 1.0 - 1e-12)
    width, fall = np.maximum(np.expm1(np.diff(levels)), 1e-300), np.maximum(start - deltas[1:], 0.0)
    slope = scipy.special.ndtri_exp(np.log(fall / width) - first)
    low, high = np.full(first.size, -18.0), np.full(first.size, HIGHEST)
    for _ in range(52):
        mu = np.exp(0.5 * (low + high))
        place = np.clip(np.nan_to_num(-mu * (slope + 0.5 * mu)), first, levels[1:])
        flat = np.zeros((first.size, 1))
        value, _, error = contour.log_delta(Terms.from_gaps(flat, flat + 1.0, (mu * mu)[:, None]), place)
        reached = value - error >= np.log(start - fall * np.expm1(place - first) / width)  # not so without an answer
        low, high = np.where(reached, low, np.log(mu)), np.where(reached, np.log(mu), high)
    largest = float(np.max(high))
    return math.exp(largest) * (1.0 + 1e-12) if largest < HIGHEST else math.inf


def tradeoff_of(curve: AttackRisk, type_one_error: Floats) -> Floats:
    """f at each error by a search over epsilon in both directions: never above the truth, close below it."""
    levels = np.ravel(type_one_error)
    smallest = 1e-3 * float(np.min(levels, initial=1.0))
    best = np.zeros(levels.size)
    for side, ahead in ((curve, True), (curve.reversed(), False)):
        grid = max(min(float(side.epsilon(max(smallest, 1e-12))), 700.0), 1e-9) * GRID
        deltas = np.asarray(side.delta(grid), dtype=np.float64)
        for index, level in enumerate(levels):
            found = _bound(grid, deltas, float(level), ahead)
            points = grid
            for _ in range(2):
                place = int(np.argmax(found))
                points = np.linspace(points[max(place - 1, 0)], points[min(place + 1, points.size - 1)], 17)
                found = _bound(points, np.asarray(side.delta(points), dtype=np.float64), float(level), ahead)
            best[index] = max(best[index], float(np.max(found)))
    return np.reshape(np.clip(best, 0.0, 1.0 - levels), np.shape(type_one_error))


def _bound(epsilon: Floats, delta: Floats, level: float, ahead: bool) -> Floats:
    """1 - delta(epsilon) - e^epsilon level, or the same at -epsilon from the other direction's delta."""
    weight = np.exp(epsilon)
    return np.asarray(1.0 - delta - weight * level if ahead else (1.0 - delta - level) / weight) - ROUNDING
