"""What the studio can release: one file per mechanism, each calling the mechanism below and nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gaussveil.studio.offers.offer import Offer, Plan


def make_offer(order: dict[str, Any], address: str | None, table_name: str) -> Offer:
    """The offer behind an order; its module loads now."""
    mechanism = order["mechanism"]
    kind = getattr(import_module(f"{__name__}.{mechanism}"), f"{mechanism.title()}Offer")
    made: Offer = kind(order, address, table_name)
    return made


def preview(
    order: dict[str, Any], address: str | None, table_name: str, account: str | None, ledger: str
) -> dict[str, Any]:
    """Facts, accuracy against epsilon, and the account before and after; nothing is drawn or spent."""
    from gaussveil.studio.offers.affordability import before_and_after

    plan: Plan = make_offer(order, address, table_name).plan()
    return {
        "facts": [list(fact) for fact in plan.facts],
        "accuracy": None if plan.accuracy is None else plan.accuracy.to_dict(),
        "budget": before_and_after(ledger, account, plan) if account else None,
    }
