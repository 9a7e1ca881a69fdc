"""Whether an account can afford a charge. The rule looks at public charges only, never at data.

Under "planned" the whole plan was composed exactly when the account opened, so a release is admitted if the plan still
has a place for it. The order does not matter and a plan need not be finished: all planned pairs could have been drawn
beforehand, and what is released is a post-processing of them. Under "adaptive" one filter, fixed before the first
output, decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.filters import Budget, Usage, best_order, mean_shift_usage, renyi_usage
from gaussveil.errors import AssumptionError, BudgetExceededError

Spent = Sequence[tuple[Charge, int]]


@dataclass(frozen=True)
class Terms:
    """The terms of an account: what it protects, its budget and its rule."""

    name: str
    dataset: str
    adjacency: Adjacency | None
    budget: Budget
    rule: str
    chosen_filter: str
    active_filter: str | None
    chosen_order: float | None
    active_order: float | None
    opened_at: str

    @property
    def order(self) -> float | None:
        """Order of the Renyi filter, once it is settled or if it was given."""
        return self.active_order if self.active_order is not None else self.chosen_order

    @property
    def composition(self) -> str:
        """Words for certificates: the rule that the account rests on."""
        if self.rule == "planned":
            return "planned: exact composition of a pre-registered sequence"
        words = {
            None: "no entry yet",
            "mean-shift": "filter on the sum of squared mean shifts",
            "renyi": f"Renyi filter at s = {self.order or math.nan:g}",
            "single": "one release, by its exact delta",
        }
        return f"adaptive: {words[self.active_filter]}"


@dataclass(frozen=True)
class Slot:
    """A place in a plan: a charge, how many were registered and how many are used."""

    charge: Charge
    count: int
    used: int


def check_adjacency(terms: Terms, adjacency: Adjacency, charge: Charge) -> None:
    """Raise unless the release speaks of the same neighbours as the account, edge by edge."""
    if terms.adjacency is not None and terms.adjacency != adjacency:
        raise AssumptionError(
            f"the account {terms.name!r} is kept for neighbours where {terms.adjacency}, "
            f"the release is for neighbours where {adjacency}; open an account for that adjacency"
        )
    check_edges(adjacency, charge)


def check_edges(adjacency: Adjacency, charge: Charge) -> None:
    """Raise if a charge carries label edges that the adjacency does not have."""
    if charge.edges is not None and charge.edges != adjacency.edge_count:
        raise AssumptionError(
            f"the charge carries losses on {charge.edges} label edges, the adjacency has "
            f"{adjacency.edge_count or 'none'}; give one loss per ordered edge, in the adjacency's order"
        )


def usage(terms: Terms, active: str, spent: Spent, symmetric: bool) -> Usage:
    """How much of a filter the charges use."""
    if active == "mean-shift":
        return mean_shift_usage(terms.budget, spent)
    if active == "renyi" and terms.order is not None:
        return renyi_usage(terms.budget, terms.order, spent, symmetric=symmetric)
    exact = Composition.of(spent, symmetric=symmetric).delta_upper(terms.budget.epsilon) / terms.budget.delta
    return Usage(exact if sum(count for _, count in spent) <= 1 else float("inf"), 0.0)


def admit_adaptive(terms: Terms, spent: Spent, charge: Charge, adjacency: Adjacency) -> Terms:
    """Give the terms, filter settled, under which the charge is admitted, or refuse it whole."""
    if terms.active_filter is not None:
        candidates = [terms.active_filter]
    elif terms.chosen_filter == "auto":
        # Nothing has been released yet, so choosing the filter now depends on no output.
        candidates = ["renyi" if charge.mean_shift_energy is None else "mean-shift", "single"]
    else:
        candidates = [terms.chosen_filter]
    wanted = [*spent, (charge, 1)]
    if terms.order is None and "renyi" in candidates:
        terms = replace(terms, active_order=best_order(terms.budget, charge, symmetric=adjacency.symmetric))
    for active in candidates:
        if active == "single" and len(wanted) == 1:
            exact = Composition.of(wanted, symmetric=adjacency.symmetric).delta_upper(terms.budget.epsilon)
            if exact <= terms.budget.delta:
                return replace(terms, active_filter=active)
        elif active != "single" and usage(terms, active, wanted, adjacency.symmetric).within:
            return replace(terms, active_filter=active)
    raise BudgetExceededError(_refusal(terms, candidates[0], spent, wanted, charge, adjacency))


def admit_planned(terms: Terms, slots: Sequence[Slot], charge: Charge) -> str:
    """Give the digest of the plan's place that the charge takes, or refuse it whole."""
    free = [slot for slot in slots if slot.used < slot.count and slot.charge.covers(charge)]
    if free:
        # The same charge first, else the cheapest place that covers it.
        return min(free, key=lambda slot: (slot.charge != charge, _length(slot.charge))).charge.digest
    left = [f"{slot.count - slot.used} x {slot.charge.describe()}" for slot in slots if slot.used < slot.count]
    raise BudgetExceededError(
        f"the plan of account {terms.name!r} has no free place for {charge.describe()}; nothing was drawn or spent. "
        f"Left in the plan: {'; '.join(left) or 'nothing'}"
    )


def check_plan(budget: Budget, plan: Spent, adjacency: Adjacency) -> None:
    """Raise unless the whole plan, composed exactly, stays within the budget."""
    for charge, _ in plan:
        check_edges(adjacency, charge)
    total = Composition.of(plan, symmetric=adjacency.symmetric, adaptive=True).delta_upper(budget.epsilon)
    if total > budget.delta:
        raise BudgetExceededError(
            f"the plan needs delta {total:.6g} at epsilon {budget.epsilon:g}, "
            f"the budget is {budget.delta:g}; shorten the plan"
        )


def _length(charge: Charge) -> float:
    energy = charge.mean_shift_energy
    return float(np.max(energy)) if energy is not None else float("inf")


def _refusal(terms: Terms, active: str, spent: Spent, wanted: Spent, charge: Charge, adjacency: Adjacency) -> str:
    budget = f"epsilon {terms.budget.epsilon:g}, delta {terms.budget.delta:g}"
    start = f"the account {terms.name!r} ({budget}) cannot afford this release"
    end = "nothing was drawn or spent"
    if active == "single":
        return f"{start}: it was used up by one release that was admitted by its exact delta; {end}"
    if active == "mean-shift" and charge.mean_shift_energy is None:
        return (
            f"{start}: its filter adds squared mean shifts, and {charge.describe()} is no mean shift; {end}. "
            "Open an account with the renyi filter for mixed entries"
        )
    before = usage(terms, active, spent, adjacency.symmetric) if spent else Usage(0.0, 0.0)
    after = usage(terms, active, wanted, adjacency.symmetric)
    if after.sampler_used > 1:
        return (
            f"{start}: sampler errors would use {after.sampler_used:.4g} of their share of delta; {end}. "
            "Use a finer sampler or open an account with a larger sampler_share"
        )
    return f"{start}: its {active} filter is at {before.used:.4%} and would be at {after.used:.4%}; {end}"
