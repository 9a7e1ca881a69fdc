"""`Account`: a picklable handle on one account of a ledger file."""

from __future__ import annotations

import os
from pathlib import Path

from gaussveil.errors import ParameterError


class Account:
    """Ledger path and account name, nothing else: safe to pickle, copy, clone and send to workers."""

    def __init__(self, ledger: str | os.PathLike[str], name: str) -> None:
        if not name.strip():
            raise ParameterError("name must not be empty")
        # Absolute, because a worker may run in another folder.
        self.ledger = str(Path(ledger).absolute())
        self.name = name

    def __repr__(self) -> str:
        return f"Account({Path(self.ledger).name!r}, {self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and (self.ledger, self.name) == (other.ledger, other.name)

    def __hash__(self) -> int:
        return hash((self.ledger, self.name))
