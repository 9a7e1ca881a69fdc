"""An account before and after a release that nobody has paid for yet: one gauge, and what a stranger could tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.filters import Usage, filter_usage
from gaussveil.accounting.ledger.rules import PERSONAL, offer
from gaussveil.accounting.ledger.statements import Entry, Statement
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import (
    AssumptionError,
    BudgetExceededError,
    InputError,
    ParameterError,
    PrivacyError,
)
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.turns import turn
from gaussveil_studio.offers.offer import OfferPlan
from gaussveil_studio.offers.rounding import percent, rounded_up

MANY = 10**6
DOUBTS = {
    "add-remove": "whether any one {unit} was in the data",
    "replace": "which of two was the {unit} in the data",
    "label-graph": "whose of any two it is",
    "l2-ball": "which of two it was, if the {space} of one {unit} differs by no more than is hidden",
    "event": "whether something happened that changes one {unit} by no more than is hidden",
}
# epsilons of the slider
LARGEST_TRIED = 20.0
SMALLEST_TRIED = 0.01


def gauge(statement: Statement) -> float:
    """How full an account is, between 0 and 1 while it is within its budget: what its own rule adds up."""
    if not statement.charges:
        return 0.0
    if statement.terms.active_filter == "single":
        return 1.0  # it was opened for one release, and that is made
    used = statement.filter_used
    budget = statement.terms.budget
    if used is None and budget.pure:
        return statement.spent_epsilon / budget.epsilon
    if used is None:
        return statement.spent_delta / budget.delta
    return used


def more_like_the_last(statement: Statement, entries: Sequence[Entry]) -> int | None:
    """How many further releases at the last one's cost the account can pay; None where its rule is no sum."""
    known = {charge.digest: charge for charge, _ in statement.charges}
    last = next(
        (
            known[one.charge]
            for one in reversed(entries)
            if one.state != "void" and one.charge in known
        ),
        None,
    )
    if last is None:
        return None
    return more_like(statement, last)


