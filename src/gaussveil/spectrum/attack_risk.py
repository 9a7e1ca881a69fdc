"""What a privacy curve means to an attacker who tells two neighbouring data sets apart.

All follows from delta in both directions: the best test of Y against X that accuses Y wrongly with probability a misses
X with probability f(a) = max over epsilon of 1 - delta(epsilon) - e^epsilon a (Dong, Roth, Su 2022, Proposition 2.12).
Any epsilon gives a value that is not above f, so a coarse search errs on the safe side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gaussveil.spectrum import contour
from gaussveil.spectrum.terms import Terms
from gaussveil.spectrum.turns import turns
from gaussveil.typing import Floats

TRADEOFF_ROUNDING = (
    2.0**-50
)  # of a bound of the trade-off, which is below 1 with all of its terms
HIGHEST = 12.0  # log of the largest mean shift that is looked for
GRID = np.linspace(0.0, 1.0, 65) ** 2
SEARCH = (  # shares of a width at which epsilons are tried around the best, and how much narrower it gets
    (np.linspace(-1.0, 1.0, 5), 0.1),
    (np.linspace(-1.0, 1.0, 3), 0.05),
    (np.linspace(-1.0, 1.0, 3), 0.05),
)


class GaussianDP(NamedTuple):
    """A mu whose Gaussian curve lies above, and an upper end of the most it overstates a true-positive rate by."""

    mu: float
    regret: float


def smallest_mu(curve: Any, smallest_delta: float) -> GaussianDP:
    """The mu of a curve that is compared down to a smallest delta, and its regret (see `PrivacyCurve.mu`)."""
    ahead, back = (
        _ends(side, float(side.epsilon(smallest_delta)))
        for side in (curve, curve.reversed())
    )
    mu = max(_largest_shift(ahead), _largest_shift(back))
    return GaussianDP(mu, _regret(mu, ahead, back))


class _Ends(NamedTuple):
    """Epsilons from 0 to where delta is negligible, and both ends of delta there; nothing is known beyond."""

    levels: Floats
    lower: Floats
    upper: Floats


def _ends(side: Any, reach: float) -> _Ends:
    levels = (max(reach, 1e-9) if reach < math.inf else 1.0) * np.linspace(
        0.0, 1.0, 129
    ) ** 2
    deltas = np.asarray(side.delta(levels), dtype=np.float64)
    error = side.relative_error
    # Losses that are infinite with more than the smallest delta have no mean shift above them.
    if reach < math.inf:
        upper = np.minimum(deltas * (1.0 + error), 1.0)
    else:
        upper = np.ones(levels.size)
    return _Ends(levels, np.append(deltas[:-1] * (1.0 - error), 0.0), upper)


@np.errstate(all="ignore")
def _largest_shift(side: _Ends) -> float:
    """A mean shift, rounded up, whose delta is nowhere below the side's at epsilons up to the last.

    As functions of a = e^epsilon both are convex: one is below its chords, on which the other, of slope
    -Phi(-epsilon/mu - mu/2), comes down most where their slopes are equal, or at an end. (1 - delta)/a falls, from
    2 Phi(-mu/2) for a mean shift: where it is largest in doubles, one mu does for all smaller epsilons.
    """
    rest = np.log1p(-side.upper) - side.levels
    begin = int(np.argmax(rest))
    if begin or side.upper[0] == 1.0:
        least_mu = -2.0 * float(scipy.special.ndtri_exp(rest[begin] - math.log(2.0)))
    else:
        least_mu = 0.0
    levels = side.levels[begin:]
    deltas = side.upper[begin:]
    first = levels[:-1]
    start = deltas[:-1]
    width = np.maximum(np.expm1(np.diff(levels)), 1e-300)
    fall = np.maximum(start - deltas[1:], 0.0)
    slope = scipy.special.ndtri_exp(np.log(fall / width) - first)

    def reaches(log_mu: Floats) -> NDArray[np.bool_]:
        mu = np.exp(log_mu)
        place = np.clip(np.nan_to_num(-mu * (slope + 0.5 * mu)), first, levels[1:])
        flat = np.zeros((first.size, 1))
        value, _, error = contour.log_delta(
            Terms.from_gaps(flat, flat + 1.0, (mu * mu)[:, None]), place
        )
        # not so without an answer
        chord = np.log(start - fall * np.expm1(place - first) / width)
        return np.asarray(value - error >= chord)

    lowest = np.full(first.size, -18.0)
    _, high = turns(reaches, lowest, np.full(first.size, HIGHEST), 52)
    largest = max(float(np.max(high, initial=-18.0)), math.log(max(least_mu, 1e-300)))
    if largest < HIGHEST:
        return math.exp(largest) * (1.0 + 1e-12)
    return math.inf


@np.errstate(all="ignore")
def _regret(mu: float, ahead: _Ends, back: _Ends) -> float:
    """Upper end of the largest gap between the smaller of both trade-offs and that of the mean shift.

    Between two false-positive rates a trade-off is below its chord, and that of the mean shift above its tangents.
    """
    if mu == math.inf:
        return 1.0
    near = np.linspace(-8.0, 8.0, 513)
    place = np.unique(np.concatenate([near, near + mu]))
    rate = scipy.special.log_ndtr(-place)
    gaussian = scipy.special.ndtr(place - mu)
    width = rate[:-1] + np.log(-np.expm1(np.diff(rate)))
    tilt = mu * (place - 0.5 * mu)
    share, below = _corner(
        gaussian[:-1], gaussian[1:], np.exp(tilt[:-1] + width), np.exp(tilt[1:] + width)
    )
    gaps = []
    for side, other in ((ahead, back), (back, ahead)):
        missed = _missed(side, other, rate)
        ends = missed - gaussian
        inside = missed[:-1] + share * np.diff(missed) - below
        gaps.append(np.maximum(np.maximum(ends[:-1], ends[1:]), inside))
    largest = float(np.max(np.minimum(*gaps))) + 1e-14 * float(
        1.0 + mu * mu + ahead.levels[-1] + back.levels[-1]
    )
    # also where doubles do not tell
    if largest < 1.0:
        return largest
    return 1.0


def _missed(side: _Ends, other: _Ends, log_rate: Floats) -> Floats:
    """Upper ends of the trade-off: of its lines 1 - delta - e^epsilon rate the highest is at a corner of lower ends.

    Between two epsilons delta, convex in e^epsilon, is above the chords before and after them, prolonged.
    """
    # delta(-epsilon) = 1 + e^-epsilon (delta of the other side - 1), of slope -1 or more
    shrunk = np.exp(-other.levels)
    lower, upper = (
        np.concatenate([(1.0 + shrunk * (theirs - 1.0))[:0:-1], own])
        for own, theirs in ((side.lower, other.lower), (side.upper, other.upper))
    )
    levels = np.concatenate([-other.levels[:0:-1], side.levels])
    wide = np.expm1(np.diff(levels))  # cells, over where they begin
    before = (lower[1:-1] - upper[:-2]) / -np.expm1(-np.diff(levels)[:-1])
    after = (upper[2:] - lower[1:-1]) / wide[1:] * np.exp(-np.diff(levels)[:-1])
    first = np.append(-shrunk[-1], before) * wide
    last = np.append(after, 0.0) * wide
    share, height = _corner(lower[:-1], lower[1:], first, last)
    place = np.concatenate([levels, levels[:-1] + np.log1p(share * wide)])
    return np.asarray(
        np.max(
            1.0 - np.concatenate([lower, height]) - np.exp(place + log_rate[:, None]),
            axis=1,
        )
    )


def _corner(
    start: Floats, end: Floats, first: Floats, last: Floats
) -> tuple[Floats, Floats]:
    """Where, as a share of a cell, and how high a line from its start meets one to its end; either may do alone."""
    share = np.clip(
        np.nan_to_num((end - start - last) / (first - last), nan=1.0), 0.0, 1.0
    )
    return share, start + first * share


def tradeoff_of(curve: Any, type_one_error: Floats) -> Floats:
    """f at each error by a search over epsilon in both directions: never above the truth, close below it.

    All errors are looked for at once. What is maximised is smooth nearly everywhere, so that parabolas through three
    epsilons lead to the best one, from its cell of a common grid.
    """
    levels = np.ravel(type_one_error)
    smallest = 1e-3 * float(np.min(levels, initial=1.0))
    best = np.zeros(levels.size)
    for side, ahead in ((curve, True), (curve.reversed(), False)):
        reach = float(side.epsilon(max(smallest, 1e-12)))
        grid = max(min(reach, 700.0), 1e-9) * GRID
        deltas = np.asarray(side.delta(grid), dtype=np.float64)
        heights = _bound(grid, deltas, levels[:, None], ahead)
        best = np.maximum(best, heights.max(axis=1))
        place = np.clip(np.argmax(heights, axis=1), 1, grid.size - 2)
        centre = grid[place]
        width = np.maximum(grid[place + 1] - centre, centre - grid[place - 1])
        for offsets, narrower in SEARCH:
            points = np.maximum(centre[:, None] + width[:, None] * offsets, 0.0)
            shape = points.shape
            values = np.asarray(side.delta(np.ravel(points)), dtype=np.float64)
            heights = _bound(points, np.reshape(values, shape), levels[:, None], ahead)
            best = np.maximum(best, heights.max(axis=1))
            centre = _vertex(points, heights)
            width = width * narrower
    return np.reshape(np.clip(best, 0.0, 1.0 - levels), np.shape(type_one_error))


def _vertex(points: Floats, found: Floats) -> Floats:
    """Where the parabola through the best point and its neighbours is highest; the best point where there is none."""
    rows = np.arange(points.shape[0])
    place = np.clip(np.argmax(found, axis=1), 1, points.shape[1] - 2)
    left, middle, right = (found[rows, place + move] for move in (-1, 0, 1))
    x = points[rows, place]
    before = x - points[rows, place - 1]
    after = points[rows, place + 1] - x
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = (middle - left) / before
        fall = (middle - right) / after
        move = 0.5 * (rise * after - fall * before) / (rise + fall)
    inside = np.isfinite(move) & (move > -before) & (move < after)
    top = points[rows, np.argmax(found, axis=1)]
    return np.asarray(np.where(inside, x + move, top))


def _bound(epsilon: Floats, delta: Floats, level: Floats, ahead: bool) -> Floats:
    """1 - delta(epsilon) - e^epsilon level, or the same at -epsilon from the other direction's delta."""
    weight = np.exp(epsilon)
    return (
        np.asarray(
            1.0 - delta - weight * level if ahead else (1.0 - delta - level) / weight
        )
        - TRADEOFF_ROUNDING
    )
