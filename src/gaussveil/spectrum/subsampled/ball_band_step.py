"""One step in one band, in ball arithmetic: its points, its weights, and the proven errors of its sums.

    weight  1 |-------------.
              |              \\   W_b = Phi((cap - z)/w)            `whole`: all outputs up to the cap
              |       .-------\\
              |      /  band   \\  W_b - W_{b+1}                    `inside`: those of the band
            0 |-----'-----------'------> z
                  low cap      cap   cut = cap + 9.2 w

Points lie on the real line, or, where e^{iyL} turns so fast that this would take too many, `aside` of it: moved to
where Im L >= 0, so that |e^{sL}| is at most what it is at the real order, at every height (docs/math/subsampled,
"Enclosures band by band"). What is chosen in doubles costs width at worst.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.subsampled.balls import BallStep, exp_up, normal_tail
from gaussveil.spectrum.subsampled.bands import ENDED, Band
from gaussveil.spectrum.subsampled.line_cells import UP, LineCells, OutputWindow
from gaussveil.spectrum.subsampled.turned_sums import turned_sums
from gaussveil.spectrum.work import check_work

BAND_STRIPS = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.98])
"""Distances from the real outputs that are tried, in units of the farthest: pi sigma / 2, or 4."""
MANY_POINTS = 1500  # points of a sum over real outputs from which on others are tried
LARGEST_TILT = 40.0  # deviations by which a tilt moves outputs of X and Y exchanged


class Spread(NamedTuple):
    """How far points are apart, and the distance of the lines that bound the sum's error."""

    spacing: float
    strip: float


