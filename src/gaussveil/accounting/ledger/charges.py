"""Charges as the ledger keeps them: once each, by a digest that must still fit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache

from gaussveil import checks
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import COUNTS, Charge
from gaussveil.errors import (
    FormatError,
    LedgerCorruptError,
)

Folded = list[tuple[Charge, int]]


def fold_plan(plan: Sequence[Charge | tuple[Charge, int]]) -> Folded:
    """Add up how often each charge is planned."""
    counts: dict[Charge, int] = {}
    for item in plan:
        charge, count = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(charge, Charge):
            checks.refuse("plan", "charges, or pairs of a charge and a count", charge)
        charge.require_unchanged()
        counts[charge] = checks.whole(
            "count", counts.get(charge, 0) + checks.whole("count", count), COUNTS
        )
    return list(counts.items())


def store_charge(connection: sqlite3.Connection, charge: Charge) -> None:
    """Keep a charge unless one of its digest is there."""
    before = connection.execute(
        "SELECT 1 FROM charges WHERE digest = ?", (charge.digest,)
    ).fetchone()
    if before is None:
        connection.execute(
            "INSERT INTO charges VALUES (?, ?)",
            (charge.digest, canonical_json(charge.cost())),
        )


def load_charge(connection: sqlite3.Connection, digest: str) -> Charge:
    """Read a charge back; its digest must still fit."""
    row = connection.execute(
        "SELECT body FROM charges WHERE digest = ?", (digest,)
    ).fetchone()
    if row is None:
        raise LedgerCorruptError(
            f"the charge {digest[:12]} is missing from the ledger; restore a backup"
        )
    return _parsed(digest, row[0])


@lru_cache(maxsize=1024)
def _parsed(digest: str, body: str) -> Charge:
    try:
        charge = Charge.from_json(body)
    except FormatError as error:
        raise LedgerCorruptError(
            f"the charge {digest[:12]} is damaged: {error}; restore a backup"
        ) from error
    if charge.digest != digest:
        raise LedgerCorruptError(
            f"the charge {digest[:12]} does not fit its digest: the ledger was altered; restore a backup"
        )
    return charge
