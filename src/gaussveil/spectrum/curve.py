"""Numbers that all privacy curves share, and the closed form of a mean shift in doubles."""

from __future__ import annotations

import numpy as np
import scipy

from gaussveil.typing import Floats

LOSS_RELATIVE_ERROR = (
    1e-9  # what PrivacyLoss promises of its deltas even at the edge of its range
)
SKETCH_NODES = 256  # epsilons at which a curve is looked at before its grid is chosen


@np.errstate(over="ignore")  # of an epsilon beyond all losses
def mean_shift_delta(shift: float, epsilon: Floats) -> Floats:
    """Phi(-eps/t + t/2) - e^eps Phi(-eps/t - t/2), t = shift (Balle, Wang 2018, Theorem 8), through Mills ratios."""
    near = epsilon / shift - shift / 2.0
    far = epsilon / shift + shift / 2.0
    mills = np.sqrt(np.pi / 2.0) * (
        scipy.special.erfcx(np.maximum(near, 0.0) / np.sqrt(2.0))
        - scipy.special.erfcx(far / np.sqrt(2.0))
    )
    tail = np.exp(-0.5 * near * near) / np.sqrt(2.0 * np.pi) * mills
    bulk = scipy.special.ndtr(-near) - np.exp(epsilon + scipy.special.log_ndtr(-far))
    return np.asarray(np.where(near > 0.0, tail, bulk))
