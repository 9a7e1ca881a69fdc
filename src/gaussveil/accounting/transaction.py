"""The one order of events: check, debit durably, draw, mark as released.

    with transaction(account, charge, draft) as debit:
        value = debit.draw(lambda: noise.add(statistic, generator))
    return Release(value, debit.certificate)

Whatever can be refused is refused before the debit, and whatever is debited stays debited once the draw has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from typing import TypeVar
from uuid import uuid4

from gaussveil.accounting.account import Account
from gaussveil.accounting.certificate import NOT_RECORDED, Certificate, CertificateDraft
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.database import LOGGER, now
from gaussveil.accounting.diagnostics import refuse_private
from gaussveil.accounting.ledger import Ledger
from gaussveil.accounting.rules import check_edges
from gaussveil.errors import AssumptionError, LedgerStateError

Value = TypeVar("Value")


class OpenDebit:
    """A debit inside its transaction: draw with `draw`, then read `certificate`."""

    def __init__(self, ledger: Ledger | None, state: str, certificate: Certificate, repeatable: bool) -> None:
        self._ledger = ledger
        self._state = state
        self._certificate = certificate
        self._repeatable = repeatable
        self.drawn = False

    @property
    def id(self) -> str:
        """The release id."""
        return self._certificate.release_id

    @property
    def certificate(self) -> Certificate:
        """The certificate of what was drawn."""
        if not self.drawn:
            raise LedgerStateError("nothing was drawn yet, so there is nothing to certify; call draw first")
        return self._certificate

    def draw(self, make: Callable[[], Value]) -> Value:
        """Call `make`, which draws the noise; further calls inside the same transaction belong to the same release."""
        if not self.drawn:
            self._begin()
        self.drawn = True
        value = make()
        refuse_private(value, "a release's value")
        return value

    def _begin(self) -> None:
        if self._ledger is None:
            return
        if self._state == "debited":
            self._ledger.mark_drawing(self.id)
            self._state = "drawing"
        elif not self._repeatable:
            raise LedgerStateError(
                f"the release {self.id!r} is {self._state} already and was debited once; "
                "drawing it again would show fresh noise. Use a new release_id"
            )

    def finish(self) -> None:
        """Mark as released, or void a debit that nobody drew."""
        if self._ledger is None:
            return
        if self.drawn and self._state == "drawing":
            self._ledger.mark_released(self.id)
            self._state = "released"
        elif not self.drawn and self._state == "debited":
            self._ledger.void(self.id, "the transaction ended before the draw")
            self._state = "void"


@contextmanager
def transaction(
    account: Account | None,
    charge: Charge,
    draft: CertificateDraft,
    *,
    release_id: str | None = None,
    repeatable: bool = False,
) -> Iterator[OpenDebit]:
    """Open a release: refuse it, or debit it durably and let the block draw.

    Without an account nothing is recorded and the certificate says so. The same `release_id` is debited once; it can
    be drawn once, unless the caller vows with `repeatable` that a second draw gives the very same value (noise keyed
    by the id). A block that raises after the draw began leaves the entry debited.
    """
    check_edges(draft.adjacency, charge)
    delta_upper = _certified_delta(charge, draft)
    ledger = None
    identifier, state, made_at = release_id or uuid4().hex, "debited", now()
    recorded, dataset, composition = NOT_RECORDED, "", "a single release, by its exact delta"
    if account is not None:
        ledger = Ledger(account.ledger)
        debit = ledger.debit(
            account.name,
            charge,
            draft.adjacency,
            what=draft.released,
            guarantee=draft.guarantee.kind,
            release_id=release_id,
        )
        identifier, state, made_at = debit.id, debit.state, debit.debited_at
        recorded, dataset, composition = account.name, debit.terms.dataset, debit.terms.composition
    certificate = Certificate.complete(
        draft, charge, release_id=identifier, released_at=made_at, composition=composition, delta_upper=delta_upper,
        account=recorded, dataset=dataset, library_version=version("gaussveil"),
    )  # fmt: skip
    opened = OpenDebit(ledger, state, certificate, repeatable)
    try:
        yield opened
    except BaseException:
        if not opened.drawn:
            opened.finish()
        else:
            LOGGER.warning("release %s failed after its draw began; it stays debited", identifier)
        raise
    opened.finish()


def _certified_delta(charge: Charge, draft: CertificateDraft) -> float:
    """Rigorous upper end for the pair and for the reduced form that the certificate stores; refused if too large."""
    own = Composition.of([(charge, 1)], symmetric=draft.adjacency.symmetric).delta_upper(draft.epsilon)
    upper = max(own, _stored_delta_upper(charge.to_json(), draft.epsilon, draft.adjacency.symmetric))
    if upper > draft.delta:
        raise AssumptionError(
            f"the charge allows delta {upper:.17g} at epsilon {draft.epsilon:g}, sampler error included, but the "
            f"certificate would claim {draft.delta:.17g}; nothing was drawn or spent. "
            "Calibrate to delta minus (1 + e^epsilon) times the sampler error"
        )
    return upper


@lru_cache(maxsize=4096)
def _stored_delta_upper(stored: str, epsilon: float, symmetric: bool) -> float:
    return Composition.of([(Charge.from_json(stored), 1)], symmetric=symmetric).delta_upper(epsilon)
