"""The larger of both directions of a curve, for releases whose way round is chosen after earlier outputs were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False, repr=False)
class WorseOrientation(PrivacyCurve):
    """The larger of both directions of a curve at each epsilon; of label edges the worst. Its own reverse.

    Under a symmetric adjacency an analyst may choose each query, and with it which neighbour stands for X, after seeing
    earlier outputs. Whatever is chosen, the divergence is at most the larger one for every alpha, so the pair with this
    curve dominates both ways, and dominating pairs compose however later releases depend on earlier ones (derived:
    docs/ledger).
    """

    base: PrivacyCurve

    @property
    def relative_error(self) -> float:
        """That of the base."""
        return self.base.relative_error

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss, the larger one."""
        return max(side.infinity for side in (self.base, self.base.reversed()))

    @property
    def largest_loss(self) -> float:
        """Largest finite loss, the larger one."""
        return max(side.largest_loss for side in (self.base, self.base.reversed()))

    def reversed(self) -> WorseOrientation:
        """Itself: exchanging X and Y changes nothing."""
        return self

    def _divergence(self, epsilon: Floats) -> Any:
        levels = np.asarray(epsilon, dtype=np.float64)
        return np.maximum(
            self.base.worst_delta(levels), self.base.reversed().worst_delta(levels)
        )

    def fold_key(self) -> object:
        """That of the base, either way round."""
        return {"either way": self.base.fold_key()}
