"""Inverses of the spectrum: which epsilon, or which threshold, has a given probability.

Roots are found on logarithms by Newton steps (the contour integral yields its own derivative), in the brackets of
`roots_of_many`.
`private_epsilon` ends where the upper end of delta, error bound and all, was seen to be private.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gaussveil.spectrum import contour, rules
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.roots_of_many import ends_of_rows
from gaussveil.spectrum.selection import array_namespace, put_rows, take_rows, where
from gaussveil.spectrum.terms import Terms, cumulant, cumulant_slopes, loss_limits
from gaussveil.typing import Array

ROOT_TOLERANCE = 1e-13
BELOW_END = 1 - 1e-10
JUMP = 100.0  # times the tolerance: the upper end jumps by its error bound where another rule settles
# looks after which so much is enough
FINE_LOOKS = 3
FINE_TAIL_LOOKS = 8
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
    """The least epsilon found whose upper end of delta, evaluated there, is at most the goal: two steps are usual."""
    xp = array_namespace(goal)
    at, curvature = _first_guess(terms, goal)
    inside = xp.where(xp.isfinite(limit), limit / 2, xp.ones_like(limit))
    at = xp.where(at < limit, at, inside)
    look = _EpsilonLook(terms, goal, limit, curvature)
    answer = ends_of_rows(look, at, xp.zeros_like(goal), limit)
    return xp.where(answer >= limit * BELOW_END, limit, answer)


class _Look:
    """A look at a log beside its goal, whatever it is of: how near is near enough, which widens after some looks."""

    def __init__(self, goal: Array, fine_looks: int) -> None:
        self._goal = goal
        self._fine_looks = fine_looks
        self._looks = 0

    def _next(self, rows: Array) -> tuple[Array, Array, Array]:
        """Goals of rows, the tolerance of each, and what is enough at this look, which is counted."""
        xp = array_namespace(self._goal)
        goal = take_rows(self._goal, rows)
        tolerance = ROOT_TOLERANCE * xp.maximum(xp.ones_like(goal), xp.abs(goal))
        enough = 4.0 * tolerance
        if self._looks >= self._fine_looks:
            enough = JUMP * tolerance
        self._looks += 1
        return goal, tolerance, enough


class _EpsilonLook(_Look):
    """By how much log delta's upper end exceeds the goal, and where it should meet it, for rows of a batch.

    By Halley's step with the curvature of the first guess; then by epsilon as a cubic of log delta, from this place and
    the one before it. Each a little to the private side, so that zero need not be looked at apart.
    """

    def __init__(
        self, terms: Terms, goal: Array, limit: Array, curvature: Array
    ) -> None:
        super().__init__(goal, FINE_LOOKS)
        xp = array_namespace(goal)
        self._evaluate = _log_delta_of(terms, limit)
        self._curvature = curvature
        self._before = xp.full_like(goal, xp.inf)
        self._last = goal
        self._steep = goal

    def __call__(self, rows: Array, at: Array) -> tuple[Array, Array, Array]:
        xp = array_namespace(at)
        nudged = min(2.0**self._looks, 16.0)
        goal, tolerance, enough = self._next(rows)
        value, slope = self._evaluate(rows, at)
        excess = value - goal
        bend = 1 - excess * take_rows(self._curvature, rows) / (2 * slope**2)
        step = excess / (
            slope * xp.where((bend > 0.5) & (bend < 2.0), bend, xp.ones_like(bend))
        )
        before = take_rows(self._before, rows)
        halved = xp.abs(excess) < xp.abs(before) / 2
        near = halved & (xp.abs(before) < CUBIC_WITHIN)
        step = xp.where(near, self._cubic(rows, at, excess, slope), step)
        nudge = tolerance * nudged / xp.abs(slope)
        self._before = put_rows(self._before, rows, excess)
        self._last = put_rows(self._last, rows, at)
        self._steep = put_rows(self._steep, rows, slope)
        return excess, at - step + nudge + 4 * UNIT_ROUNDOFF * at, enough

    def _cubic(self, rows: Array, at: Array, excess: Array, slope: Array) -> Array:
        """The step that a cubic through this place and the one before it proposes."""
        before = take_rows(self._before, rows)
        apart = excess - before
        chord = (at - take_rows(self._last, rows)) / apart
        bow = (excess / apart) ** 2
        steep = take_rows(self._steep, rows)
        return excess / slope - bow * (
            (1 / slope - chord) * apart - before * (1 / slope + 1 / steep - 2 * chord)
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
    for asked, region, side in sides:
        rows = where(asked & (highest > lowest))
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
        start = xp.where(start >= ceiling, middle + (ceiling - middle) / 2, start)
        start = xp.where(start <= floor, middle + (floor - middle) / 2, start)
        look = _TailLook(chosen, region, goal, side)
        below_zero = ends_of_rows(look, -start, -ceiling, -floor)
        threshold = put_rows(threshold, rows, -below_zero)
    return threshold


class _TailLook(_Look):
    """By how much a tail, or what a tail leaves, misses its goal as the threshold falls, and where it should meet it.

    A root from here has a tail that is not below its level: errors of the first kind that are allowed are made.
    """

    def __init__(
        self, terms: Terms, region: rules.Region, goal: Array, side: float
    ) -> None:
        super().__init__(goal, FINE_TAIL_LOOKS)
        self._terms = terms
        self._region = region
        self._side = side

    def __call__(self, rows: Array, at: Array) -> tuple[Array, Array, Array]:
        xp = array_namespace(at)
        goal, tolerance, enough = self._next(rows)
        value, slope, _ = contour.integrate(
            self._terms.rows(rows), -at, self._region
        )  # a bound will do far from the root
        excess = self._side * (goal - (value + at))
        falling = self._side * (slope - 1)
        proposal = at - excess / falling + tolerance / xp.abs(falling)
        return excess, proposal, enough


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
