"""Which law of noise a request takes beside an account: what one release spares may cost all the others.

An account whose filter adds squared mean shifts takes no other noise, a plan only what was registered, and the first
release settles the rule of an account: there Gaussian noise is taken, which leaves room for every later kind. Where a
Renyi filter is settled both are compared at the same debit: the error of Laplace noise is multiplied by what its debit
is of the Gaussian one.
"""

from __future__ import annotations

from collections.abc import Mapping

from gaussveil.accounting import Account, Ledger
from gaussveil.accounting.ledger.filters import filter_usage
from gaussveil.errors import LedgerError
from gaussveil.mechanisms.table.laws import Deviations, chosen, error
from gaussveil.mechanisms.table.noise import TableNoise


def chosen_beside(
    account: Account | None, planned: Mapping[str, TableNoise], deviations: Deviations
) -> TableNoise:
    """The law of the smallest error at the same debit."""
    if len(planned) == 1 or not isinstance(account, Account):
        return chosen(planned, deviations)
    gaussian = planned["gaussian"]
    laplace = planned["laplace"]
    try:
        ledger = Ledger(account.ledger)
        terms = ledger.terms(account.name)
        free = [
            slot.charge for slot in ledger.slots(account.name) if slot.used < slot.count
        ]
    except LedgerError:
        return gaussian  # the debit says what is wrong with the ledger
    if terms.rule == "planned":
        if any(one.covers(laplace.charge) for one in free):
            return laplace
        return gaussian
    if terms.active_filter != "renyi":
        return gaussian
    mine, other = (
        filter_usage(
            terms.budget, "renyi", terms.order, [(noise.charge, 1)], symmetric=False
        ).used
        for noise in (laplace, gaussian)
    )
    alike = error(deviations(laplace)) * mine < error(deviations(gaussian)) * other
    if alike:
        return laplace
    return gaussian
