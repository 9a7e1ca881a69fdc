"""One straight line for companions alone, no steps: as many nodes as it takes the Gaussian pair to fall.

Beside little noise atoms leave an integrand that turns for long, which a contour whose nodes spread out would miss.
Here nodes are equally spaced, and how far their sum is from the integral is bounded by that of |F| on lines beside.
"""

from __future__ import annotations

import math

import numpy as np

from gaussveil.spectrum.subsampled.bands import Band
from gaussveil.spectrum.subsampled.contour import saddle
from gaussveil.typing import Floats

MOST_NODES = 200_000


class WholeLine(Band):
    """What a band is where there are no steps, whose outputs it could tell apart."""

    def real(self, orders: Floats) -> tuple[Floats, Floats, Floats]:
        """K, its slopes, and K at real orders."""
        value, slope, _ = self.parts.companions.real_moments(orders)
        return value, slope, value

    def height(self, c: float, digits: float) -> float:
        """Where the Gaussian pair has fallen by so many e-foldings; infinite where that takes too long."""
        gaussians = self.parts.companions.gaussians
        start = float(gaussians.cumulant(np.array([c + 0.0j]))[0].real)
        heights = np.geomspace(1e-6, 1e12, 400)
        fallen = gaussians.cumulant(c + 1j * heights).real - start - np.log1p(heights)
        if fallen[-1] < -digits:
            return float(heights[int(np.argmax(fallen < -digits))])
        return math.inf

    def order(self) -> float:
        """The saddle, or an order next to 0 where epsilon is below the mean loss."""
        at = saddle(self.parts, self.epsilon)
        if at.centre > 0.0:
            return at.centre
        return min(1.0, 0.5 * self.parts.companions.highest_order)
