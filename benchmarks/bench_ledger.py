"""How fast an account with 10^5 entries answers, against composing the same entries with dp_accounting in the same run.

Prints ratios. The ledger must fold, compose exactly and invert in less than a second.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.ledger.journal import now, record_event
from gaussveil.accounting.ledger.records import insert_entry
from gaussveil.spectrum import GaussianPair, PrivacyLoss

ENTRIES = 100_000
KINDS = 50


def fill(ledger: Ledger, charges: list[Charge], entries: int) -> None:
    """Write released entries as the ledger itself does, in one transaction instead of 10^5 durable ones."""
    with ledger._database.writing() as connection:
        for number in range(entries):
            charge = charges[number % len(charges)]
            insert_entry(
                connection, (f"e{number}", 1, charge.digest, None, "released", "worst case", "bench", now()), charge
            )
            record_event(connection, "bench", f"e{number}", "released")


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def run() -> list[dict[str, Any]]:
    shifts = [0.001 * (1 + kind / KINDS) for kind in range(KINDS)]
    kinds = {
        "mean shifts": [Charge(GaussianPair.mean_shift(shift), sampler_error=1e-22) for shift in shifts],
        "pairs": [Charge(PrivacyLoss.from_terms([-shift, 0.0], [1, 1], [0.0, shift**2])) for shift in shifts],
    }
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, charges in kinds.items():
            ledger = Ledger.create(Path(folder) / f"{name}.ledger")
            ledger.open_account("bench", epsilon=3.0, delta=1e-5, adjacency=Adjacency.add_remove())
            fill(ledger, charges, ENTRIES)
            ours, answer = seconds(lambda ledger=ledger: ledger.statement("bench").spent_epsilon)
            title = f"ledger: epsilon of {ENTRIES} entries, {name}"
            rows.append(
                {
                    "name": f"{title}, against the promised second",
                    "ours": ours,
                    "peer": 1.0,
                    "ratio": 1 / ours,
                    "goal": 1.0,
                    "met": ours < 1.0,
                    "note": f"epsilon {answer:.6g}",
                }
            )
            if name == "mean shifts":
                theirs, epsilon = seconds(lambda: peer(shifts))
                rows.append(
                    {
                        "name": f"{title}, against dp_accounting folded by hand",
                        "ours": ours,
                        "peer": theirs,
                        "ratio": theirs / ours,
                        "goal": 1.0,
                        "met": theirs > ours,
                        "note": f"epsilon {epsilon:.6g}",
                    }
                )
    return rows


def peer(shifts: list[float]) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for shift in shifts:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / shift), ENTRIES // len(shifts))
    return float(accountant.get_epsilon(1e-5))


if __name__ == "__main__":
    for row in run():
        print(row)
