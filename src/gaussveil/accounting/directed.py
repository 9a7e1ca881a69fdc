"""Parts that all stand in one direction, as one curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting.pure_losses import largest_loss
from gaussveil.spectrum import Enclosure, PrivacyCurve, composed
from gaussveil.spectrum.enclosures.interval import ZERO

INTERVAL = (
    2.0**-10
)  # grid of discretised losses: any choice is sound, a finer one tighter and slower
MAX_BINS = 2**16
ROUND_UP = 1.0 + 8 * 2.0**-53


def sampler_delta(epsilon: float, sampler_error: float) -> float:
    """(1 + e^epsilon) eta, rounded up (mathematics, section 6)."""
    if sampler_error == 0:
        return 0.0
    if epsilon < 700:
        return (1.0 + math.exp(epsilon)) * sampler_error * ROUND_UP
    return math.inf


class Directed:
    """Parts that all stand in one direction: one curve, on a grid where parts without factors join others."""

    def __init__(self, parts: Sequence[tuple[PrivacyCurve, int]]) -> None:
        self._parts = list(parts)
        # Basic composition is exact where it gives delta 0, and a discretised distribution never quite reaches 0.
        self._pure = largest_loss(self._parts)
        self._curve = composed(self._parts, interval=INTERVAL, max_bins=MAX_BINS)

    @property
    def pessimistic(self) -> bool:
        """Whether it was composed on a grid."""
        return self._curve is not None and self._curve.factors() is None

    def delta(self, epsilon: float) -> float:
        """Largest delta over the label edges, in floating point or already an upper end."""
        if epsilon >= self._pure or self._curve is None:
            return 0.0
        return self._curve.largest_delta(epsilon)

    def upper(self, epsilon: float) -> float:
        """An upper end of `delta` that needs no enclosure."""
        if self._curve is not None:
            return self.delta(epsilon) * (1 + self._curve.relative_error)
        return 0.0

    def upper_end(self, epsilon: float) -> float:
        """A proven upper end of one pair's delta by doubles alone; infinite where they do not decide."""
        if self._curve is not None:
            return self._curve.quick_upper_end(epsilon)
        return math.inf

    def deltas(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """`delta` at many epsilons."""
        if self._curve is not None:
            return self._curve.worst_delta(epsilon)
        return np.zeros(epsilon.shape)

    def enclose(self, epsilon: float) -> Enclosure:
        """Ends of the largest delta; of parts whose factors are rounded outwards the lower end is too high by that."""
        if epsilon >= self._pure or self._curve is None:
            return ZERO
        return self._curve.enclose_largest(epsilon)

    @property
    def encloses_jointly(self) -> bool:
        """Whether both directions of the curve are enclosed with less work than one after the other."""
        return self._curve is not None and self._curve.encloses_jointly

    def enclose_jointly(self, epsilon: float) -> Enclosure:
        """Ends of the worse direction's delta."""
        if self._curve is not None and epsilon < self._pure:
            return self._curve.dp_enclose(epsilon)
        return ZERO

    def lower(self, epsilon: float, ends: Enclosure) -> Enclosure:
        """Ends of a delta that is surely not above the parts' own, where factors were rounded outwards; else `ends`.

        A total variation eta takes at most (1 + e^epsilon) eta off; where that is too much, a fainter one is enclosed.
        """
        variation = math.fsum(
            source.rounded_by * count for source, count in self._parts
        )
        lower = float(ends.lower) - sampler_delta(epsilon, variation)
        if not variation or lower > 0.5 * ends.lower or ends.upper == 0.0:
            if variation:
                return Enclosure.of(max(lower, 0.0), ends.upper, proven=ends.proven)
            return ends
        below = Directed(
            [(source.rounded_down(), count) for source, count in self._parts]
        )
        if below.encloses_jointly:
            return below.enclose_jointly(epsilon)
        return below.enclose(epsilon)
