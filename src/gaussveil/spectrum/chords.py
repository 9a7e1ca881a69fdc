"""Cumulants and Renyi divergences of a curve of which only delta is known: chords between nodes bound it from above.

e^K = 1 + s(s+1) [ int_1^A a^(s-1) H_a(X||Y) da + int_1^inf a^(-s-2) H_a(Y||X) da ], and H is convex in a, so that
chords between its nodes are nowhere below it (derived: docs/ledger).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaussveil.spectrum.constants import ROUNDED_UP
from gaussveil.typing import Floats

NEGLIGIBLE_TAIL = (
    1e-25  # tail mass of a curve that is charged as sampler error instead of entering K
)
CHORDS = 4096
SUMMED_UP = 1.0 + 1e-6  # more than the roundings of a sum over all cells
LARGEST_EXPONENT = 600.0  # of what is summed over nodes
LARGEST_POWER = 590.0  # a loss times an order whose exponential is computed
SHORT = 1e-4  # of a cell, times its power: below it the middle of a chord is bounded instead of computed
BEYOND_ALL = 1e6  # an epsilon at which a curve has reached its limit


class Chords(NamedTuple):
    """Epsilons from 0 to where next to nothing is left, denser towards 0, and upper ends of delta there."""

    nodes: Floats
    heights: Floats


def chords_of(curve: Any) -> Chords:
    """The nodes of one direction of a curve."""
    floor = float(curve.delta(BEYOND_ALL)) * (1 + 1e-9)
    end = float(curve.epsilon(max(NEGLIGIBLE_TAIL, floor)))
    if end > 0:
        nodes = np.expm1(np.linspace(0.0, math.log1p(end), CHORDS + 1))
    else:
        nodes = np.zeros(1)
    nodes[-1] = end  # rounding below it would leave mass that is not there
    return Chords(nodes, np.asarray(curve.delta(nodes)) * (1 + curve.relative_error))


def cumulant_upper(curve: Any, order: float) -> tuple[float, float]:
    """Upper end of K(s) of a curve, and the tail mass left out of it (charge it like a sampler error)."""
    ahead = curve.chord_nodes
    back = curve.reversed().chord_nodes
    if order * ahead.nodes[-1] > LARGEST_EXPONENT:
        return math.inf, 0.0
    total = _integral(ahead, order) + _integral(back, -order - 1)
    # Past its last node the other direction is at most its last height, and its weight falls by itself.
    total += (
        float(back.heights[-1]) * math.exp(-(1 + order) * back.nodes[-1]) / (1 + order)
    )
    return math.log1p(order * (1 + order) * total * SUMMED_UP), float(ahead.heights[-1])


def _integral(chords: Chords, power: float) -> float:
    """Integral over a = e^x of a^(power-1) times the chords, linear in a, that join the heights at the nodes x."""
    nodes, heights = chords
    start = np.exp(power * nodes[:-1])
    step = np.diff(nodes)
    growth = np.expm1(power * step) / power
    weight = start * growth
    moment = np.expm1((power + 1) * step) / (power + 1) - growth
    with np.errstate(divide="ignore", invalid="ignore"):
        share = start * np.maximum(moment, 0.0) / np.expm1(step)
    # On a short cell that difference is all rounding; there (e^u - 1)/(e^h - 1) >= e^-h u/h serves. The heights fall:
    # a share too large would lower the sum.
    reach = (1 + abs(power)) * step
    share = np.where(
        (reach < SHORT) | (step < SHORT**2), start * step / 2 * np.exp(-reach), share
    )
    return float(np.sum(heights[:-1] * weight + np.diff(heights) * share * (1 - 1e-6)))


def renyi_upper(curve: Any, order: float) -> float:
    """Upper end of the Renyi divergence of an order above 1: K/s and what it leaves out.

    Beyond the last node either the losses end, or Markov's bound of the largest move serves (docs/math/profiles).
    """
    s = order - 1.0
    largest = float(curve.largest_loss)
    steepest = float(curve.largest_shift)
    if curve.infinity > 0.0 or largest == steepest == math.inf:
        return math.inf
    end = float(curve.chord_nodes.nodes[-1])
    if largest < math.inf:
        low = min(
            s, LARGEST_POWER / max(end, 1e-9)
        )  # beyond it e^K grows by at most e^l for each order
        log_moment, height = cumulant_upper(curve, low)
        if height:
            rest = math.log1p(low) + math.log(height) + low * largest
        else:
            rest = -math.inf
        return min(
            (float(np.logaddexp(log_moment, rest)) + (s - low) * largest)
            / s
            * ROUNDED_UP,
            largest,
        )
    log_moment, _ = cumulant_upper(curve, s)
    t = max(s + 1.0, end / steepest**2 - 0.5)
    rest = (
        math.log(s * (1.0 + s) / (t - s))
        + 0.5 * steepest**2 * t * (t + 1.0)
        - (t - s) * end
    )
    return float(np.logaddexp(log_moment, rest)) / s * ROUNDED_UP
