"""Roots of falling functions of many rows at a time, each in a bracket of its own: `roots.private_end` for arrays.

`private_ends` takes sections, of curves whose delta costs little more at many places than at one; `ends_of_rows` the
steps that a function proposes, and rows leave as they converge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import LARGEST_EPSILON, UNIT_ROUNDOFF
from gaussveil.spectrum.selection import array_namespace, put_rows, take_rows, where
from gaussveil.typing import Array, Floats

# of the search for an epsilon: 32^12 is beyond the digits of doubles
SECTIONS = 32
ROUNDS = 12
LOOKS = 200  # at each row
FREE = 12  # looks in which no row is halved
NARROW = 8 * UNIT_ROUNDOFF


def private_ends(upper: Callable[[Floats], Floats], target: Floats) -> Floats:
    """For each target the least epsilon found at which `upper`, which falls, is at most the target."""
    low = np.full(target.shape, -1.0)
    high = np.ones(target.shape)
    while not np.all(private := upper(high) <= target):
        if np.max(high) > LARGEST_EPSILON:
            raise NumericalError(
                f"epsilon at delta = {np.min(target)} exceeds {LARGEST_EPSILON}; ask for a larger delta"
            )
        high = np.where(private, high, 2.0 * high)
    # Many sections at a time: one call of delta costs little more for many points than for one.
    shares = np.linspace(0.0, 1.0, SECTIONS + 1)
    for _ in range(ROUNDS):
        points = low[..., None] + (high - low)[..., None] * shares
        points[..., -1] = high
        index = np.argmax(upper(np.maximum(points, 0.0)) <= target[..., None], axis=-1)[
            ..., None
        ]
        low = np.take_along_axis(points, np.maximum(index - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(points, index, axis=-1)[..., 0]
    return high


@np.errstate(all="ignore")
def ends_of_rows(
    look: Callable[[Array, Array], tuple[Array, Array, Array]],
    guess: Array,
    low: Array,
    high: Array,
) -> Array:
    """For each row the smallest place in [low, high] that was seen to have a value <= 0, of functions that fall.

    `high` counts as such a place, looked at or not; ends may be infinite. Nothing outside them is ever looked at.

    Args:
        look: of rows and a place in each: the value there, where the root may be, and how far below 0 is near enough.
        guess: where each row is looked at first.
        low: the lowest place of each row.
        high: the highest one.

    Raises:
        NumericalError: a row did not converge.
    """
    xp = array_namespace(guess)
    answer = high
    rows = xp.arange(guess.shape[0], device=guess.device)
    bottom = low
    seen_low = low != low
    before = xp.full_like(guess, xp.inf)
    place = xp.minimum(xp.maximum(guess, low), high)
    place = xp.where(guess == guess, place, _middle(low, high))
    for looks in range(LOOKS):
        value, proposal, tolerance = look(rows, place)
        private = value <= 0
        low = xp.where(private, low, place)
        high = xp.where(private, place, high)
        seen_low = seen_low | ~private
        narrow = high - low <= NARROW * xp.abs(place)
        enough = private & ((-value <= tolerance) | (place <= bottom))
        done = enough | (narrow & seen_low)
        answer = put_rows(answer, rows, high)
        left = where(~done)
        if left.shape[0] == 0:
            return answer
        inside = (proposal > low) & (proposal < high)
        if looks > FREE:
            creeping = xp.abs(value) > xp.abs(before) / 2
            inside = inside & ~creeping & (looks % 2 == 0)
        following = xp.where(inside, proposal, _middle(low, high))
        # the lower end itself is left to be looked at
        to_bottom = (proposal <= bottom) | narrow | (looks == FREE)
        to_bottom = to_bottom & ~seen_low & xp.isfinite(bottom)
        following = xp.where(to_bottom, bottom, following)
        columns = (rows, following, low, high, bottom, seen_low, value)
        rows, place, low, high, bottom, seen_low, before = (
            take_rows(column, left) for column in columns
        )
    raise NumericalError(
        "A root of the privacy curve was not found; use enclose() to inspect this pair."
    )


def _middle(low: Array, high: Array) -> Array:
    """A place inside each interval: its middle, of logarithms where ends are far apart; outside of an infinite end."""
    xp = array_namespace(low)
    middle = low + (high - low) / 2
    far_apart = (low > 0) & (high > 4 * low)
    by_ratio = xp.sqrt(xp.abs(low)) * xp.sqrt(xp.abs(high))
    middle = xp.where(far_apart, by_ratio, middle)
    middle = xp.where(low == 0, 0.05 * high, middle)
    middle = xp.where(xp.isinf(high), 2 * xp.abs(low) + 1, middle)
    middle = xp.where(xp.isinf(low), -2 * xp.abs(high) - 1, middle)
    return xp.where(xp.isinf(low) & xp.isinf(high), xp.zeros_like(low), middle)
