"""Which law of noise a request takes beside an account: what one release spares may cost all the others.

A plan takes only what was registered, and an account of delta 0 Laplace noise alone. The first release settles the
filter of an account: there Gaussian noise is taken, of which many releases add up to less. Where a filter is settled
both are compared at the same debit: errors fall with the root of what a filter adds up, so the error of each is
multiplied by the root of its debit.
"""

from __future__ import annotations

import math
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
    active = terms.active_filter
    if terms.budget.pure:
        return laplace
    if active not in ("mean-shift", "renyi"):
        return gaussian
    mine, other = (
        filter_usage(
            terms.budget, active, terms.order, [(noise.charge, 1)], symmetric=False
        ).used
        for noise in (laplace, gaussian)
    )
    ratio = error(deviations(laplace)) / error(deviations(gaussian))
    if ratio * math.sqrt(mine / other) < 1:
        return laplace
    return gaussian
