"""`Ledger`: the durable record of what every account has spent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gaussveil import checks
from gaussveil.accounting.account import Account
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.ledger import journal, records
from gaussveil.accounting.ledger.charges import Folded, fold_plan
from gaussveil.accounting.ledger.database import LOGGER, Database
from gaussveil.accounting.ledger.debiting import Debiting
from gaussveil.accounting.ledger.filters import (
    Budget,
)
from gaussveil.accounting.ledger.journal import now, record_event
from gaussveil.accounting.ledger.reading import Readable
from gaussveil.accounting.ledger.rules import (
    APART,
    PERSONAL,
    check_plan,
)
from gaussveil.accounting.names import listed, new_name
from gaussveil.errors import ParameterError

ACCOUNT_RULES = ("adaptive", "planned")


class Ledger(Debiting, Readable):
    """A ledger file, shared by any number of processes.

    Args:
        path: the ledger's file.

    >>> import tempfile
    >>> from gaussveil import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/home.ledger")
    ...     account = ledger.open_account("homes", epsilon=3.0, delta=1e-5)
    ...     ledger.accounts(), ledger.entries("homes")
    (['homes'], [])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = Database(path)
        with self._database.reading():
            pass  # opening checks the file's kind and version, and migrates an older one

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """Make a new ledger file, readable by its owner only.

        Args:
            path: the file to make; refused if it exists.

        Returns:
            The ledger, without accounts.

        Raises:
            ParameterError: there is a file of that name.
            LedgerUnavailableError: the file cannot be made.
        """
        Database(path).create()
        return cls(path)

    @classmethod
    @contextmanager
    def held(cls, path: str | os.PathLike[str]) -> Iterator[Ledger]:
        """A ledger whose operations inside the block share one connection.

        Args:
            path: the ledger's file.

        Returns:
            A context manager that gives the ledger.
        """
        ledger = cls.__new__(cls)
        ledger._database = Database(path)
        with ledger._database.held():
            yield ledger

    def __reduce__(self) -> tuple[object, ...]:
        return Ledger, (str(self.path),)

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

        Args:
            name: of the account.
            epsilon, delta: its budget.
            dataset: name of the data that it protects.
            sampler_share: share of delta that is kept for samplers designed after their noise.

        Returns:
            Name and ledger, for the `account` of a mechanism.

        Raises:
            ParameterError: terms that no account can have (`check_terms`), or a name that is taken.
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
            accounts = journal.accounts_of_people(connection)
            if people:
                people = new_name(people, (), "people")
                new_name(
                    people, (other for other in accounts if other != people), "people"
                )
            records.insert_account(connection, row, folded)
            record_event(
                connection, name, "", "opened", journal.opened(connection, name)
            )
            if people:
                record_event(connection, name, "", journal.PEOPLE, people)
        LOGGER.info("account %s opened", name)
        if people in accounts:
            others = ", ".join(map(listed, accounts[people]))
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
    ) -> tuple[Budget, Folded]:
        """Refuse terms that no account can have, without a file: call it before `create`. Budget and folded plan.

        Args:
            name: of the account.
            epsilon, delta: its budget.
            adjacency: how neighbours differ; the first entry fixes it by default.
            rule: "adaptive" or "planned".
            plan: of a planned account, its charges.
            filter: of an adaptive account, "mean-shift", "renyi" or "auto".
            order: of the Renyi filter.
            sampler_share: share of delta that is kept for samplers.
            people: whose budget it is.

        Returns:
            The budget, and the plan with equal charges counted.

        Raises:
            ParameterError: a number, name, rule or filter is out of range, or they do not fit each other.
        """
        budget = Budget(epsilon, delta, sampler_share)
        new_name(name, ())
        checks.one_of("rule", rule, ACCOUNT_RULES)
        budget.require_filter(filter, order)
        folded = fold_plan(plan)
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
