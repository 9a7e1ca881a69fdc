"""What a release costs its account in processor time, against the promise, and whether later ones cost more.

Everything as every mechanism does it: `transaction`, one draw of nothing, durable commits. "Again" is a design released
before in the process; "new" one whose charge was never seen, so that its delta is enclosed. The peer is the budget of
processor time that the debit was given: 4 ms for a mean shift, 8 ms for a pair.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaussveil.accounting import Account, Adjacency, CertificateDraft, Charge, Ledger, transaction
from gaussveil.spectrum import GaussianPair, PrivacyLoss

RELEASES = 200
MANY = 100_000
DRAFT = CertificateDraft(released="x", mechanism="m", adjacency=Adjacency.add_remove(), epsilon=1.0, delta=0.1)
KINDS: dict[str, tuple[float, Callable[[int], PrivacyLoss]]] = {
    "a mean shift, again": (4e-3, lambda number: GaussianPair.mean_shift(1e-3)),
    "a mean shift, new": (4e-3, lambda number: GaussianPair.mean_shift(1e-3 * (1 + 1e-6 * number))),
    "a pair, again": (8e-3, lambda number: PrivacyLoss.from_terms([-1e-3, 0.0], [1, 1], [0.0, 1e-6])),
    "a pair, new": (8e-3, lambda number: PrivacyLoss.from_terms([-1e-3 - 1e-9 * number, 0.0], [1, 1], [0.0, 1e-6])),
}


def seconds(account: Account, make: Callable[[int], PrivacyLoss], start: int, releases: int) -> float:
    """Processor time of one release, over some of them."""
    before = time.process_time()
    for number in range(start, start + releases):
        with transaction(account, Charge(make(number)), DRAFT, at_once=True) as debit:
            debit.draw(lambda: None)
    return (time.process_time() - before) / releases


def run(many: int = MANY) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (promised, make) in KINDS.items():
            ledger = Ledger.create(Path(folder) / f"{name}.ledger")
            account = ledger.open_account("bench", epsilon=3.0, delta=1e-5)
            seconds(account, make, 0, 3)
            ours = seconds(account, make, 3, RELEASES)
            rows.append(
                row(f"debit: {name}, against the promised {promised:g} s", ours, promised, f"{1e3 * ours:.3g} ms")
            )
        ledger = Ledger.create(Path(folder) / "many.ledger")
        account = ledger.open_account("bench", epsilon=400.0, delta=0.5)
        make = KINDS["a mean shift, again"][1]
        seconds(account, make, 0, 3)
        first = seconds(account, make, 3, RELEASES)
        for number in range(many):
            ledger.debit("bench", Charge(make(number)), DRAFT.adjacency)
        last = seconds(account, make, 0, RELEASES)
        note = f"{1e3 * first:.3g} ms, then {1e3 * last:.3g} ms"
        rows.append(row(f"debit: after {many} others on the account, against the first ones", last, 1.5 * first, note))
    return rows


def row(name: str, ours: float, peer: float, note: str) -> dict[str, Any]:
    return {
        "name": name,
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "goal": 1.0,
        "met": ours <= peer,
        "note": note,
    }


if __name__ == "__main__":
    for found in run():
        print(found)
