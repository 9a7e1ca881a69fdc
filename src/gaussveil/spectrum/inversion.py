"""Inverses of the spectrum: which epsilon, or which threshold, has a given probability.

Roots are found on logarithms by Newton steps (the contour integral yields its own derivative) inside a bracket.
`private_epsilon` then moves to the private side by more than the evaluation can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.spectrum import contour, rules
from gaussveil.spectrum.selection import array_namespace, put_rows, take_rows, where
from gaussveil.spectrum.terms import Terms, cumulant_slopes, loss_limits
from gaussveil.typing import Array

ROOT_TOLERANCE = 1e-13
UNIT_ROUNDOFF = 2.0**-53
EDGE = 1 - 1e-10


@np.errstate(all="ignore")
def private_epsilon(terms: Terms, target: Array) -> Array:
    """Smallest epsilon >= 0 with delta(epsilon) <= target, for a flat batch.

    The returned value errs on the private side only.
    """
    xp = array_namespace(target)
    _, supremum = loss_limits(terms)
    # Rounded down, it would promise delta 0, or a delta far below what is left there, a little too early.
    supremum = supremum * (1 + 4 * (terms.variance_gap.shape[-1] + 8) * UNIT_ROUNDOFF) + 0 * target
    answer = xp.where(target <= 0, xp.maximum(supremum, 0 * target), 0 * target)
    rows = where((target > 0) & (target < 1) & (supremum > 0))
    if rows.shape[0] == 0:
        return answer
    chosen, goal = terms.rows(rows), xp.log(take_rows(target, rows))
    at_zero, _ = _log_delta_upper(chosen, 0 * goal)
    needed = where(at_zero > goal)
    if needed.shape[0] == 0:
        return answer
    rows, chosen, goal = take_rows(rows, needed), chosen.rows(needed), take_rows(goal, needed)
    limit = take_rows(supremum, rows)
    mean, variance = cumulant_slopes(chosen, 0 * goal)
    start = xp.maximum(mean + xp.sqrt(-2 * goal * variance), 1e-12 + 0 * goal)
    root = _solve(_log_delta_of(chosen, limit), goal, xp.where(start < limit, start, limit / 2), 0 * goal, limit)
    return put_rows(answer, rows, _private_side(chosen, goal, root, limit))


def _log_delta_of(terms: Terms, limit: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
    """log delta and its slope; closer to the supremum of the loss than rounding can tell, delta counts as zero."""

    def evaluate(rows: Array, epsilon: Array) -> tuple[Array, Array]:
        xp = array_namespace(epsilon)
        edge = take_rows(limit, rows) * EDGE
        value, slope = _log_delta_upper(terms.rows(rows), xp.minimum(epsilon, edge))
        return xp.where(epsilon >= edge, xp.full_like(value, -xp.inf), value), slope

    return evaluate


def _log_delta_upper(terms: Terms, epsilon: Array) -> tuple[Array, Array]:
    """An upper end of log delta (error bound added; Chernoff's bound where doubles do not settle) and its slope."""
    xp = array_namespace(epsilon)
    value, slope, error = contour.log_hockey_stick(terms, epsilon)
    return value + xp.where(xp.isinf(error), xp.zeros_like(error), error), slope


def _private_side(terms: Terms, goal: Array, root: Array, limit: Array) -> Array:
    """The root, or the least step above it at which the upper end of delta is at most the goal."""
    xp = array_namespace(goal)
    edge = limit * EDGE
    value, slope = _log_delta_upper(terms, xp.minimum(root, edge))
    nudge = xp.maximum(value - goal, 0 * goal) / xp.abs(slope) + 4 * UNIT_ROUNDOFF * root
    for _ in range(60):
        safe = xp.where(root + nudge < edge, root + nudge, limit)
        value, _ = _log_delta_upper(terms, xp.minimum(safe, edge))
        private = (safe >= limit) | (value <= goal)
        if bool(xp.all(private)):
            return safe
        nudge = xp.where(private, nudge, 2 * nudge)
    raise NumericalError("No epsilon on the private side was found; use enclose() to inspect this pair.")


@np.errstate(all="ignore")
def threshold_at_tail(terms: Terms, level: Array) -> Array:
    """The threshold t with Pr_Y[L > t] = level, for levels strictly between 0 and 1; others give any value."""
    xp = array_namespace(level)
    lowest, highest = loss_limits(terms)
    lowest, highest = lowest + 0 * level, highest + 0 * level
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
            take_rows(column, rows) for column in (level, mean + 0 * level, variance + 0 * level, lowest, highest)
        )
        goal = xp.log(wanted_level) if side > 0 else xp.log1p(-wanted_level)
        start = middle + side * xp.sqrt(-2 * spread * goal)
        start = xp.where(start >= ceiling, (ceiling + middle) / 2, start)
        start = xp.where(start <= floor, (floor + middle) / 2, start)
        threshold = put_rows(threshold, rows, _solve(_log_tail_of(chosen, region), goal, start, floor, ceiling))
    return threshold


def _log_tail_of(terms: Terms, region: rules.Region) -> Callable[[Array, Array], tuple[Array, Array]]:
    def evaluate(rows: Array, threshold: Array) -> tuple[Array, Array]:
        value, slope, _ = contour.integrate(terms.rows(rows), threshold, region)  # a bound will do far from the root
        return value - threshold, slope - 1

    return evaluate


def _solve(
    evaluate: Callable[[Array, Array], tuple[Array, Array]], goal: Array, start: Array, lower: Array, upper: Array
) -> Array:
    """Root of a monotone function of one variable per row; rows leave as they converge."""
    xp = array_namespace(goal)
    root = start
    rows = xp.arange(goal.shape[0], device=goal.device)
    at, low, high, wanted = start, lower, upper, goal
    for _ in range(200):
        value, slope = evaluate(rows, at)
        excess = value - wanted
        above = excess * slope < 0  # the root lies above
        low, high = xp.where(above, at, low), xp.where(above, high, at)
        newton = at - excess / slope
        outward = xp.where(xp.isfinite(low), 2 * low + 1 + xp.abs(low), 2 * high - 1 - xp.abs(high))
        middle = xp.where(xp.isfinite(low) & xp.isfinite(high), (low + high) / 2, outward)
        following = xp.where((newton > low) & (newton < high), newton, middle)
        tolerance = ROOT_TOLERANCE * xp.maximum(1 + 0 * wanted, xp.abs(wanted))
        done = (xp.abs(excess) <= tolerance) | (high - low <= 4 * UNIT_ROUNDOFF * xp.abs(at))
        root = put_rows(root, rows, xp.where(done, at, following))
        left = where(~done)
        if left.shape[0] == 0:
            return root
        rows, at, low, high, wanted = (take_rows(column, left) for column in (rows, following, low, high, wanted))
    raise NumericalError("A root of the privacy curve was not found; use enclose() to inspect this pair.")
