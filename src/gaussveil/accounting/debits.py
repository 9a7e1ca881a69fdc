"""The one order of events: check, debit durably, draw, mark as released.

    with transaction(account, charge, draft) as debit:
        value = debit.draw(lambda: noise.add(statistic, generator))
    return Release(value, debit.certificate)

Whatever can be refused is refused before the debit, and whatever is debited stays debited once the draw has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import Any, Generic, TypeVar
from uuid import uuid4

from gaussveil import checks
from gaussveil.accounting.account import Account
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.certificates.draft import CertificateDraft
from gaussveil.accounting.certificates.values import digest_of, rounded
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.diagnostics import refuse_private
from gaussveil.accounting.ledger.database import LOGGER
from gaussveil.accounting.ledger.debiting import Debit
from gaussveil.accounting.ledger.fitting import with_what_fits
from gaussveil.accounting.ledger.journal import now
from gaussveil.accounting.ledger.ledger import Ledger
from gaussveil.accounting.ledger.rules import check_neighbours
from gaussveil.accounting.proofs import upper_end
from gaussveil.errors import (
    AssumptionError,
    BudgetExceededError,
    LedgerError,
    LedgerStateError,
    LedgerUnavailableError,
)
from gaussveil.shown import Shown

Value = TypeVar("Value")

CERTIFIED = 4096  # upper ends that are remembered: a design is released many times, and enclosed once
LAST_PLACE = Fraction(1, 2**53)  # of a number that was rounded once
_CERTIFIED: dict[tuple[str, str, float, bool], float] = {}
_VERSION = version("gaussveil")
_GIVEN_ID: ContextVar[_GivenId | None] = ContextVar("release_id", default=None)


@dataclass(frozen=True, eq=False, repr=False)
class Release(Shown, Generic[Value]):
    """What may leave the house: the value, drawn with noise, and its certificate.

    Args:
        value: what is released.
        certificate: its guarantee.

    >>> from gaussveil import GaussianRelease
    >>> release = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0).release([10.0, 20.0])
    >>> len(release.value), release.certificate.epsilon
    (2, 1.0)
    """

    value: Value
    certificate: Certificate

    def _curve(self) -> Any:
        return self.certificate._curve()

    def _claim(self) -> tuple[float, float]:
        return self.certificate._claim()

    def _facts(self) -> dict[str, str]:
        kind = f"{type(self.value).__name__} {getattr(self.value, 'shape', '')}".strip()
        return {"value": kind, **self.certificate._facts()}

    def __post_init__(self) -> None:
        refuse_private(self.value, "a release's value")


@dataclass
class _GivenId:
    identifier: str
    repeatable: bool
    value: bytes | None

    def used(self) -> bool:
        """Whether the release that asks may repeat what was drawn; the next one may not."""
        repeatable = self.repeatable
        self.repeatable = False
        return repeatable


@contextmanager
def release_id_given(
    identifier: str, *, repeatable: bool = False, value: bytes | None = None
) -> Iterator[None]:
    """Give the release inside the block its id, for callers that must not debit twice whatever fails between.

    Mechanisms take no id of their own. A second release inside the block meets the first one's id and is refused. With
    `repeatable` the caller vows that the first one, wherever it was drawn before, is drawn with the very same value;
    `value` is what decides that value, and binds the entry to it.
    """
    token = _GIVEN_ID.set(_GivenId(identifier, repeatable, value))
    try:
        yield
    finally:
        _GIVEN_ID.reset(token)


class OpenDebit:
    """A debit inside its transaction: draw with `draw`, then read `certificate`."""

    def __init__(
        self,
        ledger: Ledger | None,
        certificate: Certificate,
        *,
        state: str,
        created: bool,
        repeatable: bool,
    ) -> None:
        self._ledger = ledger
        self._state = state
        self._created = created
        self._certificate = certificate
        self._repeatable = repeatable
        self._closed = False
        self._whole: tuple[Any] | None = None  # all that was drawn, where that is known
        self.drawn = False

    @property
    def id(self) -> str:
        """The release id."""
        return self._certificate.release_id

    @property
    def certificate(self) -> Certificate:
        """The certificate of what was drawn, with its digest where that was the whole release."""
        if not self.drawn:
            raise LedgerStateError(
                "nothing was drawn yet, so there is nothing to certify; call draw first"
            )
        if self._whole is None:
            return self._certificate
        return self._certificate.of_values(digest_of(*self._whole))

    def draw(self, make: Callable[[], Value], *, whole: bool = False) -> Value:
        """Call `make`, which draws the noise; further calls inside the same transaction belong to the same release.

        What is `whole` is all that will be released under the certificate: it is rounded to the digits that a digest
        can carry, and the certificate carries that digest.
        """
        if self._closed:
            raise LedgerStateError(
                f"the transaction of release {self.id!r} has ended, so nothing more can be drawn under its debit; "
                "draw inside the with block, or open another transaction"
            )
        if not self.drawn:
            self._begin()
        self.drawn = True
        value = make()
        if whole:
            value = rounded(value)
            self._whole = (value,)
        refuse_private(value, "a release's value")
        return value

    def _begin(self) -> None:
        if self._ledger is None or (self._state == "drawing" and self._created):
            return
        if self._state == "debited":
            self._ledger.mark_drawing(self.id)
            self._state = "drawing"
        elif self._state == "void" or not self._repeatable:
            raise LedgerStateError(
                f"the release {self.id!r} is {self._state} already and was debited once; "
                "drawing it again would show fresh noise. Use a new release_id"
            )

    def finish(self) -> None:
        """Mark as released, or void this call's own debit if nobody drew; nothing can be drawn afterwards."""
        self._closed = True
        if self._ledger is None:
            return
        if self.drawn and self._state == "drawing":
            try:
                self._ledger.mark_released(self.id)
                self._state = "released"
            except (
                LedgerUnavailableError
            ) as refused:  # it is paid for: drawing counts as spent
                LOGGER.warning(
                    "release %s was drawn and stays debited as drawing: %s",
                    self.id,
                    refused,
                )
        elif not self.drawn and self._state == "debited" and self._created:
            # A debit that another call made under the same id is that call's to draw or to give back.
            self._ledger.void(self.id, "the transaction ended before the draw")
            self._state = "void"

    def fail(self, error: BaseException) -> None:
        """Close after `error`: nothing drawn is given back, anything drawn stays debited. Never hides `error`."""
        self._closed = True
        if self.drawn:
            LOGGER.warning(
                "release %s failed after its draw began; it stays debited", self.id
            )
            return
        try:
            self.finish()
        except LedgerError as refused:
            error.add_note(
                f"the debit {self.id!r} could not be given back and stays as it is: {refused}"
            )