class BandStep:
    """One step in a band: points, weights up to the cap and in the band, and the proven errors of their sums."""

    def __init__(
        self, band: Band, index: int, c: float, height: float, digits: float
    ) -> None:
        self.step, self.count = band.parts.steps[index]
        cap = band.caps[index]
        edge = self.step.edge
        self.c = c
        self.cut = cap + ENDED * edge
        self.low = min(-math.sqrt(2.0 * (digits + 10.0)), cap - 1.0)
        if self.step.backward:
            self.low -= min(c / self.step.noise_multiplier, LARGEST_TILT)
        self.windows = (
            OutputWindow(cap, -math.inf, edge),
            OutputWindow(cap, band.lows[index], edge),
        )
        points = band.coarse[index]
        sizes = points.base + c * points.loss
        levels = [float(np.max(sizes + part)) for part in (points.whole, points.inside)]
        needed = digits + math.log(self.count) + 3.0
        bounds = list(zip(self.cells(c), levels))
        self.spacing, self.strip = self._straight(bounds, height, needed)
        self.aside = False
        if self.cut - self.low > MANY_POINTS * self.spacing:
            spread = self._moved_aside(bounds, needed)
            if spread.spacing > self.spacing:
                self.aside = True
                self.spacing, self.strip = spread
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing
        self.losses: list[acb] = []
        self.weights: tuple[list[acb], list[acb]] = ([], [])

    @property
    def _strips(self) -> list[float]:
        farthest = min(0.5 * math.pi * self.step.noise_multiplier, 4.0)
        strips: list[float] = (BAND_STRIPS * farthest).tolist()
        return strips

    def _straight(
        self, bounds: list[tuple[LineCells, float]], height: float, needed: float
    ) -> Spread:
        """The widest spacing of real outputs, for orders up to a height and so many e-foldings."""
        spreads = []
        for strip in self._strips:
            cost = max(cells.beside(strip, height) - level for cells, level in bounds)
            slowest = 1.9 * math.pi / bounds[0][0].growth(strip, height)
            wide = 2.0 * math.pi * strip / (needed + max(cost, 0.0))
            spreads.append(Spread(min(wide, slowest), strip))
        return max(spreads)

    def _moved_aside(
        self, bounds: list[tuple[LineCells, float]], needed: float
    ) -> Spread:
        """The same of outputs moved aside, for all heights; the least error counts before the spacing."""
        spreads = []
        for strip in self._strips:
            cost = max(cells.beside(strip, 0.0) - level for cells, level in bounds)
            spacing = math.pi * strip / (needed + max(cost, 0.0))
            error = max(
                cells.error_aside(spacing, strip) - level for cells, level in bounds
            )
            spreads.append((min(2.0 - needed - error, 0.0), Spread(spacing, strip)))
        return max(spreads)[1]

    def cells(self, order: float) -> list[LineCells]:
        """Bounds of both moments at a real order."""
        return [
            LineCells(self.step, order, self.low, self.cut, window)
            for window in self.windows
        ]

    def error(self, cells: LineCells, height: float) -> arb:
        """How far a sum is from its moment, at most, up to a height."""
        if self.aside:
            return exp_up(cells.error_aside(self.spacing, self.strip))
        return exp_up(cells.error(self.spacing, self.strip, height))

    def falls(self, height: float, log_whole: float, log_kept: float) -> float:
        """log of a bound on |M| and |M - m| at all greater heights, over e^log_whole; logs of both at c are given."""
        if self.count == 1:
            return 0.0
        fallen = [
            cells.falls(height, log) + log
            for cells, log in zip(self._outer, (log_whole, log_kept))
        ]
        return min(max(fallen) - log_whole + UP, 0.0)

    @cached_property
    def _outer(self) -> list[LineCells]:
        """Bounds of M and, if anything is below the band, of M - m."""
        windows = [self.windows[0]]
        below = self.windows[1].low
        if math.isfinite(below):
            windows.append(OutputWindow(below, -math.inf, self.step.edge))
        return [
            LineCells(self.step, self.c, self.low, self.cut, window)
            for window in windows
        ]

    def weigh(self) -> None:
        """Losses and both weights at the points."""
        check_work()
        densities = BallStep(self.step)
        scale = arb(self.spacing) / (2 * arb.pi()).sqrt()
        aside = arb(0)
        if self.aside:
            aside = arb(0.5 * self.strip)
        if self.step.backward:
            aside = -aside
        for j in range(self.number):
            z = acb(arb(self.cut) - (arb(j) + arb(0.5)) * arb(self.spacing), aside)
            base, loss = densities.base_and_loss(z)
            size = (base - z * z / 2 + self.c * loss).exp() * scale
            whole, inside = _windows_at(z, self.windows[1])
            self.losses.append(loss)
            self.weights[0].append(size * whole)
            self.weights[1].append(size * inside)

    def real(self, order: float) -> tuple[arb, arb]:
        """Both moments at a real order."""
        shift = arb(order) - arb(self.c)
        grown = [(shift * loss).exp() for loss in self.losses]
        whole, inside = self.cells(order)
        return (
            self._sum(self.weights[0], grown, whole),
            self._sum(self.weights[1], grown, inside),
        )

    def _sum(self, weights: list[acb], grown: list[acb], cells: LineCells) -> arb:
        total = sum((w * x for w, x in zip(weights, grown)), acb(0))
        return total.real + arb(0, self.error(cells, 0.0))

    def moments(self, h: float, nodes: int) -> list[tuple[acb, acb]]:
        """Both moments at c + i n h."""
        check_work()
        exponents = [acb(0, arb(h)) * loss for loss in self.losses]
        errors = [self.error(cells, nodes * h) for cells in self.cells(self.c)]
        slack_whole, slack_inside = (
            acb(arb(0, error), arb(0, error)) for error in errors
        )
        whole, inside = (
            turned_sums(weights, exponents, nodes) for weights in self.weights
        )
        return [
            (moment + slack_whole, part + slack_inside)
            for moment, part in zip(whole, inside)
        ]


def _windows_at(z: acb, window: OutputWindow) -> tuple[acb, acb]:
    """The window below the cap, and the band's part of it; from the smaller tails, so that neither loses its digits."""
    cap = arb(window.cap)
    low = arb(window.low)
    edge = arb(window.edge)
    if z.real < cap:
        side = _beyond((cap - z) / edge)
        whole = 1 - side
    else:
        side = _beyond((z - cap) / edge)
        whole = side
    if z.real < low:
        return whole, _beyond((low - z) / edge) - side
    if math.isfinite(window.low):
        return whole, whole - _beyond((z - low) / edge)
    return whole, whole


def _beyond(place: acb) -> acb:
    """P(g > place) to the right of 0: where that is below the precision, a ball of radius e^(-place^2/2)/2 around 0."""
    fallen = (place.imag * place.imag - place.real * place.real) / 2
    if fallen < -ctx.prec:
        radius = arb(0, (fallen.exp() / 2).abs_upper())
        return acb(radius, radius)
    return normal_tail(place)
