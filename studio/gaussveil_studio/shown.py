"""What a preview showed, as one digest: a release of which anything differs is refused before it begins."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from gaussveil.accounting import Ledger
from gaussveil.errors import LedgerStateError
from gaussveil_studio.forms import kept_form


def digest(request: dict[str, Any], address: str | None, ledger: str) -> str:
    """Of the order, the account and what it has spent, the table and when its file was written."""
    terms = ""
    spent = []
    if request["account"]:
        statement = Ledger(ledger).statement(request["account"])
        terms = repr(statement.terms)
        spent = [(charge.digest, count) for charge, count in statement.charges]
    known = [
        request["order"],
        request["table"],
        request["account"],
        terms,
        spent,
        written(address),
    ]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def require_shown(request: dict[str, Any], address: str | None, ledger: str) -> None:
    """Refuse what no preview showed."""
    if digest(request, address, ledger) != request["shown"]:
        raise LedgerStateError(
            "this is not what the preview showed: the order, the table or the account has changed since; look at the "
            "new preview first"
        )


def written(address: str | None) -> list[int]:
    """What tells that a file was written anew, or another form kept; nothing of a table that lies elsewhere."""
    try:
        found = os.stat((address or "").partition("#")[0])
        form = kept_form(address or "")
        if form:
            kept = [form.stat().st_mtime_ns]
        else:
            kept = []
    except OSError:  # a table elsewhere, or none
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino, *kept]
