"""Rigorous ends of delta band by band, in ball arithmetic; what is chosen in doubles costs width at worst."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from flint import arb

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, from_scaled
from gaussveil.spectrum.subsampled.ball_band import BallBand
from gaussveil.spectrum.subsampled.bands import ENDED, Chosen, chosen_bands
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.line_cells import UP
from gaussveil.spectrum.subsampled.step import Step

TIGHT_BANDS = 5e-10  # relative width beyond which delta is looked at again
# seconds, about
EACH_BAND = 0.1


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
                    not found.relative_width < TIGHT_BANDS
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
