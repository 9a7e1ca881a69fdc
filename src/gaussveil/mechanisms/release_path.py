"""The one path of every release: refuse, prepare, plan, draft, debit, draw, certify.

A mechanism turns data into a bounded statistic of public shape, and public parameters into a `Plan`: the charge and
what the certificate will say. It then hands both to `Mechanism._publish`. Nothing else checks epsilon and delta, pays
for the sampler, marks a seeded release or opens a transaction.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from numpy.typing import ArrayLike

from gaussveil import accounting, checks
from gaussveil.accounting.directed import sampler_delta
from gaussveil.accounting.ledger.rules import PERSONAL
from gaussveil.accounting.names import one_spelling
from gaussveil.containers import form_notes
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.source_rows import assumed_form
from gaussveil.noise import Generator
from gaussveil.shown import Shown

Value = TypeVar("Value")

ROUNDING_RESERVE = (
    1 - 2.0**-48
)  # certificates round their delta up by a few units in the last place
SAMPLER_SHARE = (
    2.0**-8
)  # of delta, kept for samplers that are designed after their noise


@dataclass(frozen=True)
class Promise:
    """Epsilon and delta of one release, and the generator it is drawn from: all three checked."""

    epsilon: float
    delta: float
    generator: Generator | None = None
    pure: bool = False
    """Whether delta may be 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))
        object.__setattr__(
            self,
            "delta",
            (checks.delta_or_none if self.pure else checks.delta)(self.delta),
        )
        check_generator(self.generator)

    def ideal_delta(
        self, sampler_error: float, reserve: float = ROUNDING_RESERVE
    ) -> float:
        """What is left of delta for ideal noise after the sampler's total variation; half of it at least."""
        sampler = sampler_delta(self.epsilon, sampler_error)
        if sampler >= self.delta / 2:
            raise unaffordable_sampler(self.epsilon, self.delta, 2 * sampler)
        return (self.delta - sampler) * reserve

    @property
    def delta_before_sampler(self) -> float:
        """What is left of delta where the sampler is designed after the noise: all but a fixed share."""
        return self.delta * (1 - SAMPLER_SHARE)

    def require_sampler_share(self, sampler_error: float, remedy: str = "") -> None:
        """Refuse a sampler that the share cannot pay for."""
        sampler = sampler_delta(self.epsilon, sampler_error)
        if sampler > self.delta * SAMPLER_SHARE:
            raise unaffordable_sampler(
                self.epsilon, self.delta, sampler / SAMPLER_SHARE, remedy
            )


def unaffordable_sampler(
    epsilon: float, delta: float, least: float, remedy: str = ""
) -> ParameterError:
    """The refusal of a promise too small to pay for the sampler's error; `remedy` names other parameters that help."""
    asked = f"delta must be at least {least:.3g} at epsilon {epsilon:g}"
    got = delta
    if least >= 1:
        asked = "epsilon must be smaller"
        got = epsilon
    return ParameterError(
        f"{asked}, to pay for the sampler's error. Got {got!r}{remedy and ': ' + remedy}."
    )


def check_generator(generator: object) -> None:
    """Only our generators: another library's would be neither secure nor marked."""
    if not isinstance(generator, Generator | None):
        checks.refuse("generator", "a SecureGenerator or a SeededGenerator", generator)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Shown):
    """All that a release says of itself before anything is drawn: public, and the same for every data set."""

    charge: accounting.Charge
    released: str
    adjacency: accounting.Adjacency
    assumptions: tuple[str, ...]
    parameters: Mapping[str, object]
    model: str | None = None
    """The model that the guarantee rests on, None where it holds for every pair of neighbours."""
    built_from: tuple[accounting.Certificate, ...] = ()
    """Releases that went into the plan: the guarantee is at most theirs."""
    delta: float | None = None
    """The delta to certify where the caller left it to the design."""
    drawn_from: tuple[ArrayLike, ...] = ()
    """Random quantities that the guarantee counts on, each once: no ledger pays for a second release of one."""
    expectations: tuple[str, ...] = ()
    """How good the answer will be, in sentences, from public numbers."""

    def _facts(self) -> dict[str, str]:
        return {"released": self.released, "hidden": str(self.adjacency)}


