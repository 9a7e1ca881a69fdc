"""One step in one band, in ball arithmetic: its points, its weights, and the proven errors of its sums.

    weight  1 |-------------.
              |              \\   W_b = Phi((cap - z)/w)            `whole`: all outputs up to the cap
              |       .-------\\
              |      /  band   \\  W_b - W_{b+1}                    `inside`: those of the band
            0 |-----'-----------'------> z
                  low cap      cap   cut = cap + 12 w, or 9.2 w

Points lie on the real line, or, where e^{iyL} turns so fast that this would take too many, `aside` of it: moved to
where Im L >= 0, so that |e^{sL}| is at most what it is at the real order, at every height (docs/math/subsampled,
"Enclosures band by band"). What is chosen in doubles costs width at worst. In doubles all that is
`double_band_step.DoubleBandStep`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.subsampled.balls import BallStep, exp_up, normal_tail
from gaussveil.spectrum.subsampled.bands import ENDED, Band, Spacing
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.line_cells import LineCells, OutputWindow
from gaussveil.spectrum.subsampled.turned_sums import turned_sums
from gaussveil.spectrum.work import check_work

BAND_STRIPS = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.98])
"""Distances from the real outputs that are tried, in units of the farthest: pi sigma / 2, or 4."""
BAND_CELLS = 750  # of bounds
SKETCH_CELLS = 250  # of those that height and points are chosen by
MANY_POINTS = 300  # points of a sum over real outputs from which on others are tried
MOST_POINTS = 20_000  # of a sum: some two seconds
WORTH_MOVING = (
    1.7  # times as wide a spacing: complex outputs take longer than real ones
)
LITTLE = 4.0  # e-foldings below a band's moment: what farther outputs may give to it
BALL_ENDED = 12.0  # edges beyond the cap at which a window ends: Phi(-12) e^(d^2/(2 w^2)) lets strips be wide
LARGEST_TILT = 40.0  # deviations by which a tilt moves outputs of X and Y exchanged


class PointSpread(NamedTuple):
    """How far points are apart, and the distance of the lines that bound the sum's error."""

    spacing: float
    strip: float


