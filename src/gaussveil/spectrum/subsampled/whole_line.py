"""Delta along one straight line Re s = c, in doubles, with a bound of everything that it is off by.

          Im s  |    .  y_1: above it |M| falls on paths of outputs beside the real ones
                |    o  last node: up to y_1 |M(c + iy)|^2 <= M(c)^2 (1 - y^2 V + y^4 E D^4/24)
                |    o  h
       - - - - -|- - o - - - -  Re s
                0  c-a c c+a    on the lines c - a and c + a |F| bounds what the nodes miss

It is the line of `ball_line`, with its points (`ball_line_step`) and its bounds (`line_cells`), which doubles charge
as balls do; what they add of their own are roundings (`output_sums`). Where epsilon is far below the mean loss the line
crosses between the poles at -1 and 0, and the integral is delta - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gaussveil.spectrum.subsampled.ball_line_step import LineStep, Tilted, short
from gaussveil.spectrum.subsampled.bands import Band
from gaussveil.spectrum.subsampled.contour import (
    LEFT_OUT,
    Beside,
    Nodes,
    Parts,
    saddle,
)
from gaussveil.spectrum.subsampled.falling import Fall, Falling, falling_height
from gaussveil.spectrum.subsampled.line_cells import OutputWindow
from gaussveil.spectrum.subsampled.output_sums import (
    LINE_CELLS,
    OutputSums,
    reach_to_both_densities,
)
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

WHOLE_DIGITS = 40.0  # e-foldings below delta of each error: ten more than needed, so that nodes serve nearby, too
MOST_NODES = 200_000
MOST_PRODUCTS = 400_000  # points times nodes: some ten milliseconds
LAST_PRODUCTS = 4_000_000  # where nothing else settles
ROOM = (0.4, 0.1, 0.0)  # shares of c that lines beside may be to its right
LEAST_POINTS = 60  # of a step, about
LEAST_WHOLE = 1.0  # log of a moment from which on 1 is surely not subtracted from it


class WholeLine(Band):
    """What a band is where it holds all outputs below a cut, and what stands beside them."""

    def __init__(
        self, parts: Parts, epsilon: float, log_delta: float, windowed: bool
    ) -> None:
        super().__init__(parts._replace(steps=()), [], epsilon, log_delta)
        self.line_steps = [
            LineStep(
                step, count, LINE_CELLS, _window(parts, step) if windowed else None
            )
            for step, count in parts.steps
        ]
        self.all_parts = parts
        self.looks: list[Tilted] = []

    def look(self, c: float) -> bool:
        """Look at the steps next to c on coarse points; false where c makes rare outputs count."""
        for line_step in self.line_steps:
            found = line_step.look(c, self.all_parts.log_delta, LEFT_OUT, ROOM)
            if found is None:
                return False
            if found.value < LEAST_WHOLE:
                reach_to_both_densities(line_step, c)
            self.looks.append(found)
        return True

    def real(self, orders: Floats) -> tuple[Floats, Floats, Floats]:
        """K, its slopes, and K at real orders; infinite where the outputs at a cut would count."""
        value, slope, _ = self.parts.companions.real_moments(orders)
        for line_step in self.line_steps:
            own, mean = line_step.tilted_to(orders, WHOLE_DIGITS)
            value = value + line_step.count * own
            slope = slope + line_step.count * mean
        return value, slope, value

    def beside(self, c: float) -> Callable[[float], float]:
        """log of how far a Gaussian pair beside has fallen at a height and above; atoms need not fall at all."""
        gaussians = self.parts.companions.gaussians
        if not gaussians.present:
            return lambda height: 0.0
        start = float(gaussians.cumulant(np.array([c + 0.0j]))[0].real)

        def fallen(height: float) -> float:
            at = gaussians.cumulant(np.array([complex(c, height)]))
            return float(at[0].real) - start

        return fallen

    def height(self, c: float, width: float, digits: float, most: float) -> float:
        """Where |F| has fallen by so many e-foldings; infinite beyond the most."""
        falls = [
            look.fall(line_step.count, line_step.fresh_cells(c))
            for line_step, look in zip(self.line_steps, self.looks)
        ]
        falling = Falling(self.beside(c), falls)
        goal = -digits - math.log(abs(c) * (1.0 + c))
        return falling_height(falling, goal, width, most)


def line_nodes(
    parts: Parts, epsilon: float, products: int = MOST_PRODUCTS
) -> Nodes | None:
    """Nodes of a single line that settle delta at epsilon; None where it takes bands, or too many nodes."""
    at = saddle(parts, epsilon)
    c = at.centre
    if not parts.steps and c < 0.0:
        c = min(1.0, 0.5 * parts.companions.highest_order)
    log_delta = at.peak + math.log(at.width)
    for windowed in (False, True):
        line = WholeLine(parts, epsilon, log_delta, windowed)
        if not line.look(c):
            continue
        spacing = line.spacing(c, log_delta, WHOLE_DIGITS)
        if 0.0 < spacing.between < math.inf:
            break
    else:
        return None
    between = short(spacing.between)
    most = MOST_NODES
    if parts.steps:
        most = products // LEAST_POINTS
    height = line.height(c, at.width, spacing.digits, most * between)
    if not height < math.inf:
        return None
    nodes = max(math.ceil(height / between), 1)
    height = nodes * between
    points = sum(step.prepare(c, height, WHOLE_DIGITS) for step in line.line_steps)
    if points * nodes > products:
        return None
    heights = between * np.arange(nodes + 1.0)
    order = c + 1j * heights
    value, rounding = parts.companions.cumulant(order)
    orders = np.array([c - spacing.shift, c + spacing.shift])
    sizes = parts.companions.real_moments(orders)[0]
    falls = []
    for line_step in line.line_steps:
        sums = OutputSums(line_step, c, height)
        moments = sums.moments(heights)
        value = value + line_step.count * moments.log_moment
        rounding = rounding + line_step.count * moments.rounding
        beside = [sums.log_beside(order) for order in orders.tolist()]
        sizes = sizes + line_step.count * np.array(beside)
        variance, ratio = sums.spread()
        at_c = float(moments.log_moment[0].real)
        falls.append(Fall(line_step.count, line_step.cells, variance, ratio, at_c))
    fallen = Falling(line.beside(c), falls).at(height)
    beyond = fallen + float(value[0].real + rounding[0]) - math.log(math.pi * height)
    return Nodes(
        order,
        np.where(heights == 0.0, 0.5, 1.0) * (between / math.pi),
        value,
        rounding,
        Beside(between, orders, sizes, beyond),
        sum((step.beyond_cut for step in line.line_steps), 0.0),
    )


def _window(parts: Parts, step: Step) -> OutputWindow:
    return OutputWindow(parts.cap(step), -math.inf, step.edge)
