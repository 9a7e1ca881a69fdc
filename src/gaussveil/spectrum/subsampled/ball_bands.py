"""Rigorous ends of delta band by band, in ball arithmetic; what is chosen in doubles costs width at worst."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.bands import ENDED, Band, Chosen, chosen_bands
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.line_cells import UP, Cells, Window
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.turned_sums import turned_sums
from gaussveil.spectrum.work import check_work

TIGHT = 5e-10  # relative width beyond which delta is looked at again
GOAL = 23.5  # e-foldings between delta and each error
STRIPS = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.98])
MANY = 1500  # points of a sum over real outputs from which on others are tried
MOST_PRODUCTS = 16_000_000
# seconds, about
EACH_BAND = 0.1
EACH_POINT = 1.6e-4
EACH_PRODUCT = 3e-7


class BandsInBalls:
    """The bands of parts with windows that suit delta, and K of what stands beside them."""

    def __init__(
        self, parts: Parts, companions: BallCompanions, epsilon: float
    ) -> None:
        self.parts = parts
        self.companions = companions
        with np.errstate(all="ignore"):
            self.chosen = chosen_bands(parts, epsilon)
        if self.chosen is None:
            self.bands = []
        else:
            self.bands = self._bands(self.chosen)

    def _bands(self, chosen: Chosen) -> list[BallBand]:
        return [
            BallBand(band, c, self.companions, chosen.log_delta)
            for band, c in chosen.bands
        ]

    @cached_property
    def work(self) -> float:
        """About how many seconds they take; infinite where they are too many."""
        if self.chosen is None:
            return math.inf
        with precision_lock(), np.errstate(all="ignore"):
            try:
                return sum(EACH_BAND + band.work() for band in self.bands)
            except (
                ArithmeticError,
                ValueError,
            ):  # what was chosen in doubles left their range
                return math.inf

    def enclose(self) -> Enclosure | None:
        """Rigorous ends of delta; None of too many nodes."""
        if self.chosen is None:
            return None
        with precision_lock(), np.errstate(all="ignore"):
            try:
                found = self._enclosed(self.chosen, self.bands)
                if (
                    not found.relative_width < TIGHT
                    and found.log_upper < self.chosen.log_delta - 2.0
                ):
                    smaller = self.chosen._replace(log_delta=float(found.log_upper))
                    found = self._enclosed(smaller, self._bands(smaller))
                return found
            except (ArithmeticError, ValueError):
                return None

    def _enclosed(self, chosen: Chosen, bands: list[BallBand]) -> Enclosure:
        level = arb(chosen.log_delta)
        slack = arb(0)
        total = sum((band.value() for band in bands), arb(0))
        for band, tilt in chosen.negligible:
            slack += BallBand(
                band, tilt.order, self.companions, chosen.log_delta
            ).bound()
        if chosen.below is not None:
            below, tilt = (
                chosen.below
            )  # of tilts at which its window may not end the moment
            tilts = [
                BallBand(below, share * tilt.order, self.companions, chosen.log_delta)
                for share in (1.0, 0.8, 0.6)
            ]
            slack += arb(
                min(float(one.bound(whole=True).abs_upper()) for one in tilts)
            ) * (1 + arb(UP))
        for step, count in self.parts.steps:
            slack += count * _beyond_window(step, self.parts.cap(step)) * (-level).exp()
            # outputs beyond a band's end carry a weight of at most Phi(-ENDED) there, of what they give to delta
            slack += (
                count
                * (len(bands) + 1)
                * (arb(ENDED - UP) / arb(2).sqrt()).erfc()
                * total
            )
        return from_scaled(total.union(total + arb(slack.abs_upper())), level)


def _beyond_window(step: Step, cap: float) -> arb:
    """P(z + w g > cap) under X at most, g normal: what the first window leaves out of one output."""
    if step.backward:
        shift = arb(0)
    else:
        shift = 1 / arb(step.noise_multiplier)
    return ((arb(cap) - shift) / (2 * (1 + arb(step.edge) ** 2)).sqrt()).erfc() / 2


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
            STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0)
        ).tolist():
            cost = max(
                one.beside(strip, height) - level for one, level in zip(cells, levels)
            )
            slowest = 1.9 * math.pi / cells[0].growth(strip, height)
            straight.append(
                (min(2.0 * math.pi * strip / (digits + max(cost, 0.0)), slowest), strip)
            )
        self.aside, (self.spacing, self.strip) = False, max(straight)
        if self.cut - self.low > MANY * self.spacing:
            for strip in (
                STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0)
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

    def cells(self, order: float) -> list[Cells]:
        """Bounds of both moments at a real order."""
        return [
            Cells(self.step, order, self.low, self.cut, window)
            for window in self.windows
        ]

    def error(self, cells: Cells, height: float) -> arb:
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
    def _outer(self) -> list[Cells]:
        """Bounds of M and, if anything is below the band, of M - m."""
        windows = [
            self.windows[0],
            Window(self.windows[1].low, -math.inf, self.step.edge),
        ]
        if not math.isfinite(windows[1].cap):
            windows = windows[:1]
        return [
            Cells(self.step, self.c, self.low, self.cut, window) for window in windows
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
        spacing = self.band.spacing(self.c, self.log_delta, GOAL)
        nodes = math.ceil(self._height(spacing.digits) / spacing.between)
        steps = self._prepared(nodes * spacing.between, spacing.digits)
        return math.fsum(
            one.number * (EACH_POINT + EACH_PRODUCT * nodes) for one in steps
        )

    def value(self, ended: bool = False) -> arb:
        """The integral; the lines beside it may have to be where windows end the moments."""
        band = self.band
        c = self.c
        h, beside, _, _, digits, _ = band.spacing(c, self.log_delta, GOAL, ended)
        nodes = math.ceil(self._height(digits) / h)
        steps = self._prepared(nodes * h, digits)
        if not sum(one.number for one in steps) * nodes < MOST_PRODUCTS:
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
            if not ended and not error < arb(2.0 - GOAL).exp():
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
            low, high = (low, height) if worst < -GOAL else (height, high)
            if high < 1.15 * low or -GOAL - 1.0 < worst < -GOAL:
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
