"""Delta of finitely many losses at many epsilons, by probabilities of each loss and all above."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.laws.loss_law import LossLaw
from gaussveil.typing import Floats

LARGEST_EXPONENT = 700.0
MOST_SUMS = 20_000
MOST_USES = 300  # of laws whose sums are listed, one use after the other
ALIKE = 1e-12  # by which sums of losses that count as one may differ


class TailSums:
    """Losses in ascending order, and the probabilities of each and all above."""

    def __init__(
        self, losses: Floats, above: Floats, other: Floats, infinity: float
    ) -> None:
        self.losses = losses
        self.above = above
        self.other = other
        self.infinity = infinity

    @classmethod
    def of(cls, p: Floats, q: Floats) -> TailSums:
        """Of probabilities that are divided by their sums."""
        under_x = p / math.fsum(p)
        under_y = q / math.fsum(q)
        both = (p > 0.0) & (q > 0.0)
        infinite = math.fsum(under_x[q == 0.0])
        losses = np.log(under_x[both]) - np.log(under_y[both])
        order = np.argsort(losses)
        above, other = (
            np.append(np.cumsum(column[both][order][::-1])[::-1], 0.0)
            for column in (under_x, under_y)
        )
        return cls(losses[order], above, other, infinite * (1.0 + 8.0 * ULP))

    def delta(self, epsilon: Floats) -> Floats:
        """Upper ends: roundings are added."""
        place = np.searchsorted(self.losses, epsilon)
        ratio = np.exp(np.minimum(epsilon, LARGEST_EXPONENT))
        reach = float(np.abs(self.losses).max(initial=0.0))
        rounding = (16.0 + 4.0 * self.losses.size + 8.0 * reach) * ULP
        finite = np.maximum(self.above[place] - ratio * self.other[place], 0.0)
        return np.asarray(finite + rounding * self.above[place] + self.infinity)


class AtomSums:
    """Sums of the losses of laws that have atoms only, each with its probability."""

    def __init__(self, losses: Floats, masses: Floats, uses: int) -> None:
        under_y = masses * np.exp(-losses)
        above, other = (
            np.append(np.cumsum(column[::-1])[::-1], 0.0)
            for column in (masses, under_y)
        )
        self.sums = TailSums(losses, above, other, 0.0)
        self.moved = (uses + 1) * (ALIKE + 4.0 * ULP * float(np.abs(losses).max()))
        self.rounding = 8.0 * ULP * (uses + 1)

    @classmethod
    def of(cls, laws: Sequence[tuple[LossLaw, int]]) -> AtomSums | None:
        """All sums; None where there are pieces, or too many sums."""
        if sum(count for _, count in laws) > MOST_USES:
            return None
        losses = np.zeros(1)
        masses = np.ones(1)
        for law, count in laws:
            if law.pieces.size:
                return None
            for _ in range(count):
                if losses.size * law.losses.size > 4 * MOST_SUMS:
                    return None
                every = np.add.outer(losses, law.losses).ravel()
                shares = np.multiply.outer(masses, law.masses).ravel()
                _, first, place = np.unique(
                    np.round(every / ALIKE), return_index=True, return_inverse=True
                )
                losses = every[first]
                masses = np.zeros(losses.size)
                np.add.at(masses, np.ravel(place), shares)
                if losses.size > MOST_SUMS:
                    return None
        return cls(losses, masses, sum(count for _, count in laws))

    def ends(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """Both ends of delta."""
        upper = self.sums.delta(np.maximum(epsilon - self.moved, 0.0))
        upper = upper + self.moved * (epsilon < self.moved)
        place = np.searchsorted(self.sums.losses, epsilon + self.moved, side="right")
        above = self.sums.above[place]
        grown = np.exp(np.minimum(epsilon + self.moved, LARGEST_EXPONENT))
        lower = above - grown * self.sums.other[place]
        charged = (16.0 + 8.0 * self.sums.losses.size) * ULP + self.rounding
        return (
            np.maximum(lower - charged * above, 0.0),
            upper * (1.0 + self.rounding),
        )
