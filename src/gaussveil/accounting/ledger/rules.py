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
from gaussveil.accounting.ledger.filters import (
    NOTHING,
    Balance,
    Budget,
    Usage,
    best_order,
    filter_cost,
)
from gaussveil.accounting.names import shown
from gaussveil.errors import AssumptionError, BudgetExceededError

Spent = Sequence[tuple[Charge, int]]


@dataclass(frozen=True)
class Rules:
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
    people: str = ""
    """The population that it is kept for, where it names one."""

    @property
    def order(self) -> float | None:
        """Order of the Renyi filter, once it is settled or if it was given; infinite where delta is 0."""
        if self.budget.pure:
            return math.inf
        if self.active_order is not None:
            return self.active_order
        return self.chosen_order

    @property
    def composition(self) -> str:
        """Words for certificates: the rule that the account rests on."""
        if self.rule == "planned":
            return "planned: exact composition of a pre-registered sequence"
        if self.budget.pure:
            return "adaptive: epsilons add up, at delta 0"
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


REPLACE = "replace"
PERSONAL = (
    "add-remove",
    REPLACE,
)  # relations whose neighbours differ in all that is known of one unit
APART = (
    "an event, a label or a trajectory of somebody is less than all that is known of him, so what hides it adds to no "
    "budget of people: it has an account of its own"
)


def check_adjacency(
    terms: Rules, adjacency: Adjacency, charge: Charge, people: str = ""
) -> None:
    """Raise unless the release speaks of the same neighbours as the account, edge by edge.

    An account of a population pays for any table of that population, whatever the column with their names is called,
    and for rows, of which each has at most one.
    """
    _check_people(terms, adjacency, people)
    own = terms.adjacency
    if own is not None and own != adjacency:
        same_people = bool(people) and own.kind == adjacency.kind
        if not same_people:
            raise AssumptionError(_another_relation(terms, adjacency, people))
    check_neighbours(adjacency, charge)


def _check_people(terms: Rules, adjacency: Adjacency, people: str) -> None:
    """Raise unless the release is of the account's people, if either names some, and hides each of them whole."""
    if terms.people and people and terms.people != people:
        raise AssumptionError(
            f"the account {shown(terms.name)} is kept for {shown(terms.people)}, the release is of {shown(people)}; "
            "open an account for them"
        )
    if people and not terms.people:
        raise AssumptionError(
            f"the account {shown(terms.name)} names no people, the release is of {shown(people)}; open an account for "
            "them (people=..., or gaussveil budget new --people)"
        )
    if terms.people and adjacency.kind not in PERSONAL:
        raise AssumptionError(
            f"the account {shown(terms.name)} is kept for {shown(terms.people)}, the release is for neighbours where "
            f"{adjacency}: {APART}"
        )


def _another_relation(terms: Rules, adjacency: Adjacency, people: str) -> str:
    if terms.people and not people:
        return (
            f"the account {shown(terms.name)} is kept for {shown(terms.people)}, and the release does not say "
            f"whether its {adjacency.unit!r} are these; say people={terms.people!r}, or open another account"
        )
    return (
        f"the account {shown(terms.name)} is kept for neighbours where {terms.adjacency}, "
        f"the release is for neighbours where {adjacency}; open an account for that adjacency"
    )


def check_neighbours(adjacency: Adjacency, charge: Charge) -> None:
    """Raise if a charge carries label edges, or random batches, that are not of the adjacency."""
    if charge.edges is not None and charge.edges != adjacency.edge_count:
        raise AssumptionError(
            f"the charge carries losses on {charge.edges} label edges, the adjacency has "
            f"{adjacency.edge_count or 'none'}; give one loss per ordered edge, in the adjacency's order"
        )
    for part in charge.parts:
        if part.source.neighbours not in (None, adjacency.kind):
            raise AssumptionError(
                f"the charge counts random batches for neighbours of the kind {part.source.neighbours!r}, "
                f"the release is for neighbours where {adjacency}; account for the batches under that adjacency"
            )


@dataclass(frozen=True)
class Offer:
    """What admitting a charge to an account on these terms would settle and cost; found while nobody waits for it."""

    before: Rules
    after: Rules
    cost: Balance


def _filter_for(terms: Rules, charge: Charge) -> str:
    """The filter that was asked for, or the one that fits the first charge."""
    if terms.chosen_filter != "auto":
        return terms.chosen_filter
    if terms.budget.pure or charge.mean_shift_energy is None:
        return "renyi"
    return "mean-shift"


def offer(terms: Rules, charge: Charge, adjacency: Adjacency) -> Offer:
    """Settle the filter if nothing is spent yet, and find what the charge costs under it.

    This may take seconds, as a Renyi order is looked for and a single release enclosed: do it before locking a ledger.
    """
    symmetric = adjacency.symmetric
    if terms.active_filter is not None:
        return Offer(terms, terms, _cost(terms, charge, symmetric))
    # Nothing has been released yet, so choosing the filter now depends on no output.
    chosen = _filter_for(terms, charge)
    settled = replace(terms, active_filter=chosen)
    if chosen == "renyi" and terms.order is None:
        settled = replace(
            settled, active_order=best_order(terms.budget, charge, symmetric=symmetric)
        )
    cost = _cost(settled, charge, symmetric)
    if Usage.of(terms.budget, chosen, settled.order, cost).within:
        return Offer(terms, settled, cost)
    if terms.chosen_filter == "auto" and not terms.budget.pure:
        alone = Composition.of([(charge, 1)], symmetric=symmetric)
        if (
            alone.delta_upper(terms.budget.epsilon, enough=terms.budget.delta)
            <= terms.budget.delta
        ):
            return Offer(terms, replace(settled, active_filter="single"), NOTHING)
    raise _refused(settled, NOTHING, cost, charge)


