"""Accounts in new ledgers: copies of one made once, since to make a ledger takes longer than a small release."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from gaussveil.accounting import Account, Ledger


@cache
def _made(name: str, epsilon: float, delta: float) -> Account:
    folder = Path(tempfile.mkdtemp(prefix="ledger"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Ledger.create(folder / "empty.ledger").open_account(name, epsilon=epsilon, delta=delta)


def new_account(folder: Path, name: str = "homes", *, epsilon: float = 3.0, delta: float = 0.5) -> Account:
    """The account, with nothing spent, in a ledger of its own."""
    return Account(shutil.copy(_made(name, epsilon, delta).ledger, folder / f"{epsilon}.ledger"), name)
