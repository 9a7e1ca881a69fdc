"""Cumulants of a charge at one order, both directions: what Renyi filters and Chernoff bounds add up."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Part
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.profiles import PrivacyProfile, profile_from_dict

NEGLIGIBLE = 1e-25  # tail mass of a profile that is charged as sampler error instead of entering K
CELLS = 4096


def log_chernoff(order: float) -> float:
    """log max_u (1 - e^-u) e^(-s u): log delta(epsilon) <= K(s) - s epsilon + this (derived: docs/ledger)."""
    return order * math.log(order) - (1 + order) * math.log1p(order)


def cumulants(part: Part, order: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """K(s) in both directions per edge, and the mass at infinity that goes with a profile's K."""
    if isinstance(part.source, PrivacyLoss):
        ahead = np.asarray(part.source.cumulant(order), dtype=np.float64)
        back = np.asarray(part.source.reversed().cumulant(order), dtype=np.float64)
        return part.count * ahead, part.count * back, 0.0
    stored = canonical_json(part.source.to_dict())
    ahead_value, ahead_tail = _profile_cumulant(stored, order, False)
    back_value, back_tail = _profile_cumulant(stored, order, True)
    tail = part.count * max(ahead_tail, back_tail)
    return np.asarray(part.count * ahead_value), np.asarray(part.count * back_value), tail


@lru_cache(maxsize=1024)
def _profile_cumulant(stored: str, order: float, backward: bool) -> tuple[float, float]:
    profile = profile_from_dict(json.loads(stored))
    return profile_cumulant(profile.reversed() if backward else profile, order)


def profile_cumulant(profile: PrivacyProfile, order: float) -> tuple[float, float]:
    """Upper end of K(s) of a profile, and the tail mass left out of it (charge it like a sampler error).

    e^K = 1 + s(s+1) [ int_1^A a^(s-1) H_a(X||Y) da + int_1^inf a^(-s-2) H_a(Y||X) da ], and H is convex in a, so
    chords between nodes bound it from above (derived: docs/ledger).
    """
    floor = float(profile.delta(1e6)) * (1 + 1e-9)
    end = float(profile.epsilon(max(NEGLIGIBLE, floor)))
    if not math.isfinite(end) or order * end > 600:
        return math.inf, 0.0
    slack = 1 + profile.relative_error
    total = 0.0
    if end > 0:
        nodes = _nodes(end)
        total += _chord_integral(nodes, np.asarray(profile.delta(nodes)) * slack, order)
    # The other direction's weight a^(-s-2) falls by itself: past this point it is bounded by its last height.
    last = 40.0 / (1 + order)
    nodes = _nodes(last)
    other = np.asarray(profile.reversed().delta(nodes)) * slack
    total += _chord_integral(nodes, other, -order - 1) + float(other[-1]) * math.exp(-40.0) / (1 + order)
    return math.log1p(order * (1 + order) * total * (1 + 1e-6)), float(profile.delta(end)) * slack


def _nodes(end: float) -> NDArray[np.float64]:
    """Nodes from 0 to `end`, denser towards 0."""
    return np.expm1(np.linspace(0.0, math.log1p(end), CELLS + 1))


def _chord_integral(nodes: NDArray[np.float64], heights: NDArray[np.float64], power: float) -> float:
    """Integral over a = e^x of a^(power-1) times the chords, linear in a, that join `heights` at the nodes x."""
    ends = np.exp(nodes)
    weight = np.diff(np.exp(power * nodes)) / power
    first_moment = np.diff(np.exp((power + 1) * nodes)) / (power + 1)
    share = (first_moment - ends[:-1] * weight) / np.diff(ends)
    # The heights fall, so a share that rounding made too large would lower the sum.
    return float(np.sum(heights[:-1] * weight + np.diff(heights) * np.maximum(share, 0.0) * (1 - 1e-6)))
