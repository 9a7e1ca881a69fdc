"""What a ledger says: its accounts, statements, entries and log, each from one snapshot of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.database import Database
from gaussveil.accounting.ledger.integrity import check_integrity
from gaussveil.accounting.ledger.rules import Rules, Slot
from gaussveil.accounting.ledger.statements import Entry, Event, Statement
from gaussveil.accounting.names import listed
from gaussveil.errors import LedgerError
from gaussveil.shown import Described


class Readable(Described):
    """The half of a ledger that changes nothing."""

    _database: Database

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._database.path

    def _facts(self) -> dict[str, str]:
        try:
            accounts = ", ".join(map(listed, self.accounts())) or "none"
        except LedgerError:  # gone or damaged: what shows it must not fail
            accounts = "not readable"
        return {"file": self.path.name, "accounts": accounts}

    def accounts(self) -> list[str]:
        """Names of all accounts, in the order of opening.

        Returns:
            A list of names, empty in a new ledger.
        """
        with self._database.reading() as connection:
            return records.account_names(connection)

    def terms(self, name: str) -> Rules:
        """Give an account's terms.

        Args:
            name: the account.

        Returns:
            Budget, relation, rule and filter, as they were opened or settled by the first entry.

        Raises:
            AccountNotFoundError: there is no account of that name.
        """
        with self._database.reading() as connection:
            return records.find_account(connection, name)[1]

    def slots(self, name: str) -> list[Slot]:
        """Give the places of an account's plan; none where it has no plan.

        Args:
            name: the account.

        Returns:
            A slot for each kind of charge, with how many are planned and used.

        Raises:
            AccountNotFoundError: there is no account of that name.
        """
        with self._database.reading() as connection:
            return records.slots(connection, records.find_account(connection, name)[0])

    def draw_key(self) -> bytes:
        """The secret key of this ledger's draw identities.

        Returns:
            Bytes that must stay with the ledger: who has them could tell values from draw identities.
        """
        with self._database.reading() as connection:
            return records.draw_key(connection)

    def statement(self, name: str) -> Statement:
        """Compose everything the account has spent.

        Args:
            name: the account.

        Returns:
            A `Statement`: what the account spent, how full its rule is, and what other accounts of the same people
            spent.

        Raises:
            AccountNotFoundError: there is no account of that name.
        """
        with self._database.reading() as connection:
            number, terms = records.find_account(connection, name)
            others = [
                records.find_account(connection, other)
                for other in self._siblings(connection, terms)
            ]
            relation = _relation([terms, *(other for _, other in others)])
            spent = [
                (other, (other.name, records.spent(connection, row)))
                for row, other in others
            ]
            same = [
                told for other, told in spent if _relation([other]) in ("", relation)
            ]
            apart = [
                told
                for other, told in spent
                if _relation([other]) not in ("", relation)
            ]
            return Statement(
                terms,
                tuple(records.spent(connection, number)),
                records.state_counts(connection, number),
                records.weakest_guarantee(connection, number),
                tuple(same),
                tuple(apart),
                relation,
            )

    @staticmethod
    def _siblings(connection: sqlite3.Connection, terms: Rules) -> list[str]:
        """Other accounts of the same people."""
        if not terms.people:
            return []
        return [
            name
            for name in journal.accounts_of_people(connection)[terms.people]
            if name != terms.name
        ]

    def entry(self, identifier: str) -> Entry | None:
        """The entry of an id; None where there is none.

        Args:
            identifier: the entry's id, that of its release.

        Returns:
            The entry with its charge and state, or None.
        """
        with self._database.reading() as connection:
            return records.find_entry(connection, identifier)

    def entries(self, name: str) -> list[Entry]:
        """Every entry of an account, oldest first.

        Args:
            name: the account.

        Returns:
            Entries of every state, voided ones too.

        Raises:
            AccountNotFoundError: there is no account of that name.
        """
        with self._database.reading() as connection:
            return records.list_entries(
                connection, records.find_account(connection, name)[0], name
            )

    def history(self, name: str | None = None) -> list[Event]:
        """Give the log, of one account or of all.

        Args:
            name: the account; all by default.

        Returns:
            Events in the order in which they were written.

        Raises:
            AccountNotFoundError: there is no account of that name.
        """
        with self._database.reading() as connection:
            if name is not None:
                name = records.find_account(connection, name)[1].name
            return records.list_events(connection, name)

    def line(self, number: int) -> str | None:
        """The link of the log's hash chain at a line; None where there is no such line.

        Args:
            number: of the line.

        Returns:
            The link in hexadecimal digits, as certificates quote it; or None.
        """
        with self._database.reading() as connection:
            return journal.link(connection, number)

    def lost(self) -> tuple[str, ...]:
        """What was recorded and is not in the file, as its witness knows: an older copy was put in its place.

        Returns:
            A sentence for each gap; empty where nothing is known to be missing.
        """
        with self._database.reading() as connection:
            return tuple(gap.describe() for gap in self._database.lost(connection))

    def check(self) -> None:
        """Raise `LedgerCorruptError` unless file, log and entries are intact and agree with each other.

        Raises:
            LedgerCorruptError: file, log or entries are damaged, or contradict each other.
        """
        with self._database.reading() as connection:
            check_integrity(connection, self.path.name)


def _relation(accounts: Sequence[Rules]) -> str:
    """Kind of neighbours of the first account that has any; one that has none yet has spent nothing."""
    kinds = (
        account.adjacency.kind for account in accounts if account.adjacency is not None
    )
    return next(kinds, "")
