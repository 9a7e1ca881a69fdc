"""Rigorous ends of delta band by band, in ball arithmetic; what is chosen in doubles costs width at worst.

    windows     W_0          W_1        W_2      ...   W_last
    outputs ----------------[ band 1  ][ band 0 ]|----> z          delta = sum of bands + below the last + above W_0
                below        cap_2      cap_1    cap_0

Bands that count are integrals (`ball_band`); of the others, and of all below the last one, Chernoff's bound is charged,
and T P(z + w g > cap_0) for what the first window leaves out. In doubles it is `double_bands.BandsInDoubles`
(docs/math/subsampled, "Enclosures band by band" and "One band in doubles and in balls").
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_band import BallBand
from gaussveil.spectrum.subsampled.balls import BallStep, normal_tail
from gaussveil.spectrum.subsampled.bands import (
    ENDED,
    Band,
    Chosen,
    chosen_bands,
    log_least_weight,
    windows_hold,
)
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.contour import Parts

TIGHT_BANDS = 5e-10  # relative width beyond which delta is looked at again
NEXT_TO_NOTHING = 1e-12  # of delta: a bound that need not be made smaller
EACH_BAND = 0.06  # seconds, about
# orders between which Chernoff's bound of all outputs is looked at
LEAST_ORDER = 1e-3
MOST_ORDER = 1e9
ORDERS = 400
ENOUGH = 32.0  # e-foldings below delta: a bound that need not be smaller
LOWER_TILTS = (1.0, 0.8, 0.6)  # of the one that is best for all below the last band


def chernoff_in_balls(
    parts: Parts, companions: BallCompanions, epsilon: float, log_delta: float
) -> Enclosure | None:
    """From 0 up to Chernoff's bound of a delta of about e^log_delta; None where no order is found."""
    windowed = parts.windowed(log_delta - 2.0)
    if not windows_hold(windowed):
        return None
    with precision_lock(), np.errstate(all="ignore"):
        caps = [windowed.cap(step) for step, _ in windowed.steps]
        band = Band(windowed, caps, epsilon, log_delta, last=True)
        order = _good_order(band, log_delta - ENOUGH)
        try:
            bound = _all_below(band, order, companions, log_delta)
            missing = _left_out(windowed, log_delta)
        except (ArithmeticError, ValueError):
            return None
        uses = sum(count for _, count in windowed.steps)
        # of what outputs beyond the window's end give, its weight there
        beyond = 1 + 2 * uses * normal_tail(arb(ENDED - UP))
        total = arb(((bound + missing) * beyond).abs_upper())
        return from_scaled(arb(0).union(total), arb(log_delta))


def _good_order(band: Band, goal: float) -> float:
    """The first order at which Chernoff's bound of all outputs up to the caps is below a goal, or the best one."""
    highest = 0.98 * min(band.parts.companions.highest_order, MOST_ORDER)
    orders = np.geomspace(LEAST_ORDER, highest, ORDERS)
    bounds = band.real(orders)[2] - orders * band.epsilon
    bounds += log_least_weight(orders)
    bounds = np.where(np.isfinite(bounds), bounds, np.inf)
    if (bounds < goal).any():
        return float(orders[int(np.argmax(bounds < goal))])
    return float(orders[int(np.argmin(bounds))])


def _all_below(
    band: Band, order: float, companions: BallCompanions, log_delta: float
) -> arb:
    """Chernoff's bound of all outputs up to the caps, over e^log_delta, at an order or a little below it."""
    least = math.inf
    for share in LOWER_TILTS:  # at the order itself the window may not end the moment
        ball = BallBand(band, share * order, companions, log_delta)
        least = min(least, float(ball.bound(whole=True).abs_upper()))
        if least < NEXT_TO_NOTHING:
            break
    return arb(least) * (1 + arb(UP))


def _left_out(parts: Parts, log_delta: float) -> arb:
    """What windows leave out of delta, over e^log_delta."""
    missing = arb(0)
    for step, count in parts.steps:
        spread = (1 + arb(step.edge) ** 2).sqrt()
        missing += count * BallStep(step).left_out(arb(parts.cap(step)), spread)
    return missing * (-arb(log_delta)).exp()


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

    def work(self, most: float) -> float:
        """About how many seconds they take; infinite beyond the most that is asked for, or where they are too many."""
        if self.chosen is None:
            return math.inf
        total = 0.0
        with precision_lock(), np.errstate(all="ignore"):
            for band in self.bands:
                try:
                    total += EACH_BAND + band.work()
                except (ArithmeticError, ValueError):
                    return math.inf  # what was chosen in doubles left their range
                if total > most:
                    return math.inf
        return total

    def enclose(self) -> Enclosure | None:
        """Rigorous ends of delta; None of too many nodes."""
        if self.chosen is None:
            return None
        with precision_lock(), np.errstate(all="ignore"):
            try:
                ends = self._enclosed(self.chosen, self.bands)
                if ends.relative_width < TIGHT_BANDS:
                    return ends
                if ends.log_upper < self.chosen.log_delta - 2.0:
                    smaller = self.chosen._replace(log_delta=float(ends.log_upper))
                    return self._enclosed(smaller, self._bands(smaller))
                return ends
            except (ArithmeticError, ValueError):
                return None

    def _enclosed(self, chosen: Chosen, bands: list[BallBand]) -> Enclosure:
        """The sum of the bands, and how much more delta may be by what is left out."""
        level = arb(chosen.log_delta)
        total = sum((band.value() for band in bands), arb(0))
        missing = self._bounded(chosen) + _left_out(self.parts, chosen.log_delta)
        for _, count in self.parts.steps:
            # outputs beyond a band's end carry a weight of at most Phi(-ENDED) there, of what they give to delta
            ends = 2 * normal_tail(arb(ENDED - UP))
            missing += count * (len(bands) + 1) * ends * total
        return from_scaled(total.union(total + arb(missing.abs_upper())), level)

    def _bounded(self, chosen: Chosen) -> arb:
        """Chernoff's bounds of the bands that do not count, and of all below the last one."""
        bound = arb(0)
        for band, tilt in chosen.negligible:
            bound += self._ball(band, tilt.order, chosen).bound()
        if chosen.below is not None:
            band, tilt = chosen.below
            bound += _all_below(band, tilt.order, self.companions, chosen.log_delta)
        return bound

    def _ball(self, band: Band, order: float, chosen: Chosen) -> BallBand:
        return BallBand(band, order, self.companions, chosen.log_delta)
