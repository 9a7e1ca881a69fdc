"""One step in one band, in ball arithmetic: its points, its weights, and the proven errors of its sums."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.subsampled.bands import ENDED, Band
from gaussveil.spectrum.subsampled.line_cells import UP, LineCells, Window
from gaussveil.spectrum.subsampled.turned_sums import turned_sums
from gaussveil.spectrum.work import check_work

BAND_STRIPS = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.98])
MANY_POINTS = 1500  # points of a sum over real outputs from which on others are tried


class BandStep:
    """One step in a band: points, weights up to the cap and in the band, and the proven errors of their sums."""

    def __init__(
        self, band: Band, index: int, c: float, height: float, digits: float
    ) -> None:
        (self.step, self.count), cap = band.parts.steps[index], band.caps[index]
        edge = self.step.edge
        step = self.step
        self.c = c
        self.cut = cap + ENDED * edge
        if step.backward:
            tilted = min(c / step.noise_multiplier, 40.0)
        else:
            tilted = 0.0
        self.low = min(-math.sqrt(2.0 * (digits + 10.0)), cap - 1.0) - tilted
        self.windows = (
            Window(cap, -math.inf, edge),
            Window(cap, band.lows[index], edge),
        )
        points = band.coarse[index]
        levels = [
            float(np.max(points.base + c * points.loss + part))
            for part in (points.whole, points.inside)
        ]
        cells = self.cells(c)
        straight = []
        aside = []
        digits += math.log(self.count) + 3.0
        for strip in (
            BAND_STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0)
        ).tolist():
            cost = max(
                one.beside(strip, height) - level for one, level in zip(cells, levels)
            )
            slowest = 1.9 * math.pi / cells[0].growth(strip, height)
            straight.append(
                (min(2.0 * math.pi * strip / (digits + max(cost, 0.0)), slowest), strip)
            )
        self.aside, (self.spacing, self.strip) = False, max(straight)
        if self.cut - self.low > MANY_POINTS * self.spacing:
            for strip in (
                BAND_STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0)
            ).tolist():
                cost = max(
                    one.beside(strip, 0.0) - level for one, level in zip(cells, levels)
                )
                spacing = math.pi * strip / (digits + max(cost, 0.0))
                error = max(
                    one.error_aside(spacing, strip) - level
                    for one, level in zip(cells, levels)
                )
                aside.append((min(-digits + 2.0 - error, 0.0), spacing, strip))
            _, spacing, strip = max(aside)
            if spacing > self.spacing:
                self.aside = True
                self.spacing = spacing
                self.strip = strip
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - self.number * self.spacing
        self.losses: list[acb] = []
        self.weights: tuple[list[acb], list[acb]] = ([], [])

    def cells(self, order: float) -> list[LineCells]:
        """Bounds of both moments at a real order."""
        return [
            LineCells(self.step, order, self.low, self.cut, window)
            for window in self.windows
        ]

    def error(self, cells: LineCells, height: float) -> arb:
        """How far a sum is from its moment, at most, up to a height."""
        numbers = self.spacing, self.strip
        return _exp_up(
            cells.error_aside(*numbers) if self.aside else cells.error(*numbers, height)
        )

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
        windows = [
            self.windows[0],
            Window(self.windows[1].low, -math.inf, self.step.edge),
        ]
        if not math.isfinite(windows[1].cap):
            windows = windows[:1]
        return [
            LineCells(self.step, self.c, self.low, self.cut, window)
            for window in windows
        ]

    def weigh(self) -> None:
        """Losses and both weights at the points."""
        check_work()
        step, noise, rate = (
            self.step,
            arb(self.step.noise_multiplier),
            arb(self.step.sampling_rate),
        )
        scale = arb(self.spacing) / (2 * arb.pi()).sqrt()
        half = 1 / (2 * noise * noise)
        cap, low, edge = (arb(value) for value in self.windows[1])
        aside = arb(
            (-0.5 if step.backward else 0.5) * self.strip if self.aside else 0.0
        )
        for k in range(self.number):
            z = acb(arb(self.cut) - (arb(k) + arb(0.5)) * arb(self.spacing), aside)
            one = (rate * (z / noise - half).expm1()).log1p()
            if step.replace:
                other = (rate * (-z / noise - half).expm1()).log1p()
            else:
                other = acb(0)
            loss, base = (-one, acb(0)) if step.backward else (one - other, one)
            size = (base - z * z / 2 + self.c * loss).exp() * scale
            left = z.real < cap
            side = _beyond((cap - z if left else z - cap) / edge)
            if left:
                top = 1 - side
            else:
                top = side
            if z.real < low:
                inside = _beyond((low - z) / edge) - side
            else:
                if math.isfinite(self.windows[1].low):
                    inside = top - _beyond((z - low) / edge)
                else:
                    inside = top
            self.losses.append(loss)
            self.weights[0].append(size * top)
            self.weights[1].append(size * inside)

    def real(self, order: float) -> tuple[arb, arb]:
        """Both moments at a real order."""
        shift = arb(order) - arb(self.c)
        found = []
        grown = [(shift * loss).exp() for loss in self.losses]
        for weights, cells in zip(self.weights, self.cells(order)):
            total = sum((w * x for w, x in zip(weights, grown)), acb(0))
            found.append(total.real + arb(0, self.error(cells, 0.0)))
        return found[0], found[1]

    def moments(self, h: float, nodes: int) -> list[tuple[acb, acb]]:
        """Both moments at c + i n h."""
        check_work()
        exponents = [acb(0, arb(h)) * loss for loss in self.losses]
        errors = [self.error(cells, nodes * h) for cells in self.cells(self.c)]
        whole, part = (
            turned_sums(weights, exponents, nodes) for weights in self.weights
        )
        slack = [acb(arb(0, error), arb(0, error)) for error in errors]
        return [(one + slack[0], other + slack[1]) for one, other in zip(whole, part)]


def _beyond(place: acb) -> acb:
    """P(g > place) of a normal g, as an analytic function to the right of 0: there it is at most e^(-place^2/2)/2."""
    fallen = (place.imag * place.imag - place.real * place.real) / 2
    if fallen < -ctx.prec:
        return acb(
            arb(0, (fallen.exp() / 2).abs_upper()),
            arb(0, (fallen.exp() / 2).abs_upper()),
        )
    return (place / arb(2).sqrt()).erfc() / 2


def _exp_up(log: float) -> arb:
    if log < math.inf:
        return arb((arb(log) + arb(UP)).exp().abs_upper())
    return arb("inf")
