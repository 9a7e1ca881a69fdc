"""Laws of density ratios at finitely many places, beside a mean shift of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.mixtures import tail_less
from gaussveil.typing import Floats

SURELY = -30.0  # deviations below which a delta is taken for 1
SUMS_ROUNDED_UP = 1.0 + 1e-9  # more than roundings of positive sums of closed forms are


class DiscreteRatio(NamedTuple):
    """A law of a density ratio, above that of an allocation in the convex order: masses at values, rest at infinity."""

    values: Floats
    masses: Floats
    at_zero: float
    beyond: float

    def removed(self, epsilon: Floats, shift: float) -> Floats:
        """E (e^Z R - a)_+: each value gives the delta of a mean shift at an epsilon that is moved by its logarithm."""
        return (
            self._summed(epsilon[:, None] - np.log(self.values), shift, self.values)
            + self.beyond
        )

    def added(self, epsilon: Floats, shift: float) -> Floats:
        """E (1 - a e^Z R)_+."""
        return (
            self._summed(
                epsilon[:, None] + np.log(self.values), shift, np.ones(self.values.size)
            )
            + self.at_zero
        )

    def _summed(self, moved: Floats, shift: float, weights: Floats) -> Floats:
        deltas = shifted_deltas(moved, shift)
        return np.asarray(
            (deltas * (weights * self.masses)).sum(axis=1) * SUMS_ROUNDED_UP
        )


def shifted_deltas(levels: Floats, shift: float) -> Floats:
    """Delta of a mean shift, 0 included, at any epsilons."""
    if shift == 0.0:
        return np.asarray(-np.expm1(np.minimum(levels, 0.0)))
    place = levels / shift - 0.5 * shift
    with np.errstate(all="ignore"):
        deltas = np.where(
            place < SURELY,
            1.0,
            tail_less(np.maximum(place, SURELY), np.asarray(shift)),
        )
    return np.asarray(np.clip(deltas, 0.0, 1.0))