def _cost(terms: Rules, charge: Charge, symmetric: bool) -> Balance:
    if terms.active_filter is None or terms.active_filter == "single":
        return NOTHING
    return filter_cost(terms.active_filter, terms.order, charge, symmetric=symmetric)


def admit(found: Offer, used: Balance, charge: Charge) -> Balance:
    """Give what the filter will have used with the offered charge, or refuse it whole."""
    terms = found.after
    if terms.active_filter == "single" and found.before.active_filter is None:
        return NOTHING
    total = used.plus(found.cost)
    active = terms.active_filter or ""
    if (
        active == "single"
        or not Usage.of(terms.budget, active, terms.order, total).within
    ):
        raise _refused(terms, used, found.cost, charge)
    return total


def admit_planned(terms: Rules, slots: Sequence[Slot], charge: Charge) -> str:
    """Give the digest of the plan's place that the charge takes, or refuse it whole."""
    free = [
        slot for slot in slots if slot.used < slot.count and slot.charge.covers(charge)
    ]
    if free:
        # The same charge first, else the cheapest place that covers it.
        return min(
            free, key=lambda slot: (slot.charge != charge, _length(slot.charge))
        ).charge.digest
    left = [
        f"{slot.count - slot.used} x {slot.charge.describe()}"
        for slot in slots
        if slot.used < slot.count
    ]
    raise BudgetExceededError(
        f"the plan of account {shown(terms.name)} has no free place for {charge.describe()}; "
        f"nothing was drawn or spent. Left in the plan: {'; '.join(left) or 'nothing'}"
    )


def check_plan(budget: Budget, plan: Spent, adjacency: Adjacency) -> None:
    """Raise unless the whole plan, composed exactly, stays within the budget."""
    for charge, _ in plan:
        check_neighbours(adjacency, charge)
    total = Composition.of(
        plan, symmetric=adjacency.symmetric, adaptive=True
    ).delta_upper(budget.epsilon)
    if total > budget.delta:
        raise BudgetExceededError(
            f"the plan needs delta {total:.6g} at epsilon {budget.epsilon:g}, "
            f"the budget is {budget.delta:g}; shorten the plan"
        )


def _length(charge: Charge) -> float:
    energy = charge.mean_shift_energy
    if energy is not None:
        return float(np.max(energy))
    return float("inf")


def _refused(
    terms: Rules, used: Balance, cost: Balance, charge: Charge
) -> BudgetExceededError:
    """The refusal, which knows what would have fitted."""
    error = BudgetExceededError(_refusal(terms, used, cost, charge))
    active = terms.active_filter or ""
    if terms.budget.pure:
        share = Usage.of(terms.budget, active, terms.order, used).used
        error.epsilon_left = max(1 - share, 0.0) * terms.budget.epsilon
    elif active == "mean-shift":
        share = Usage.of(terms.budget, active, terms.order, used).used
        room = max(1 - share, 0.0) * terms.budget.mean_shift_cap()
        error.mean_shift_left = math.sqrt(room)
    return error


def _refusal(terms: Rules, used: Balance, cost: Balance, charge: Charge) -> str:
    budget = f"epsilon {terms.budget.epsilon:g}, delta {terms.budget.delta:g}"
    start = f"the account {shown(terms.name)} ({budget}) cannot afford this release"
    end = "nothing was drawn or spent"
    another = (
        "open another account, whose budget adds to this one's (gaussveil budget new)"
    )
    active = terms.active_filter or ""
    if active == "single":
        return f"{start}: it was used up by one release, admitted by its exact delta; {end}. To go on, {another}"
    unbounded = math.isinf(max(np.max(cost.forward), np.max(cost.backward)))
    if terms.budget.pure and (unbounded or charge.sampler_error):
        return (
            f"{start}: at delta 0 it takes noise of bounded loss alone, and {charge.describe()} is none; {end}. "
            "Ask for Laplace noise (a table with law='laplace'), or open an account with a delta"
        )
    if active == "mean-shift" and unbounded:
        return (
            f"{start}: its filter adds squared mean shifts, and none dominates {charge.describe()}; {end}. "
            "Open an account with the renyi filter for mixed entries"
        )
    before = Usage.of(terms.budget, active, terms.order, used)
    after = Usage.of(terms.budget, active, terms.order, used.plus(cost))
    if after.sampler_used > 1:
        return (
            f"{start}: sampler errors would use {after.sampler_used:.4g} of their share of delta; {end}. "
            "Use a finer sampler or open an account with a larger sampler_share"
        )
    spent = f"{100 * before.used:.3g} %"
    then = f"{100 * after.used:.3g} %"
    how = "epsilons add up" if terms.budget.pure else f"{active} filter"
    why = (
        f"{spent} of the budget is spent; this release would bring it to {then} ({how})"
    )
    return f"{start}: {why}; {end}. Ask for less, or {another}"
