"""`Ledger`: the durable record of what every account has spent.

An entry goes debited -> drawing -> released, or debited -> void. A process killed anywhere leaves its entry debited:
the release may or may not have been seen, so it counts as spent. The check and the debit are one transaction of one
writer, so accounts are never overspent.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from gaussveil.accounting.account import Account, checked_name
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.database import LOGGER, Database, now, record_event
from gaussveil.accounting.ledger.filters import FILTERS, Budget
from gaussveil.accounting.ledger.rules import Terms, admit_adaptive, admit_planned, check_adjacency, check_plan
from gaussveil.errors import LedgerStateError, ParameterError

RULES = ("adaptive", "planned")
GUARANTEES = ("worst case", "model-based", "none")


@dataclass(frozen=True)
class Debit:
    """A recorded debit: its id and state, when it was made, the account's terms now, whether this call made it."""

    id: str
    state: str
    debited_at: str
    terms: Terms
    created: bool = field(compare=False)


class Ledger:
    """A ledger file, shared by any number of processes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = Database(path)
        with self._database.reading():
            pass  # opening checks the file's kind and version, and migrates an older one

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """Make a new ledger file, readable by its owner only."""
        Database(path).create()
        return cls(path)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._database.path

    def __reduce__(self) -> tuple[object, ...]:
        return Ledger, (str(self.path),)

    # accounts ---------------------------------------------------------------------------------------------------------

    def open_account(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float,
        dataset: str = "",
        adjacency: Adjacency | None = None,
        rule: str = "adaptive",
        plan: Sequence[Charge | tuple[Charge, int]] = (),
        filter: str = "auto",
        order: float | None = None,
        sampler_share: float = 1e-3,
    ) -> Account:
        """Open an account; its terms never change afterwards.

        Without an `adjacency` the first entry fixes it. `rule="planned"` needs the whole `plan` (charges, or pairs of
        charge and count) and an adjacency. `rule="adaptive"` runs a filter: "mean-shift", "renyi", or "auto",
        which the first entry settles before anything is drawn; it also settles the Renyi `order` unless that is given.
        """
        budget, folded = self.check_terms(
            name,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            rule=rule,
            plan=plan,
            filter=filter,
            order=order,
            sampler_share=sampler_share,
        )
        row = (
            name,
            dataset,
            canonical_json(adjacency.to_dict()) if adjacency else None,
            budget.epsilon,
            budget.delta,
            budget.sampler_share,
            rule,
            filter,
            None,
            order,
            None,
            now(),
        )
        with self._database.writing() as connection:
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise LedgerStateError(f"the ledger has an account {name!r} already; choose another name")
            records.insert_account(connection, row, folded)
            record_event(connection, name, "", "opened", journal.opened(connection, name))
        LOGGER.info("account %s opened", name)
        return Account(self.path, name)

    @staticmethod
    def check_terms(
        name: str,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | None = None,
        rule: str = "adaptive",
        plan: Sequence[Charge | tuple[Charge, int]] = (),
        filter: str = "auto",
        order: float | None = None,
        sampler_share: float = 1e-3,
    ) -> tuple[Budget, records.Folded]:
        """Refuse terms that no account can have, without a file: call it before `create`. Budget and folded plan."""
        budget = Budget(float(epsilon), float(delta), float(sampler_share))
        checked_name(name)
        if rule not in RULES:
            raise ParameterError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
        if filter not in FILTERS:
            raise ParameterError(f"filter must be one of {', '.join(FILTERS)}, got {filter!r}")
        if order is not None and not (order > 0 and budget.renyi_cap(order) > 0):
            raise ParameterError(f"order must be positive and large enough to serve the budget, got {order}")
        folded = records.fold_plan(plan)
        if (rule == "planned") != bool(folded):
            raise ParameterError("plan must be given with rule='planned', and only then")
        if rule == "planned":
            if adjacency is None:
                raise ParameterError(
                    "adjacency must be given with rule='planned': the plan is composed when the account opens"
                )
            check_plan(budget, folded, adjacency)
        return budget, folded

    def accounts(self) -> list[str]:
        """Names of all accounts, in the order of opening."""
        with self._database.reading() as connection:
            return [row[0] for row in connection.execute("SELECT name FROM accounts ORDER BY id")]

    def terms(self, name: str) -> Terms:
        """Give an account's terms."""
        with self._database.reading() as connection:
            return records.find_account(connection, name)[1]

    # the life of an entry ---------------------------------------------------------------------------------------------

    def debit(
        self,
        name: str,
        charge: Charge,
        adjacency: Adjacency,
        *,
        what: str = "",
        guarantee: str = "worst case",
        release_id: str | None = None,
    ) -> Debit:
        """Check and debit in one durable transaction; refused whole if the account cannot afford it.

        The same `release_id` debits once: a second call with the same charge, adjacency and kind of guarantee gives the
        entry back in its present state. Under another id, a charge drawn from what the account paid for already is
        refused.
        """
        if guarantee not in GUARANTEES:
            raise ParameterError(f"guarantee must be one of {', '.join(GUARANTEES)}, got {guarantee!r}")
        charge.require_unchanged()
        identifier = release_id if release_id is not None else uuid4().hex
        if not identifier.strip():
            raise ParameterError("release_id must not be empty")
        with self._database.writing() as connection:
            number, terms = records.find_account(connection, name)
            known = records.find_entry(connection, identifier)
            if known is not None:
                drawn = records.draws_of(connection, identifier)
                if (known.account, known.charge, drawn) != (name, charge.digest, charge.draw_identities):
                    raise LedgerStateError(
                        f"release_id {identifier!r} was used for another account or charge, or another draw; "
                        "choose a new one"
                    )
                if known.state == "void":
                    raise LedgerStateError(f"the entry {identifier!r} was voided; choose a new release_id")
                check_adjacency(terms, adjacency, charge)
                if known.guarantee != guarantee:
                    raise LedgerStateError(
                        f"release_id {identifier!r} was debited with the guarantee {known.guarantee!r}, "
                        f"not {guarantee!r}; choose a new one"
                    )
                return Debit(identifier, known.state, known.debited_at, terms, created=False)
            settled, slot = _admitted(connection, number, terms, charge, adjacency)
            if settled != terms:
                connection.execute(
                    "UPDATE accounts SET active_filter = ?, active_order = ? WHERE id = ?",
                    (settled.active_filter, settled.active_order, number),
                )
            if terms.adjacency is None:
                stored = canonical_json(adjacency.to_dict())
                connection.execute("UPDATE accounts SET adjacency = ? WHERE id = ?", (stored, number))
            made_at = now()
            records.insert_entry(
                connection, (identifier, number, charge.digest, slot, "debited", guarantee, what, made_at), charge
            )
            record_event(connection, name, identifier, "debited", journal.debited(connection, name, identifier))
            terms = records.find_account(connection, name)[1]
        LOGGER.info("account %s debited, entry %s", name, identifier)
        return Debit(identifier, "debited", made_at, terms, created=True)

    def check_affordable(self, name: str, charge: Charge, adjacency: Adjacency) -> None:
        """Raise what `debit` would raise now; nothing is recorded, and a later debit is checked again."""
        charge.require_unchanged()
        with self._database.reading() as connection:
            _admitted(connection, *records.find_account(connection, name), charge, adjacency)

    def mark_drawing(self, identifier: str) -> None:
        """Say that the draw begins; from here on the entry can never be voided. Only one caller succeeds."""
        self._move(identifier, "debited", "drawing", "")

    def mark_released(self, identifier: str) -> None:
        """Say that the draw is done; saying it twice is harmless, since a repeatable draw may be done twice."""
        self._move(identifier, "drawing", "released", "")

    def void(self, identifier: str, reason: str) -> None:
        """Give back a debit whose draw never began; logged for good."""
        if not reason.strip():
            raise ParameterError("reason must say why the entry is voided, got empty text")
        self._move(identifier, "debited", "void", reason)

    def _move(self, identifier: str, before: str, after: str, detail: str) -> None:
        with self._database.writing() as connection:
            entry = records.find_entry(connection, identifier)
            if entry is None:
                raise LedgerStateError(f"the ledger has no entry {identifier!r}")
            if entry.state == after == "released":
                return
            if entry.state != before:
                raise LedgerStateError(
                    f"the entry {identifier!r} must be {before} to become {after}, it is {entry.state}"
                )
            connection.execute("UPDATE entries SET state = ? WHERE id = ?", (after, identifier))
            if after == "void":
                _release_filter(connection, entry.account)
            record_event(connection, entry.account, identifier, after, detail)
        LOGGER.info("entry %s is %s", identifier, after)

    def draw_key(self) -> bytes:
        """The secret key of this ledger's draw identities."""
        with self._database.reading() as connection:
            return records.draw_key(connection)

    # reading ----------------------------------------------------------------------------------------------------------

    def statement(self, name: str) -> records.Statement:
        """Compose everything the account has spent."""
        with self._database.reading() as connection:
            number, terms = records.find_account(connection, name)
            return records.Statement(
                terms,
                tuple(records.spent(connection, number)),
                records.state_counts(connection, number),
                records.weakest_guarantee(connection, number),
            )

    def entry(self, identifier: str) -> records.Entry | None:
        """The entry of an id; None where there is none."""
        with self._database.reading() as connection:
            return records.find_entry(connection, identifier)

    def entries(self, name: str) -> list[records.Entry]:
        """Every entry of an account, oldest first."""
        with self._database.reading() as connection:
            return records.list_entries(connection, records.find_account(connection, name)[0], name)

    def history(self, name: str | None = None) -> list[records.Event]:
        """Give the log, of one account or of all."""
        with self._database.reading() as connection:
            if name is not None:
                records.find_account(connection, name)
            return records.list_events(connection, name)

    def check(self) -> None:
        """Raise `LedgerCorruptError` unless file, log and entries are intact and agree with each other."""
        with self._database.reading() as connection:
            records.check_integrity(connection, self.path.name)


def _admitted(
    connection: sqlite3.Connection, number: int, terms: Terms, charge: Charge, adjacency: Adjacency
) -> tuple[Terms, str | None]:
    """Give the terms, filter settled, and the place in the plan under which a charge is admitted, or refuse it."""
    check_adjacency(terms, adjacency, charge)
    before = records.entry_of_draw(connection, number, charge)
    if before is not None:
        raise LedgerStateError(
            f"the account {terms.name!r} paid for an answer to this very draw already (entry {before!r}), and a second "
            "one is not independent of it; nothing was drawn or spent. Draw the query anew, or plan all answers to it "
            "as one charge"
        )
    if terms.rule == "planned":
        return terms, admit_planned(terms, records.slots(connection, number), charge)
    return admit_adaptive(terms, records.spent(connection, number), charge, adjacency), None


def _release_filter(connection: sqlite3.Connection, name: str) -> None:
    """With nothing drawn or pending, no output can have influenced anything: the filter is open again."""
    number, _ = records.find_account(connection, name)
    if not records.spent(connection, number):
        connection.execute("UPDATE accounts SET active_filter = NULL, active_order = NULL WHERE id = ?", (number,))
