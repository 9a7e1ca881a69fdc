"""Cumulants and Renyi divergences of charges, both directions: what filters and Chernoff bounds add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gaussveil.accounting.charge import Part
from gaussveil.spectrum import PrivacyCurve
from gaussveil.spectrum.renyi_bounds import RenyiBound
from gaussveil.typing import Floats

ORDERS = (
    1.01,
    1.03,
    1.06,
    *(1 + k / 10.0 for k in range(1, 100)),
    *range(11, 64),
    72,
    90,
    128,
    180,
    256,
    512,
    1024,
)
MOST = 1e12  # of a divergence that is looked at
ROUNDED_UP = 1.0 + 1e-12


def log_chernoff(order: float) -> float:
    """log max_u (1 - e^-u) e^(-s u): log delta(epsilon) <= K(s) - s epsilon + this (derived: docs/ledger)."""
    return -order * math.log1p(1 / order) - math.log1p(order)


def cumulants(part: Part, order: float) -> tuple[Floats, Floats, float]:
    """Upper ends of K(s) in both directions per edge, and the mass at infinity that goes with a profile's K."""
    ahead, back, tail = cumulants_at(part, np.array([order]))
    return ahead[0], back[0], float(tail[0])


def cumulants_at(part: Part, orders: Floats) -> tuple[Floats, Floats, Floats]:
    """`cumulants` at many orders at once; the first axis runs over orders."""
    ahead, ahead_tail = part.source.cumulant_bounds(orders)
    back, back_tail = part.source.reversed().cumulant_bounds(orders)
    return (
        part.count * ahead,
        part.count * back,
        part.count * np.maximum(ahead_tail, back_tail),
    )


def renyi_bound(parts: Sequence[tuple[PrivacyCurve, int]]) -> RenyiBound | None:
    """Divergences of all parts together, in the worse direction of each, at orders at which they are finite, if any."""
    orders = sorted(
        {order for source, _ in parts for order in source.known_orders} | set(ORDERS)
    )
    kept = []
    divergences = []
    for order in orders:
        at = (
            math.fsum(count * renyi_upper(source, order) for source, count in parts)
            * ROUNDED_UP
        )
        if at < MOST:
            kept.append(float(order))
            divergences.append(at)
    if kept:
        return RenyiBound(tuple(kept), tuple(divergences))
    return None


def renyi_upper(source: PrivacyCurve, order: float) -> float:
    """Upper end of the Renyi divergence of an order above 1, in the worse direction."""
    sides = (source,) if source.symmetric else (source, source.reversed())
    return max(float(np.max(side.renyi(order))) for side in sides) * ROUNDED_UP
