"""Which nodes settle delta: those of one curved line, of companions alone, or of a line for each band."""

from __future__ import annotations

import math

from gaussveil.spectrum.subsampled.contour import (
    ACCURATE,
    Nodes,
    Parts,
    Saddle,
    saddle,
)
from gaussveil.spectrum.subsampled.double_bands import (
    AnyNodes,
    BandsInDoubles,
    bands_in_doubles,
)
from gaussveil.spectrum.subsampled.first_guess import (
    saddlepoint_of_bands,
    single_log_delta,
)
from gaussveil.spectrum.subsampled.whole_line import LAST_PRODUCTS, line_nodes

DEEP = -100.0  # a log delta for windows before anything is known
FIRST_WINDOW = 25.0  # e-foldings below Chernoff's bound that the first windows keep
WORTHLESS = 40.0  # log of a bound of delta that is of no use: windows' ends, or rare outputs, count
SURE = -60.0  # log of 1 - delta, as a bound in doubles has it, at which delta is 1 but for what balls would not see

Settled = tuple[float, float, float, AnyNodes]


def one_line(windowed: Parts, epsilon: float) -> Nodes | None:
    """Nodes of a single line that settle delta at epsilon; None where it takes bands."""
    nodes = line_nodes(windowed, epsilon)
    if nodes is None:
        return None
    _, slope, error = nodes.log_delta(epsilon)
    if error <= ACCURATE * (1.0 + abs(slope) * epsilon):
        return nodes
    return None


def nodes_for(
    parts: Parts, epsilon: float, log_delta: float, goal: float | None = None
) -> AnyNodes:
    """Nodes that settle delta, which is about e^log_delta, at epsilon and nearby: one line, or one for each band.

    Lines may be moved to about where log delta is a goal.
    """
    windowed = parts.windowed(log_delta)
    nodes = one_line(windowed, epsilon)
    if nodes is None and not parts.steps:
        return BandsInDoubles([], math.inf, epsilon)
    return nodes or (
        bands_in_doubles(windowed, epsilon)
        if goal is None
        else bands_near(windowed, goal, epsilon)
    )


def bands_near(parts: Parts, goal: float, epsilon: float) -> BandsInDoubles:
    """Bands for about the epsilon at which log delta is the goal, looked for from an epsilon on."""
    return bands_in_doubles(parts, *saddlepoint_of_bands(parts, goal, epsilon))


def settled(parts: Parts, epsilon: float) -> Settled:
    """The contour integral, with windows first chosen from Chernoff's bound, then from what that gave.

    log delta, its slope, its error bound, and the nodes they came from.
    """
    at = first_saddle(parts, epsilon)
    if at.centre < 0.0 and at.peak < SURE:  # there the integral is delta - 1
        return 0.0, 0.0, 0.0, BandsInDoubles([], 0.0, epsilon)
    guess = log_delta_guess(parts, epsilon, at) - FIRST_WINDOW
    nodes = nodes_for(parts, epsilon, guess)
    log_delta, slope, error = nodes.log_delta(epsilon)
    if accurate(log_delta, slope, error, epsilon):
        return log_delta, slope, error, nodes
    # windows too wide, or so narrow that they leave out what counts
    if log_delta > guess + 1.0:
        other = nodes_for(parts, epsilon, log_delta)
    else:
        other = nodes_for(parts, epsilon, guess - FIRST_WINDOW)
    again, slope_again, error_again = other.log_delta(epsilon)
    if error_again < error:
        return again, slope_again, error_again, other
    if math.isinf(error):
        alone = one_by_one(parts, epsilon) - FIRST_WINDOW
        if alone < guess - FIRST_WINDOW:
            rare = nodes_for(parts, epsilon, alone)
            value, slope_there, error_there = rare.log_delta(epsilon)
            if error_there < error:
                return value, slope_there, error_there, rare
        last = line_nodes(parts.windowed(guess), epsilon, LAST_PRODUCTS)
        if last is not None:
            return *last.log_delta(epsilon), last
    return log_delta, slope, error, nodes


def log_delta_guess(parts: Parts, epsilon: float, at: Saddle) -> float:
    """log delta by Chernoff's bound, some e-foldings too large; where it gives none, that of one step for each use."""
    if math.isfinite(at.peak) and at.peak < WORTHLESS:
        return min(at.peak + math.log1p(abs(at.centre)), 0.0)
    return one_by_one(parts, epsilon)


def one_by_one(parts: Parts, epsilon: float) -> float:
    """log delta where at most one step counts: that of one step for each use."""
    alone = [
        single_log_delta(step, epsilon) + math.log(count)
        for step, count in parts.steps
        if not step.backward
    ]
    return min(max((log for log in alone if math.isfinite(log)), default=DEEP), 0.0)


def first_saddle(parts: Parts, epsilon: float) -> Saddle:
    """The saddle with windows for a delta of e^`DEEP`, or without any where it is smaller: their end would count."""
    at = saddle(parts.windowed(DEEP), epsilon)
    if not at.peak >= DEEP:
        alone = saddle(parts, epsilon)
        if math.isfinite(alone.peak):
            return alone
    return at


def accurate(_: float, slope: float, error: float, epsilon: float) -> bool:
    """Whether an error of log delta moves epsilon by next to nothing."""
    return error <= ACCURATE * (1.0 + abs(slope) * epsilon)
