"""A drop-in for dp_accounting: its PrivacyAccountant on our exact curves.

    event = dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
    ExactAccountant().compose(event).get_epsilon(1e-5)

jax_privacy takes it wherever it takes an accountant: in plans, in a `DpAccountantConfig`, or the class itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gaussveil.accounting.accountant import Accountant
from gaussveil.accounting.exchange.events import SPECIAL, charges_from_event, is_empty
from gaussveil.accounting.relation import RELATIONS
from gaussveil.errors import GaussveilError, MissingDependencyError, install

try:
    import dp_accounting
    from dp_accounting import NeighboringRelation
except ImportError as missing:
    raise MissingDependencyError(
        f"exchange needs dp_accounting: {install('exchange')}"
    ) from missing


class ExactAccountant(dp_accounting.PrivacyAccountant):
    """Epsilon and delta of composed events, on the private side; what is not private has epsilon infinity."""

    def __init__(
        self, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        super().__init__(neighboring_relation)
        relations = {
            NeighboringRelation.REPLACE_ONE: RELATIONS[1],
            NeighboringRelation.REPLACE_SPECIAL: SPECIAL,
        }
        self._relation = relations.get(neighboring_relation, RELATIONS[0])
        self._accountant = Accountant(RELATIONS[int(self._relation == RELATIONS[1])])
        self._open = False

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if isinstance(event, dp_accounting.ComposedDpEvent):
            return self._compose_all(event.events, count, do_compose)
        if isinstance(event, dp_accounting.SelfComposedDpEvent):
            return self._compose_all([event.event], count * event.count, do_compose)
        composes = do_compose and count > 0
        if isinstance(event, dp_accounting.NonPrivateDpEvent) or _is_bare(event):
            self._open |= composes
            return None
        try:
            charges = charges_from_event(event, relation=self._relation)
        except (
            GaussveilError,
            ArithmeticError,
            TypeError,
            ValueError,
        ) as error:  # parameters that are none
            return self.CompositionErrorDetails(
                invalid_event=event, error_message=str(error)
            )
        if composes:
            for charge, uses in charges:
                self._accountant.add(charge, uses * count)
        return None

    def _compose_all(self, events: Iterable[Any], count: int, do_compose: bool) -> Any:
        """All of them, whatever is wrong with one; the first that cannot be composed is told."""
        problems = [self._maybe_compose(event, count, do_compose) for event in events]
        return next((problem for problem in problems if problem is not None), None)

    def get_epsilon(self, target_delta: float) -> float:
        """Smallest epsilon at the delta."""
        if self._open:
            return float("inf")
        return self._accountant.epsilon(target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """Smallest delta at the epsilon."""
        if target_epsilon == math.inf and not self._open:
            sides = (self._accountant.loss, self._accountant.loss.reversed())
            return max(float(getattr(side, "infinity", 0.0)) for side in sides)
        if self._open:
            return 1.0
        return self._accountant.delta(target_epsilon)


def _is_bare(event: Any) -> bool:
    """Whether something of the data is shown without noise."""
    noise = [
        getattr(event, name, 1)
        for name in ("noise_multiplier", "noise_parameter", "standard_deviation")
    ]
    return not is_empty(event) and (
        0 in noise or (hasattr(event, "event") and _is_bare(event.event))
    )
