"""What a release could still promise where an account refused it."""

from __future__ import annotations

import math

from gaussveil.errors import BudgetExceededError
from gaussveil.spectrum import PrivacyLoss

_ROOM = 1 - 1e-4  # of a mean shift: for reserves of rounding and of the sampler
_LEAST = 1e-3  # an epsilon below which nobody wants a release


def with_what_fits(error: BudgetExceededError, delta: float) -> BudgetExceededError:
    """The refusal with the epsilon that the account still allows at this delta, where that is known.

    Args:
        error: what the account said.
        delta: that of the release.
    """
    if error.epsilon_left >= _LEAST:
        fits = f"epsilon {_down(error.epsilon_left)} at delta 0"
    elif error.mean_shift_left and 0 < delta < 1:
        loss = PrivacyLoss.from_terms(
            [0.0], [1.0], [(_ROOM * error.mean_shift_left) ** 2]
        )
        epsilon = float(loss.dp_epsilon(delta))
        if not epsilon >= _LEAST:
            return error
        fits = f"epsilon {_down(epsilon)} at delta {delta:g}"
    else:
        return error
    return BudgetExceededError(f"{error}. It still allows {fits}")


def _down(epsilon: float) -> str:
    """Three digits, rounded down."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.floor(epsilon / unit) * unit:.3g}"
