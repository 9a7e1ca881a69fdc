"""A pair of which it is open which neighbour stands for X: at each epsilon the worse of both ways round.

Under a symmetric adjacency an analyst may choose each query, and with it the way round, after seeing earlier outputs.
Whatever is chosen, the divergence is at most the larger one for every alpha, so the pair with this curve dominates both
ways, and dominating pairs compose however later releases depend on earlier ones (derived: docs/ledger).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting.charge import LossOrProfile
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR, worst_delta


@dataclass(frozen=True, eq=False)
class WorseOrientation:
    """The larger of both directions of a loss or profile; of label edges the worst. Its own reverse."""

    base: LossOrProfile

    @property
    def relative_error(self) -> float:
        """That of the base."""
        return float(getattr(self.base, "relative_error", LOSS_RELATIVE_ERROR))

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss, the larger one."""
        return max(float(getattr(side, "infinity", 0.0)) for side in (self.base, self.base.reversed()))

    @property
    def largest_loss(self) -> float:
        """Largest finite loss, the larger one."""
        return max(float(getattr(side, "largest_loss", np.inf)) for side in (self.base, self.base.reversed()))

    def delta(self, epsilon: Any) -> NDArray[np.float64]:
        """The larger divergence at each epsilon >= 0."""
        levels = np.asarray(epsilon, dtype=np.float64)
        return np.maximum(worst_delta(self.base, levels), worst_delta(self.base.reversed(), levels))

    def reversed(self) -> WorseOrientation:
        """Itself: exchanging X and Y changes nothing."""
        return self

    def to_dict(self) -> dict[str, object]:
        """What it is, for compositions that fold equal ones; it is never stored."""
        return {"either way": self.base.to_dict()}
