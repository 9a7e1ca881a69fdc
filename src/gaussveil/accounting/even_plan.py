"""A budget in equal parts: what each of so many releases may promise, "52 weekly releases" of a year's budget.

Mean shifts add in squares: n releases whose neighbours are t noise deviations apart are one of t sqrt(n). So the year
affords the largest T with delta_T(epsilon) <= delta, and each week T / sqrt(n), in any order. A share of
delta is kept for samplers' errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gaussveil import checks
from gaussveil.accounting.charge import Charge
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair

SAMPLER_SHARE = 2.0**-10
PLAN_RESERVE = 1 - 2.0**-40  # left for roundings of a plan


@dataclass(frozen=True)
class EvenPlan:
    """So many equal releases, the promise of each, and the charge that an account registers for each."""

    releases: int
    epsilon: float
    delta: float
    charge: Charge

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        releases: int,
        *,
        release_delta: float | None = None,
    ) -> EvenPlan:
        """The parts of a budget. Each release promises its own delta, by default an equal part of the budget's."""
        epsilon = checks.epsilon(epsilon)
        delta = checks.delta(delta)
        count = checks.whole("releases", releases)
        if release_delta is None:
            own = _floored(delta / count, 2)
        else:
            own = checks.delta(release_delta)
        shift = (
            mean_shift_for(epsilon, delta * (1 - SAMPLER_SHARE) * PLAN_RESERVE)
            / math.sqrt(count)
            * PLAN_RESERVE
        )
        pair = GaussianPair.mean_shift(shift)
        found = float(pair.dp_epsilon(own)) * PLAN_RESERVE
        if not found > 0:
            raise ParameterError(
                f"release_delta must be smaller for so many releases. Got {own:g}: each would promise an epsilon of 0."
            )
        error = (
            SAMPLER_SHARE
            * delta
            * PLAN_RESERVE
            / (count * (1 + math.exp(min(epsilon, 700.0))))
        )
        return cls(count, _floored(found, 6), own, Charge(pair, sampler_error=error))


def _floored(value: float, digits: int) -> float:
    """So many decimal digits of a positive number, rounded down."""
    near = float(f"{value:.{digits - 1}e}")
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    if near <= value:
        return near
    return float(f"{value - unit / 2:.{digits - 1}e}")
