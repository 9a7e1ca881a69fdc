"""Cumulants and Renyi divergences of charges, both directions: what filters and Chernoff bounds add up."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gaussveil.accounting.canonical import canonical_json
from gaussveil.accounting.charge import Part
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.mixtures import GaussianMixture, PublicChoice
from gaussveil.spectrum.profiles import Laplace, PoissonSubsampled, PrivacyProfile, profile_from_dict
from gaussveil.spectrum.renyi_bounds import RenyiBound, ZeroConcentrated
from gaussveil.spectrum.subsampled.composed import step_of
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch, _once
from gaussveil.typing import Floats

NEGLIGIBLE = 1e-25  # tail mass of a profile that is charged as sampler error instead of entering K
CELLS = 4096
ORDERS = (1.01, 1.03, 1.06, *(1 + k / 10.0 for k in range(1, 100)), *range(11, 64), 72, 90, 128, 180, 256, 512, 1024)
MOST = 1e12  # of a divergence that is looked at
ROUNDED_UP = 1.0 + 1e-12
FAR = 590.0  # a loss times an order whose exponential is computed
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


def renyi_bound(parts: Sequence[tuple[Any, int]]) -> RenyiBound | None:
    """Divergences of all parts together, in the worse direction of each, at orders at which they are finite, if any."""
    own = {order for source, _ in parts if isinstance(source, RenyiBound) for order in source.orders}
    found = []
    for order in sorted(own | set(ORDERS)):
        at = math.fsum(count * renyi_upper(source, order) for source, count in parts) * ROUNDED_UP
        found += [(float(order), at)] * (at < MOST)
    return RenyiBound(*zip(*found)) if found else None


def renyi_upper(source: Any, order: float) -> float:
    """Upper end of the Renyi divergence of an order above 1, in the worse direction."""
    if isinstance(source, ZeroConcentrated):
        return (source.xi + source.rho * order) * ROUNDED_UP
    if isinstance(source, RenyiBound):
        return min((at for known, at in zip(source.orders, source.divergences) if known >= order), default=math.inf)
    if isinstance(source, Laplace):  # Mironov 2017, Proposition 6
        shift, power = source.shift_over_scale, 2.0 * order - 1.0
        gain = math.log1p((order - 1.0) / power * math.expm1(-shift * power)) / (order - 1.0)
        return (shift + gain) * ROUNDED_UP + 1e-15 * shift
    step = step_of(source)
    curve = _once(step) if step is not None else source
    if isinstance(curve, PrivacyLoss | SubsampledLoss):
        return float(max(np.max(side.renyi(order)) for side in (curve, curve.reversed()))) * ROUNDED_UP
    return max(_profile_renyi(side, order - 1.0) for side in (source, source.reversed()))


def _profile_renyi(profile: PrivacyProfile, s: float) -> float:
    """`profile_cumulant` and what that leaves out: up to the largest loss, or by Markov's bound of the largest move."""
    largest, steepest = float(profile.largest_loss), _steepest(profile)
    if profile.infinity > 0.0 or largest == steepest == math.inf:
        return math.inf
    end = float(_curve(canonical_json(profile.to_dict()))[0][-1])
    if largest < math.inf:
        low = min(s, FAR / max(end, 1e-9))  # beyond it e^K grows by at most e^l for each order
        found, height = profile_cumulant(profile, low)
        rest = math.log1p(low) + math.log(height) + low * largest if height else -math.inf
        return min((float(np.logaddexp(found, rest)) + (s - low) * largest) / s * ROUNDED_UP, largest)
    found, _ = profile_cumulant(profile, s)
    t = max(s + 1.0, end / steepest**2 - 0.5)
    rest = math.log(s * (1.0 + s) / (t - s)) + 0.5 * steepest**2 * t * (t + 1.0) - (t - s) * end
    return float(np.logaddexp(found, rest)) / s * ROUNDED_UP


def _steepest(profile: Any) -> float:
    """The largest mean shift of what a profile mixes: alone it would have larger divergences."""
    if isinstance(profile, PublicChoice):
        return max(_steepest(part) for part in profile.parts)
    if isinstance(profile, GaussianMixture):
        return max(profile.shifts)
    if isinstance(profile, FixedSizeBatch | ReplacedInBatch):
        return 2.0 / profile.noise_multiplier * ROUNDED_UP
    base = profile.base if isinstance(profile, PoissonSubsampled) else None
    if not isinstance(base, PrivacyLoss) or np.any(base.variance_gap):
        return math.inf
    return math.sqrt(float(np.max(np.sum(base.energy, axis=-1)))) * ROUNDED_UP
