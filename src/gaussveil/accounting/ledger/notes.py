"""Notes about entries in the log: the value that an entry is bound to, and who goes on from a saved stream."""

from __future__ import annotations

import sqlite3
from typing import Protocol

from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.database import Database
from gaussveil.accounting.ledger.journal import record_event
from gaussveil.accounting.ledger.rules import Rules
from gaussveil.accounting.ledger.statements import Entry
from gaussveil.errors import LedgerStateError


class Made(Protocol):
    """A debit, as far as a note must know it."""

    @property
    def id(self) -> str:
        """Its release id."""

    @property
    def state(self) -> str:
        """Its state."""

    @property
    def terms(self) -> Rules:
        """The account's terms."""


class Noted:
    """The part of a ledger that writes notes about entries."""

    _database: Database

    def _bind(self, known: Made, value: bytes | None) -> None:
        """Hold a value that is to be released under a debit of before against the one that it paid for."""
        if value is None:
            return
        with self._database.writing() as connection:
            seal = records.sealed(connection, value)
            bound = journal.value_of(connection, known.id)
            if bound is None and known.state in (
                "debited",
                "drawing",
            ):  # its process died before anything was kept
                record_event(
                    connection, known.terms.name, known.id, journal.VALUE, seal
                )
            elif bound != seal:
                raise LedgerStateError(
                    f"the release {known.id!r} was paid for another value, which is not kept any more: what kept it "
                    "is an older copy. Restore the newer one, or release under a new name, which is paid anew; "
                    "nothing was released or spent"
                )

    def paid_for(self, identifier: str, value: bytes) -> bool | None:
        """Whether the entry of this id paid for this very value; None where there is no such entry.

        Args:
            identifier: the entry's id.
            value: the bytes of what is released.

        Returns:
            True or False; None without such an entry.
        """
        with self._database.reading() as connection:
            if records.find_entry(connection, identifier) is None:
                return None
            return journal.value_of(connection, identifier) == records.sealed(
                connection, value
            )

    def paid_alike(self, identifier: str) -> Entry | None:
        """The newest other entry of the same account that paid the same charge for the same words.

        Args:
            identifier: an entry's id.

        Returns:
            That entry; None where the release was paid for once.
        """
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT o.id FROM entries e JOIN entries o ON o.account = e.account "
                "AND o.charge = e.charge AND o.what = e.what AND o.id <> e.id "
                "WHERE e.id = ? AND o.state <> 'void' ORDER BY o.seq DESC LIMIT 1",
                (identifier,),
            ).fetchone()
            if row is None:
                return None
            return records.find_entry(connection, row[0])

    def note_saved(self, identifier: str, state: bytes) -> None:
        """Say that a release that goes on (a stream) was written down in this state, which may be continued once.

        Args:
            identifier: the entry's id.
            state: the bytes that were written down.

        Raises:
            LedgerStateError: there is no such entry.
        """
        self._note(identifier, journal.SAVED, self._seal(state))

    def note_continued(self, identifier: str, state: bytes) -> None:
        """Say that a release goes on from a state; refused unless it is the last that was saved, and still waits.

        Args:
            identifier: the entry's id.
            state: the bytes that it goes on from.

        Raises:
            LedgerStateError: the state is not the last that was saved, or was continued already.
        """
        with self._database.writing() as connection:
            entry = self._entry_to_note(connection, identifier)
            last = journal.last_note(connection, identifier)
            if last != (journal.SAVED, records.sealed(connection, state)):
                raise LedgerStateError(
                    f"the release {identifier!r} cannot go on from this state: it was continued already, saved again "
                    "later, or changed by hand, and a second continuation would draw again without a debit. Use the "
                    "newest state, or open a new stream"
                )
            record_event(connection, entry.account, identifier, journal.CONTINUED)

    def _note(self, identifier: str, event: str, detail: str) -> None:
        with self._database.writing() as connection:
            entry = self._entry_to_note(connection, identifier)
            record_event(connection, entry.account, identifier, event, detail)

    def _entry_to_note(self, connection: sqlite3.Connection, identifier: str) -> Entry:
        entry = records.find_entry(connection, identifier)
        if entry is None:
            raise LedgerStateError(
                f"the ledger has no entry {identifier!r}: it does not know who paid"
            )
        journal.check_account(connection, entry.account)
        return entry

    def _seal(self, state: bytes) -> str:
        with self._database.reading() as connection:
            return records.sealed(connection, state)
