"""An account written out whole: JSON for machines, CSV of the entries for spreadsheets."""

from __future__ import annotations

import json
from dataclasses import fields

from gaussveil.accounting.ledger.ledger import Ledger
from gaussveil.accounting.ledger.statements import Entry, as_rows
from gaussveil.files import csv_text

FORMAT = "gaussveil account"
VERSION = 1


def account_record(ledger: Ledger, name: str) -> dict[str, object]:
    """Terms, what is spent, every distinct charge with its count, entries and log of an account."""
    statement = ledger.statement(name)
    return {
        "format": FORMAT,
        "version": VERSION,
        "statement": statement.to_dict(),
        "charges": [
            {
                "digest": charge.digest,
                "count": count,
                "what": charge.describe(),
                "charge": charge.to_dict(),
            }
            for charge, count in statement.charges
        ],
        "entries": as_rows(ledger.entries(name)),
        "events": as_rows(ledger.history(name)),
    }


def account_json(ledger: Ledger, name: str) -> str:
    """`account_record` as text."""
    return (
        json.dumps(
            account_record(ledger, name), indent=2, ensure_ascii=False, allow_nan=False
        )
        + "\n"
    )


def account_csv(ledger: Ledger, name: str) -> str:
    """One line per entry: id, state, what, when and the digest of its charge."""
    rows = as_rows(ledger.entries(name))
    return csv_text(
        [[field.name for field in fields(Entry)], *(row.values() for row in rows)]
    )
