"""Distributions of privacy losses of dp_accounting, as probabilities of answers with and without the record."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.typing import Floats

ONE_SIDED = "_pmf_remove"
OTHER_SIDE = "_pmf_add"
CERTAIN = 700.0  # a loss beyond which a probability without the record is no double: it counts as 0


class Tables(NamedTuple):
    """Probabilities with and without the record; `other` where those of the other direction are not these exchanged."""

    p: Any
    q: Any
    other: tuple[Any, ...] = ()


def is_table(given: Any) -> bool:
    """Whether it is a `PrivacyLossDistribution`."""
    return hasattr(given, ONE_SIDED) and hasattr(given, OTHER_SIDE)


def tables_of(given: Any) -> Tables:
    """Both directions of it: losses as they were rounded there, upwards, and nothing less."""
    ahead = _table(getattr(given, ONE_SIDED))
    back = _table(getattr(given, OTHER_SIDE))
    return Tables(*ahead, back)


def _table(masses: Any) -> tuple[Floats, Floats]:
    """Probabilities of one direction; what is missing in 1 counts as an infinite loss."""
    if not getattr(masses, "_pessimistic_estimate", False):
        raise ParameterError(
            "a privacy loss distribution must be pessimistic. Got an optimistic one, which may be below the truth."
        )
    index, mass = _columns(masses)
    losses = index * float(masses._discretization)
    kept = mass > 0.0
    losses = losses[kept]
    mass = mass[kept]
    with np.errstate(over="ignore", under="ignore"):
        without = np.where(losses < CERTAIN, mass * np.exp(-losses), 0.0)
    without *= 1.0 - 2.0**-48  # so that no loss is rounded down
    total = float(without.sum())
    without /= max(total, 1.0)
    missing = max(1.0 - float(mass.sum()), float(masses._infinity_mass), 0.0)
    p = np.append(mass, [missing, 0.0])
    q = np.append(without, [0.0, max(1.0 - float(without.sum()), 0.0)])
    return p / p.sum(), q / q.sum()


def _columns(masses: Any) -> tuple[Floats, Floats]:
    """Losses, in grid steps, and their probabilities, of a dense or a sparse table."""
    if hasattr(masses, "_loss_probs"):
        pairs = sorted(masses._loss_probs.items())
        columns = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]
    probabilities = np.asarray(masses._probs, dtype=np.float64)
    return float(masses._lower_loss) + np.arange(
        float(probabilities.size)
    ), probabilities
