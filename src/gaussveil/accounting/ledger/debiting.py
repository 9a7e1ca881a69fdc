"""The life of an entry: debited -> drawing -> released, or debited -> void.

A process killed anywhere leaves its entry debited: the release may or may not have been seen, so it counts as spent.
The check and the debit are one transaction of one writer, so accounts are never overspent; whatever takes long is
computed before that writer locks the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from gaussveil import checks
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.charges import Folded
from gaussveil.accounting.ledger.database import LOGGER
from gaussveil.accounting.ledger.filters import (
    NOTHING,
    Balance,
    filter_cost,
)
from gaussveil.accounting.ledger.journal import now, record_event
from gaussveil.accounting.ledger.notes import Noted
from gaussveil.accounting.ledger.rules import (
    Offer,
    Rules,
    admit,
    admit_planned,
    check_adjacency,
    offer,
)
from gaussveil.accounting.names import one_spelling
from gaussveil.errors import LedgerStateError

GUARANTEES = ("worst case", "model-based", "none")


@dataclass(frozen=True)
class Debit:
    """A recorded debit: its id and state, when it was made, the account's terms now, its line in the log, whether this
    call made it.
    """

    id: str
    state: str
    debited_at: str
    terms: Rules
    line: Mapping[str, object]
    created: bool = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is to be debited, from which account, under which id."""

    account: str
    charge: Charge
    adjacency: Adjacency
    identifier: str
    what: str
    guarantee: str
    at_once: bool
    value: bytes | None
    people: str


@dataclass(frozen=True)
class _Prepared:
    """An offer, and what its account's filter had used after so many changes."""

    offer: Offer
    changes: int
    used: Balance


