"""Rigorous ends of delta band by band, in ball arithmetic: `bands`, with proofs (derived: docs/math/subsampled).

Bands, tilts, spacings and heights are chosen in doubles and cost width at worst. Proven are: the moments' sums (as on
one line, with windows), the sum over nodes by the moments on two lines beside it, what lies beyond the last node by
|prod M^T - prod (M - m)^T| <= sum_j T_j |m_j| U_j^(T_j - 1) prod U_i^T_i with U above |M|, |M - m|, and what is not in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from flint import acb, acb_mat, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.subsampled.bands import ENDED, Band, chosen_bands, lower_cap
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.line_cells import UP, Cells, Window
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work

GOAL = 26.5  # e-foldings between delta and each error
STRIPS = np.array([0.06, 0.15, 0.3, 0.45, 0.6, 0.8, 0.98])
BLOCK = 24
MOST_PRODUCTS = 16_000_000
TINY = 1e-290  # beside it nothing leaves the range of doubles
Exponent = Callable[[acb], acb]


class TooMany(ArithmeticError):
    """A band takes too many nodes."""


def enclose_in_bands(parts: Parts, pairs: Exponent, epsilon: float) -> Enclosure | None:
    """Rigorous ends of delta, for windowed parts; None where a band takes too many nodes.

    Arguments:
        parts: steps, with windows that suit delta.
        pairs: K of Gaussian pairs, in balls.
        epsilon: where delta is taken.
    """
    with precision_lock(), np.errstate(all="ignore"):
        chosen = chosen_bands(parts, epsilon)
        if chosen is None:
            return None
        try:
            level, total, slack = arb(chosen.log_delta), arb(0), arb(0)
            for band, c in chosen.bands:
                total += BallBand(band, c, pairs, chosen.log_delta).value()
            for band, tilt in chosen.negligible:
                slack += BallBand(band, tilt.order, pairs, chosen.log_delta).bound()
            below, tilt = chosen.below
            slack += BallBand(below, tilt.order, pairs, chosen.log_delta).bound(whole=True)
        except (ArithmeticError, ValueError):  # what was chosen in doubles left their range
            return None
        for step, count in parts.steps:
            slack += count * _beyond_window(step, parts.cap(step)) * (-level).exp()
            # outputs beyond a band's end carry a weight of at most Phi(-ENDED) there, of what they give to delta
            slack += count * (len(chosen.bands) + 1) * (arb(ENDED - UP) / arb(2).sqrt()).erfc() * total
        return from_scaled(total.union(total + arb(slack.abs_upper())), level)


def _beyond_window(step: Step, cap: float) -> arb:
    """P(z + w g > cap) under X at most, g normal: what the first window leaves out of one output."""
    shift = arb(0) if step.backward else 1 / arb(step.noise_multiplier)
    return ((arb(cap) - shift) / (2 * (1 + arb(step.edge) ** 2)).sqrt()).erfc() / 2


class BandStep:
    """One step in a band: points, weights up to the cap and in the band, and the proven errors of their sums."""

    def __init__(self, band: Band, index: int, c: float, height: float, digits: float) -> None:
        (self.step, self.count), cap = band.parts.steps[index], band.caps[index]
        step, edge = self.step, self.step.edge
        self.c, self.cut = c, cap + ENDED * edge
        tilted = min(c / step.noise_multiplier, 40.0) if step.backward else 0.0
        self.low = min(-math.sqrt(2.0 * (digits + 10.0)), cap - 1.0) - tilted
        self.windows = (Window(cap, -math.inf, edge), Window(cap, lower_cap(step, cap), edge))
        points, cells, found = band.coarse[index], self.cells(c), (0.0, 0.0)
        levels = [float(np.max(points.base + c * points.loss + part)) for part in (points.whole, points.inside)]
        digits += math.log(self.count) + 3.0
        for strip in STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0):
            cost = max(one.beside(strip, height) - level for one, level in zip(cells, levels))
            found = max(found, (2.0 * math.pi * strip / (digits + max(cost, 0.0)), float(strip)))
        turning = sum(p if p <= 0.5 else 1.0 for p in cells[0].at_cut) * height / step.noise_multiplier
        self.spacing, self.strip = min(found[0], 1.9 * math.pi / (0.5 * cells[0].bend * found[1] + turning)), found[1]
        self.number = math.ceil((self.cut - self.low) / self.spacing)
        self.low = self.cut - (self.number - 0.5) * self.spacing
        self.losses: list[arb] = []
        self.weights: tuple[list[arb], list[arb]] = ([], [])

    def cells(self, order: float) -> list[Cells]:
        """Bounds of both moments at a real order."""
        return [Cells(self.step, order, self.low, self.cut, window) for window in self.windows]

    def falls(self, height: float, log_whole: float, log_kept: float) -> float:
        """log of a bound on |M| and |M - m| at all greater heights, over e^log_whole; logs of both at c are given."""
        if self.count == 1:
            return 0.0
        whole, below = self._outer
        kept = below.falls(height, log_kept) + log_kept - log_whole
        return min(max(whole.falls(height, log_whole), kept) + UP, 0.0)

    @cached_property
    def _outer(self) -> list[Cells]:
        below = Window(self.windows[1].low, -math.inf, self.step.edge)
        return [Cells(self.step, self.c, self.low, self.cut, window) for window in (self.windows[0], below)]

    def weigh(self) -> None:
        """Losses and both weights at the points."""
        check_work()
        step, noise, rate = self.step, arb(self.step.noise_multiplier), arb(self.step.sampling_rate)
        scale, half = arb(self.spacing) / (2 * arb.pi()).sqrt(), 1 / (2 * noise * noise)
        wide, (cap, low, _) = arb(step.edge) * arb(2).sqrt(), (arb(value) for value in self.windows[1])
        for k in range(self.number):
            z = arb(self.cut) - (arb(k) + arb(0.5)) * arb(self.spacing)
            one = (rate * (z / noise - half).expm1()).log1p()
            other = (rate * (-z / noise - half).expm1()).log1p() if step.replace else arb(0)
            loss, base = (-one, arb(0)) if step.backward else (one - other, one)
            size = (base - z * z / 2 + self.c * loss).exp() * scale / 2
            top = ((z - cap) / wide).erfc()
            sides = (
                (((low - z) / wide).erfc(), ((cap - z) / wide).erfc()) if z < low else (top, ((z - low) / wide).erfc())
            )
            self.losses.append(loss)
            self.weights[0].append(size * top)
            self.weights[1].append(size * (sides[0] - sides[1]))

    def real(self, order: float) -> tuple[arb, arb]:
        """Both moments at a real order."""
        shift, found = arb(order) - arb(self.c), []
        grown = [(shift * loss).exp() for loss in self.losses]
        for weights, cells in zip(self.weights, self.cells(order)):
            total = sum((w * x for w, x in zip(weights, grown)), arb(0))
            found.append(total + arb(0, _exp_up(cells.error(self.spacing, self.strip, 0.0))))
        return found[0], found[1]

    def moments(self, h: float, nodes: int) -> list[tuple[acb, acb]]:
        """Both moments at c + i n h."""
        check_work()
        rows, height = math.ceil((nodes + 1) / BLOCK), nodes * h
        errors = [_exp_up(cells.error(self.spacing, self.strip, height)) for cells in self.cells(self.c)]
        quick = self._turned(h, nodes, errors)
        if quick is not None:
            return quick
        columns = _powers([acb(0, arb(h) * loss).exp() for loss in self.losses], BLOCK)
        starts = _powers([acb(0, BLOCK * arb(h) * loss).exp() for loss in self.losses], rows)
        turns = acb_mat(self.number, BLOCK, [value for row in zip(*columns) for value in row])
        found = []
        for weights, error in zip(self.weights, errors):
            table = acb_mat(rows, self.number, [w * x for start in starts for w, x in zip(weights, start)]) * turns
            slack = acb(arb(0, error), arb(0, error))
            found.append([table[n // BLOCK, n % BLOCK] + slack for n in range(nodes + 1)])
        return list(zip(*found))

    def _turned(self, h: float, nodes: int, errors: list[arb]) -> list[tuple[acb, acb]] | None:
        """The same from sums in pairs of doubles (native/steps.h); None where points are not known well enough.

        At node n points are off by n times what the first turn is known to, and 2^-99; sums are as in proofs.h.
        """
        native = compiled_steps()
        turns = [acb(0, arb(h) * loss).exp() for loss in self.losses]
        rows = [*self.weights, [turn.real for turn in turns], [turn.imag for turn in turns]]
        off = 2 * max(x.rad() for row in rows[2:] for x in row) + arb(2) ** -99
        lost = nodes * off + arb(2) ** -98 + arb(self.number + 4) ** 2 * arb(2) ** -104
        if native is None or not lost < arb(2) ** -40:
            return None
        pairs = [np.array([(high, float(x - high)) for x in row for high in (float(x),)]).T for row in rows]
        found, slack = native.step_sums("twice_turned", np.concatenate(pairs), nodes + 1, 8), []
        for error, weights in zip(errors, self.weights):
            total = sum(weights, arb(self.number * TINY))
            slack.append(arb(0, (error + 2 * total.rad() + lost * total.abs_upper()).abs_upper()))
        parts = [[arb(x) + arb(y) for x, y in zip(*found[k : k + 2].tolist())] for k in (0, 2, 4, 6)]
        return [(acb(a + slack[0], b + slack[0]), acb(c + slack[1], d + slack[1])) for a, b, c, d in zip(*parts)]


def _powers(factors: list[acb], count: int) -> list[list[acb]]:
    """Rows of powers 0, 1, ..., count - 1."""
    rows = [[acb(1)] * len(factors)]
    for _ in range(count - 1):
        rows.append([value * factor for value, factor in zip(rows[-1], factors)])
    return rows


def _exp_up(log: float) -> arb:
    return arb((arb(log) + arb(UP)).exp().abs_upper()) if log < math.inf else arb("inf")


class BallBand:
    """A band's share in delta, over e^log_delta."""

    def __init__(self, band: Band, c: float, pairs: Exponent, log_delta: float) -> None:
        self.band, self.c, self.pairs, self.log_delta = band, c, pairs, log_delta
        self.counts = [count for _, count in band.parts.steps]

    def _prepared(self, height: float, digits: float) -> list[BandStep]:
        return [BandStep(self.band, index, self.c, height, digits) for index in range(len(self.counts))]

    def _level(self, order: float) -> arb:
        return self.pairs(acb(order)).real - arb(order) * self.band.epsilon - self.log_delta

    def bound(self, whole: bool = False) -> arb:
        """Chernoff's bound of the band, or of all outputs up to its cap."""
        with ctx.workprec(120):
            steps, c = self._prepared(0.0, 30.0), arb(self.c)
            for one in steps:
                one.weigh()
            moments = [one.real(self.c) for one in steps]
            found = self._gone([(acb(m), acb(m) if whole else acb(part)) for m, part in moments])
            rest = c * c.log() - (1 + c) * (1 + c).log()
            return arb(found.abs_upper()) * (self._level(self.c) + rest).exp()

    def value(self) -> arb:
        """The integral."""
        band, c = self.band, self.c
        h, beside, _, _, digits, _ = band.spacing(c, self.log_delta, GOAL)
        nodes = math.ceil(self._height(digits) / h)
        steps = self._prepared(nodes * h, digits)
        if not sum(one.number for one in steps) * nodes < MOST_PRODUCTS:
            raise TooMany
        with ctx.workprec(int((digits + math.log(sum(self.counts))) / math.log(2.0)) + 60):
            for one in steps:
                one.weigh()
            known = [one.moments(h, nodes) for one in steps]
            total, step = arb(0), arb(h)
            level = self._level(c)
            origin = self.pairs(acb(c)).real
            for n in range(nodes + 1):
                s = acb(c, step * n)
                factor = (self.pairs(s) - origin - acb(0, step * n * arb(band.epsilon))).exp() / (s * (s + 1))
                value = (factor * self._gone([row[n] for row in known])).real
                total += value / 2 if n == 0 else value
            total *= step / arb.pi() * level.exp()
            error = arb(0)
            for order in (c - beside, c + beside):
                gone = self._gone([(acb(m), acb(part)) for m, part in (one.real(order) for one in steps)])
                error += arb(gone.real.abs_upper()) * self._level(order).exp() / order
            apart = arb(min(c - (c - beside), (c + beside) - c)) * (1 - arb(UP))
            error = error / 2 / ((2 * arb.pi() * apart / step).exp() - 1)
            return total + arb(0, (error + self._beyond(steps, nodes * h)).abs_upper())

    def _gone(self, moments: list[tuple[acb, acb]]) -> acb:
        """prod M^T - prod (M - m)^T, with its digits where the shares m/M are small."""
        product, kept, small = acb(1), acb(0), True
        for (whole, inside), count in zip(moments, self.counts):
            product *= whole**count
            share = inside / whole
            small = small and bool(share.abs_upper() < 0.5)
            kept += count * (-share).log1p() if small else acb(0)
        if small:
            return -product * kept.expm1()
        rest = acb(1)
        for (whole, inside), count in zip(moments, self.counts):
            rest *= (whole - inside) ** count
        return product - rest

    def _height(self, digits: float) -> float:
        """Where `_beyond` should be small enough, in doubles."""
        level = float(self._level(self.c).mid())
        looks = []
        for one, points in zip(self._prepared(0.0, digits), self.band.coarse):
            log_moment, share = (float(found[0]) for found in points.means(np.array([self.c]))[:2])
            level += one.count * log_moment
            looks.append((one, one.cells(self.c)[1], log_moment, share))
        height, low, high = max(points.height(self.c, digits) for points in self.band.coarse), 0.0, math.inf
        for _ in range(60):
            worst = level - math.log(height)
            worst += max(
                cells.falls(height, log_moment + math.log(share)) + math.log(one.count * share)
                for one, cells, log_moment, share in looks
            )
            for one, _, log_moment, share in looks:
                worst += (one.count - 1) * one.falls(height, log_moment, log_moment + math.log1p(-min(share, 1 - UP)))
            low, high = (low, height) if worst < -GOAL else (height, high)
            if high < 1.15 * low:
                return high
            height = math.sqrt(low * high) if 0.0 < low < high < math.inf else height * (1.5 if low else 1.0 / 1.5)
        raise TooMany

    def _beyond(self, steps: list[BandStep], height: float) -> arb:
        """(1/pi) times the sum of |F| h beyond the last node: bounds of |m| fall, as does a Gaussian pair's |e^K|."""
        found, product, falls = arb(0), self._level(self.c).exp(), arb(0)
        for one in steps:
            moments = one.real(self.c)
            whole, inside = (arb(moment.abs_upper()) for moment in moments)
            log_moment = float(inside.log().upper()) + UP
            fallen = arb(log_moment) + arb(one.cells(self.c)[1].falls(height, log_moment))
            found += one.count * fallen.exp() / whole
            product *= whole**one.count
            kept = arb((whole - arb(moments[1].abs_lower())).abs_upper())  # M - m, at most
            logs = (float(value.log().upper()) + UP for value in (whole, kept))
            falls += (one.count - 1) * arb(one.falls(height, *logs))
        growing = self.pairs(acb(self.c, height)).real - self.pairs(acb(self.c)).real
        return arb((found * product * (growing + falls).exp() / height / arb.pi()).abs_upper())
