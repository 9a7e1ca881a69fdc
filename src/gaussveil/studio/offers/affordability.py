"""An account before and after a release that nobody has paid for yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gaussveil.accounting import Ledger
from gaussveil.errors import PrivacyError
from gaussveil.studio.offers.offer import Plan


def before_and_after(ledger: str, account: str, plan: Plan) -> dict[str, Any]:
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
        "allowed": None,
        "reason": "what it costs is known once the noise is designed; the account is asked before anything is drawn",
    }
    if plan.charge is None or plan.adjacency is None:
        return answer
    terms = now.terms if now.terms.adjacency is not None else replace(now.terms, adjacency=plan.adjacency)
    after = replace(now, terms=terms, charges=(*now.charges, (plan.charge, 1)))
    answer |= {"after": after.spent_epsilon, "allowed": True, "reason": "the account allows it"}
    try:
        book.check_affordable(account, plan.charge, plan.adjacency)
    except PrivacyError as refused:
        answer |= {"allowed": False, "reason": str(refused)}
    return answer
