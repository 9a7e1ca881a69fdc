"""Whether a ledger is intact: its pages, its log, and what the log says its rows became."""

from __future__ import annotations

import sqlite3

from gaussveil.accounting.ledger.charges import load_charge
from gaussveil.accounting.ledger.journal import (
    LINE,
    Replay,
    chained,
    check_account,
)
from gaussveil.errors import (
    LedgerCorruptError,
)


def check_integrity(connection: sqlite3.Connection, name: str) -> None:
    """Check pages, references, the log's chain, and that accounts and entries are what the log says they became."""
    problems = [
        row[0]
        for row in connection.execute("PRAGMA integrity_check(3)")
        if row[0] != "ok"
    ]
    problems += [
        f"a broken reference in {row[0]}"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    if problems:
        raise LedgerCorruptError(
            f"the ledger {name} is damaged: {'; '.join(problems)}; restore a backup"
        )
    link = ""
    log = Replay()
    for chain, *line in connection.execute(
        f"SELECT chain, {LINE} FROM events ORDER BY seq"
    ):
        link = chained(link, tuple(line))
        if link != chain:
            raise LedgerCorruptError(
                f"the log of {name} was altered near {line[0]}; restore a backup"
            )
        log.read(*line[1:5])
    wrong = log.contradiction(connection)
    if wrong is not None:
        raise LedgerCorruptError(
            f"the {wrong} of {name} do not agree with its log; restore a backup"
        )
    for account in log.accounts:
        check_account(connection, account)
    for (digest,) in connection.execute("SELECT digest FROM charges").fetchall():
        load_charge(connection, digest)
