"""One band's share in delta, in ball arithmetic: its contour integral, or Chernoff's bound of it.

    share e^-level = (1/pi) int_0^inf Re G(c + iy) dy,   G = e^{K_beside - s eps}/(s(1+s)) (prod M^T - prod (M - m)^T)

M is a step's moment of all outputs up to the cap, m its part in the band, T its count: the product less the product is
what outputs give whose largest one lies in the band. On the line m falls like a Gaussian, and beyond the last node

    |prod M^T - prod (M - m)^T| <= sum_j T_j |m_j| U_j^(T_j - 1) prod_{i != j} U_i^T_i,    |M|, |M - m| <= U

In doubles it is `double_band.DoubleBand` (docs/math/subsampled, "Enclosures band by band" and "One band in doubles and
in balls").
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from flint import acb, arb, ctx

from gaussveil.spectrum.subsampled.ball_band_step import BallBandStep
from gaussveil.spectrum.subsampled.balls import (
    apart,
    between_nodes,
    log_least_weight,
    node_sum,
)
from gaussveil.spectrum.subsampled.bands import Band, Spacing
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.turns import surrounded, turn

BAND_GOAL = 23.5  # e-foldings between delta and each error
MOST_BAND_PRODUCTS = 16_000_000  # points times nodes: some five seconds
BOUND_BITS = 120  # of Chernoff's bound
AT_ONE_ORDER = Spacing(0.0, 0.0, 0.0, 0.0, 30.0, 0.0)  # of it: e-foldings alone
MOST_HEIGHT = 1e300
SPARE_BITS = 60  # beyond the digits that cancel
# seconds, about, that a real point takes, one aside, a node, and a point's turn there
EACH_POINT = 6e-5
EACH_ASIDE = 1.3e-4
EACH_NODE = 9e-5
EACH_PRODUCT = 3e-8


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
        self._heights: dict[Spacing, float] = {}
        self._steps: dict[tuple[Spacing, float | None], list[BallBandStep]] = {}

    def _prepared(
        self, spacing: Spacing, height: float | None = None
    ) -> list[BallBandStep]:
        if (spacing, height) not in self._steps:
            self._steps[spacing, height] = [
                BallBandStep(self.band, index, self.c, spacing, height)
                for index in range(len(self.counts))
            ]
        return self._steps[spacing, height]

    def _level(self, order: float) -> arb:
        """log of what stands beside, over e^{order eps + log_delta}."""
        beside = self.companions.exponent(acb(order)).real
        return beside - arb(order) * self.band.epsilon - self.log_delta

    def value(self, ended: bool = False) -> arb:
        """The integral; the lines beside it may have to be where windows end the moments."""
        spacing = self.band.spacing(self.c, self.log_delta, BAND_GOAL, ended)
        h = spacing.between
        nodes = math.ceil(self._height(spacing) / h)
        steps = self._prepared(spacing, nodes * h)
        if not sum(step.number for step in steps) * nodes < MOST_BAND_PRODUCTS:
            raise ArithmeticError("too many nodes")
        digits = spacing.digits + math.log(sum(self.counts))
        with ctx.workprec(int(digits / math.log(2.0)) + SPARE_BITS):
            for step in steps:
                step.weigh()
            error = self._spacing_error(steps, spacing.shift, h)
            if ended or error < arb(2.0 - BAND_GOAL).exp():
                total = self._sum(steps, h, nodes)
                error += self._beyond(steps, nodes * h)
                return total + arb(0, error.abs_upper())
        return self.value(ended=True)

    def work(self) -> float:
        """About how many seconds the integral takes."""
        spacing = self.band.spacing(self.c, self.log_delta, BAND_GOAL)
        nodes = math.ceil(self._height(spacing) / spacing.between)
        steps = self._prepared(spacing, nodes * spacing.between)
        total = EACH_NODE * nodes
        for step in steps:
            each = EACH_ASIDE if step.aside else EACH_POINT
            total += step.number * (each + EACH_PRODUCT * nodes)
        return total

    def _height(self, spacing: Spacing) -> float:
        """Where `_beyond` should be small enough, in doubles."""
        if spacing not in self._heights:
            self._heights[spacing] = self._searched_height(spacing)
        return self._heights[spacing]

    def _searched_height(self, spacing: Spacing) -> float:
        worst = self._foreseen(spacing)
        height = max(
            points.height(self.c, spacing.digits) for points in self.band.coarse
        )

        def has_fallen(height: float) -> bool:
            return worst(height) < -BAND_GOAL

        near = surrounded(has_fallen, height, factor=1.5, least=0.0, most=MOST_HEIGHT)
        if near.after == math.inf:
            raise ArithmeticError("too many nodes")
        return turn(has_fallen, *near, rtol=0.13, by_ratio=True).after

    def _foreseen(self, spacing: Spacing) -> Callable[[float], float]:
        """log of what is left beyond a height, at most, over e^log_delta, in doubles."""
        level = float(self._level(self.c).mid())
        looks = []
        for step, points in zip(self._prepared(spacing), self.band.coarse):
            means = points.means(np.array([self.c]))
            log_moment = float(means.log_moment[0])
            share = float(means.share[0])
            level += step.count * log_moment
            looks.append((step, step.cells(self.c)[1], log_moment, share))

        def worst(height: float) -> float:
            inside = max(
                cells.falls(height, log_moment + math.log(share))
                + math.log(step.count * share)
                for step, cells, log_moment, share in looks
            )
            left = level - math.log(height) + inside
            for step, _, log_moment, share in looks:
                log_kept = log_moment + math.log1p(-min(share, 1 - UP))
                left += (step.count - 1) * step.falls(height, log_moment, log_kept)
            return left

        return worst

    def _sum(self, steps: list[BallBandStep], h: float, nodes: int) -> arb:
        """The sum over nodes."""
        turned = [step.moments(h, nodes) for step in steps]

        def moment(n: int) -> acb:
            return self._gone([row[n] for row in turned])

        drift = -arb(self.band.epsilon)
        total = node_sum(self.companions, self.c, h, nodes, drift, moment)
        return total * self._level(self.c).exp()

    def _gone(self, moments: list[tuple[acb, acb]]) -> acb:
        """prod M^T - prod (M - m)^T, with its digits where the shares m/M are small."""
        product = acb(1)
        for (whole, _), count in zip(moments, self.counts):
            product *= whole**count
        shares = [inside / whole for whole, inside in moments]
        if all(bool(share.abs_upper() < 0.5) for share in shares):
            log_kept = acb(0)
            for share, count in zip(shares, self.counts):
                log_kept += count * (-share).log1p()
            return -product * log_kept.expm1()
        if math.isinf(self.band.lows[0]):  # nothing is below the last band
            return product
        kept = acb(1)
        for (whole, inside), count in zip(moments, self.counts):
            kept *= (whole - inside) ** count
        return product - kept

    def _spacing_error(self, steps: list[BallBandStep], beside: float, h: float) -> arb:
        """The sum against the integral, by the band's moment on both lines beside it."""
        both = arb(0)
        for order in (self.c - beside, self.c + beside):
            reals = [step.real(order) for step in steps]
            gone = self._gone([(acb(whole), acb(inside)) for whole, inside in reals])
            both += arb(gone.real.abs_upper()) * self._level(order).exp() / order
        return between_nodes(both, apart(self.c, beside), h)

    def _beyond(self, steps: list[BallBandStep], height: float) -> arb:
        """(1/pi) times the sum of |F| h beyond the last node: bounds of |m| fall, as does a Gaussian pair's |e^K|."""
        shares = arb(0)
        product = self._level(self.c).exp()
        falls = arb(0)
        for step in steps:
            moments = step.real(self.c)
            whole, inside = (arb(moment.abs_upper()) for moment in moments)
            log_inside = float(inside.log().upper()) + UP
            fallen = step.cells(self.c)[1].falls(height, log_inside)
            shares += step.count * (arb(log_inside) + arb(fallen)).exp() / whole
            product *= whole**step.count
            kept = arb((whole - arb(moments[1].abs_lower())).abs_upper())
            log_whole = float(whole.log().upper()) + UP
            log_kept = float(kept.log().upper()) + UP  # of M - m, at most
            falls += (step.count - 1) * arb(step.falls(height, log_whole, log_kept))
        falls += self.companions.falls(self.c, height)
        return arb((shares * product * falls.exp() / height / arb.pi()).abs_upper())

    def bound(self, whole: bool = False) -> arb:
        """Chernoff's bound of the band, or of all outputs up to its cap."""
        with ctx.workprec(BOUND_BITS):
            steps = self._prepared(AT_ONE_ORDER, 0.0)
            moments = []
            for step in steps:
                step.weigh()
                all_below, inside = step.real(self.c)
                if whole:
                    inside = all_below
                moments.append((acb(all_below), acb(inside)))
            share = arb(self._gone(moments).abs_upper())
            return share * (self._level(self.c) + log_least_weight(arb(self.c))).exp()
