"""The trade-off at a single error: by the epsilon at which delta falls as fast as the line that touches it.

f(a) = max over epsilon of 1 - delta(epsilon) - e^epsilon a, or, of the other direction's delta, of
e^-epsilon (1 - a - delta(epsilon)). Either is highest where its slope is 0, in one direction or the other; both slopes
fall, and a root of them is found with a few evaluations where a search over epsilons takes 150. Any epsilon is sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.attack_risk import TRADEOFF_ROUNDING
from gaussveil.spectrum.enclosures.interval import exp_up
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.sweep import Evaluate
from gaussveil.typing import Floats

TOUCHED = 1e-5  # log of one slope over the other, at which f is within 1e-10
APART = 3e-4  # share of an epsilon over which a slope is a difference
BY_DIFFERENCE = 1e-4  # log of a slope that is known by a difference, at best
MOST_LOOKS = 40
NEGLIGIBLE = math.log(1e-12)  # of a delta, which a height is told without
FEW = 3  # errors that are looked for one by one


class Side(NamedTuple):
    """A direction: log delta at an epsilon with its slope (or no number) and error, a bound of it, the largest loss."""

    evaluate: Evaluate
    bound: Callable[[float], float]
    largest: float

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """Its upper end, the slope, and how well that is known; next to nothing is told by its bound."""
        bound = self.bound(epsilon)
        if bound < NEGLIGIBLE:
            return bound, -1.0, 0.0
        value, slope, error, _ = self.evaluate(epsilon, None)
        upper = min(value + error, 0.0)
        if not math.isnan(slope):
            return upper, slope, 0.0
        width = APART * min(max(epsilon, 1e-3), self.largest)
        above, _, error, _ = self.evaluate(epsilon + width, None)
        return upper, (min(above + error, 0.0) - upper) / width, BY_DIFFERENCE


class Touching:
    """A search in one direction at one error."""

    def __init__(self, side: Side, error: float, *, ahead: bool) -> None:
        self.side = side
        self.error = error
        self.ahead = ahead
        self.highest = 0.0

    def search(self) -> bool:
        """Whether f is highest above an epsilon of 0 in this direction; `highest` is what was seen of it."""
        place = private_end(
            self.look,
            0.0,
            0.0,
            self.side.largest,
            tolerance=TOUCHED,
            rtol=TOUCHED,
            evaluations=MOST_LOOKS,
        )
        return place > 0.0

    def look(self, epsilon: float) -> Trial:
        """log of how much faster delta falls than the line."""
        log_delta, slope, known = self.side.log_delta(epsilon)
        delta = float(exp_up(log_delta))
        grown = math.exp(min(epsilon, 700.0))
        if self.ahead:
            line = grown * self.error
            height = 1.0 - delta - line
        else:
            line = 1.0 - self.error - delta
            height = line / grown
        self.highest = max(self.highest, height - TRADEOFF_ROUNDING)
        if not slope * delta < 0.0:
            return Trial(-math.inf)
        if line <= 0.0:
            return Trial(math.inf)
        excess = math.log(-slope * delta / line)
        if abs(excess) < known:
            return Trial(0.0)
        return Trial(excess)


def few(errors: Floats) -> bool:
    """Whether errors are looked for one by one."""
    return errors.size <= FEW and bool(np.all((errors > 0.0) & (errors < 1.0)))


def touched(sides: tuple[Side, Side], errors: Floats) -> Floats:
    """The trade-off at each error, or a little less."""
    found = np.empty(errors.size)
    for place, error in enumerate(np.ravel(errors).tolist()):
        first = Touching(sides[0], error, ahead=True)
        second = Touching(sides[1], error, ahead=False)
        if not first.search():
            second.search()
        found[place] = min(max(first.highest, second.highest), 1.0 - error)
    return np.reshape(found, errors.shape)[()]
