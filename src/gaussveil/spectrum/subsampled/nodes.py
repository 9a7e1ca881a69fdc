"""Which nodes settle delta: those of one curved line, of companions alone, or of a line for each band."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.spectrum.subsampled.band_lines import band_lines, lines_near
from gaussveil.spectrum.subsampled.bands import (
    LINE_DIGITS,
)
from gaussveil.spectrum.subsampled.contour import (
    ACCURATE,
    Contour,
    Nodes,
    Parts,
    saddle,
)
from gaussveil.spectrum.subsampled.lines import BLOCK_NODES, Line, Lines
from gaussveil.spectrum.subsampled.plain_line import MOST_NODES as PLAIN_NODES
from gaussveil.spectrum.subsampled.plain_line import WholeLine

DEEP = -100.0  # a log delta for windows before anything is known
FIRST_WINDOW = 25.0  # e-foldings below Chernoff's bound that the first windows keep
SURE = -60.0  # log of 1 - delta, as a bound in doubles has it, at which delta is 1 but for what balls would not see


def one_line(windowed: Parts, epsilon: float) -> Nodes | None:
    """Nodes of a single line that settle delta at epsilon; None where it takes bands."""
    contour = Contour(windowed, saddle(windowed, epsilon))
    extent = contour.extent(epsilon)
    if not math.isfinite(extent):
        return None
    nodes = contour.settle(epsilon, extent)
    _, slope, error = nodes.log_delta(epsilon)
    if error <= ACCURATE * (1.0 + abs(slope) * epsilon):
        return nodes
    return None


def plain_line(parts: Parts, epsilon: float, log_delta: float) -> Lines:
    """The line of companions alone; none where it takes too many nodes."""
    band = WholeLine(parts, [], epsilon, log_delta)
    c = band.order()
    spacing = band.spacing(c, log_delta, LINE_DIGITS)
    height = band.height(c, spacing.digits)
    if not (spacing.between > 0.0 and height < PLAIN_NODES * spacing.between):
        return Lines([], math.inf, epsilon)
    blocks = max(math.ceil(height / (BLOCK_NODES * spacing.between)), 2)
    order = c + 1j * spacing.between * np.arange(float(BLOCK_NODES * blocks))
    return Lines(
        [Line(order, *parts.companions.cumulant(order), spacing)], 0.0, epsilon
    )


def nodes_for(
    parts: Parts, epsilon: float, log_delta: float, goal: float | None = None
) -> Nodes | Lines:
    """Nodes that settle delta, which is about e^log_delta, at epsilon and nearby: one line, or one for each band.

    Lines may be moved to about where log delta is a goal.
    """
    windowed = parts.windowed(log_delta)
    nodes = one_line(windowed, epsilon)
    if nodes is None and not parts.steps:
        return plain_line(parts, epsilon, log_delta)
    return nodes or (
        band_lines(windowed, epsilon)
        if goal is None
        else lines_near(windowed, goal, epsilon)
    )


def settled(parts: Parts, epsilon: float) -> tuple[float, float, float, Nodes | Lines]:
    """The contour integral, with windows first chosen from Chernoff's bound, then from what that gave.

    log delta, its slope, its error bound, and the nodes they came from.
    """
    at = saddle(parts.windowed(DEEP), epsilon)
    if at.centre < 0.0 and at.peak < SURE:  # there the integral is delta - 1
        return 0.0, 0.0, 0.0, Lines([], 0.0, epsilon)
    if math.isfinite(at.peak):
        guess = min(at.peak + math.log1p(abs(at.centre)), 0.0) - FIRST_WINDOW
    else:
        guess = DEEP
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
    return log_delta, slope, error, nodes


def accurate(_: float, slope: float, error: float, epsilon: float) -> bool:
    """Whether an error of log delta moves epsilon by next to nothing."""
    return error <= ACCURATE * (1.0 + abs(slope) * epsilon)
