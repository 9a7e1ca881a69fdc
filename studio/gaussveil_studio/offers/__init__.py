"""What the studio can release: each kind calls the mechanism below and nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gaussveil.accounting import Account
from gaussveil.errors import GaussveilError
from gaussveil_studio.offers.kinds import KINDS
from gaussveil_studio.offers.offer import Offer, OfferPlan


def make_offer(
    order: dict[str, Any],
    address: str | None,
    table_name: str,
    account: Account | None = None,
) -> Offer:
    """The offer behind an order, beside the account that would pay; its module loads now."""
    mechanism = order["mechanism"]
    made: Offer = getattr(_module(mechanism), f"{mechanism.title()}Offer")(
        order, address, table_name, account
    )
    return made


def _module(mechanism: str) -> Any:
    return import_module(f"{__name__}.{KINDS[mechanism].get('offered_by', mechanism)}")


def warm(mechanism: str) -> dict[str, Any]:
    """Load what the first preview needs while somebody still reads the form."""
    _module(mechanism)
    for name in ("affordability", "tables"):
        import_module(f"{__name__}.{name}")
    import_module("gaussveil.engines.duckdb")
    return {}


def preview(
    request: dict[str, Any], address: str | None, table_name: str, ledger: str
) -> dict[str, Any]:
    """Facts, pictures, the account before and after, and the digest of it all; nothing is drawn or spent."""
    from gaussveil_studio.offers.affordability import (
        before_and_after,
        doubt,
        guessed_right,
    )
    from gaussveil_studio.shown import digest
    from gaussveil_studio.spoken import refused

    order = request["order"]
    account = request["account"]
    shown = digest(request, address, ledger)  # of what was there before we looked
    try:
        payer = Account(ledger, account) if account else None
        plan: OfferPlan = make_offer(order, address, table_name, payer).plan()
        if account:
            budget = before_and_after(ledger, account, plan, order)
        else:
            budget = None
    except (GaussveilError, ArithmeticError) as error:
        raise refused(error, order) from None
    promised = order["epsilon"], order["delta"]
    return {
        "facts": [list(fact) for fact in plan.facts],
        "simulated": None if plan.simulated is None else plan.simulated.to_dict(),
        "guessed_right": guessed_right(plan.charge, plan.adjacency, *promised),
        "doubt": doubt(plan.adjacency),
        "promised": promised[0],
        "budget": budget,
        "seconds": plan.seconds,
        "notes": [plan.doubtful] if plan.doubtful else [],
        "digest": shown if budget and budget["allowed"] is not False else None,
    }
