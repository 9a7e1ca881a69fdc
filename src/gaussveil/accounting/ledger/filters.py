"""Privacy filters: what keeps an adaptive account sound.

When the next release is chosen after seeing earlier ones, exact composition can overspend delta about 2.3 times. Two
filters stay sound (mathematics, section 3), both fixed before anything is released:

- **mean-shift**: only mean shifts, sum of mu_j^2 at most the budget's mu^2. Nothing is lost against exact composition
  (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023).
- **renyi**: any entry, sum of K_j(s) at most the budget's K at one order s, in both directions (Feldman, Zrnic 2021).
  Unless it was given, s is settled by the first entry before its draw, so that it depends on no output.

A third, **single**, admits one release by its exact delta and nothing after it. A small share of delta is set aside
for sampler errors, because paths that trade noise error against privacy loss are not covered by either proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting.charge import Charge
from gaussveil.accounting.cumulants import cumulants, log_chernoff
from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair, PrivacyLoss

LARGEST_EPSILON = 500
FILTERS = ("auto", "mean-shift", "renyi")
ROUNDING = 1 + 1e-11  # sums of up to 10^5 floats, and K itself, are good to better than this


@dataclass(frozen=True)
class Budget:
    """Epsilon and delta of an account, and the share of delta that pays for sampler errors under a filter."""

    epsilon: float
    delta: float
    sampler_share: float = 1e-3

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ParameterError(f"epsilon must be positive, got {self.epsilon}")
        if self.epsilon > LARGEST_EPSILON:
            raise ParameterError(
                f"epsilon must be at most {LARGEST_EPSILON}, the largest budget that is supported, got {self.epsilon}; "
                "a budget that large protects nobody, choose a smaller one"
            )
        if not 0 < self.delta < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1, got {self.delta}")
        if not 0 < self.sampler_share < 1:
            raise ParameterError(f"sampler_share must lie strictly between 0 and 1, got {self.sampler_share}")

    @property
    def sampler_cap(self) -> float:
        """Largest sum of sampler errors: share * delta / (1 + e^epsilon)."""
        return self.sampler_share * self.delta / (1 + math.exp(self.epsilon))

    @property
    def ideal_delta(self) -> float:
        """Delta that is left for ideal noise."""
        return self.delta * (1 - self.sampler_share)

    def mean_shift_cap(self) -> float:
        """Squared mean shift whose delta at epsilon is the ideal delta, proven to be on the private side."""
        return _largest_energy(self.epsilon, self.ideal_delta)

    def renyi_cap(self, order: float) -> float:
        """K(s) whose Chernoff bound at epsilon is the ideal delta; not positive if the order cannot serve."""
        return order * self.epsilon + math.log(self.ideal_delta) - log_chernoff(order)


@lru_cache(maxsize=256)
def _largest_energy(epsilon: float, delta: float) -> float:
    from scipy.optimize import brentq

    def excess(log_shift: float) -> float:
        return float(GaussianPair.mean_shift(math.exp(log_shift)).log_delta(epsilon)) - math.log(delta)

    low, high = -12.0, 6.0
    while excess(low) > 0:
        low -= 12.0
    energy, step = (math.exp(float(brentq(excess, low, high, xtol=1e-13))) * (1 - 1e-10)) ** 2, 1e-10
    # Next to delta = 1 the curve is so flat that rounding moves the root by more than that.
    while PrivacyLoss.from_terms([0.0], [1.0], [energy]).enclose(epsilon).upper > delta:
        energy, step = energy * (1 - step), min(2 * step, 0.5)
    return energy


@dataclass(frozen=True)
class Usage:
    """How much of a filter is used, and of the sampler's share; both in [0, 1] while the account is within budget."""

    used: float
    sampler_used: float

    @property
    def within(self) -> bool:
        """Whether both stay within the budget, rounding counted against the account."""
        return self.used * ROUNDING <= 1 and self.sampler_used * ROUNDING <= 1


def mean_shift_usage(budget: Budget, charges: Iterable[tuple[Charge, int]]) -> Usage:
    """Sum of squared mean shifts over the budget's, worst label edge; infinite if an entry is no mean shift."""
    total: NDArray[np.float64] = np.zeros(())
    errors = []
    for charge, count in charges:
        energy = charge.mean_shift_energy
        if energy is None:
            return Usage(math.inf, math.inf)
        total = total + count * energy
        errors.append(count * charge.sampler_error)
    return Usage(_share(float(np.max(total)), budget.mean_shift_cap()), _share(math.fsum(errors), budget.sampler_cap))


def _share(part: float, whole: float) -> float:
    """How much of the whole a part is; a budget too small for doubles affords nothing."""
    return part / whole if whole > 0 else math.inf if part > 0 else 0.0


def renyi_usage(budget: Budget, order: float, charges: Iterable[tuple[Charge, int]], *, symmetric: bool) -> Usage:
    """Sum of K_j(s) over the budget's, worst label edge and direction; per entry the worse direction if symmetric."""
    cap = budget.renyi_cap(order)
    forward: NDArray[np.float64] = np.zeros(())
    backward: NDArray[np.float64] = np.zeros(())
    errors = []
    for charge, count in charges:
        for part in charge.parts:
            ahead, back, tail = cumulants(part, order)
            if symmetric:
                ahead = back = np.maximum(ahead, back)
            forward, backward = forward + count * ahead, backward + count * back
            errors.append(count * tail)
        errors.append(count * charge.sampler_error)
    used = float(max(np.max(forward), np.max(backward)))
    return Usage(used / cap if cap > 0 else math.inf, _share(math.fsum(errors), budget.sampler_cap))


def best_order(budget: Budget, charge: Charge, *, symmetric: bool) -> float:
    """Order s at which a Renyi filter admits the most repetitions of the charge, to four digits."""
    from scipy.optimize import minimize_scalar

    def used(log_order: float) -> float:
        return renyi_usage(budget, math.exp(log_order), [(charge, 1)], symmetric=symmetric).used

    grid = np.linspace(math.log(1e-3), math.log(1e6), 63)
    usages = [used(float(value)) for value in grid]
    best = int(np.argmin(usages))
    if not math.isfinite(usages[best]):
        return 1.0
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    # Beside the best order there may be some that serve nothing, and infinities differ by NaN.
    worst = 1e6 * max(usages[best], 1.0)
    found = minimize_scalar(
        lambda value: min(used(value), worst),
        bounds=(float(low), float(high)),
        method="bounded",
        options={"xatol": 1e-3},
    )
    chosen = float(found.x if found.fun < usages[best] else grid[best])
    short = float(f"{math.exp(chosen):.4g}")
    return short if math.isfinite(used(math.log(short))) else math.exp(chosen)
