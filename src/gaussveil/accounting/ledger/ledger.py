"""`Ledger`: the durable record of what every account has spent.

An entry goes debited -> drawing -> released, or debited -> void. A process killed anywhere leaves its entry debited:
the release may or may not have been seen, so it counts as spent. The check and the debit are one transaction of one
writer, so accounts are never overspent; whatever takes long is computed before that writer locks the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

from gaussveil import checks
from gaussveil.accounting.account import Account
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.database import LOGGER, Database
from gaussveil.accounting.ledger.filters import (
    NOTHING,
    Balance,
    Budget,
    filter_cost,
)
from gaussveil.accounting.ledger.journal import now, record_event
from gaussveil.accounting.ledger.notes import Noted
from gaussveil.accounting.ledger.reading import Readable
from gaussveil.accounting.ledger.rules import (
    APART,
    PERSONAL,
    Offer,
    Rules,
    admit,
    admit_planned,
    check_adjacency,
    check_plan,
    offer,
)
from gaussveil.accounting.names import listed, new_name, one_spelling
from gaussveil.errors import LedgerStateError, ParameterError

ACCOUNT_RULES = ("adaptive", "planned")
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


@dataclass(frozen=True)
class _Prepared:
    """An offer, and what its account's filter had used after so many changes."""

    offer: Offer
    changes: int
    used: Balance


