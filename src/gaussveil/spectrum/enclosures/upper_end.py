"""An upper end of delta by doubles alone, with a bound on all that they lose: a fraction of a millisecond.

The rule of `BallIntegral`, its nodes summed in doubles (proofs.h; derived: docs/math/spectrum). Whoever needs no more
than one part in 1e10 asks here first; nothing is said where that is not proven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussveil.spectrum.condensed import LONG
from gaussveil.spectrum.enclosures.exact import ExactSource, ExactTerms
from gaussveil.spectrum.selection import compiled_contour

AIM = 40.0  # -log of the relative error that a rule is asked for
TIGHT = 1e-10  # relative width up to which a sum in doubles is an answer
VANISHING = -1e3  # a log delta far below the smallest double, which is then the answer
LIMIT_UP = 1 + 2.0**-50  # raises the end of K's domain above its roundings


@np.errstate(all="ignore")
def upper_end(sources: Sequence[ExactSource], epsilon: float) -> float:
    """At least delta(epsilon) of the composition of exact terms, by less than one part in 1e10; infinite if unknown."""
    columns = [_terms_of(source) for source in sources]
    exact = [terms for terms in columns if terms is not None]
    if len(exact) < len(columns):
        return math.inf
    gap, number, energy, logs = (
        np.concatenate(column, axis=-1) for column in zip(*exact)
    )
    native = compiled_contour(gap, 1)
    curved = gap != 0
    if native is None or gap.ndim != 1 or len(gap) >= LONG:
        return math.inf
    flat = math.fsum(energy[~curved])
    log_ratio = math.fsum(logs[curved])
    limit = max(-float(np.min(gap)), 0.0) * LIMIT_UP
    rule = (
        -log_ratio / 2 - epsilon,
        math.fsum(np.abs(logs[curved])) / 2 + epsilon,
        flat,
        0,
        0,
        0,
        limit,
        AIM,
    )
    *_, error, total, rounding, level, _ = native.hyperbola(
        (gap[curved], number[curved], energy[curved]), *rule
    )
    if not epsilon >= 0.0:
        return math.inf
    return _scaled_end(total, error / math.pi + rounding, level)


def _scaled_end(total: float, loose: float, level: float) -> float:
    """The upper end of (total +- loose) e^level; infinite where what is loose is too much."""
    if level > VANISHING:
        allowed = TIGHT
    else:
        allowed = 1.0
    if not (loose <= allowed * total and level < 700.0):
        return math.inf
    return float(
        min(max((total + loose) * math.exp(level) * (1 + 2.0**-48), math.ulp(0.0)), 1.0)
    )


def _terms_of(source: ExactSource) -> tuple[Any, Any, Any, Any] | None:
    """Gaps, multiplicities, energies and logs of ratios of exact terms; None of matrices, and of arrays elsewhere."""
    origin = source.origin
    if not isinstance(origin, ExactTerms):
        return None
    gap = origin.variance_gap
    if not isinstance(gap, np.ndarray):
        return None
    number = origin.multiplicity * source.count
    energy = origin.energy * source.count
    if origin.mean_gap is not None:
        energy = origin.mean_gap * origin.mean_gap * number
    logs = number * np.log1p(-gap)
    if source.swapped:  # measured where X is standard
        logs = -logs
        energy = energy / (1 - gap)
        gap = -gap / (1 - gap)
    return gap, number, energy, logs
