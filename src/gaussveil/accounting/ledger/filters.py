"""Privacy filters: what keeps an adaptive account sound (derived: docs/ledger).

- **mean-shift**: sum of mu_j^2 at most the budget's mu^2. Of mean shifts nothing is lost against exact composition
  (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023). Discrete Laplace noise counts as the least mean shift that
  dominates it.
- **renyi**: any entry, sum of K_j(s) at most the budget's K at one order s, in both directions (Feldman, Zrnic 2021).
  Unless it was given, s is settled by the first entry before its draw, so that it depends on no output.
- **single** admits one release by its exact delta and nothing after it.

An account of delta 0 has the Renyi filter at s = infinity, where K(s)/s is the largest loss: epsilons add up.

A small share of delta is set aside for sampler errors, which neither proof covers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gaussveil import checks
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.cumulants import cumulants, log_chernoff
from gaussveil.accounting.ledger.dominating import dominating_energy
from gaussveil.accounting.ledger.upwards import product_up, sum_up
from gaussveil.accounting.pure_losses import largest_loss
from gaussveil.calibration.gaussian import approximate_mean_shift
from gaussveil.errors import ParameterError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.roots import lowest
from gaussveil.typing import Floats

FILTERS = ("auto", "mean-shift", "renyi")
USED_RAISED = (
    1 + 1e-11
)  # by which what was used counts more: K itself is good to better than this


LEAST_SAMPLER_ERROR = 2.0**-111
"""Total variation between one number of Gaussian noise and its law is not less, whatever its scale."""


@dataclass(frozen=True)
class Budget:
    """Epsilon and delta of an account, and the share of delta that pays for sampler errors under a filter."""

    epsilon: float
    delta: float
    sampler_share: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))
        checks.positive("epsilon", self.epsilon)
        for name, interval in (("delta", "[0, 1)"), ("sampler_share", "(0, 1)")):
            object.__setattr__(
                self, name, checks.real(name, getattr(self, name), interval)
            )

    @property
    def pure(self) -> bool:
        """Whether it is of epsilon alone: delta is 0."""
        return self.delta == 0

    @property
    def sampler_cap(self) -> float:
        """Largest sum of sampler errors: share * delta / (1 + e^epsilon)."""
        return self.sampler_share * self.delta / (1 + math.exp(self.epsilon))

    def require_usable(self) -> Budget:
        """Refuse a budget that no noise of ours could ever be charged to; say the largest epsilon that can be used."""
        if self.pure or self.sampler_cap >= LEAST_SAMPLER_ERROR:
            return self
        payable = self.sampler_share * self.delta / LEAST_SAMPLER_ERROR
        if payable <= 2:  # 1 + e^epsilon is more, whatever epsilon is
            least_delta = 2 * LEAST_SAMPLER_ERROR / self.sampler_share
            raise ParameterError(
                f"delta must be above {least_delta:.2g}, or no release could pay for the error of its noise's sampler. "
                f"Got {self.delta:g}."
            )
        largest = math.log(payable - 1)
        raise ParameterError(
            f"epsilon must be at most {math.floor(10 * largest) / 10:g} at delta {self.delta:g}, or no release could "
            f"pay for the error of its noise's sampler. Got {self.epsilon:g}."
        )

    def require_filter(self, chosen: str, order: float | None) -> None:
        """Refuse a filter, or an order of the Renyi filter, that no account with this budget can have."""
        checks.one_of("filter", chosen, FILTERS)
        if self.pure and (chosen != "auto" or order is not None):
            raise ParameterError(
                "filter and order must be left out where delta is 0: epsilons add up there"
            )
        if (
            order is not None
            and not self.renyi_cap(checks.positive("order", order)) > 0
        ):
            checks.refuse("order", "large enough to serve the budget", order)

    @property
    def ideal_delta(self) -> float:
        """Delta that is left for ideal noise."""
        return self.delta * (1 - self.sampler_share)

    def mean_shift_cap(self) -> float:
        """Squared mean shift whose delta at epsilon is the ideal delta, proven to be on the private side."""
        if self.pure:
            return 0.0
        return _largest_energy(self.epsilon, self.ideal_delta)

    def renyi_cap(self, order: float) -> float:
        """K(s) whose Chernoff bound at epsilon is at most the ideal delta; not positive if the order cannot serve.

        Of infinite order it is the largest loss.
        """
        if math.isinf(order):
            return self.epsilon
        if self.pure:
            return 0.0
        parts = order * self.epsilon, math.log(self.ideal_delta), -log_chernoff(order)
        return sum(parts) - 2.0**-50 * (1 + sum(map(abs, parts)))  # rounded down


@lru_cache(maxsize=256)
def _largest_energy(epsilon: float, delta: float) -> float:
    energy = (approximate_mean_shift(epsilon, delta) * (1 - 1e-10)) ** 2
    step = 1e-10
    # Next to delta = 1 the curve is so flat that rounding moves the root by more than that.
    while PrivacyLoss.from_terms([0.0], [1.0], [energy]).enclose(epsilon).upper > delta:
        energy = energy * (1 - step)
        step = min(2 * step, 0.5)
    return energy


@dataclass(frozen=True, eq=False)
class Balance:
    """What a filter adds up, per label edge, rounded up: squared mean shifts, or K(s) both ways; and sampler errors."""

    forward: Floats
    backward: Floats
    sampler_error: float

    def plus(self, cost: Balance, count: int = 1) -> Balance:
        """The sum with `count` times a cost, every rounding counted against the account."""
        error, forward, backward = (
            sum_up(before, product_up(float(count), more))
            for before, more in (
                (np.asarray(self.sampler_error), np.asarray(cost.sampler_error)),
                (self.forward, cost.forward),
                (self.backward, cost.backward),
            )
        )
        return Balance(forward, backward, float(error))

    def to_bytes(self) -> bytes:
        """Sampler error, forward, backward as little-endian doubles."""
        return (
            np.concatenate([[self.sampler_error], self.forward, self.backward])
            .astype("<f8")
            .tobytes()
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> Balance:
        """Inverse of `to_bytes`."""
        numbers = np.frombuffer(body, dtype="<f8").astype(np.float64)
        edges = len(numbers) // 2
        return cls(numbers[1 : 1 + edges], numbers[1 + edges :], float(numbers[0]))


NOTHING = Balance(np.zeros(1), np.zeros(1), 0.0)


def mean_shift_cost(charge: Charge) -> Balance:
    """Squared mean shift of a charge, or of one that dominates it; infinite where none is known to."""
    forward = np.zeros(1)
    for part in charge.parts:
        energy = part.mean_shift_energy
        if energy is None:
            energy = product_up(
                float(part.count), np.asarray(dominating_energy(part.source))
            )
        forward = sum_up(forward, np.atleast_1d(energy))
    return Balance(forward, np.zeros_like(forward), charge.sampler_error)


def pure_cost(charge: Charge) -> Balance:
    """The largest losses of a charge in both directions; infinite where one has no bound."""
    total = NOTHING.plus(Balance(np.zeros(1), np.zeros(1), charge.sampler_error))
    for part in charge.parts:
        ahead, back = (
            np.full(1, float(largest_loss([(side, 1)])))
            for side in (part.source, part.source.reversed())
        )
        total = total.plus(Balance(ahead, back, 0.0), part.count)
    return total


def renyi_cost(charge: Charge, order: float, *, symmetric: bool) -> Balance:
    """K(s) of a charge in both directions, the worse one for both if symmetric; tails count as sampler errors."""
    total = NOTHING.plus(Balance(np.zeros(1), np.zeros(1), charge.sampler_error))
    for part in charge.parts:
        ahead, back, tail = cumulants(part, order)
        if symmetric:
            ahead = back = np.maximum(ahead, back)
        total = total.plus(Balance(np.atleast_1d(ahead), np.atleast_1d(back), tail))
    return total


def filter_cost(
    active: str, order: float | None, charge: Charge, *, symmetric: bool
) -> Balance:
    """What a charge costs under the filter of an account."""
    if active == "mean-shift":
        return mean_shift_cost(charge)
    if order is not None and math.isinf(order):
        return pure_cost(charge)
    return renyi_cost(charge, order or math.nan, symmetric=symmetric)


@dataclass(frozen=True)
class Usage:
    """How much of a filter is used, and of the sampler's share; both in [0, 1] while the account is within budget."""

    used: float
    sampler_used: float
    rounding: float = USED_RAISED
    """By how much the parts may have been rounded."""

    @classmethod
    def of(
        cls, budget: Budget, active: str, order: float | None, balance: Balance
    ) -> Usage:
        """Shares of the budget that a balance uses, worst label edge and direction."""
        if active == "mean-shift":
            cap = budget.mean_shift_cap()
        else:
            cap = budget.renyi_cap(order or math.nan)
        worst = float(max(np.max(balance.forward), np.max(balance.backward)))
        sampler = _share(balance.sampler_error, budget.sampler_cap)
        if order is not None and math.isinf(order):
            # Every sum was rounded up, so that they are compared as they are.
            used = worst / cap
            if worst > cap:
                used = max(used, math.nextafter(1.0, math.inf))
            return cls(used, sampler, 1.0)
        if active == "mean-shift":
            used = _share(worst, cap)
        elif cap > 0:
            used = worst / cap
        else:
            used = math.inf
        return cls(used, sampler)

    @property
    def within(self) -> bool:
        """Whether both stay within the budget, rounding counted against the account."""
        return self.used * self.rounding <= 1 and self.sampler_used * USED_RAISED <= 1


