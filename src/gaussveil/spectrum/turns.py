"""Where a statement that is false below and true above begins to hold: halving, with a bounded number of looks.

A search that only learns yes or no (a proof that succeeds, a budget that suffices) is a `Turn`; what has a value to
go by is left to `roots`. Nothing outside [low, high] is ever looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gaussveil.spectrum.selection import array_namespace
from gaussveil.typing import Array

LOOKS = 100


class Turn(NamedTuple):
    """The ends of an interval in which a statement becomes true: the last place without it, the first one with it."""

    before: float
    after: float


def turn(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    rtol: float = 0.0,
    by_ratio: bool = False,
    first: Iterable[float] = (),
    looks: int = LOOKS,
) -> Turn:
    """Halve an interval until it is narrower than `rtol` of its upper end, holds no double, or the looks are spent.

    Args:
        holds: the statement.
        low: where it counts as false; it is not looked at.
        high: where it counts as true; it is not looked at.
        rtol: relative width at which the search ends.
        by_ratio: whether halves are of the ratio of the ends rather than of their difference.
        first: places to look at before any half; those outside the interval are passed over.
        looks: how many halves at most.

    >>> turn(lambda place: place > 2.0, 0.0, 8.0, rtol=0.1)
    Turn(before=2.0, after=2.125)
    """
    for place in first:
        if low < place < high:
            low, high = _narrowed(holds, low, place, high)
    for _ in range(looks):
        if high - low <= rtol * abs(high):
            break
        if by_ratio:
            place = math.sqrt(low * high)
        else:
            place = 0.5 * (low + high)
        if not low < place < high:
            break
        low, high = _narrowed(holds, low, place, high)
    return Turn(low, high)


def _narrowed(holds: Callable[[Any], bool], low: Any, place: Any, high: Any) -> Any:
    """The half of an interval in which the statement becomes true."""
    if holds(place):
        return low, place
    return place, high


def turns(
    holds: Callable[[Array], Array], low: Array, high: Array, looks: int
) -> tuple[Array, Array]:
    """The same in every place of two arrays at a time: their ends after so many halves."""
    xp = array_namespace(low, high)
    for _ in range(looks):
        place = 0.5 * (low + high)
        true_there = holds(place)
        low = xp.where(true_there, low, place)
        high = xp.where(true_there, place, high)
    return low, high


def surrounded(
    holds: Callable[[float], bool],
    start: float,
    *,
    factor: float,
    least: float,
    most: float,
    squared: bool = False,
) -> Turn:
    """Neighbours among start, start times the factor, or divided by it, and so on, between which a statement turns.

    With `squared` each step is the square of the one before. `before` is 0 where it holds down to `least`, `after`
    infinite where it holds nowhere up to `most`.

    >>> surrounded(lambda place: place > 5.0, 1.0, factor=2.0, least=0.1, most=100.0)
    Turn(before=4.0, after=8.0)
    """
    true_at_start = holds(start)
    place = start
    if true_at_start:
        stride = 1.0 / factor
    else:
        stride = factor
    while True:
        following = place * stride
        if not least <= following <= most:
            break
        if holds(following) != true_at_start:
            return Turn(min(place, following), max(place, following))
        place = following
        if squared:
            stride = stride * stride
    if true_at_start:
        return Turn(0.0, place)
    return Turn(place, math.inf)


def whole_turn(
    holds: Callable[[int], bool],
    low: int,
    high: int,
    *,
    share: int = 0,
    first: Iterable[int] = (),
) -> tuple[int, int]:
    """Whole numbers, neighbours or within a `share`-th of the upper one, between which a statement becomes true."""
    for place in first:
        if low < place < high:
            low, high = _narrowed(holds, low, place, high)
    while high - low > max(1, high // share if share else 1):
        low, high = _narrowed(holds, low, (low + high) // 2, high)
    return low, high


def first_whole(
    holds: Callable[[int], bool], most: int, *, share: int = 0
) -> int | None:
    """The first whole number from 1 on at which a statement holds, or one within a `share`-th above it.

    None where it does not hold at the powers of two up to `most`.

    >>> first_whole(lambda number: number * number > 50, 1000)
    8
    """
    high = 1
    while not holds(high):
        high *= 2
        if high > most:
            return None
    return whole_turn(holds, high // 2, high, share=share)[1]