def more_like(statement: Statement, charge: Charge) -> int | None:
    """How many such releases the account can pay; None where its rule is no sum."""
    if statement.terms.rule == "planned" or statement.terms.active_filter not in (
        "mean-shift",
        "renyi",
    ):
        if statement.terms.active_filter == "single":
            return 0
        return None
    now = usage(statement)
    then = usage(statement, (charge, 1))
    steps = (
        (1 - now.used, then.used - now.used),
        (1 - now.sampler_used, then.sampler_used - now.sampler_used),
    )
    fits = (math.floor(left / step + 1e-9) for left, step in steps if step > 0)
    count: int = max(0, min([*fits, MANY]))  # of one that costs nothing there is no end
    while count and not usage(statement, (charge, count)).within:
        count -= max(1, count // 1000)
    return count


def usage(statement: Statement, *more: tuple[Charge, int]) -> Usage:
    """How much of the account's filter is used, with some charges more."""
    terms = statement.terms
    charges = [*statement.charges, *more]
    symmetric = terms.adjacency is not None and terms.adjacency.symmetric
    return filter_usage(
        terms.budget,
        terms.active_filter or "",
        terms.order,
        charges,
        symmetric=symmetric,
    )


def doubt(adjacency: Adjacency | None) -> str:
    """What a stranger can hardly tell, by who is protected; a forecast's neighbours are known once it is made."""
    if adjacency is None:
        known = {}
    else:
        known = {"unit": adjacency.unit, **adjacency.parameters}
    return DOUBTS["label-graph" if adjacency is None else adjacency.kind].format_map(
        known
    )


def guessed_right(
    charge: Charge | None, adjacency: Adjacency | None, epsilon: float, delta: float
) -> int:
    """Of one hundred guesses whether somebody is in the data, half of them in, how many can be right at most."""
    advantage = (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
    if charge is not None and adjacency is not None:
        exact = Composition.of(
            [(charge, 1)], symmetric=adjacency.symmetric
        ).delta_upper(0.0)
        advantage = min(advantage, exact)
    return min(100, math.ceil(50 + 50 * advantage - 1e-9))


def before_and_after(
    ledger: str, account: str, plan: OfferPlan, order: Mapping[str, Any]
) -> dict[str, Any]:
    """The account now and then, in shares of its budget; what it allows from then on, or why it does not pay."""
    book = Ledger(ledger)
    now = book.statement(account)
    people = order.get("people") or ""
    answer: dict[str, Any] = {
        **_so_far(now),
        "largest_epsilon": largest_epsilon(book, account, plan, order),
        "allowed": None,
        "why": "",
        "reason": "what it costs is known once the noise is designed; the account is asked before anything is drawn",
    }
    if plan.charge is None or plan.adjacency is None:
        if plan.adjacency is not None and _hides_something_else(now, plan.adjacency):
            why = _other_people(now, plan, people)
            answer |= {"allowed": False, "why": "people", "reason": why}
        return answer
    try:
        book.check_affordable(account, plan.charge, plan.adjacency, people)
    except BudgetExceededError:
        return answer | {
            "allowed": False,
            "why": "money",
            "reason": _too_dear(now, plan),
        }
    except PrivacyError:
        return answer | {
            "allowed": False,
            "why": "people",
            "reason": _other_people(now, plan, people),
        }
    after = _with(now, plan.adjacency, (plan.charge, 1))
    more = more_like(after, plan.charge)
    answer |= {
        "after": after.spent_epsilon,
        "used_after": gauge(after),
        "more_after": more,
    }
    answer["in_all"] = (
        None if more is None else more_like(replace(after, charges=()), plan.charge)
    )
    return answer | {
        "allowed": True,
        "reason": _from_then_on(after, more, order["epsilon"]),
    }


def _hides_something_else(now: Statement, adjacency: Adjacency) -> bool:
    """Whether an account is kept for neighbours of another kind; for all of somebody's data, or by what it paid."""
    if now.terms.people:
        return adjacency.kind not in PERSONAL
    kept = now.terms.adjacency
    return kept is not None and kept.kind != adjacency.kind


def _from_then_on(after: Statement, more: int | None, epsilon: float) -> str:
    if after.terms.active_filter == "single":
        return "the account allows it and nothing after it: its budget is for one such release"
    if more is None:
        return "the account's plan has a place for it"
    if more >= MANY:
        return "the account allows it, and as many more like it as you like"
    if more == 0:
        return "the account allows it and none like it afterwards: smaller ones may still fit"
    return f"the account allows it, and {more} more like it afterwards (epsilon {epsilon:g} each), or fewer larger ones"


def _too_dear(now: Statement, plan: OfferPlan) -> str:
    """Money is the reason; how much is missing, where shares of the budget add up."""
    if not now.charges and now.terms.rule != "planned":
        return (
            f"its whole budget is epsilon {now.terms.budget.epsilon:g}, "
            "and this takes more: ask for a smaller epsilon"
        )
    left = f"{percent(1 - gauge(now))} of its budget is left"
    if now.terms.rule == "planned":
        return "the account has a plan, and no place in it is free for such a release"
    if now.terms.active_filter == "single" and now.charges:
        return "the account was opened for one release, and that is made"
    needed = ""
    if plan.charge is not None and now.terms.active_filter in ("mean-shift", "renyi"):
        then = usage(now, (plan.charge, 1))
        if then.used <= 1 < then.sampler_used:
            return (
                f"with so large an epsilon as {now.terms.budget.epsilon:g} the account keeps too little of its delta "
                "for how such noise is drawn: choose another account"
            )
        share = usage(replace(now, charges=((plan.charge, 1),))).used
        if share < 10:
            needed = f", and this takes {percent(share)}"
        else:
            needed = ", and this takes far more"
    return f"{left}{needed}: ask for a smaller epsilon, or for fewer numbers"


def _other_people(now: Statement, plan: OfferPlan, people: str) -> str:
    """The account is kept for others, or for less than all that is known of somebody."""
    terms = now.terms
    adjacency = plan.adjacency
    assert adjacency is not None
    if terms.people and adjacency.kind not in PERSONAL:
        return (
            f"the account is kept for all that is known of “{terms.people}”; this release hides less than that and "
            "needs an account of its own"
        )
    if terms.people and not people:
        return f"the account is kept for “{terms.people}”: say under “Whose rows these are” that these are the same"
    if terms.people:
        return f"the account is kept for “{terms.people}”, not for “{people}”: choose theirs, or open one"
    if people:
        return f"the account names no people: leave “Whose rows these are” empty, or open an account for “{people}”"
    if terms.adjacency is None:
        kept = "another kind of neighbours"
    else:
        kept = spoken_unit(terms.adjacency)
    hidden = spoken_unit(adjacency)
    return f"the account is kept for {kept}, and this release hides {hidden}: choose or open another account"


def spoken_unit(adjacency: Adjacency) -> str:
    """Whom neighbours differ in, in words."""
    if adjacency.kind in PERSONAL:
        if adjacency.kind == "add-remove":
            how = "present or absent"
        else:
            how = "replaced by another"
        return f"one “{adjacency.unit}”, {how}"
    known = {
        "event": "an event of one",
        "l2-ball": "a part of one",
    }
    if adjacency.kind == "label-graph":
        return f"which “{adjacency.unit}” it is"
    return f"{known.get(adjacency.kind, 'a part of one')} “{adjacency.unit}”"


def notices(now: Statement) -> list[str]:
    """What must be said beside an account that is not the only one of its people, in the words of a page."""
    people = f"“{now.terms.people}”"
    told = []
    if now.siblings:
        names = sorted([now.terms.name, *(name for name, _ in now.siblings)])
        spent = rounded_up(now.together.epsilon(now.terms.budget.delta), 3)
        told.append(
            f"{people} have {len(names)} accounts ({', '.join(names)}), whose budgets add: together they have spent "
            f"epsilon {spent}"
        )
    if now.apart:
        names = sorted(name for name, _ in now.apart)
        spent = rounded_up(now.replaced_epsilon, 3)
        told.append(
            f"{people} have accounts that hide something else too ({', '.join(names)}): all of them together have "
            f"spent epsilon {spent}, of one who is replaced by another"
        )
    return told


def _so_far(now: Statement) -> dict[str, Any]:
    """An account as it is; what comes after is not known yet."""
    budget = now.terms.budget
    then = {"after": None, "used_after": None, "more_after": None, "in_all": None}
    known = {
        "account": now.terms.name,
        "people": now.terms.people,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
    }
    return {
        **known,
        "notices": notices(now),
        "before": now.spent_epsilon,
        "used_before": gauge(now),
        **then,
    }


def _with(now: Statement, adjacency: Adjacency, *more: tuple[Charge, int]) -> Statement:
    """The statement after some releases; an account without any settles its filter by the first."""
    terms = replace(offer(now.terms, more[0][0], adjacency).after, adjacency=adjacency)
    return replace(now, terms=terms, charges=(*now.charges, *more))


def promised_charge(epsilon: float, delta: float) -> Charge:
    """The cost of Gaussian noise that just keeps a promise."""
    return Charge(GaussianPair.mean_shift(mean_shift_for(epsilon, delta)))


def largest_epsilon(
    book: Ledger, account: str, plan: OfferPlan, order: Mapping[str, Any]
) -> float:
    """About the largest epsilon that the account can pay for."""
    delta = order["delta"]
    people = order.get("people") or ""
    adjacency = book.terms(account).adjacency or Adjacency.add_remove()
    if plan.charge is not None and plan.adjacency is not None:
        adjacency = plan.adjacency

    def is_too_large(epsilon: float) -> bool:
        try:
            if plan.charge_at is None:
                charge = promised_charge(epsilon, delta)
            else:
                charge = plan.charge_at(epsilon)
            book.check_affordable(account, charge, adjacency, people)
        except AssumptionError:
            raise
        except (PrivacyError, InputError):  # for the account, or for the mechanism
            return True
        return False

    try:
        near = turn(is_too_large, SMALLEST_TRIED, LARGEST_TRIED, by_ratio=True, looks=8)
    except AssumptionError:  # the account is for others: money is not the reason
        return LARGEST_TRIED
    return near.before


def what_if(
    ledger: str, account: str, releases: list[dict[str, Any]]
) -> dict[str, Any]:
    """Several releases that nobody has ordered yet, on top of what an account has spent: composed exactly."""
    now = Ledger(ledger).statement(account)
    if now.terms.rule == "planned":
        raise ParameterError(
            "the account must have no plan: it allows what its plan names. Got a planned one."
        )
    charges = [
        (promised_charge(one["epsilon"], one["delta"]), one["count"])
        for one in releases
    ]
    try:
        then = _with(now, now.terms.adjacency or Adjacency.add_remove(), *charges)
    except PrivacyError:  # not even one
        return {**_so_far(now), "allowed": False, "fitting": 0}
    fitting = more_like(replace(then, charges=now.charges), charges[0][0]) or 0
    within = then.terms.active_filter in ("mean-shift", "renyi") and usage(then).within
    return {
        **_so_far(now),
        "after": then.spent_epsilon,
        "used_after": gauge(then),
        "allowed": within,
        "fitting": fitting,
    }