class Ledger(Noted, Readable):
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

    @classmethod
    @contextmanager
    def held(cls, path: str | os.PathLike[str]) -> Iterator[Ledger]:
        """A ledger whose operations inside the block share one connection."""
        ledger = cls.__new__(cls)
        ledger._database = Database(path)
        with ledger._database.held():
            yield ledger

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
        people: str = "",
    ) -> Account:
        """Open an account; its terms never change afterwards.

        Without an `adjacency` the first entry fixes it. `rule="planned"` needs the whole `plan` (charges, or pairs of
        charge and count) and an adjacency. `rule="adaptive"` runs a filter: "mean-shift", "renyi", or "auto",
        which the first entry settles before anything is drawn; it also settles the Renyi `order` unless that is given.
        With `delta=0` epsilons add up, and the account takes noise of bounded loss alone: discrete Laplace, say.

        An account of named `people` ("the homes of Aarau") pays for every table of theirs, whatever its column of names
        is called. Budgets of several accounts of one population add; opening a second one says so.
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
            people=people,
        )
        if adjacency:
            relation = canonical_json(adjacency.to_dict())
        else:
            relation = None
        limits = budget.epsilon, budget.delta, budget.sampler_share
        name = new_name(name, ())
        row = (name, dataset, relation, *limits, rule, filter, None, order, None, now())
        with self._database.writing() as connection:
            new_name(name, records.account_names(connection))
            known = journal.accounts_of_people(connection)
            if people:
                people = new_name(people, (), "people")
                new_name(
                    people, (other for other in known if other != people), "people"
                )
            records.insert_account(connection, row, folded)
            record_event(
                connection, name, "", "opened", journal.opened(connection, name)
            )
            if people:
                record_event(connection, name, "", journal.PEOPLE, people)
        LOGGER.info("account %s opened", name)
        if people in known:
            others = ", ".join(map(listed, known[people]))
            LOGGER.warning(
                "%s have an account already (%s): the budgets of all their accounts add",
                people,
                others,
            )
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
        people: str = "",
    ) -> tuple[Budget, records.Folded]:
        """Refuse terms that no account can have, without a file: call it before `create`. Budget and folded plan."""
        budget = Budget(epsilon, delta, sampler_share)
        new_name(name, ())
        checks.one_of("rule", rule, ACCOUNT_RULES)
        budget.require_filter(filter, order)
        folded = records.fold_plan(plan)
        if (rule == "planned") != bool(folded):
            raise ParameterError(
                "plan must be given with rule='planned', and only then"
            )
        if people:
            new_name(people, (), "people")
            if adjacency is not None and adjacency.kind not in PERSONAL:
                raise ParameterError(
                    f"people must be left out where neighbours differ so that {adjacency}: {APART}"
                )
        if rule == "planned":
            if adjacency is None:
                raise ParameterError(
                    "adjacency must be given with rule='planned': the plan is composed when the account opens"
                )
            check_plan(budget, folded, adjacency)
        return budget, folded

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
        """
        checks.one_of("guarantee", guarantee, GUARANTEES)
        charge.require_unchanged()
        if release_id is not None:
            identifier = release_id
        else:
            identifier = uuid4().hex
        if not isinstance(identifier, str) or not identifier.strip():
            checks.refuse("release_id", "text and not empty", identifier)
        if people:
            whose = {"people": one_spelling(people, "people")}
        else:
            whose = {}
        with self._database.held():
            while True:
                if release_id is not None:
                    known = self._known(
                        name, charge, adjacency, guarantee, identifier, **whose
                    )
                else:
                    known = None
                if known is not None:
                    self._bind(known, value)
                    return known
                prepared = self._prepared(name, charge, adjacency, **whose)
                made = self._debited(
                    prepared,
                    name,
                    charge,
                    adjacency,
                    (identifier, guarantee, what, at_once),
                    value,
                )
                if made is not None:
                    LOGGER.info("account %s debited, entry %s", name, identifier)
                    return made

    def _known(
        self,
        name: str,
        charge: Charge,
        adjacency: Adjacency,
        guarantee: str,
        identifier: str,
        *,
        people: str = "",
    ) -> Debit | None:
        """The debit that was made under this id already, if it is the same one; None where there is none."""
        with self._database.reading() as connection:
            known = records.find_entry(connection, identifier)
            if known is None:
                return None
            _, terms = records.find_account(connection, name)
            drawn = records.draws_of(connection, identifier)
            if (known.account, known.charge, drawn) != (
                terms.name,
                charge.digest,
                charge.draw_identities,
            ):
                raise LedgerStateError(
                    f"release_id {identifier!r} was used for another account or charge, or another draw; "
                    "choose a new one"
                )
            if known.state == "void":
                raise LedgerStateError(
                    f"the entry {identifier!r} was voided; choose a new release_id"
                )
            check_adjacency(terms, adjacency, charge, people)
            if known.guarantee != guarantee:
                raise LedgerStateError(
                    f"release_id {identifier!r} was debited with the guarantee {known.guarantee!r}, "
                    f"not {guarantee!r}; choose a new one"
                )
            line = journal.anchor(connection, identifier)
            return Debit(
                identifier, known.state, known.debited_at, terms, line, created=False
            )

    def _prepared(
        self, name: str, charge: Charge, adjacency: Adjacency, *, people: str = ""
    ) -> _Prepared:
        """Everything about a debit that takes long, computed with the ledger open to others."""
        with self._database.reading() as connection:
            number, terms = records.find_account(connection, name)
            changes, used = records.find_balance(connection, number)
            if used is None and terms.rule == "adaptive":
                spent = records.spent(connection, number)
            else:
                spent = []
        check_adjacency(terms, adjacency, charge, people)
        if terms.rule == "planned":
            return _Prepared(Offer(terms, terms, NOTHING), changes, NOTHING)
        if used is None:
            used = NOTHING
            for before, count in (
                spent if terms.active_filter not in (None, "single") else []
            ):
                cost = filter_cost(
                    terms.active_filter or "",
                    terms.order,
                    before,
                    symmetric=adjacency.symmetric,
                )
                used = used.plus(cost, count)
        return _Prepared(offer(terms, charge, adjacency), changes, used)

    def _debited(
        self,
        prepared: _Prepared,
        name: str,
        charge: Charge,
        adjacency: Adjacency,
        about: tuple[str, str, str, bool],
        value: bytes | None,
    ) -> Debit | None:
        """Check and debit; None if the account changed meanwhile, so that it must be prepared again."""
        identifier, guarantee, what, at_once = about
        with self._database.writing() as connection:
            number, terms = records.find_account(connection, name)
            name = terms.name
            changes, used = records.find_balance(connection, number)
            unsure = used is None and changes != prepared.changes
            if (
                terms != prepared.offer.before
                or unsure
                or records.find_entry(connection, identifier) is not None
            ):
                return None
            _refuse_drawn(records.entry_of_draw(connection, charge))
            slot = None
            if terms.rule == "planned":
                slot = admit_planned(terms, records.slots(connection, number), charge)
            else:
                total = admit(
                    prepared.offer, used if used is not None else prepared.used, charge
                )
                records.store_balance(connection, number, total)
            if prepared.offer.after != terms or terms.adjacency is None:
                records.settle(
                    connection,
                    number,
                    prepared.offer.after,
                    terms.adjacency or adjacency,
                )
            made_at = now()
            row = (
                identifier,
                number,
                charge.digest,
                slot,
                "debited",
                guarantee,
                what,
                made_at,
            )
            records.insert_entry(connection, row, charge)
            said = journal.debited(connection, name, identifier)
            line = journal.anchor(
                connection,
                identifier,
                record_event(connection, name, identifier, "debited", said),
            )
            if value is not None:
                record_event(
                    connection,
                    name,
                    identifier,
                    journal.VALUE,
                    records.sealed(connection, value),
                )
            if at_once:
                records.enter(connection, identifier, "drawing")
                record_event(connection, name, identifier, "drawing")
            terms = replace(
                prepared.offer.after, adjacency=terms.adjacency or adjacency
            )
            return Debit(
                identifier,
                "drawing" if at_once else "debited",
                made_at,
                terms,
                line,
                created=True,
            )

    def check_affordable(
        self, name: str, charge: Charge, adjacency: Adjacency, people: str = ""
    ) -> None:
        """Raise what `debit` would raise now; nothing is recorded, and a later debit is checked again."""
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
        """Say that the draw begins; from here on the entry can never be voided. Only one caller succeeds."""
        self._move(identifier, "debited", "drawing", "")

    def mark_released(self, identifier: str) -> None:
        """Say that the draw is done; saying it twice is harmless, since a repeatable draw may be done twice."""
        self._move(identifier, "drawing", "released", "")

    def void(self, identifier: str, reason: str) -> None:
        """Give back a debit whose draw never began; logged for good."""
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


def _refuse_drawn(before: str | None) -> None:
    if before is not None:
        raise LedgerStateError(
            f"the ledger paid for an answer to this very draw already (entry {before!r}), and a second one is not "
            "independent of it; nothing was drawn or spent. Draw the query anew and name that draw, or plan all "
            "answers to it as one charge"
        )
