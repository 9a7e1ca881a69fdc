"""Epsilon of a delta, on the private side: the root of log delta on nodes that serve neighbouring epsilons.

Where no contour settles, Chernoff's bound may prove an epsilon private; else enclosures, which always answer, decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.double_bands import (
    KNOWN_ERROR,
    TRUSTED_CHANGE,
    USEFUL_ERROR,
    AnyNodes,
    BandsInDoubles,
)
from gaussveil.spectrum.subsampled.first_guess import (
    far_from_root,
    saddlepoint_epsilon,
    single_epsilon_guess,
)
from gaussveil.spectrum.subsampled.nodes import (
    accurate,
    bands_near,
    nodes_for,
    one_line,
)

ROOT_TOLERANCE = 1e-13
COARSE = 4e-10  # relative error of an epsilon beside which enclosures are asked
DEEP_GOAL = -100.0  # a log delta below which enclosures take seconds each, and
DEEP_COARSE = 2e-7  # such an error will do
ENCLOSED = 2e-10  # relative width of the interval in which these leave it
MOST_ENCLOSED = 24  # of these


class EpsilonSearch:
    """The search for the epsilon at which log delta is a goal.

    `largest` is the supremum of the loss, `bound` gives an upper end of log delta at an epsilon that costs next to
    nothing, `enclose` rigorous ends for an epsilon and the goal.
    """

    def __init__(
        self,
        parts: Parts,
        goal: float,
        largest: float,
        bound: Callable[[float], float],
        enclose: Callable[[float, float], Enclosure],
    ) -> None:
        self.parts = parts
        self.goal = goal
        self.largest = largest
        self.bound = bound
        self.enclose = enclose
        self.windowed = parts.windowed(goal - 2.0)
        deep = goal < DEEP_GOAL
        self.useful, self.coarse = (
            (KNOWN_ERROR, DEEP_COARSE) if deep else (USEFUL_ERROR, COARSE)
        )
        self.nodes: AnyNodes | None = None
        self.slope = self.error = math.nan

    @np.errstate(all="ignore")
    def epsilon(self) -> float:
        """The smallest epsilon found whose upper end of delta is private."""
        largest = self.largest
        epsilon = min(first_guess(self.parts, self.goal), largest)
        self.nodes = one_line(self.windowed, epsilon)
        if self.nodes is None and self.parts.steps:
            self.nodes = lines = bands_near(self.windowed, self.goal, epsilon)
            epsilon = lines.epsilon
        tolerance = ROOT_TOLERANCE * (1.0 - self.goal)
        private = private_end(self.look, epsilon, 0.0, largest, tolerance=tolerance)
        if (
            private == 0.0
            or not math.isfinite(self.error)
            or self.error < self.coarse * abs(self.slope) * private
        ):
            return private
        return private_end(
            self.look_enclosed,
            private,
            0.0,
            largest,
            rtol=ENCLOSED,
            evaluations=MOST_ENCLOSED,
        )

    def look(self, epsilon: float) -> Trial:
        """By how much log delta may exceed the goal."""
        value, slope, error = self._at(epsilon)
        self.slope = slope
        self.error = error
        if not error < self.useful:
            bound = self.bound(epsilon) - self.goal
            if bound <= 0.0:
                return Trial(bound)
            return self.look_enclosed(epsilon)
        excess = value + error - self.goal
        if -2.0 * error <= excess <= 0.0:
            return Trial(0.0)
        if abs(excess) < TRUSTED_CHANGE:
            return Trial(excess, self._near_root(epsilon - excess / slope))
        return Trial(excess, far_from_root(epsilon, excess, slope))

    def look_enclosed(self, epsilon: float) -> Trial:
        """By how much the upper end of an enclosure exceeds the goal."""
        return Trial(float(self.enclose(epsilon, self.goal).log_upper) - self.goal)

    def _at(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope and its error bound, on the nodes at hand if they serve."""
        if self.nodes is not None:
            answer = self.nodes.log_delta(epsilon)
            if accurate(*answer, epsilon) or (
                isinstance(self.nodes, BandsInDoubles)
                and self.nodes.near(*answer, epsilon)
            ):
                return answer
        self.nodes = nodes_for(self.windowed, epsilon, self.goal - 2.0)
        return self.nodes.log_delta(epsilon)

    def _near_root(self, epsilon: float) -> float:
        """Newton steps on the nodes at hand, which stay good for nearby epsilons, to just beyond the root."""
        assert self.nodes is not None
        for _ in range(8):
            value, slope, error = self.nodes.log_delta(epsilon)
            if not (math.isfinite(error) and epsilon > 0.0):
                return epsilon
            excess = value + 1.5 * error - self.goal
            epsilon = (epsilon - excess / slope) * (1.0 + 2.0 * UNIT_ROUNDOFF)
            if abs(excess) < 0.1 * ROOT_TOLERANCE * (1.0 - self.goal) + 0.1 * error:
                break
        return epsilon


def first_guess(parts: Parts, goal: float) -> float:
    """Epsilon by the saddlepoint, unless few steps count: then about where one of them alone exceeds it."""
    saddlepoint = saddlepoint_epsilon(parts.windowed(goal), goal)
    if not parts.steps or parts.companions.laws:
        return saddlepoint
    if (
        sum(step.sampling_rate * count for step, count in parts.steps) > 1.0
        or parts.steps[0][0].backward
    ):
        return saddlepoint
    uses = math.log(sum(count for _, count in parts.steps))
    alone = max(single_epsilon_guess(step, goal - uses) for step, _ in parts.steps)
    nearly_normal = min(step.noise_multiplier for step, _ in parts.steps) > 3.5
    trusted = alone <= saddlepoint < (math.inf if nearly_normal else 4.0 * alone)
    if trusted:
        return saddlepoint
    return alone
