"""Roots and minima of functions of one number, each with a bounded number of evaluations inside an interval.

`private_end` is the inverse of whatever falls: it returns a place that was seen to keep the promise. `lowest` takes
each step as SciPy does (`minimize_scalar` with bounds), of which importing `scipy.optimize` costs more time than most
commands need for all they do. What says only yes or no is searched in `turns`, whole arrays in `roots_of_many`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import UNIT_ROUNDOFF

STEPS = 100
SMALLEST_LOW = 1e-30  # of those that are multiplied where nothing above them is known
LAGGING = 3  # evaluations after which the interval must have halved
GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))
ROUGH = math.sqrt(2.2e-16)  # how closely a minimum can be told from its neighbours


class Trial(NamedTuple):
    """What is seen of a falling function at a place: its value, and where its root may be (NaN: unknown)."""

    value: float
    proposal: float = math.nan


def private_end(
    look: Callable[[float], Trial],
    guess: float,
    low: float,
    high: float,
    *,
    tolerance: float = 0.0,
    rtol: float = 8 * UNIT_ROUNDOFF,
    evaluations: int = STEPS,
) -> float:
    """The smallest place in [low, high] that was seen to have a value <= 0, of a function that falls.

    `high` counts as such a place, looked at or not; it may be infinite if some place below it is one. It ends where a
    value is in [-tolerance, 0], where the interval is narrower than `rtol` of its end, or where the evaluations end.
    Nothing outside [low, high] is ever looked at.
    """
    bracket = _Bracket(low, high)
    if guess == guess:
        place = min(max(guess, low), high)
    else:
        place = low
    last = math.nan
    at_last = math.nan
    for _ in range(evaluations):
        value, proposal = look(place)
        bracket.take(place, value)
        if value <= 0.0 and (-value <= tolerance or place <= low):
            return place
        if bracket.is_narrow(rtol):
            if bracket.seen_low:
                return bracket.high
            # the lower end itself is left to be looked at
            at_last = value
            last = place
            place = bracket.low
            continue
        if math.isnan(proposal) and value != at_last:
            proposal = place - value * (place - last) / (value - at_last)
            proposal += (0.25 * rtol) * abs(proposal)  # to the private side
        last = place
        at_last = value
        place = bracket.next_place(proposal, rtol)
    return bracket.end(evaluations)


class _Bracket:
    """The interval that holds the root of a falling function, and for how many looks it has not halved."""

    def __init__(self, low: float, high: float) -> None:
        self.bottom = low
        self.low = low
        self.high = high
        self.seen_low = False
        self._width = math.inf
        self._far_apart = False
        self._lagging = 0

    def take(self, place: float, value: float) -> None:
        """Narrow the interval by the value that was seen at a place."""
        if value <= 0.0:
            self.high = place
        else:
            self.low = place
            self.seen_low = True

    def is_narrow(self, rtol: float) -> bool:
        """Whether the interval is narrower than `rtol` of its end."""
        return self.high < math.inf and self.high - self.low <= rtol * abs(self.high)

    def next_place(self, proposal: float, rtol: float) -> float:
        """Where to look next: as proposed, or between the ends if that is outside or the interval lags.

        A root at the upper end is looked for right below it: what is not private there leaves a narrow interval.
        """
        far_apart = 0.0 < 4.0 * self.low < self.high < math.inf
        if far_apart:  # as `_between` halves it
            width = math.log(self.high / self.low)
        else:
            width = self.high - self.low
        if width <= 0.5 * self._width or far_apart != self._far_apart:
            self._lagging = 0
            self._width = width
            self._far_apart = far_apart
        else:
            self._lagging += 1
        lags = self._lagging >= LAGGING
        if proposal <= self.bottom and not self.seen_low and not lags:
            return self.bottom
        near_high = abs(self.high - proposal) <= rtol * abs(self.high)
        if near_high and self.high < math.inf:
            proposal = self.high - 0.9 * rtol * abs(self.high)
        if lags or not self.low < proposal < self.high:
            self._lagging = 0
            return _between(self.low, self.high)
        return proposal

    def end(self, evaluations: int) -> float:
        """The place that keeps the promise, after all looks."""
        if self.high == math.inf:
            raise NumericalError(
                f"no place that keeps the promise was found within {evaluations} evaluations"
            )
        return self.high


def _between(low: float, high: float) -> float:
    """A place inside an interval: its middle, of logarithms where ends are far apart."""
    if high == math.inf:
        if low >= 1.0:
            return 4.0 * low
        if low > SMALLEST_LOW:
            return 16.0 * low
        return 1.0
    if low > 0.0 and high > 4.0 * low:
        return math.sqrt(low * high)
    if low == 0.0:
        return 0.05 * high
    return low + 0.5 * (high - low)


class _Point(NamedTuple):
    """A place, and the value that a function has there."""

    place: float
    value: float


def lowest(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-5
) -> float:
    """Where a function of one valley between `low` and `high` is smallest, by golden sections and parabolas."""
    place = low + GOLDEN * (high - low)
    best = _Point(place, function(place))
    second = best
    third = best
    step = 0.0
    last = 0.0
    for _ in range(5 * STEPS):
        middle = 0.5 * (low + high)
        near = ROUGH * abs(best.place) + xtol / 3.0
        if abs(best.place - middle) <= 2.0 * near - 0.5 * (high - low):
            break
        vertex = math.nan
        if abs(last) > near:
            vertex = _to_vertex(best, second, third, low, high, last)
        if vertex == vertex:
            last = step
            step = _away_from_ends(vertex, best.place, low, high, near)
        else:
            last = (low if best.place >= middle else high) - best.place
            step = GOLDEN * last
        place = best.place + math.copysign(max(abs(step), near), step or 1.0)
        tried = _Point(place, function(place))
        if tried.value <= best.value:
            worse = best
            third = second
            second = best
            best = tried
        else:
            worse = tried
            second, third = _runners_up(best, second, third, tried)
        if worse.place <= best.place:
            low = worse.place
        else:
            high = worse.place
    return best.place


def _to_vertex(
    best: _Point, second: _Point, third: _Point, low: float, high: float, reach: float
) -> float:
    """The step to the vertex of the parabola through three points; NaN where it leads too far, or outside."""
    to_second = (best.place - second.place) * (best.value - third.value)
    to_third = (best.place - third.place) * (best.value - second.value)
    rise = (best.place - third.place) * to_third
    rise -= (best.place - second.place) * to_second
    run = 2.0 * (to_third - to_second)
    if run > 0.0:
        rise = -rise
    run = abs(run)
    inside = run * (low - best.place) < rise < run * (high - best.place)
    if inside and abs(rise) < abs(0.5 * run * reach):
        return rise / run
    return math.nan


def _away_from_ends(
    step: float, place: float, low: float, high: float, near: float
) -> float:
    """A step, or a small one towards the middle where it would end too close to an end."""
    tried = place + step
    if tried - low >= 2.0 * near and high - tried >= 2.0 * near:
        return step
    if 0.5 * (low + high) >= place:
        return near
    return -near


def _runners_up(
    best: _Point, second: _Point, third: _Point, tried: _Point
) -> tuple[_Point, _Point]:
    """The second and third best places, after one that is worse than the best."""
    if tried.value <= second.value or second.place == best.place:
        return tried, second
    if tried.value <= third.value or third.place in (best.place, second.place):
        return second, tried
    return second, third