class Debiting(Noted):
    """The half of a ledger that debits, and says how far a draw has come."""

    def debit(
        self,
        name: str,
        charge: Charge,
        adjacency: Adjacency,
        *,
        what: str = "",
        guarantee: str = "worst case",
        release_id: str | None = None,
        at_once: bool = False,
        value: bytes | None = None,
        people: str = "",
    ) -> Debit:
        """Check and debit in one durable transaction; refused whole if the account cannot afford it.

        The same `release_id` debits once: a second call with the same charge, adjacency and kind of guarantee gives the
        entry back in its present state. Under another id, a charge drawn from what the account paid for already is
        refused. With `at_once` the same transaction says that the draw begins, as `mark_drawing` does. A `value` that
        is kept already binds the entry to it: under the same id no other is paid for. `people` says whose the rows
        are, where the account is kept for a population.

        Args:
            name: the account.
            charge: what is paid.
            adjacency: how neighbours differ.
            what: what is released, in words.
            guarantee: its kind.

        Returns:
            The entry in its present state: "debited", or "drawing" with `at_once`, or whatever came of it since.

        Raises:
            ParameterError: the guarantee, the id or the population's name is not one.
            BudgetExceededError: the account cannot afford the charge; nothing was spent.
            LedgerStateError: the id stands for another charge, or what is charged was paid for under another id.
            AccountNotFoundError: there is no account of that name.
        """
        checks.one_of("guarantee", guarantee, GUARANTEES)
        charge.require_unchanged()
        identifier = uuid4().hex if release_id is None else release_id
        if not isinstance(identifier, str) or not identifier.strip():
            checks.refuse("release_id", "text and not empty", identifier)
        asked = _Asked(
            account=name,
            charge=charge,
            adjacency=adjacency,
            identifier=identifier,
            what=what,
            guarantee=guarantee,
            at_once=at_once,
            value=value,
            people=one_spelling(people, "people") if people else "",
        )
        with self._database.held():
            while True:
                if release_id is not None:
                    before = self._made_before(asked)
                    if before is not None:
                        self._bind(before, value)
                        return before
                prepared = self._prepared(name, charge, adjacency, people=asked.people)
                made = self._debited(prepared, asked)
                if made is not None:
                    LOGGER.info("account %s debited, entry %s", name, identifier)
                    return made

    def _made_before(self, asked: _Asked) -> Debit | None:
        """The debit that was made under this id already, if it is the same one; None where there is none."""
        identifier = asked.identifier
        with self._database.reading() as connection:
            entry = records.find_entry(connection, identifier)
            if entry is None:
                return None
            _, terms = records.find_account(connection, asked.account)
            drawn = records.draws_of(connection, identifier)
            if (entry.account, entry.charge, drawn) != (
                terms.name,
                asked.charge.digest,
                asked.charge.draw_identities,
            ):
                raise LedgerStateError(
                    f"release_id {identifier!r} was used for another account or charge, or another draw; "
                    "choose a new one"
                )
            if entry.state == "void":
                raise LedgerStateError(
                    f"the entry {identifier!r} was voided; choose a new release_id"
                )
            check_adjacency(terms, asked.adjacency, asked.charge, asked.people)
            if entry.guarantee != asked.guarantee:
                raise LedgerStateError(
                    f"release_id {identifier!r} was debited with the guarantee {entry.guarantee!r}, "
                    f"not {asked.guarantee!r}; choose a new one"
                )
            line = journal.anchor(connection, identifier)
            return Debit(
                identifier, entry.state, entry.debited_at, terms, line, created=False
            )

    def _prepared(
        self, name: str, charge: Charge, adjacency: Adjacency, *, people: str = ""
    ) -> _Prepared:
        """Everything about a debit that takes long, computed with the ledger open to others."""
        spent: Folded = []
        with self._database.reading() as connection:
            number, terms = records.find_account(connection, name)
            changes, used = records.find_balance(connection, number)
            if used is None and terms.rule == "adaptive":
                spent = records.spent(connection, number)
        check_adjacency(terms, adjacency, charge, people)
        if terms.rule == "planned":
            return _Prepared(Offer(terms, terms, NOTHING), changes, NOTHING)
        if used is None:
            used = _added_up(terms, spent, adjacency)
        return _Prepared(offer(terms, charge, adjacency), changes, used)

    def _debited(self, prepared: _Prepared, asked: _Asked) -> Debit | None:
        """Check and debit; None if the account changed meanwhile, so that it must be prepared again."""
        with self._database.writing() as connection:
            number, terms = records.find_account(connection, asked.account)
            changes, used = records.find_balance(connection, number)
            unsure = used is None and changes != prepared.changes
            if terms != prepared.offer.before or unsure:
                return None
            if records.find_entry(connection, asked.identifier) is not None:
                return None
            _refuse_drawn(records.entry_of_draw(connection, asked.charge))
            if used is None:
                used = prepared.used
            slot = _admitted(connection, number, terms, prepared.offer, used, asked)
            after = prepared.offer.after
            adjacency = terms.adjacency or asked.adjacency
            if after != terms or terms.adjacency is None:
                records.settle(connection, number, after, adjacency)
            made_at, line = _recorded(connection, number, terms.name, slot, asked)
            return Debit(
                asked.identifier,
                "drawing" if asked.at_once else "debited",
                made_at,
                replace(after, adjacency=adjacency),
                line,
                created=True,
            )

    def check_affordable(
        self, name: str, charge: Charge, adjacency: Adjacency, people: str = ""
    ) -> None:
        """Raise what `debit` would raise now; nothing is recorded, and a later debit is checked again.

        Args:
            name: the account.
            charge: what would be paid.
            adjacency: how neighbours differ.
            people: whose rows these are.

        Raises:
            BudgetExceededError: the account could not afford the charge.
            LedgerStateError: the charge was drawn from what the account paid for already.
            AccountNotFoundError: there is no account of that name.
        """
        charge.require_unchanged()
        prepared = self._prepared(name, charge, adjacency, people=people)
        with self._database.reading() as connection:
            number, terms = records.find_account(connection, name)
            _refuse_drawn(records.entry_of_draw(connection, charge))
            if terms.rule == "planned":
                admit_planned(terms, records.slots(connection, number), charge)
            else:
                admit(prepared.offer, prepared.used, charge)

    def mark_drawing(self, identifier: str) -> None:
        """Say that the draw begins; from here on the entry can never be voided. Only one caller succeeds.

        Args:
            identifier: the entry's id.

        Raises:
            LedgerStateError: the entry does not wait for its draw: somebody drew, or it was voided.
        """
        self._move(identifier, "debited", "drawing", "")

    def mark_released(self, identifier: str) -> None:
        """Say that the draw is done; saying it twice is harmless, since a repeatable draw may be done twice.

        Args:
            identifier: the entry's id.

        Raises:
            LedgerStateError: there is no such entry, or its draw never began.
        """
        self._move(identifier, "drawing", "released", "")

    def void(self, identifier: str, reason: str) -> None:
        """Give back a debit whose draw never began; logged for good.

        Args:
            identifier: the entry's id.
            reason: why, for the log.

        Raises:
            ParameterError: no reason is given.
            LedgerStateError: there is no such entry, or its draw began.
        """
        if not isinstance(reason, str) or not reason.strip():
            checks.refuse("reason", "text that says why the entry is voided", reason)
        self._move(identifier, "debited", "void", reason)

    def _move(self, identifier: str, before: str, after: str, detail: str) -> None:
        with self._database.writing() as connection:
            entry = records.find_entry(connection, identifier)
            if entry is None:
                raise LedgerStateError(f"the ledger has no entry {identifier!r}")
            journal.check_account(connection, entry.account)
            if entry.state == after == "released":
                return
            if entry.state != before:
                raise LedgerStateError(
                    f"the entry {identifier!r} must be {before} to become {after}, it is {entry.state}"
                )
            records.enter(connection, identifier, after)
            record_event(connection, entry.account, identifier, after, detail)
        LOGGER.info("entry %s is %s", identifier, after)


