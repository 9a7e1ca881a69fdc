"""Cumulants of a charge at one order, both directions: what Renyi filters and Chernoff bounds add up."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np

from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Part
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.profiles import PrivacyProfile, profile_from_dict
from gaussveil.typing import Floats

NEGLIGIBLE = 1e-25  # tail mass of a profile that is charged as sampler error instead of entering K
CELLS = 4096
SHORT = 1e-4  # of a cell, times its power: below it the middle of a chord is bounded instead of computed


def log_chernoff(order: float) -> float:
    """log max_u (1 - e^-u) e^(-s u): log delta(epsilon) <= K(s) - s epsilon + this (derived: docs/ledger)."""
    return -order * math.log1p(1 / order) - math.log1p(order)


def cumulants(part: Part, order: float) -> tuple[Floats, Floats, float]:
    """Upper ends of K(s) in both directions per edge, and the mass at infinity that goes with a profile's K."""
    ahead, back, tail = cumulants_at(part, np.array([order]))
    return ahead[0], back[0], float(tail[0])


def cumulants_at(part: Part, orders: Floats) -> tuple[Floats, Floats, Floats]:
    """`cumulants` at many orders at once; the first axis runs over orders."""
    if isinstance(part.source, PrivacyLoss):
        grid = orders.reshape(-1, *(1,) * len(part.source.batch_shape))
        ahead, back = (np.asarray(side.cumulant_upper(grid)) for side in (part.source, part.source.reversed()))
        return part.count * ahead, part.count * back, np.zeros(len(orders))
    both = [
        [profile_cumulant(side, float(order)) for order in orders] for side in (part.source, part.source.reversed())
    ]
    (ahead, ahead_tail), (back, back_tail) = (np.transpose(side) for side in both)
    return part.count * ahead, part.count * back, part.count * np.maximum(ahead_tail, back_tail)


def profile_cumulant(profile: PrivacyProfile, order: float) -> tuple[float, float]:
    """Upper end of K(s) of a profile, and the tail mass left out of it (charge it like a sampler error).

    e^K = 1 + s(s+1) [ int_1^A a^(s-1) H_a(X||Y) da + int_1^inf a^(-s-2) H_a(Y||X) da ], and H is convex in a, so chords
    between nodes bound it from above (derived: docs/ledger).
    """
    nodes, up = _curve(canonical_json(profile.to_dict()))
    other_nodes, down = _curve(canonical_json(profile.reversed().to_dict()))
    if order * nodes[-1] > 600:
        return math.inf, 0.0
    total = _chord_integral(nodes, up, order) + _chord_integral(other_nodes, down, -order - 1)
    # Past its last node the other direction is at most its last height, and its weight falls by itself.
    total += float(down[-1]) * math.exp(-(1 + order) * other_nodes[-1]) / (1 + order)
    return math.log1p(order * (1 + order) * total * (1 + 1e-6)), float(up[-1])


@lru_cache(maxsize=256)
def _curve(stored: str) -> tuple[Floats, Floats]:
    """Nodes from 0 to where next to nothing is left, denser towards 0, and upper ends of the profile's delta there."""
    profile = profile_from_dict(json.loads(stored))
    floor = float(profile.delta(1e6)) * (1 + 1e-9)
    end = float(profile.epsilon(max(NEGLIGIBLE, floor)))
    nodes = np.expm1(np.linspace(0.0, math.log1p(end), CELLS + 1)) if end > 0 else np.zeros(1)
    nodes[-1] = end  # rounding below it would leave mass that is not there
    return nodes, np.asarray(profile.delta(nodes)) * (1 + profile.relative_error)


def _chord_integral(nodes: Floats, heights: Floats, power: float) -> float:
    """Integral over a = e^x of a^(power-1) times the chords, linear in a, that join `heights` at the nodes x."""
    start, step = np.exp(power * nodes[:-1]), np.diff(nodes)
    growth = np.expm1(power * step) / power
    weight, moment = start * growth, np.expm1((power + 1) * step) / (power + 1) - growth
    with np.errstate(divide="ignore", invalid="ignore"):
        share = start * np.maximum(moment, 0.0) / np.expm1(step)
    # On a short cell that difference is all rounding; there (e^u - 1)/(e^h - 1) >= e^-h u/h serves. The heights fall:
    # a share too large would lower the sum.
    reach = (1 + abs(power)) * step
    share = np.where((reach < SHORT) | (step < SHORT**2), start * step / 2 * np.exp(-reach), share)
    return float(np.sum(heights[:-1] * weight + np.diff(heights) * share * (1 - 1e-6)))