class _Planned(Exception):
    """Ends a release where it would be debited."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("planned")
        self.plan = plan


_planning: ContextVar[bool] = ContextVar("planning", default=False)


def is_planning() -> bool:
    """Whether what runs is a dry run, which needs no row of the data."""
    return _planning.get()


def planned(release: Callable[[], object]) -> Plan | None:
    """What a release would debit and certify: it is done up to there, and nothing is drawn, spent or written."""
    token = _planning.set(True)
    try:
        release()
    except _Planned as found:
        return found.plan
    finally:
        _planning.reset(token)
    return None


@dataclass(kw_only=True, eq=False, repr=False)
class Mechanism(ABC):
    """Base of all mechanisms. A subclass names itself, and gives `_publish` a plan and a draw of prepared data.

    `people` names the population whose rows these are, where the account is kept for one: its units, or rows of which
    each of them has at most one, are charged to them whatever their column is called.
    """

    mechanism: ClassVar[str]
    pure: ClassVar[bool] = False
    """Whether some of its releases need no delta."""
    epsilon: Any
    delta: Any
    account: accounting.Account | None = None
    generator: Generator | None = None
    people: str | None = None
    certificate_: accounting.Certificate = field(init=False, repr=False)

    def __repr__(self) -> str:
        """The parameters that somebody chose: those that are not the defaults."""
        shown = {
            own: repr(_unit(value) if own.name == "unit" else value)
            for own in dataclasses.fields(self)
            if own.init
            for value in [getattr(self, own.name)]
        }
        chosen = ", ".join(
            f"{own.name}={value}"
            for own, value in shown.items()
            if value != repr(own.default)
        )
        return f"{type(self).__name__}({chosen})"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if (
            "unit" in state
        ):  # whose rows these were is the owner's alone; a fit by the copy finds no such column
            state["unit"] = _unit(state["unit"])
        return state

    @property
    def promise(self) -> Promise:
        """The promise of one release, checked."""
        return Promise(self.epsilon, self.delta, self.generator, self.pure)

    def dry_run(self, *data: Any, **given: Any) -> Plan | None:
        """What `release`, `open` or `fit` would debit and certify, with the same arguments; nothing is spent.

        Args:
            data: what `release`, `open` or `fit` would take.
            given: its other arguments.

        Returns:
            The plan with charge, noise and words of the certificate; None where nothing would be debited.
        """
        does = next(
            filter(
                None, (getattr(self, name, None) for name in ("release", "open", "fit"))
            )
        )
        return planned(lambda: does(*data, **given))

    def _publish(
        self,
        plan: Plan,
        draw: Callable[[], Value],
        read: object = None,
        *,
        whole: bool = True,
    ) -> accounting.Release[Value]:
        """Debit, draw, certify: the only place that opens a transaction. `read` is the table that was read.

        What is `whole` is all that will be released under the certificate, which then carries its digest.
        """
        check_generator(self.generator)
        if not isinstance(self.account, accounting.Account | None):
            checks.refuse(
                "account",
                'an account of a ledger, as in Account("town.ledger", "winter")',
                self.account,
            )
        notes = form_notes(read)
        people = self.people or notes.people
        draft = self._draft(plan, self._guarantee(plan, notes.found), people)
        if is_planning():
            raise _Planned(plan)
        charge = plan.charge
        if plan.drawn_from:
            # Keyed names of what is drawn from, one for all accounts of a ledger.
            charge = charge.drawn_from(
                *(
                    accounting.draw_identity(self.account, drawn)
                    for drawn in plan.drawn_from
                )
            )
        with accounting.transaction(
            self.account, charge, draft, at_once=True, people=people or ""
        ) as debit:
            value = debit.draw(draw, whole=whole)
        self.certificate_ = debit.certificate
        return accounting.Release(value, self.certificate_)

    def _rehearse(
        self, plan: Plan, draw: Callable[[], Value]
    ) -> accounting.Release[Value]:
        """What `_publish` does, of a draw that reaches no data and with no account: whatever fails, fails for free."""
        draft = self._draft(plan, accounting.Guarantee.none("rehearsed without data"))
        with accounting.transaction(None, plan.charge, draft) as debit:
            value = debit.draw(draw, whole=True)
        return accounting.Release(value, debit.certificate)

    def _draft(
        self, plan: Plan, guarantee: accounting.Guarantee, people: str | None = None
    ) -> accounting.CertificateDraft:
        if plan.delta is None:
            promise = self.promise
            epsilon = promise.epsilon
            delta = promise.delta
        else:
            epsilon = checks.epsilon(self.epsilon)
            delta = checks.delta(plan.delta)
        return accounting.CertificateDraft(
            released=plan.released,
            mechanism=self.mechanism,
            adjacency=plan.adjacency,
            epsilon=epsilon,
            delta=delta,
            guarantee=guarantee,
            assumptions=(*plan.assumptions, *_whose(people, plan.adjacency)),
            parameters=plan.parameters,
        )

    def _guarantee(self, plan: Plan, found: tuple[str, ...]) -> accounting.Guarantee:
        """The weakest of what the noise, the model and the releases that the plan was built from allow.

        Where nobody wrote down how the table is read, it names that as well: the form was found in private cells.
        """
        if plan.model is None:
            own = accounting.Guarantee.worst_case()
        else:
            own = accounting.Guarantee.model_based(plan.model)
        if self.generator is not None and not self.generator.is_trusted:
            own = accounting.Guarantee.none("seeded")
        weakest = accounting.Guarantee.least(own, *map(inherited, plan.built_from))
        if weakest.kind != "none":
            assumed = assumed_form(found)
        else:
            assumed = ""
        return accounting.Guarantee(
            weakest.kind, "; ".join(filter(None, (weakest.reason, assumed)))
        )

    def __sklearn_clone__(self) -> Self:
        return dataclasses.replace(self)


def _whose(people: str | None, adjacency: accounting.Adjacency) -> tuple[str, ...]:
    """What is assumed of the people that an account is kept for: nobody can see it in a table."""
    if not people or adjacency.kind not in PERSONAL:
        return ()
    return (
        f"each of {one_spelling(people, 'people')!r} is at most one {adjacency.unit} of this table",
    )


def _unit(unit: Any) -> Any:
    """A column's name; words instead of identifiers."""
    if isinstance(unit, str | None):
        return unit
    return "identifiers, not shown"


def inherited(certificate: accounting.Certificate) -> accounting.Guarantee:
    """What a release may pass on: its own guarantee, nothing where its certificate does not verify."""
    if (
        certificate.guarantee.kind != "none"
        and not accounting.verify(certificate).private
    ):
        return accounting.Guarantee.none(
            "built from a release whose certificate does not verify"
        )
    return certificate.guarantee
