"""What a ledger tells of itself: entries, events, and the statement of everything an account has spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from gaussveil.accounting.charge import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.charges import Folded
from gaussveil.accounting.ledger.filters import filter_usage
from gaussveil.accounting.ledger.replacements import epsilon_of_both
from gaussveil.accounting.ledger.rules import REPLACE, Rules
from gaussveil.accounting.names import listed, shown


@dataclass(frozen=True)
class Entry:
    """One debit: id, account, charge digest, state, kind of guarantee, what was released and when it was debited."""

    id: str
    account: str
    charge: str
    state: str
    guarantee: str
    what: str
    debited_at: str


@dataclass(frozen=True)
class Event:
    """One line of the log."""

    at: str
    account: str
    entry: str
    event: str
    detail: str


@dataclass(frozen=True, eq=False)
class Statement:
    """What an account has spent, composed exactly as if pre-registered, and how full its filter or plan is.

    Under the adaptive rule the promise is the budget itself; the spent figures describe the entries, whose choice may
    have depended on earlier outputs.
    """

    terms: Rules
    charges: tuple[tuple[Charge, int], ...]
    states: dict[str, int]
    guarantee: str = "worst case"
    siblings: tuple[tuple[str, Folded], ...] = ()
    """Other accounts of the same people and relation, and what they have spent."""
    apart: tuple[tuple[str, Folded], ...] = ()
    """Accounts of the same people for the other relation: both together bound what shows of one who is replaced."""
    relation: str = ""
    """Kind of neighbours of this account and its siblings, where one of them has settled it."""

    @cached_property
    def composition(self) -> Composition:
        """Everything spent, folded."""
        return Composition.of(self.charges, symmetric=self._symmetric, adaptive=True)

    @cached_property
    def together(self) -> Composition:
        """Everything that all accounts of the same people and relation have spent."""
        charges = [
            *self.charges,
            *(charge for _, spent in self.siblings for charge in spent),
        ]
        return Composition.of(charges, symmetric=self._symmetric, adaptive=True)

    @cached_property
    def replaced_epsilon(self) -> float:
        """Epsilon, at the account's delta, of one of its people who is replaced, over all accounts that these have."""
        others = Composition.of(
            [charge for _, spent in self.apart for charge in spent],
            symmetric=not self._symmetric,
            adaptive=True,
        )
        delta = self.terms.budget.delta
        if self._symmetric:
            return epsilon_of_both(others, self.together, delta)
        return epsilon_of_both(self.together, others, delta)

    @property
    def notices(self) -> list[str]:
        """What must be said with every figure of an account that is not the only one of its people."""
        people = shown(self.terms.people)
        lines = []
        if self.siblings:
            names = ", ".join(
                listed(name)
                for name in (self.terms.name, *(name for name, _ in self.siblings))
            )
            budget = self.terms.budget
            lines.append(
                f"{people} have {1 + len(self.siblings)} accounts ({names}), whose budgets add: together they have "
                f"spent epsilon {self.together.epsilon(budget.delta):.6g} at delta {budget.delta:g}, delta "
                f"{self.together.delta(budget.epsilon):.6g} at epsilon {budget.epsilon:g}"
            )
        if self.apart:
            names = ", ".join(listed(name) for name, _ in self.apart)
            delta = self.terms.budget.delta
            lines.append(
                f"{people} have accounts for other neighbours too ({names}): of one who is replaced by another, all "
                f"{1 + len(self.siblings) + len(self.apart)} accounts together have told epsilon "
                f"{self.replaced_epsilon:.6g} at delta {delta:g}"
            )
        return lines

    @property
    def _symmetric(self) -> bool:
        if self.terms.adjacency is None:
            return self.relation == REPLACE
        return self.terms.adjacency.symmetric

    @cached_property
    def spent_epsilon(self) -> float:
        """Smallest epsilon at the account's delta."""
        return self.composition.epsilon(self.terms.budget.delta)

    @cached_property
    def spent_delta(self) -> float:
        """Delta at the account's epsilon."""
        return self.composition.delta(self.terms.budget.epsilon)

    @property
    def filter_used(self) -> float | None:
        """Share of the filter that is used; None under a plan or before the first entry."""
        terms = self.terms
        if terms.rule == "planned" or terms.active_filter is None:
            return None
        if terms.active_filter == "single":
            return (
                self.composition.delta_upper(terms.budget.epsilon) / terms.budget.delta
            )
        active = terms.active_filter
        order = terms.order
        return filter_usage(
            terms.budget, active, order, self.charges, symmetric=self._symmetric
        ).used

    @property
    def unfinished(self) -> int:
        """Entries that are debited but not released: at work now, or killed; they count as spent."""
        return self.states.get("debited", 0) + self.states.get("drawing", 0)

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values; an infinite epsilon is null."""
        terms = self.terms
        epsilon = self.spent_epsilon
        return {
            "account": terms.name,
            "dataset": terms.dataset,
            "people": terms.people,
            "people_accounts": [terms.name, *(name for name, _ in self.siblings)]
            if terms.people
            else [],
            "notices": self.notices,
            "adjacency": terms.adjacency.to_dict() if terms.adjacency else None,
            "epsilon": terms.budget.epsilon,
            "delta": terms.budget.delta,
            "rule": terms.rule,
            "composition": terms.composition,
            "filter_used": self.filter_used,
            "spent_epsilon": epsilon if epsilon != float("inf") else None,
            "spent_delta": self.spent_delta,
            "spent_method": self.composition.method,
            "sampler_error": self.composition.sampler_error,
            "guarantee": self.guarantee,
            "entries_by_state": dict(self.states),
            "unfinished": self.unfinished,
            "opened_at": terms.opened_at,
        }


def as_rows(items: Sequence[Entry | Event]) -> list[dict[str, str]]:
    """Plain records for JSON and CSV."""
    return [asdict(item) for item in items]
