"""`Account`: a picklable handle on one account of a ledger file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gaussveil.accounting.names import one_spelling
from gaussveil.errors import ParameterError
from gaussveil.shown import Shown


class Account(Shown):
    """Ledger path and account name, nothing else: safe to pickle, copy, clone and send to workers.

    Args:
        ledger: the ledger's file.
        name: the account's name.

    >>> import tempfile
    >>> from gaussveil import Account, GaussianRelease, Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = Ledger.create(f"{folder}/home.ledger").open_account("homes", epsilon=3.0, delta=1e-5)
    ...     release = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, account=account).release([10.0])
    ...     account.name, release.certificate.account
    ('homes', 'homes')
    """

    def __init__(self, ledger: str | os.PathLike[str], name: str) -> None:
        # Absolute, because a worker may run in another folder.
        self.ledger = str(Path(ledger).absolute())
        self.name = one_spelling(name)

    def _curve(self) -> Any:
        from gaussveil.accounting.ledger import records
        from gaussveil.accounting.ledger.database import Database
        from gaussveil.spectrum.subsampled.composed import composed

        with Database(self.ledger).reading() as connection:
            charges = records.spent(
                connection, records.find_account(connection, self.name)[0]
            )
        parts = [
            (part.source, part.count * count)
            for charge, count in charges
            for part in charge.parts
        ]
        if not parts:
            raise ParameterError(
                f"account {self.name!r} has spent nothing, so that there is no curve to draw"
            )
        return composed(parts)

    def _facts(self) -> dict[str, str]:
        return {"ledger": Path(self.ledger).name, "account": self.name}

    def __repr__(self) -> str:
        return f"Account({Path(self.ledger).name!r}, {self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and (self.ledger, self.name) == (
            other.ledger,
            other.name,
        )

    def __hash__(self) -> int:
        return hash((self.ledger, self.name))
