"""Upper ends of delta for charges, whether they are proven, and in which words people are told."""

from __future__ import annotations

from gaussveil.accounting.charge import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.errors import GaussveilError
from gaussveil.spectrum.work import limited_work

PROVEN = "rigorous upper end"
IN_DOUBLES = "computed in doubles, not proven; upper end"
REMEMBERED = 1024
SECONDS = 4.0  # of processor time for a charge that a stranger's file holds
AGREEMENT = 1e-9  # relative difference of two upper ends that is no contradiction

_KNOWN: dict[tuple[str, bool, float], tuple[float, bool]] = {}


def upper_end(
    charge: Charge, epsilon: float, enough: float, *, symmetric: bool
) -> float:
    """An upper end of the delta that a charge allows; one by doubles alone, but proven, where that is `enough`."""
    composition = Composition.of([(charge, 1)], symmetric=symmetric)
    upper = composition.delta_upper(epsilon, enough)
    if len(_KNOWN) >= REMEMBERED:
        _KNOWN.clear()
    _KNOWN[charge.digest, symmetric, epsilon] = (
        upper,
        composition.upper_within(epsilon, enough).proven,
    )
    return upper


def is_proven(
    charge: Charge, epsilon: float, stated: float, *, symmetric: bool
) -> bool:
    """Whether a stated upper end of delta is proven here; what was found for a charge before is remembered.

    Deltas of Gaussian pairs are always enclosed. Anything else is recomputed, within a budget of work.
    """
    if all(part.source.stored_as == "gaussian" for part in charge.parts):
        return True
    key = (charge.digest, symmetric, epsilon)
    if key not in _KNOWN:
        if not Composition.of([(charge, 1)], symmetric=symmetric).may_be_proven(
            epsilon
        ):
            return False
        try:
            with limited_work(SECONDS):
                upper_end(charge, epsilon, 0.0, symmetric=symmetric)
        except (GaussveilError, ArithmeticError, ValueError):
            return False
    upper, proven = _KNOWN[key]
    return proven and upper <= stated * (1 + AGREEMENT)


def words(*, proven: bool) -> str:
    """What an upper end of delta is called."""
    if proven:
        return PROVEN
    return IN_DOUBLES