@contextmanager
def transaction(
    account: Account | None,
    charge: Charge,
    draft: CertificateDraft,
    *,
    release_id: str | None = None,
    repeatable: bool = False,
    at_once: bool = False,
    value: bytes | None = None,
    people: str = "",
) -> Iterator[OpenDebit]:
    """Open a release: refuse it, or debit it durably and let the block draw.

    Without an account nothing is recorded and the certificate says so. The same `release_id` is debited once; it can
    be drawn once, unless the caller vows with `repeatable` that a second draw gives the very same value (noise keyed
    by the id). A block that raises after the draw began leaves the entry debited. A block that draws `at_once` lets one
    commit serve the debit and the beginning of the draw: it stays debited even if nothing is drawn. Where what will be
    released is known and kept already, `value` binds the entry to it: the id pays for no other. `people` says whose
    rows these are, for an account that is kept for a population.
    """
    here = _GIVEN_ID.get()
    if release_id is None and here is not None:
        release_id = here.identifier
        value = here.value
        # a rehearsal, which nobody pays for, is no release
        repeatable = account is not None and here.used()
    _check_id(release_id)
    if account is None:
        charge.require_unchanged()  # a debit does the same
    check_neighbours(draft.adjacency, charge)
    facts: dict[str, object] = {
        "delta_upper": _certified_delta(charge, draft),
        "gaussveil_version": _VERSION,
    }
    with ExitStack() as connection:
        ledger = None
        debit = None
        if account is not None:
            ledger = connection.enter_context(Ledger.held(account.ledger))
            try:
                debit = ledger.debit(
                    account.name,
                    charge,
                    draft.adjacency,
                    what=draft.released,
                    guarantee=draft.guarantee.kind,
                    release_id=release_id,
                    at_once=at_once,
                    value=value,
                    people=people,
                )
            except BudgetExceededError as error:
                raise with_what_fits(error, draft.delta) from None
            facts |= _facts_of(debit)
        else:
            facts |= _facts_alone(release_id)
        certificate = Certificate.complete(draft, charge, **facts)
        state = "debited"
        created = True
        if debit is not None:
            state = debit.state
            created = debit.created
        opened = OpenDebit(
            ledger, certificate, state=state, created=created, repeatable=repeatable
        )
        try:
            yield opened
        except BaseException as error:
            opened.fail(error)
            raise
        opened.finish()


