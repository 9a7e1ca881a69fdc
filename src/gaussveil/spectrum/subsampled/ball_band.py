"""One band's share in delta, in ball arithmetic: its contour integral, or Chernoff's bound of it."""

from __future__ import annotations

import math

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.subsampled.ball_band_step import BandStep
from gaussveil.spectrum.subsampled.bands import Band
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.line_cells import UP

BAND_GOAL = 23.5  # e-foldings between delta and each error
MOST_BAND_PRODUCTS = 16_000_000
EACH_POINT = 1.6e-4
EACH_PRODUCT = 3e-7


class BallBand:
    """A band's share in delta, over e^log_delta."""

    def __init__(
        self, band: Band, c: float, companions: BallCompanions, log_delta: float
    ) -> None:
        self.band = band
        self.c = c
        self.companions = companions
        self.log_delta = log_delta
        self.counts = [count for _, count in band.parts.steps]
        self._heights: dict[float, float] = {}

    def _prepared(self, height: float, digits: float) -> list[BandStep]:
        return [
            BandStep(self.band, index, self.c, height, digits)
            for index in range(len(self.counts))
        ]

    def _level(self, order: float) -> arb:
        return (
            self.companions.exponent(acb(order)).real
            - arb(order) * self.band.epsilon
            - self.log_delta
        )

    def bound(self, whole: bool = False) -> arb:
        """Chernoff's bound of the band, or of all outputs up to its cap."""
        with ctx.workprec(120):
            steps = self._prepared(0.0, 30.0)
            c = arb(self.c)
            for one in steps:
                one.weigh()
            moments = [one.real(self.c) for one in steps]
            found = self._gone(
                [(acb(m), acb(m) if whole else acb(part)) for m, part in moments]
            )
            rest = c * c.log() - (1 + c) * (1 + c).log()
            return arb(found.abs_upper()) * (self._level(self.c) + rest).exp()

    def work(self) -> float:
        """About how many seconds the integral takes."""
        spacing = self.band.spacing(self.c, self.log_delta, BAND_GOAL)
        nodes = math.ceil(self._height(spacing.digits) / spacing.between)
        steps = self._prepared(nodes * spacing.between, spacing.digits)
        return math.fsum(
            one.number * (EACH_POINT + EACH_PRODUCT * nodes) for one in steps
        )

    def value(self, ended: bool = False) -> arb:
        """The integral; the lines beside it may have to be where windows end the moments."""
        band = self.band
        c = self.c
        h, beside, _, _, digits, _ = band.spacing(c, self.log_delta, BAND_GOAL, ended)
        nodes = math.ceil(self._height(digits) / h)
        steps = self._prepared(nodes * h, digits)
        if not sum(one.number for one in steps) * nodes < MOST_BAND_PRODUCTS:
            raise ArithmeticError("too many nodes")
        with ctx.workprec(
            int((digits + math.log(sum(self.counts))) / math.log(2.0)) + 60
        ):
            for one in steps:
                one.weigh()
            error = arb(0)
            step = arb(h)
            for order in (c - beside, c + beside):
                gone = self._gone(
                    [
                        (acb(m), acb(part))
                        for m, part in (one.real(order) for one in steps)
                    ]
                )
                error += arb(gone.real.abs_upper()) * self._level(order).exp() / order
            apart = arb(min(c - (c - beside), (c + beside) - c)) * (1 - arb(UP))
            error = error / 2 / ((2 * arb.pi() * apart / step).exp() - 1)
            if not ended and not error < arb(2.0 - BAND_GOAL).exp():
                return self.value(ended=True)
            known = [one.moments(h, nodes) for one in steps]
            total = arb(0)
            level = self._level(c)
            origin = self.companions.exponent(acb(c)).real
            for n in range(nodes + 1):
                s = acb(c, step * n)
                factor = (
                    self.companions.exponent(s)
                    - origin
                    - acb(0, step * n * arb(band.epsilon))
                ).exp() / (s * (s + 1))
                value = (factor * self._gone([row[n] for row in known])).real
                total += value / 2 if n == 0 else value
            total *= step / arb.pi() * level.exp()
            return total + arb(0, (error + self._beyond(steps, nodes * h)).abs_upper())

    def _gone(self, moments: list[tuple[acb, acb]]) -> acb:
        """prod M^T - prod (M - m)^T, with its digits where the shares m/M are small."""
        product = acb(1)
        kept = acb(0)
        small = True
        for (whole, inside), count in zip(moments, self.counts):
            product *= whole**count
            share = inside / whole
            small = small and bool(share.abs_upper() < 0.5)
            kept += count * (-share).log1p() if small else acb(0)
        if small:
            return -product * kept.expm1()
        rest = acb(
            0 if math.isinf(self.band.lows[0]) else 1
        )  # nothing is below the last band
        for (whole, inside), count in zip(moments, self.counts):
            rest *= (whole - inside) ** count
        return product - rest

    def _height(self, digits: float) -> float:
        """Where `_beyond` should be small enough, in doubles."""
        if digits not in self._heights:
            self._heights[digits] = self._searched_height(digits)
        return self._heights[digits]

    def _searched_height(self, digits: float) -> float:
        level = float(self._level(self.c).mid())
        looks = []
        for one, points in zip(self._prepared(0.0, digits), self.band.coarse):
            log_moment, share = (
                float(found[0]) for found in points.means(np.array([self.c]))[:2]
            )
            level += one.count * log_moment
            looks.append((one, one.cells(self.c)[1], log_moment, share))
        height = max(points.height(self.c, digits) for points in self.band.coarse)
        low = 0.0
        high = math.inf
        for _ in range(60):
            worst = level - math.log(height)
            worst += max(
                cells.falls(height, log_moment + math.log(share))
                + math.log(one.count * share)
                for one, cells, log_moment, share in looks
            )
            for one, _, log_moment, share in looks:
                worst += (one.count - 1) * one.falls(
                    height, log_moment, log_moment + math.log1p(-min(share, 1 - UP))
                )
            low, high = (low, height) if worst < -BAND_GOAL else (height, high)
            if high < 1.15 * low or -BAND_GOAL - 1.0 < worst < -BAND_GOAL:
                return high
            if 0.0 < low < high < math.inf:
                height = math.sqrt(low * high)
            else:
                height = height * (1.5 if low else 1.0 / 1.5)
        raise ArithmeticError("too many nodes")

    def _beyond(self, steps: list[BandStep], height: float) -> arb:
        """(1/pi) times the sum of |F| h beyond the last node: bounds of |m| fall, as does a Gaussian pair's |e^K|."""
        found = arb(0)
        product = self._level(self.c).exp()
        falls = arb(0)
        for one in steps:
            moments = one.real(self.c)
            whole, inside = (arb(moment.abs_upper()) for moment in moments)
            log_moment = float(inside.log().upper()) + UP
            fallen = arb(log_moment) + arb(
                one.cells(self.c)[1].falls(height, log_moment)
            )
            found += one.count * fallen.exp() / whole
            product *= whole**one.count
            kept = arb(
                (whole - arb(moments[1].abs_lower())).abs_upper()
            )  # M - m, at most
            logs = (float(value.log().upper()) + UP for value in (whole, kept))
            falls += (one.count - 1) * arb(one.falls(height, *logs))
        growing = self.companions.falls(self.c, height)
        return arb(
            (found * product * (growing + falls).exp() / height / arb.pi()).abs_upper()
        )