def _added_up(terms: Rules, spent: Folded, adjacency: Adjacency) -> Balance:
    """What the filter has used, by the entries themselves; the filter of a single one keeps nothing."""
    used = NOTHING
    if terms.active_filter in (None, "single"):
        return used
    for charge, count in spent:
        cost = filter_cost(
            terms.active_filter or "",
            terms.order,
            charge,
            symmetric=adjacency.symmetric,
        )
        used = used.plus(cost, count)
    return used


def _admitted(
    connection: sqlite3.Connection,
    number: int,
    terms: Rules,
    offered: Offer,
    used: Balance,
    asked: _Asked,
) -> str | None:
    """Refuse what the account cannot pay; the place in its plan that is taken, where it has one."""
    if terms.rule == "planned":
        return admit_planned(terms, records.slots(connection, number), asked.charge)
    total = admit(offered, used, asked.charge)
    records.store_balance(connection, number, total)
    return None


def _recorded(
    connection: sqlite3.Connection,
    number: int,
    account: str,
    slot: str | None,
    asked: _Asked,
) -> tuple[str, Mapping[str, object]]:
    """Write entry and log; when, and the line of the log."""
    identifier = asked.identifier
    made_at = now()
    row = (
        identifier,
        number,
        asked.charge.digest,
        slot,
        "debited",
        asked.guarantee,
        asked.what,
        made_at,
    )
    records.insert_entry(connection, row, asked.charge)
    detail = journal.debited(connection, account, identifier)
    event = record_event(connection, account, identifier, "debited", detail)
    line = journal.anchor(connection, identifier, event)
    if asked.value is not None:
        seal = records.sealed(connection, asked.value)
        record_event(connection, account, identifier, journal.VALUE, seal)
    if asked.at_once:
        records.enter(connection, identifier, "drawing")
        record_event(connection, account, identifier, "drawing")
    return made_at, line


def _refuse_drawn(before: str | None) -> None:
    if before is not None:
        raise LedgerStateError(
            f"the ledger paid for an answer to this very draw already (entry {before!r}), and a second one is not "
            "independent of it; nothing was drawn or spent. Draw the query anew and name that draw, or plan all "
            "answers to it as one charge"
        )