def _check_id(release_id: object) -> None:
    if release_id is not None and not isinstance(release_id, str):
        checks.refuse("release_id", "text and not empty", release_id)


def _facts_alone(release_id: str | None) -> dict[str, object]:
    """What a certificate says of a release that no account pays for."""
    return {
        "release_id": release_id or uuid4().hex,
        "released_at": now(),
        "composition": "a single release, by its exact delta",
    }


def _certified_delta(charge: Charge, draft: CertificateDraft) -> float:
    """Rigorous upper end for the pair and for the reduced form that the certificate stores; refused if too large."""
    gaps = [part.source.exact_mean_gap for part in charge.parts]
    key = (charge.digest, repr(gaps), draft.epsilon, draft.adjacency.symmetric)
    if None not in gaps:
        upper = _CERTIFIED.get(key)
    else:
        upper = None
    if upper is None:
        if any(gap != () for gap in gaps):
            forms = _forms(charge)
        else:
            forms = [charge]
        symmetric = draft.adjacency.symmetric
        upper = max(
            upper_end(form, draft.epsilon, draft.delta, symmetric=symmetric)
            for form in forms
        )
        if len(_CERTIFIED) >= CERTIFIED:
            _CERTIFIED.clear()
        _CERTIFIED[key] = upper
    if upper > draft.delta:
        raise AssumptionError(
            f"the charge allows delta {upper:.17g} at epsilon {draft.epsilon:g}, sampler error included, but the "
            f"certificate would claim {draft.delta:.17g}; nothing was drawn or spent. "
            "Calibrate to delta minus (1 + e^epsilon) times the sampler error"
        )
    return upper


def _facts_of(debit: Debit) -> dict[str, object]:
    """What a certificate says of the debit that paid for it."""
    return {
        "release_id": debit.id,
        "released_at": debit.debited_at,
        "account": debit.terms.name,
        "dataset": debit.terms.dataset,
        "composition": debit.terms.composition,
        "ledger": debit.line,
    }


def _forms(charge: Charge) -> list[Charge]:
    """One pair that dominates both the pair of exact mean gaps and the one of rounded squares that the certificate
    stores: longer mean gaps are never more private (derived: docs/math/spectrum). Both, where gaps are not known.
    """
    squares: list[tuple[Fraction, Fraction]] = []  # as stored, and exact
    for part in charge.parts:
        gaps = part.source.exact_mean_gap
        stored = part.source.stored_energies
        if gaps is None or len(gaps) not in (0, len(stored)):
            return [charge, charge.as_stored()]
        squares += [
            (Fraction(square), Fraction(gap) ** 2) for gap, square in zip(gaps, stored)
        ]
    if any(
        abs(rounded - exact) > exact * LAST_PLACE for rounded, exact in squares
    ):  # underflow
        return [charge, charge.as_stored()]
    if all(rounded <= exact for rounded, exact in squares):
        return [charge]
    return [
        charge.as_stored(upwards=any(rounded < exact for rounded, exact in squares))
    ]
