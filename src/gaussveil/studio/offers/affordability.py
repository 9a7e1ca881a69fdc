"""An account before and after a release that nobody has paid for yet: one gauge, and what a stranger could tell."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.filters import filter_usage
from gaussveil.accounting.ledger.records import Entry, Statement
from gaussveil.accounting.ledger.rules import offer
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import PrivacyError
from gaussveil.spectrum import GaussianPair
from gaussveil.studio.offers.offer import Plan

LARGEST_TRIED, SMALLEST_TRIED = 20.0, 0.01  # epsilons of the slider


def gauge(statement: Statement) -> float:
    """How full an account is, between 0 and 1 while it is within its budget: what its own rule adds up."""
    if not statement.charges:
        return 0.0
    used = statement.filter_used
    return statement.spent_delta / statement.terms.budget.delta if used is None else used


def more_like_the_last(statement: Statement, entries: Sequence[Entry]) -> int | None:
    """How many further releases at the last one's cost the account can pay; None where its rule is no sum."""
    terms, known = statement.terms, {charge.digest: charge for charge, _ in statement.charges}
    last = next((known[one.charge] for one in reversed(entries) if one.state != "void" and one.charge in known), None)
    if last is None or terms.rule == "planned" or terms.active_filter not in ("mean-shift", "renyi"):
        return None
    symmetric = terms.adjacency is not None and terms.adjacency.symmetric

    def used(count: int) -> Any:
        charges = [*statement.charges, *([(last, count)] if count else [])]
        return filter_usage(terms.budget, terms.active_filter or "", terms.order, charges, symmetric=symmetric)

    now, then = used(0), used(1)
    steps = ((1 - now.used, then.used - now.used), (1 - now.sampler_used, then.sampler_used - now.sampler_used))
    count: int = max(0, min(math.floor(left / step + 1e-9) for left, step in steps if step > 0))
    while count and not used(count).within:
        count -= 1
    return count


def guessed_right(charge: Charge | None, adjacency: Adjacency | None, epsilon: float, delta: float) -> int:
    """Of one hundred guesses whether somebody is in the data, half of them in, how many can be right at most."""
    advantage = (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
    if charge is not None and adjacency is not None:
        exact = Composition.of([(charge, 1)], symmetric=adjacency.symmetric).delta_upper(0.0)
        advantage = min(advantage, exact)
    return min(100, math.ceil(50 + 50 * advantage - 1e-9))


def before_and_after(ledger: str, account: str, plan: Plan, promised: tuple[float, float]) -> dict[str, Any]:
    """What is spent now and would be spent then, by exact composition; whether the account would allow it."""
    book = Ledger(ledger)
    now = book.statement(account)
    budget = now.terms.budget
    answer: dict[str, Any] = {
        "account": account,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "before": now.spent_epsilon,
        "after": None,
        "used_before": gauge(now),
        "used_after": None,
        "largest_epsilon": None,
        "allowed": None,
        "reason": "what it costs is known once the noise is designed; the account is asked before anything is drawn",
    }
    if plan.charge is None or plan.adjacency is None:
        return answer
    try:
        book.check_affordable(account, plan.charge, plan.adjacency)
    except PrivacyError as refused:
        answer |= {"allowed": False, "reason": str(refused)}
    else:
        terms = replace(offer(now.terms, plan.charge, plan.adjacency).after, adjacency=plan.adjacency)
        after = replace(now, terms=terms, charges=(*now.charges, (plan.charge, 1)))
        answer |= {"after": after.spent_epsilon, "used_after": gauge(after)}
        answer |= {"allowed": True, "reason": "the account allows it"}
    if plan.charge.mean_shift_energy is not None:
        spent = tuple((charge.digest, count) for charge, count in now.charges)
        relation = json.dumps(plan.adjacency.to_dict(), sort_keys=True)
        answer["largest_epsilon"] = _largest_epsilon(ledger, account, spent, promised[1], relation)
    return answer


@lru_cache(maxsize=256)
def _largest_epsilon(ledger: str, account: str, _spent: object, delta: float, relation: str) -> float:
    """About the largest epsilon that the account can pay for at this delta; what it has spent is part of the key."""
    book, low, high, adjacency = (
        Ledger(ledger),
        SMALLEST_TRIED,
        LARGEST_TRIED,
        Adjacency.from_dict(json.loads(relation)),
    )
    for _ in range(11):
        middle = math.sqrt(low * high)
        try:
            book.check_affordable(account, Charge(GaussianPair.mean_shift(mean_shift_for(middle, delta))), adjacency)
            low = middle
        except PrivacyError:
            high = middle
    return low
