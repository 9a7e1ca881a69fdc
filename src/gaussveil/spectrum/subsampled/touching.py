"""The trade-off at an error: by the epsilon at which delta falls as fast as the line that touches it.

f(a) = max over epsilon of 1 - delta(epsilon) - e^epsilon a, or, of the other direction's delta, of
e^-epsilon (1 - a - delta(epsilon)). Either is highest where its slope is 0, in one direction or the other; both slopes
fall, and a root of them is found with a few evaluations where a search over epsilons takes 150. Any epsilon is sound.
Of many errors all roots are looked for at once, from a table of slopes that they share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum.attack_risk import GRID, TRADEOFF_ROUNDING
from gaussveil.spectrum.enclosures.interval import exp_up
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.sweep import Evaluate, Swept
from gaussveil.typing import Floats

TOUCHED = 1e-5  # log of one slope over the other, at which f is within 1e-10
APART = 3e-4  # share of an epsilon over which a slope is a difference
BY_DIFFERENCE = 1e-4  # log of a slope that is known by a difference, at best
MOST_LOOKS = 40
NEGLIGIBLE = math.log(1e-12)  # of a delta, which a height is told without
FEW = 3  # errors that are looked for one by one
LARGEST_REACH = 700.0  # e^epsilon has no digits beyond it
LONGEST_REACH = 5  # powers of 4 by which a reach may be shorter than a bound says
REACHED = 2.0  # log of what is less than negligible at the end of a table
ROUNDS = 8  # of looks at all errors whose slopes are not yet equal


class Side(NamedTuple):
    """A direction: log delta at an epsilon, or at many, with its slope (or no number) and error; a bound; the end."""

    evaluate: Evaluate
    sweep: Callable[[Floats], Swept]
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

    def reach(self) -> float:
        """An epsilon at which delta is negligible: where its bound says so, or before, as rare losses loosen it."""
        bounded = self._bounded_reach()
        for fourths in range(LONGEST_REACH, 0, -1):
            place = bounded * 4.0**-fourths
            if self.log_delta(place)[0] < NEGLIGIBLE:
                return place
        return bounded

    def _bounded_reach(self) -> float:
        return private_end(
            lambda epsilon: Trial(self.bound(epsilon) - NEGLIGIBLE),
            1.0,
            0.0,
            min(self.largest, LARGEST_REACH),
            tolerance=REACHED,
            rtol=0.01,
        )


class Touching:
    """A search in one direction at one error."""

    def __init__(self, side: Side, reach: float, error: float, *, ahead: bool) -> None:
        self.side = side
        self.reach = reach
        self.error = error
        self.ahead = ahead
        self.highest = 0.0

    def search(self) -> bool:
        """Whether f is highest above an epsilon of 0 in this direction; `highest` is what was seen of it."""
        place = private_end(
            self.look,
            0.0,
            0.0,
            self.reach,
            tolerance=TOUCHED,
            rtol=TOUCHED,
            evaluations=MOST_LOOKS,
        )
        return place > 0.0

    def look(self, epsilon: float) -> Trial:
        """log of how much faster delta falls than the line."""
        log_delta, slope, accuracy = self.side.log_delta(epsilon)
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
        if abs(excess) < accuracy:
            return Trial(0.0)
        return Trial(excess)


def by_slopes(
    sides: tuple[Side, Side], errors: Floats, by_contour: bool, beside_laws: bool
) -> Floats | None:
    """The trade-off at each error, or a little less; None where slopes of delta do not lead to it."""
    inside = bool(np.all((errors > 0.0) & (errors < 1.0)))
    if inside and errors.size <= FEW and (by_contour or beside_laws):
        return touched(sides, errors)
    if by_contour:
        return touched_by_many(sides, errors)
    return None


def touched(sides: tuple[Side, Side], errors: Floats) -> Floats:
    """The trade-off at each error, or a little less."""
    heights = np.empty(errors.size)
    reaches = [side.reach() for side in sides]
    for place, error in enumerate(np.ravel(errors).tolist()):
        first = Touching(sides[0], reaches[0], error, ahead=True)
        second = Touching(sides[1], reaches[1], error, ahead=False)
        if not first.search():
            second.search()
        heights[place] = min(max(first.highest, second.highest), 1.0 - error)
    return np.reshape(heights, errors.shape)[()]


class _Slopes(NamedTuple):
    """At each epsilon an upper end of delta, and log of what the line that touches there has for a slope."""

    levels: Floats
    delta: Floats
    logs: Floats

    @classmethod
    def at(cls, side: Side, levels: Floats, ahead: bool) -> _Slopes:
        """Looked up in one sweep; slopes that are not known are no numbers."""
        return cls.of(levels, side.sweep(levels), ahead)

    @classmethod
    def table(cls, side: Side, levels: Floats, ahead: bool) -> _Slopes:
        """The same at ascending epsilons; slopes that are not known are differences, which say where to look."""
        at_levels = side.sweep(levels)
        apart = np.gradient(at_levels.value, levels)
        slope = np.where(np.isnan(at_levels.slope), apart, at_levels.slope)
        return cls.of(levels, at_levels._replace(slope=slope), ahead)

    @classmethod
    def of(cls, levels: Floats, at_levels: Swept, ahead: bool) -> _Slopes:
        """From log delta, its slope and its error at each epsilon."""
        if ahead:
            logs = at_levels.value + np.log(-at_levels.slope) - levels
        else:
            logs = at_levels.value + np.log1p(-at_levels.slope)
        nothing = at_levels.value == -math.inf
        delta = np.asarray(exp_up(np.minimum(at_levels.value + at_levels.error, 0.0)))
        return cls(levels, delta, np.where(nothing, -math.inf, logs))

    def heights(self, errors: Floats, ahead: bool) -> Floats:
        """What each line says of the trade-off."""
        if ahead:
            raised = 1.0 - self.delta - np.exp(self.levels) * errors
        else:
            raised = (1.0 - errors - self.delta) * np.exp(-self.levels)
        return np.asarray(raised - TRADEOFF_ROUNDING)


@np.errstate(all="ignore")
def touched_by_many(sides: tuple[Side, Side], errors: Floats) -> Floats | None:
    """The trade-off at each of many errors, or a little less; None where slopes are not known."""
    flat = np.ravel(errors)
    best = np.zeros(flat.size)
    for side, ahead in zip(sides, (True, False)):
        table = _Slopes.table(side, side.reach() * GRID, ahead)
        if np.isnan(table.logs).any():
            return None
        best = np.maximum(best, table.heights(flat[:, None], ahead).max(axis=1))
        if ahead:
            goals = np.log(flat)
        else:
            goals = np.log1p(-flat)
        falling = np.minimum.accumulate(table.logs)
        cell = np.searchsorted(-falling, -goals)  # the first epsilon not above a goal
        inside = np.flatnonzero((cell > 0) & (cell < falling.size))
        seen = _touch(side, ahead, flat[inside], goals[inside], table, cell[inside])
        best[inside] = np.maximum(best[inside], seen)
    return np.reshape(np.clip(best, 0.0, 1.0 - flat), errors.shape)


def _touch(
    side: Side,
    ahead: bool,
    errors: Floats,
    goals: Floats,
    table: _Slopes,
    cell: NDArray[np.intp],
) -> Floats:
    """The best height at each error, by secants inside the cell in which slopes become equal."""
    low, high = table.levels[cell - 1], table.levels[cell]
    above, below = table.logs[cell - 1] - goals, table.logs[cell] - goals
    best = np.zeros(errors.size)
    place = _crossing(low, high, above, below)
    left = np.arange(errors.size)
    for _ in range(ROUNDS):
        if not left.size:
            break
        look = _Slopes.at(side, place, ahead)
        best[left] = np.maximum(best[left], look.heights(errors[left], ahead))
        excess = look.logs - goals[left]
        apart = np.abs(excess) >= TOUCHED
        under = excess <= 0.0
        low, above = np.where(under, low, place), np.where(under, above, excess)
        high, below = np.where(under, place, high), np.where(under, excess, below)
        left = left[apart]
        low, high, above, below = (ends[apart] for ends in (low, high, above, below))
        place = _crossing(low, high, above, below)
    return best


def _crossing(low: Floats, high: Floats, above: Floats, below: Floats) -> Floats:
    """Where a line between the ends crosses 0; the middle where an end is not finite."""
    place = low + (high - low) * (above / (above - below))
    inside = (place > low) & (place < high)
    return np.asarray(np.where(inside, place, 0.5 * (low + high)))
