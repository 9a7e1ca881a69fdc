"""Smallest variance to add to a Gaussian-output algorithm: worst case over an envelope of pairs, on the private side.

A *sensitivity* tells, for every added variance, how far apart two neighbouring outputs can lie: the mean gap in
standard deviations of the narrower noised law, and the largest log-ratio of variances. Both fall as the variance grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from gaussveil import checks
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.envelope import (
    LARGEST_GAP,
    LARGEST_LOG_RATIO,
    GaussianEnvelope,
    best_mixing,
)
from gaussveil.spectrum.envelope_search import (
    dominating_pair,
    feasible_log_delta,
    supremum,
)
from gaussveil.spectrum.turns import surrounded, turn

Sensitivity = Callable[[float], tuple[float, float]]

RELATIVE_STEP = 2.0**-13  # of the added variance: how far beyond its root it may lie
LOOSE = 2.0**-9
LARGEST_STEP = 20.0
LOG_DELTA_ROUNDING = 1e-12  # of logarithms of delta
LARGEST_VARIANCE = 2.0**100


@lru_cache(maxsize=128)
def variance_for_envelope(
    sensitivity: Sensitivity, rank: int, epsilon: float, delta: float, *, wider: str
) -> tuple[float, GaussianEnvelope]:
    """Smallest variance whose whole envelope has delta(epsilon) <= `delta` in both directions.

    The envelope returned proves it: its own certified supremum is what is compared with delta. `wider` names the law
    (X: with the record, Y: without) whose covariance is the larger one.
    """
    goal = math.log(delta)

    def shortfall(variance: float) -> float:
        """How far the worst feasible pair lies above delta: where this is positive nothing can be proven."""
        gap, log_ratio = _checked(sensitivity, variance)
        if gap > LARGEST_GAP or log_ratio > LARGEST_LOG_RATIO:
            return math.inf
        sides = [
            feasible_log_delta(gap, log_ratio, rank, epsilon, wide_first=side)
            for side in (True, False)
        ]
        return max(sides) - goal

    def envelope_at(variance: float) -> tuple[GaussianEnvelope, float]:
        gap, log_ratio = _checked(sensitivity, variance)
        # what the envelope answers at this epsilon is at most this
        worst = max(
            supremum(gap, log_ratio, rank, epsilon, wide_first=side)[1]
            for side in (True, False)
        )
        mixing = best_mixing(gap, log_ratio, rank, epsilon)
        return GaussianEnvelope(
            gap, log_ratio, rank, wider, mixing, epsilon
        ), worst - goal + LOG_DELTA_ROUNDING

    refused = smallest_variance(lambda variance: shortfall(variance) <= 0)
    envelope, excess = envelope_at(refused)
    if excess <= 0:
        return refused, envelope
    # one step along the slope of log delta usually suffices; the rest of the way is halved a few times
    slope = 1.0
    if refused > 0:
        fall = max(shortfall(refused) - shortfall(refused * 1.01), 1e-3)
        slope = fall / math.log(1.01)
    private = _proven(envelope_at, refused, excess / slope + RELATIVE_STEP)
    if private is None:
        raise NumericalError(
            f"no added variance could be proven private at epsilon {epsilon:g} and delta {delta:g}. "
            "Ask for a larger delta, or a smaller sensitivity."
        )
    return private


def _proven(
    envelope_at: Callable[[float], tuple[GaussianEnvelope, float]],
    refused: float,
    step: float,
) -> tuple[float, GaussianEnvelope] | None:
    """A variance beyond one that is refused whose envelope proves it, close to the least; None if none is near."""
    while True:
        private = refused * math.exp(step) if refused > 0 else step
        envelope, excess = envelope_at(private)
        if excess <= 0:
            break
        if step > LARGEST_STEP:
            return None
        refused = private
        step = 2 * step
    if refused == 0.0:
        return private, envelope
    proofs = {private: envelope}

    def is_proven(variance: float) -> bool:
        nearer, excess = envelope_at(variance)
        if excess <= 0:
            proofs[variance] = nearer
        return excess <= 0

    near = turn(is_proven, refused, private, rtol=LOOSE, by_ratio=True)
    return near.after, proofs[near.after]


def variance_for_pair(
    pair: Callable[[float], PrivacyLoss], epsilon: float, delta: float
) -> tuple[float, PrivacyLoss]:
    """Smallest variance at which `pair(variance)` has delta(epsilon) <= `delta`, both directions.

    Proven by Arb enclosures of the very doubles returned.
    """

    def is_private(variance: float) -> bool:
        loss = pair(variance)
        return all(
            float(side.delta(epsilon)) <= delta for side in (loss, loss.reversed())
        )

    private = smallest_variance(is_private)
    step = 2.0**-48
    while any(
        side.enclose(epsilon).upper > delta
        for side in (pair(private), pair(private).reversed())
    ):
        if private > 0:
            private = private * (1 + step)
        else:
            private = RELATIVE_STEP
        step = 2 * step
    return private, pair(private)


def variance_for_dominating_pair(
    sensitivity: Sensitivity, rank: int, epsilon: float, delta: float, *, wider: str
) -> tuple[float, PrivacyLoss]:
    """As `variance_for_envelope`, for the dominating pair of corrections N2: more variance, one Gaussian pair.

    `wider` must be "X" or "Y": a pair has one orientation.
    """
    checks.one_of("wider", wider, ("X", "Y"))

    def pair(variance: float) -> PrivacyLoss:
        gap, log_ratio = _checked(sensitivity, variance)
        gap = min(gap, LARGEST_GAP)
        log_ratio = min(log_ratio, LARGEST_LOG_RATIO)
        wide = dominating_pair(
            gap, log_ratio, rank, best_mixing(gap, log_ratio, rank, epsilon)
        )
        if wider == "Y":
            return wide.reversed()
        return wide

    private, loss = variance_for_pair(pair, epsilon, delta)
    gap, log_ratio = _checked(sensitivity, private)
    if gap > LARGEST_GAP or log_ratio > LARGEST_LOG_RATIO:
        raise ParameterError(
            "delta must be smaller: laws this far apart offer no privacy worth the name."
        )
    return private, loss


def smallest_variance(is_private: Callable[[float], bool]) -> float:
    """First variance found private, within 2^-16 of the last one that is not; 0 if that is enough."""
    if is_private(0.0):
        return 0.0
    low, high = surrounded(
        is_private,
        1.0,
        factor=4.0,
        least=1.0 / LARGEST_VARIANCE,
        most=LARGEST_VARIANCE,
    )
    if high == math.inf:
        raise ParameterError(
            "no added variance suffices: check that the sensitivity falls as the variance grows."
        )
    if low == 0.0:
        return high
    return turn(is_private, low, high, rtol=2.0**-16, by_ratio=True).after


def _checked(sensitivity: Sensitivity, variance: float) -> tuple[float, float]:
    gap, log_ratio = (float(value) for value in sensitivity(variance))
    if math.isnan(gap) or math.isnan(log_ratio) or gap < 0 or log_ratio < 0:
        raise ParameterError(
            f"mean_gap and log_ratio must not be negative or NaN. Got {gap!r} and {log_ratio!r} "
            f"at an added variance of {variance!r}."
        )
    return gap, log_ratio
