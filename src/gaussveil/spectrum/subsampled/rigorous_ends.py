"""Rigorous ends of delta of a composition: what is tried first, and what where that is too wide or would take long.

                 one line in balls --- narrow? ---> done
                        |
                        v
    bands in balls, unless they would take seconds --- then first the grid, and bands only where that is loose
                        |
                        v
    the grid of both ends (steps, a mean shift)  or  the contour in doubles, then the pessimistic grid's upper end
                        |
                        v
    Chernoff's bound and the best single event in balls: both ends, proven, of what is too small or held by no grid

All that answered is intersected: each is proven, or charges every rounding it knows of (`Enclosure.proven`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.spectrum.enclosures.interval import (
    UNKNOWN,
    Enclosure,
    exp_up,
    intersection,
)
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.companions import NO_SHIFT, BallCompanions, Shift
from gaussveil.spectrum.subsampled.contour import Parts, chernoff
from gaussveil.spectrum.subsampled.nodes import (
    DEEP,
    Settled,
    first_saddle,
    log_delta_guess,
    settled,
)
from gaussveil.spectrum.subsampled.one_event import at_least
from gaussveil.spectrum.subsampled.two_sided import MOST_GRID_NODES, enclose_on_grid

NARROW_LINE = (
    1e-10  # relative width of an enclosure that one line need not share with bands
)
LOOSE = (
    1e-6  # relative width of an enclosure beside which a grid's upper end is looked at
)
SURELY_ONE = Enclosure(1.0 - 2.0**-52, 1.0, -(2.0**-51), 0.0, proven=False)
BELOW_DOUBLES = -746.0  # a log delta of which no double tells
DEEPEST = -717.0  # one at which windows leave out so little: 33 e-foldings less
FEWER_GRID_NODES = 2**17  # of a grid that is asked for many times
FEWEST_GRID_NODES = 2**13  # of its first try
# relative width at which that is all that is asked: for an epsilon, and for one of many deltas
ENOUGH = 1e-8
ENOUGH_OF_MANY = 1e-4
ENOUGH_BESIDE_LAWS = 1e-3  # nearly all of it the lower end's
# seconds of work in bands from which on the grid comes first, or is all there is
LONG_BANDS = 2.2
LONGEST_BANDS = 6.0


class RigorousEnds:
    """Ends of delta of parts, at any epsilon.

    `companions` is what stands beside the steps, in balls; None where its exact form is not known. `pessimistic` gives
    a composition on a grid, which costs much and is asked for last.
    """

    def __init__(
        self,
        parts: Parts,
        companions: BallCompanions | None,
        pessimistic: Callable[[], PrivacyCurve],
    ) -> None:
        self.parts = parts
        self.companions = companions
        self.pessimistic = pessimistic
        self._last: tuple[float, Settled] | None = None

    def settled(self, epsilon: float) -> Settled:
        """The contour integral in doubles, kept for whoever asks there next: beside laws it takes long."""
        last = self._last  # read once: another thread may ask elsewhere meanwhile
        if last is None or last[0] != epsilon:
            last = self._last = epsilon, settled(self.parts, epsilon)
        return last[1]

    def of_many(self, epsilon: float) -> Enclosure | None:
        """Ends at one of many epsilons, on a grid of few nodes; None where that is wide, or there is none."""
        guess = self.guess(epsilon)
        laws = self.parts.companions.laws
        enough = ENOUGH_BESIDE_LAWS if laws else ENOUGH_OF_MANY
        for nodes in (FEWEST_GRID_NODES, FEWER_GRID_NODES):
            ends = self._on_nodes(epsilon, guess, nodes)
            if ends.relative_width < enough:
                return ends
        return None

    def at(self, epsilon: float, log_delta: float | None = None) -> Enclosure:
        """Ends at epsilon; where an epsilon is searched, many are asked for, and about `log_delta` is looked for."""
        searched = log_delta is not None
        if log_delta is None:
            log_delta = self.about(epsilon)
        if log_delta == 0.0:
            return SURELY_ONE
        if log_delta < DEEP and self._is_below_doubles(epsilon):
            log_delta = min(log_delta, BELOW_DOUBLES)
        if log_delta <= BELOW_DOUBLES:
            bound = self._bound(epsilon, log_delta)
            if bound.log_upper < 0.0:
                return intersection(bound, at_least(self.parts.steps, epsilon))
        nodes = FEWER_GRID_NODES if searched else MOST_GRID_NODES

        @cache
        def on_grid() -> Enclosure:
            return self._on_grid(epsilon, log_delta, nodes)

        if searched and self.beside is not None and on_grid().relative_width < ENOUGH:
            return on_grid()
        ends = UNKNOWN
        if self.companions is not None:
            ends = self._in_balls(self.companions, epsilon, log_delta, on_grid)
        if not ends.relative_width < LOOSE:
            ends = intersection(ends, on_grid())
        if not ends.relative_width < LOOSE:
            ends = intersection(ends, self._in_doubles(epsilon))
        if not ends.relative_width < LOOSE:
            ends = intersection(ends, self._bound(epsilon, log_delta))
            ends = intersection(ends, at_least(self.parts.steps, epsilon))
        undecided = self.beside is None or float(ends.upper) == 1.0
        if not ends.relative_width < LOOSE and undecided:
            ends = intersection(ends, self._pessimistic_end(epsilon))
        return ends

    @np.errstate(all="ignore")
    def _is_below_doubles(self, epsilon: float) -> bool:
        """Whether a bound says so that leaves out what is rarer still: moments of all outputs may hide it."""
        return chernoff(self.parts.windowed(BELOW_DOUBLES), epsilon) < BELOW_DOUBLES

    def _bound(self, epsilon: float, log_delta: float) -> Enclosure:
        """From 0 up to Chernoff's bound in balls: no more can be told of a delta smaller than doubles are."""
        from gaussveil.spectrum.subsampled.ball_bands import chernoff_in_balls

        if self.companions is None or not self.parts.steps:
            return UNKNOWN
        level = max(log_delta, DEEPEST)
        return chernoff_in_balls(self.parts, self.companions, epsilon, level) or UNKNOWN

    def _in_balls(
        self,
        companions: BallCompanions,
        epsilon: float,
        log_delta: float,
        on_grid: Callable[[], Enclosure],
    ) -> Enclosure:
        """Along one line or band by band; where bands would take seconds the grid is asked before them."""
        from gaussveil.spectrum.subsampled.ball_bands import BandsInBalls
        from gaussveil.spectrum.subsampled.ball_line import enclose_on_line

        steps = self.parts.steps
        ends = enclose_on_line(steps, companions, epsilon, log_delta) or UNKNOWN
        if ends.relative_width < NARROW_LINE or not steps:
            return ends
        bands = BandsInBalls(self.parts.windowed(log_delta - 2.0), companions, epsilon)
        work = bands.work(LONGEST_BANDS)
        if work > LONG_BANDS:
            ends = intersection(ends, on_grid())
        loose = not ends.relative_width < LOOSE
        if work <= LONG_BANDS or (work <= LONGEST_BANDS and loose):
            ends = intersection(ends, bands.enclose() or UNKNOWN)
        return ends

    def _on_grid(self, epsilon: float, log_delta: float, nodes: int) -> Enclosure:
        """Ends of the steps, and of a mean shift and laws beside them; of other pairs those of the contour."""
        laws = self.parts.companions.laws
        if self.beside is None or laws:
            ends = self._in_doubles(epsilon)
            if self.beside is None or ends.relative_width < LOOSE:
                return ends
        return self._on_nodes(epsilon, log_delta, nodes)

    def _on_nodes(self, epsilon: float, log_delta: float, nodes: int) -> Enclosure:
        steps = self.parts.steps
        if self.beside is None or not steps:
            return UNKNOWN
        laws = self.parts.companions.laws
        try:
            return enclose_on_grid(steps, epsilon, log_delta, nodes, self.beside, laws)
        except NumericalError:
            return UNKNOWN  # of losses that no grid holds

    @cached_property
    def beside(self) -> Shift | None:
        """The mean shift beside the steps; None where another pair stands there."""
        if not self.parts.companions.gaussians.present:
            return NO_SHIFT
        if self.companions is None:
            return None
        return self.companions.shift()

    @np.errstate(all="ignore")
    def _in_doubles(self, epsilon: float) -> Enclosure:
        """By the bound of the error in doubles: where balls would take minutes, as beside many atoms."""
        value, _, error, _ = self.settled(epsilon)
        if not math.isfinite(error):
            return UNKNOWN
        low = value - error
        high = min(value + error, 0.0)
        lower = math.exp(low) * (1.0 - 2.0**-48)
        return Enclosure(lower, float(exp_up(high)), low, high, proven=False)

    def _pessimistic_end(self, epsilon: float) -> Enclosure:
        """From 0 to the pessimistic composition's delta; one that left the doubles is not 0."""
        upper = max(float(self.pessimistic().delta(epsilon)), math.ulp(0.0))
        return Enclosure(0.0, upper, -math.inf, math.log(upper), proven=False)

    @np.errstate(all="ignore")
    def about(self, epsilon: float) -> float:
        """log delta, roughly: what windows, grids and precisions are chosen by."""
        log_delta, _, error, _ = self.settled(epsilon)
        if math.isfinite(error):
            return log_delta
        return self.guess(epsilon)

    @np.errstate(all="ignore")
    def guess(self, epsilon: float) -> float:
        """log delta by Chernoff's bound, which may be some e-foldings off."""
        at = first_saddle(self.parts, epsilon)
        return log_delta_guess(self.parts, epsilon, at) - 3.0