def _share(part: float, whole: float) -> float:
    """How much of the whole a part is; a budget too small for doubles affords nothing."""
    if whole > 0:
        return part / whole
    if part > 0:
        return math.inf
    return 0.0


def filter_usage(
    budget: Budget,
    active: str,
    order: float | None,
    charges: Iterable[tuple[Charge, int]],
    *,
    symmetric: bool,
) -> Usage:
    """How much of a filter some charges use."""
    total = NOTHING
    for charge, count in charges:
        total = total.plus(
            filter_cost(active, order, charge, symmetric=symmetric), count
        )
    return Usage.of(budget, active, order, total)


def best_order(budget: Budget, charge: Charge, *, symmetric: bool) -> float:
    """Order s at which a Renyi filter admits the most repetitions of the charge, to four digits."""

    def used(log_order: float) -> float:
        return filter_usage(
            budget, "renyi", math.exp(log_order), [(charge, 1)], symmetric=symmetric
        ).used

    grid = np.linspace(math.log(1e-3), math.log(1e6), 63)
    usages = {place: used(float(grid[place])) for place in range(0, len(grid), 3)}
    best = min(usages, key=usages.__getitem__)
    # Orders that admit anything adjoin each other; where none of these does, they may lie between two.
    if math.isfinite(usages[best]):
        near = range(len(grid))[max(best - 2, 0) : best + 3]
    else:
        near = range(len(grid))
    usages |= {place: used(float(grid[place])) for place in near if place % 3}
    best = min(usages, key=usages.__getitem__)
    if not math.isfinite(usages[best]):
        return 1.0
    low = grid[max(best - 1, 0)]
    high = grid[min(best + 1, len(grid) - 1)]
    # Beside the best order there may be some that serve nothing, and infinities differ by NaN.
    worst = 1e6 * max(usages[best], 1.0)
    order = lowest(
        lambda value: min(used(value), worst), float(low), float(high), xtol=1e-3
    )
    if min(used(order), worst) < usages[best]:
        chosen = order
    else:
        chosen = float(grid[best])
    short = float(f"{math.exp(chosen):.4g}")
    if math.isfinite(used(math.log(short))):
        return short
    return math.exp(chosen)
