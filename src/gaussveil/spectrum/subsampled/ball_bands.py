"""Rigorous ends of delta band by band, in ball arithmetic; what is chosen in doubles costs width at worst.

    windows     W_0          W_1        W_2      ...   W_last
    outputs ----------------[ band 1  ][ band 0 ]|----> z          delta = sum of bands + below the last + above W_0
                below        cap_2      cap_1    cap_0

Bands that count are integrals (`ball_band`); of the others, and of all below the last one, Chernoff's bound is charged,
and T P(z + w g > cap_0) for what the first window leaves out (docs/math/subsampled, "Enclosures band by band").
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_band import BallBand
from gaussveil.spectrum.subsampled.balls import BallStep, normal_tail
from gaussveil.spectrum.subsampled.bands import ENDED, Band, Chosen, chosen_bands
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.line_cells import UP

TIGHT_BANDS = 5e-10  # relative width beyond which delta is looked at again
EACH_BAND = 0.1  # seconds, about
LOWER_TILTS = (1.0, 0.8, 0.6)  # of the one that is best for all below the last band


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
        missing = self._bounded(chosen)
        for step, count in self.parts.steps:
            spread = (1 + arb(step.edge) ** 2).sqrt()
            left_out = BallStep(step).left_out(arb(self.parts.cap(step)), spread)
            missing += count * left_out * (-level).exp()
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
            # at its own tilt the window may not end the moment
            below = min(
                float(
                    self._ball(band, share * tilt.order, chosen)
                    .bound(whole=True)
                    .abs_upper()
                )
                for share in LOWER_TILTS
            )
            bound += arb(below) * (1 + arb(UP))
        return bound

    def _ball(self, band: Band, order: float, chosen: Chosen) -> BallBand:
        return BallBand(band, order, self.companions, chosen.log_delta)