class BallBandStep:
    """One step in a band: points, weights up to the cap and in the band, and the proven errors of their sums.

    Without a height it holds bounds alone, from few cells: those that a height is chosen by.
    """

    def __init__(
        self,
        band: Band,
        index: int,
        c: float,
        spacing: Spacing,
        height: float | None = None,
    ) -> None:
        self.step, self.count = band.parts.steps[index]
        self.band = band
        self.index = index
        self.c = c
        needed = spacing.digits + math.log(self.count) + 3.0
        self._end(BALL_ENDED, needed)
        self.many = SKETCH_CELLS
        if height is None:
            return
        self.many = BAND_CELLS
        self._place_points(height, needed)
        if spacing.shift and not self._serves(c + spacing.shift):
            self._end(ENDED, needed)
            self._place_points(height, needed)

    def _end(self, ended: float, needed: float) -> None:
        """Where outputs begin, and end so many edges beyond the cap."""
        cap = self.band.caps[self.index]
        edge = self.step.edge
        self.cut = cap + ended * edge
        self.low = min(-math.sqrt(2.0 * (needed + 7.0)), cap - 1.0)
        if self.step.backward:
            self.low -= min(self.c / self.step.noise_multiplier, LARGEST_TILT)
        self.windows = (
            OutputWindow(cap, -math.inf, edge),
            OutputWindow(cap, self.band.lows[self.index], edge),
        )

    def _place_points(self, height: float, needed: float) -> None:
        """Choose where points lie."""
        bounds = self._bounds(self.c)
        self.spacing, self.strip = self._straight(bounds, height, needed)
        self.aside = False
        if self.cut - self.low > MANY_POINTS * self.spacing:
            spread = self._moved_aside(bounds, needed)
            if spread.spacing > WORTH_MOVING * self.spacing:
                self.aside = True
                self.spacing, self.strip = spread
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing

    def _serves(self, order: float) -> bool:
        """Whether outputs far beyond the cap, and errors, are small beside both moments at another order, too."""
        farther = self.band.caps[self.index] + ENDED * self.step.edge
        for cells, level in self._bounds(order):
            beyond = float(np.max(cells.mass[cells.edges[1:] > farther]))
            if max(beyond, float(self._log_error(cells, 0.0))) > level - LITTLE:
                return False
        return True

    def _bounds(self, order: float) -> list[tuple[LineCells, float]]:
        """Bounds of both moments at a real order, and logs of their largest terms."""
        points = self.band.coarse[self.index]
        sizes = points.base + order * points.loss
        levels = [float(np.max(sizes + part)) for part in (points.whole, points.inside)]
        return list(zip(self.cells(order, SKETCH_CELLS), levels))

    @property
    def _strips(self) -> list[float]:
        farthest = min(0.5 * math.pi * self.step.noise_multiplier, 4.0)
        strips: list[float] = (BAND_STRIPS * farthest).tolist()
        return strips

    def _straight(
        self, bounds: list[tuple[LineCells, float]], height: float, needed: float
    ) -> PointSpread:
        """The widest spacing of real outputs, for orders up to a height and so many e-foldings."""
        spreads = []
        for strip in self._strips:
            cost = max(cells.beside(strip, height) - level for cells, level in bounds)
            slowest = 1.9 * math.pi / bounds[0][0].growth(strip, height)
            wide = 2.0 * math.pi * strip / (needed + max(cost, 0.0))
            spreads.append(PointSpread(min(wide, slowest), strip))
        return max(spreads)

    def _moved_aside(
        self, bounds: list[tuple[LineCells, float]], needed: float
    ) -> PointSpread:
        """The same of outputs moved aside, for all heights; the least error counts before the spacing."""
        spreads = []
        for strip in self._strips:
            cost = max(cells.beside(strip, 0.0) - level for cells, level in bounds)
            spacing = math.pi * strip / (needed + max(cost, 0.0))
            error = max(
                cells.error_aside(spacing, strip) - level for cells, level in bounds
            )
            spreads.append(
                (min(2.0 - needed - error, 0.0), PointSpread(spacing, strip))
            )
        return max(spreads)[1]

    def weigh(self) -> None:
        """Losses and both weights at the points."""
        check_work()
        if self.number > MOST_POINTS:
            raise ArithmeticError("too many points")
        self.losses: list[acb] = []
        self.weights: tuple[list[acb], list[acb]] = ([], [])
        densities = BallStep(self.step)
        scale = arb(self.spacing) / (2 * arb.pi()).sqrt()
        aside = arb(0)
        if self.aside:
            aside = arb(0.5 * self.strip)
        if self.step.backward:
            aside = -aside
        window = _BallWindow(self.windows[1], aside)
        for j in range(self.number):
            z = acb(arb(self.cut) - (arb(j) + arb(0.5)) * arb(self.spacing), aside)
            base, loss = densities.base_and_loss(z)
            size = (base - z * z / 2 + self.c * loss).exp() * scale
            whole, inside = window.at(z)
            self.losses.append(loss)
            self.weights[0].append(size * whole)
            self.weights[1].append(size * inside)

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

    def cells(self, order: float, many: int | None = None) -> list[LineCells]:
        """Bounds of both moments at a real order."""
        return [
            LineCells(self.step, order, self.low, self.cut, window, many or self.many)
            for window in self.windows
        ]

    def error(self, cells: LineCells, height: float) -> arb:
        """How far a sum is from its moment, at most, up to a height."""
        return exp_up(self._log_error(cells, height))

    def _log_error(self, cells: LineCells, height: float) -> float:
        if self.aside:
            return cells.error_aside(self.spacing, self.strip)
        return cells.error(self.spacing, self.strip, height)

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
            LineCells(self.step, self.c, self.low, self.cut, window, self.many)
            for window in windows
        ]


class _BallWindow:
    """The window below the cap, and the band's part of it, at outputs aside of the real ones by the same distance."""

    def __init__(self, window: OutputWindow, aside: arb) -> None:
        self.cap = arb(window.cap)
        self.low = arb(window.low)
        self.edge = arb(window.edge)
        self.ends_below = math.isfinite(window.low)
        # |P(g > x + i y)| <= e^((y^2 - x^2)/2)/2 to the right of 0
        turned = float(((aside / self.edge) ** 2).upper())
        far = math.sqrt(2.0 * ctx.prec + turned) + UP
        radius = arb(0, (((arb(turned) - arb(far) ** 2) / 2).exp() / 2).abs_upper())
        self.tail = acb(radius, radius)
        self.far = far * window.edge * (1.0 + UP)
        self.edges = (window.low, window.cap)

    def at(self, z: acb) -> tuple[acb, acb]:
        """Both; from the smaller tails, so that neither loses its digits."""
        place = float(z.real.mid())
        low, cap = (place - edge for edge in self.edges)
        if cap < 0.0:
            side = self._beyond(self.cap - z, -cap)
            whole = 1 - side
        else:
            side = self._beyond(z - self.cap, cap)
            whole = side
        if not self.ends_below:
            return whole, whole
        if low < 0.0:
            return whole, self._beyond(self.low - z, -low) - side
        return whole, whole - self._beyond(z - self.low, low)

    def _beyond(self, away: acb, distance: float) -> acb:
        """P(g > place) to the right of 0: far from there a ball of its largest size around 0."""
        if distance > self.far:
            return self.tail
        return normal_tail(away / self.edge)
