"""Roots and minima of functions of one number, each with a bounded number of evaluations inside an interval.

`private_end` is the inverse of whatever falls: it returns a place that was seen to keep the promise. `brent` and
`lowest` take each step as SciPy does (`brentq`, `minimize_scalar` with bounds), of which importing `scipy.optimize`
costs more time than most commands need for all they do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import UNIT_ROUNDOFF

STEPS = 100
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
    bottom = low
    seen_low = False
    if guess == guess:
        place = min(max(guess, low), high)
    else:
        place = low
    last = math.nan
    at_last = math.nan
    halved = 0
    width = math.inf
    for _ in range(evaluations):
        value, proposal = look(place)
        if value <= 0.0:
            high = place
            if -value <= tolerance or place <= bottom:
                return high
        else:
            low = place
            seen_low = True
        if high < math.inf and high - low <= rtol * abs(high):
            if seen_low:
                return high
            # the lower end itself is left to be looked at
            at_last = value
            last = place
            place = low
            continue
        if math.isnan(proposal) and value != at_last:
            proposal = place - value * (place - last) / (value - at_last)
            proposal += (0.25 * rtol) * abs(proposal)  # to the private side
        if high - low <= 0.5 * width:
            halved = 0
        else:
            halved = halved + 1
        if not halved:
            width = high - low
        if proposal <= bottom and not seen_low and halved < LAGGING:
            proposal = bottom
        elif not low < proposal < high or halved >= LAGGING:
            proposal = _between(low, high)
            halved = 0
        last = place
        at_last = value
        place = proposal
    if high == math.inf:
        raise NumericalError(
            f"no place that keeps the promise was found within {evaluations} evaluations"
        )
    return high


def _between(low: float, high: float) -> float:
    """A place inside an interval: its middle, of logarithms where ends are far apart."""
    if high == math.inf:
        if low >= 0.0:
            return max(4.0 * low, low + 1.0)
        return 1.0
    if low > 0.0 and high > 4.0 * low:
        return math.sqrt(low * high)
    if low == 0.0:
        return 0.05 * high
    return low + 0.5 * (high - low)


def brent(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float = 2e-12,
    rtol: float = 4 * sys.float_info.epsilon,
) -> float:
    """Where a continuous function that changes its sign between `low` and `high` is 0."""
    before = low
    now = high
    other = 0.0
    at_before = function(low)
    at_now = function(high)
    at_other = 0.0
    last = step = 0.0
    if at_before == 0.0:
        return before
    if at_now == 0.0:
        return now
    if (at_before < 0.0) == (at_now < 0.0):
        raise NumericalError(
            "a root was sought where the function does not change its sign"
        )
    for _ in range(STEPS):
        if at_before != 0.0 and at_now != 0.0 and (at_before < 0.0) != (at_now < 0.0):
            other = before
            at_other = at_before
            last = now - before
            step = now - before
        if abs(at_other) < abs(at_now):
            before, now, other = now, other, now
            at_before, at_now, at_other = at_now, at_other, at_now
        near = (xtol + rtol * abs(now)) / 2
        half = (other - now) / 2
        if at_now == 0.0 or abs(half) < near:
            return now
        if abs(last) > near and abs(at_now) < abs(at_before):
            if before == other:  # by a line
                interpolated = -at_now * (now - before) / (at_now - at_before)
            else:  # by a parabola
                slope_here = (at_before - at_now) / (before - now)
                slope_there = (at_other - at_now) / (other - now)
                interpolated = (
                    -at_now
                    * (at_other * slope_there - at_before * slope_here)
                    / (slope_there * slope_here * (at_other - at_before))
                )
            last, step = (
                (step, interpolated)
                if 2 * abs(interpolated) < min(abs(last), 3 * abs(half) - near)
                else (half, half)
            )
        else:
            last = step = half
        before = now
        at_before = at_now
        now += step if abs(step) > near else (near if half > 0 else -near)
        at_now = function(now)
    raise NumericalError(f"no root was found within {STEPS} steps")


def lowest(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-5
) -> float:
    """Where a function of one valley between `low` and `high` is smallest, by golden sections and parabolas."""
    best = second = third = low + GOLDEN * (high - low)
    at_best = at_second = at_third = function(best)
    step = last = 0.0
    for _ in range(5 * STEPS):
        middle = 0.5 * (low + high)
        near = ROUGH * abs(best) + xtol / 3.0
        if abs(best - middle) <= 2.0 * near - 0.5 * (high - low):
            break
        golden = True
        if abs(last) > near:
            one = (best - second) * (at_best - at_third)
            two = (best - third) * (at_best - at_second)
            rise = (best - third) * two - (best - second) * one
            run = 2.0 * (two - one)
            if run > 0.0:
                rise = -rise
            run = abs(run)
            before = last
            last = step
            if abs(rise) < abs(0.5 * run * before) and run * (
                low - best
            ) < rise < run * (high - best):
                golden = False
                step = rise / run
                if best + step - low < 2.0 * near or high - (best + step) < 2.0 * near:
                    if middle >= best:
                        step = near
                    else:
                        step = -near
        if golden:
            last = (low if best >= middle else high) - best
            step = GOLDEN * last
        tried = best + math.copysign(max(abs(step), near), step if step else 1.0)
        at_tried = function(tried)
        if at_tried <= at_best:
            low, high = (best, high) if tried >= best else (low, best)
            third = second
            second = best
            best = tried
            at_third = at_second
            at_second = at_best
            at_best = at_tried
            continue
        low, high = (tried, high) if tried < best else (low, tried)
        if at_tried <= at_second or second == best:
            third = second
            second = tried
            at_third = at_second
            at_second = at_tried
        elif at_tried <= at_third or third in (best, second):
            third = tried
            at_third = at_tried
    return best
