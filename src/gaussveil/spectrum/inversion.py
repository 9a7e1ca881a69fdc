"""Inverses of the spectrum: which epsilon, or which threshold, has a given probability.

Roots are found on logarithms by Newton steps (the contour integral yields its own derivative) inside a bracket.
`private_epsilon` ends where the upper end of delta, error bound and all, was seen to be private.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.spectrum import contour, rules
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.selection import array_namespace, put_rows, take_rows, where
from gaussveil.spectrum.terms import Terms, cumulant, cumulant_slopes, loss_limits
from gaussveil.typing import Array

ROOT_TOLERANCE = 1e-13
BELOW_END = 1 - 1e-10
JUMP = 100.0  # times the tolerance: the upper end jumps by its error bound where another rule settles
# Newton's, and how near in log delta two places are that a cubic joins
GUESS_STEPS = 5
CUBIC_WITHIN = 2.0
TRACE = 1e-30  # energies below it change no digit of a curve, but would fake an unbounded loss
GUESS_MARGIN = 0.05  # in log delta, to the side that is not private


@np.errstate(all="ignore")
def private_epsilon(terms: Terms, target: Array) -> Array:
    """Smallest epsilon >= 0 with delta(epsilon) <= target, for a flat batch.

    The returned value errs on the private side only.
    """
    xp = array_namespace(target)
    _, supremum = loss_limits(terms)
    # Rounded down, it would promise delta 0, or a delta far below what is left there, a little too early.
    supremum = (
        supremum * (1 + 4 * (terms.variance_gap.shape[-1] + 8) * UNIT_ROUNDOFF)
        + 0 * target
    )
    answer = xp.where(target <= 0, xp.maximum(supremum, 0 * target), 0 * target)
    rows = where((target > 0) & (target < 1) & (supremum > 0))
    if rows.shape[0] == 0:
        return answer
    chosen = terms.rows(rows)
    goal = xp.log(take_rows(target, rows))
    limit = take_rows(supremum, rows)
    return put_rows(answer, rows, _private_root(chosen, goal, limit))


def _private_root(terms: Terms, goal: Array, limit: Array) -> Array:
    """The least epsilon found whose upper end of delta, evaluated there, is at most the goal: two steps are usual.

    A little beside the first guess, so that zero need not be looked at apart: what is not private there lies above it.
    """
    xp = array_namespace(goal)
    evaluate = _log_delta_of(terms, limit)
    at, curvature = _first_guess(terms, goal)
    at = xp.where(
        at < limit, at, xp.where(xp.isfinite(limit), limit / 2, xp.ones_like(limit))
    )
    rows = xp.arange(goal.shape[0], device=goal.device)
    answer = goal
    low = -1 + 0 * goal
    high = limit
    newton = goal
    supremum = limit
    before = xp.inf + 0 * goal
    last = goal
    steep = goal
    for tries in range(200):
        value, slope = evaluate(rows, at)
        excess = value - newton
        tolerance = ROOT_TOLERANCE * xp.maximum(1 + 0 * newton, xp.abs(newton))
        private = excess <= 0
        low = xp.where(private, low, at)
        high = xp.where(private, at, high)
        if tries < 3:
            enough = 4 * tolerance
        else:
            enough = JUMP * tolerance
        done = (private & ((-excess <= enough) | (at <= 0))) | (
            high - low <= 8 * UNIT_ROUNDOFF * xp.abs(at)
        )
        answer = put_rows(
            answer, rows, xp.where(high >= supremum * BELOW_END, supremum, high)
        )
        left = where(~done)
        if left.shape[0] == 0:
            return answer
        # Halley's step, with the curvature of the first guess, and a little more to the private side
        bend = 1 - excess * curvature / (2 * slope**2)
        step = excess / (
            slope * xp.where((bend > 0.5) & (bend < 2.0), bend, xp.ones_like(bend))
        )
        # then by epsilon as a cubic of log delta, from this place and the one before it
        apart = excess - before
        chord = (at - last) / apart
        bow = (excess / apart) ** 2
        cubic = excess / slope - bow * (
            (1 / slope - chord) * apart - before * (1 / slope + 1 / steep - 2 * chord)
        )
        step = xp.where(
            (xp.abs(excess) < xp.abs(before) / 2) & (xp.abs(before) < CUBIC_WITHIN),
            cubic,
            step,
        )
        following = (
            at
            - step
            + tolerance * min(2.0**tries, 16.0) / xp.abs(slope)
            + 4 * UNIT_ROUNDOFF * at
        )
        middle = xp.where(
            xp.isfinite(high),
            (xp.maximum(low, 0 * low) + high) / 2,
            2 * xp.abs(low) + 1,
        )
        creeping = (xp.abs(excess) > xp.abs(before) / 2) & (tries > 12)
        following = xp.where(
            (following > low) & (following < high) & ~creeping, following, middle
        )
        following = xp.where((low < 0) & (following < 0), 0 * following, following)
        columns = (
            rows,
            following,
            low,
            high,
            newton,
            supremum,
            curvature,
            excess,
            at,
            slope,
        )
        columns = tuple(take_rows(column, left) for column in columns)
        rows, at, low, high, newton, supremum, curvature, before, last, steep = columns
    raise NumericalError(
        "No epsilon on the private side was found; use enclose() to inspect this pair."
    )


def _first_guess(terms: Terms, goal: Array) -> tuple[Array, Array]:
    """About where log delta reaches the goal, a little before it, and its curvature: a saddle without its contour.

    At order s the saddle of delta(K'(s) - 1/s - 1/(1+s)) is s itself, and Laplace's method gives that delta to a few
    per cent; Newton steps on log s.
    """
    xp = array_namespace(goal)
    lowest = xp.min(terms.variance_gap, axis=-1) + 0 * goal
    reach = xp.where(
        lowest < 0,
        -1 / xp.where(lowest < 0, lowest, -xp.ones_like(lowest)),
        xp.full_like(lowest, xp.inf),
    )
    _, variance = cumulant_slopes(terms, 0 * goal)
    order = xp.minimum(
        xp.sqrt((1 - 2 * goal) / xp.maximum(variance, 1e-300 + 0 * goal)), reach / 2
    )
    for _ in range(GUESS_STEPS):
        mean, variance = cumulant_slopes(terms, order)
        stiffness = variance + 1 / order**2 + 1 / (1 + order) ** 2
        epsilon = mean - 1 / order - 1 / (1 + order)
        value = cumulant(terms, order) - order * epsilon - xp.log(order * (1 + order))
        excess = value - 0.5 * xp.log(2 * math.pi * stiffness) - goal
        now = order
        stride = xp.clip(excess / (order**2 * stiffness), -1.5, 1.5)
        order = order * xp.exp(stride)
        order = xp.where(order < reach, order, (now + reach) / 2)
    guess = epsilon + (excess - GUESS_MARGIN) / now
    return xp.where(guess > 0, guess, 0 * guess), -1 / stiffness


def _log_delta_of(
    terms: Terms, limit: Array
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """log delta and its slope; closer to the supremum of the loss than rounding can tell, delta counts as zero."""

    def evaluate(rows: Array, epsilon: Array) -> tuple[Array, Array]:
        xp = array_namespace(epsilon)
        edge = take_rows(limit, rows) * BELOW_END
        value, slope = _log_delta_upper(terms.rows(rows), xp.minimum(epsilon, edge))
        return xp.where(epsilon >= edge, xp.full_like(value, -xp.inf), value), slope

    return evaluate


def _log_delta_upper(terms: Terms, epsilon: Array) -> tuple[Array, Array]:
    """An upper end of log delta (error bound added; Chernoff's bound where doubles do not settle) and its slope."""
    xp = array_namespace(epsilon)
    value, slope, error = contour.log_hockey_stick(terms, epsilon)
    return value + xp.where(xp.isinf(error), xp.zeros_like(error), error), slope


@np.errstate(all="ignore")
def threshold_at_tail(terms: Terms, level: Array) -> Array:
    """The threshold t with Pr_Y[L > t] = level, for levels strictly between 0 and 1; others give any value."""
    xp = array_namespace(level)
    lowest, highest = loss_limits(terms)
    lowest = lowest + 0 * level
    highest = highest + 0 * level
    threshold = 0 * level
    mean, variance = cumulant_slopes(terms, -1 + 0 * level)
    sides = (
        ((level > 0) & (level <= 0.5), rules.TAIL_Y, 1.0),
        ((level > 0.5) & (level < 1), rules.TAIL_Y_COMPLEMENT, -1.0),
    )
    for wanted, region, side in sides:
        rows = where(wanted & (highest > lowest))
        if rows.shape[0] == 0:
            continue
        chosen = terms.rows(rows)
        wanted_level, middle, spread, floor, ceiling = (
            take_rows(column, rows)
            for column in (
                level,
                mean + 0 * level,
                variance + 0 * level,
                lowest,
                highest,
            )
        )
        if side > 0:
            goal = xp.log(wanted_level)
        else:
            goal = xp.log1p(-wanted_level)
        start = middle + side * xp.sqrt(-2 * spread * goal)
        start = xp.where(start >= ceiling, (ceiling + middle) / 2, start)
        start = xp.where(start <= floor, (floor + middle) / 2, start)
        threshold = put_rows(
            threshold,
            rows,
            _solve(_log_tail_of(chosen, region), goal, start, floor, ceiling),
        )
    return threshold


def _log_tail_of(
    terms: Terms, region: rules.Region
) -> Callable[[Array, Array], tuple[Array, Array]]:
    def evaluate(rows: Array, threshold: Array) -> tuple[Array, Array]:
        value, slope, _ = contour.integrate(
            terms.rows(rows), threshold, region
        )  # a bound will do far from the root
        return value - threshold, slope - 1

    return evaluate


def _solve(
    evaluate: Callable[[Array, Array], tuple[Array, Array]],
    goal: Array,
    start: Array,
    lower: Array,
    upper: Array,
) -> Array:
    """Root of a monotone function of one variable per row; rows leave as they converge."""
    xp = array_namespace(goal)
    root = start
    rows = xp.arange(goal.shape[0], device=goal.device)
    at = start
    low = lower
    high = upper
    step_to = goal
    for _ in range(200):
        value, slope = evaluate(rows, at)
        excess = value - step_to
        above = excess * slope < 0  # the root lies above
        low = xp.where(above, at, low)
        high = xp.where(above, high, at)
        newton = at - excess / slope
        outward = xp.where(
            xp.isfinite(low), 2 * low + 1 + xp.abs(low), 2 * high - 1 - xp.abs(high)
        )
        middle = xp.where(
            xp.isfinite(low) & xp.isfinite(high), (low + high) / 2, outward
        )
        following = xp.where((newton > low) & (newton < high), newton, middle)
        tolerance = ROOT_TOLERANCE * xp.maximum(1 + 0 * step_to, xp.abs(step_to))
        done = (xp.abs(excess) <= tolerance) | (
            high - low <= 4 * UNIT_ROUNDOFF * xp.abs(at)
        )
        root = put_rows(root, rows, xp.where(done, at, following))
        left = where(~done)
        if left.shape[0] == 0:
            return root
        rows, at, low, high, step_to = (
            take_rows(column, left) for column in (rows, following, low, high, step_to)
        )
    raise NumericalError(
        "A root of the privacy curve was not found; use enclose() to inspect this pair."
    )


def tradeoff(terms: Terms, level: Array) -> Array:
    """Smallest type II error of a test of Y against X at each type I error."""
    xp = array_namespace(level)
    terms = terms.without_traces(TRACE)
    apart = xp.any((terms.variance_gap != 0) | (terms.energy != 0), axis=-1)
    rows = where((level > 0) & (level < 1) & apart)
    if rows.shape[0] == 0:
        return 1 - level
    chosen = terms.rows(rows)
    threshold = threshold_at_tail(chosen, take_rows(level, rows))
    power = contour.tail_probability(
        chosen, threshold, rules.TAIL_X, rules.TAIL_X_COMPLEMENT
    )
    # Next to the ends of the loss's range a threshold in doubles misses the level by more than the curve's height.
    missed = xp.minimum(1 - power, 1 - take_rows(level, rows))
    return put_rows(1 - level, rows, missed)
