"""The ridge that makes a Gaussian random projection private: NDIS section 5 on the private side.

A projection of D with ridge lambda has independent columns N(0, D'D + lambda I). A record v of norm at most l raises
one eigenvalue, by the factor 1 + v'(D'D + lambda I)^-1 v <= 1 + a with a = l^2/lambda, so the pair "r degrees of
freedom, ratio 1 + a" (NDIS Lemma 4) dominates in both directions and at every order, and is attained by an empty D
(corrections, N4). Its leverage is p = a/(1 + a). Solved here for a: the largest that keeps the promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gaussveil import checks
from gaussveil.calibration.gaussian import mean_shift_for
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.turns import turns
from gaussveil.typing import Floats

LARGEST_EXCESS = 2.0**20  # leverage 1 - 1e-6: a promise so loose needs no smaller ridge
SMALLEST_EXCESS = 1e-12
FAILURE_SHARES = (1e-4, 1e-2, 0.1)  # of delta, for a test that errs
CONFIDENCE = 0.95


def sketch_loss(excess: float, components: int, rank: int = 1) -> PrivacyLoss:
    """The dominating pair of `components` columns when a record adds at most `excess` ridges to the Gram matrix.

    A record of several rows, `rank` of them, moves up to `rank` eigenvalues whose excesses add up to at most `excess`:
    the i-th largest is at most excess/i (derived: docs/mechanisms/random_projection.md). X = with the record.
    """
    gaps = [excess] + [
        math.nextafter(excess / place, math.inf) for place in range(2, rank + 1)
    ]
    return PrivacyLoss.from_terms(
        [-part for part in gaps], [float(components)] * rank, [0.0] * rank
    )


def largest_excess(
    epsilon: float, delta: float, components: int, rank: int = 1
) -> float:
    """Largest a, up to a few parts in 10^13, for which `sketch_loss` is (epsilon, delta)-private, proven by Arb."""
    _check_promise(epsilon, delta, components, rank)
    return _largest_excess(float(epsilon), float(delta), int(components), int(rank))


def _check_promise(
    epsilon: float, delta: float, components: int, rank: int = 1
) -> None:
    checks.real("epsilon", epsilon, "[0, inf)")
    checks.real("delta", delta, "(0, 1)")
    checks.whole("components", components)
    checks.whole("rank", rank)


@lru_cache(maxsize=256)
def _largest_excess(epsilon: float, delta: float, components: int, rank: int) -> float:
    def is_private(excess: float) -> bool:
        loss = sketch_loss(excess, components, rank)
        return all(
            pair.enclose(epsilon).upper <= delta for pair in (loss, loss.reversed())
        )

    return _private_root(
        _log_gap(lambda excess: sketch_loss(excess, components, rank), epsilon, delta),
        is_private,
    )


@lru_cache(maxsize=1024)
def approximate_excess(epsilon: float, delta: float, components: int) -> float:
    """`largest_excess` in floating point alone, for plans and studies that compare many designs."""
    return _private_root(
        _log_gap(lambda excess: sketch_loss(excess, components), epsilon, delta),
        lambda _: True,
    )


def _log_gap(
    loss: Callable[[float], PrivacyLoss], epsilon: float, delta: float
) -> Callable[[float], float]:
    """log of (worse direction's delta)/delta as a function of log a."""

    def gap(log_excess: float) -> float:
        pair = loss(math.exp(log_excess))
        return max(
            float(pair.log_delta(epsilon)), float(pair.reversed().log_delta(epsilon))
        ) - math.log(delta)

    return gap


def _private_root(
    log_gap: Callable[[float], float], is_private: Callable[[float], bool]
) -> float:
    """The largest a at which an increasing function of log a is not positive, moved down until the proof succeeds."""
    if log_gap(math.log(SMALLEST_EXCESS)) > 0:
        raise ParameterError(
            "epsilon and delta must allow a leverage of at least 1e-12. Got a stricter promise: choose another one."
        )
    log_ridge = private_end(
        lambda log_ridge: Trial(log_gap(-log_ridge)),
        0.0,
        -math.log(LARGEST_EXCESS),
        -math.log(SMALLEST_EXCESS),
        rtol=1e-15,
        tolerance=1e-14,
    )
    excess = math.exp(-log_ridge)
    step = 1e-13
    while not is_private(excess):
        excess = excess * (1 - step)
        step = 4 * step
        if step > 1e-3:
            raise NumericalError(
                "no private ridge could be proven; choose a larger delta."
            )
    return excess


def tight_ridge(row_norm: float, excess: float, rank: int = 1) -> float:
    """Smallest double lambda with rank * row_norm^2 <= lambda * excess, exactly: l^2 (1/p - 1), corrections N4."""
    exact = rank * Fraction(row_norm) ** 2 / Fraction(excess)
    ridge = float(exact)
    if Fraction(ridge) >= exact:
        return ridge
    return math.nextafter(ridge, math.inf)


def subsampled_excess(
    epsilon: float, delta: float, components: int, rate: float, rank: int = 1
) -> float:
    """Largest a for the projection of a Poisson sample (NDIS Figure 3), by the exact profile of both directions."""
    _check_promise(epsilon, delta, components, rank)
    if not delta < rate <= 1:
        checks.refuse("rate", f"above delta = {delta:g} and at most 1", rate)

    def worst(excess: float) -> float:
        profile = PoissonSubsampled(sketch_loss(excess, components, rank), rate)
        return float(profile.dp_delta(epsilon)) * (1 + 2 * profile.relative_error)

    def log_gap(log_excess: float) -> float:
        return math.log(max(worst(math.exp(log_excess)), 1e-320) / delta)

    return _private_root(log_gap, lambda excess: worst(excess) <= delta)


@dataclass(frozen=True)
class ProposeTestRelease:
    """Propose-test-release, public part.

    `shift` is the test's mean shift, (sensitivity of the smallest eigenvalue)/(its noise); `excess` is a for the
    projection that follows; the test overestimates the eigenvalue with probability at most `failure`.
    """

    shift: float
    excess: float
    failure: float

    def loss(self, components: int) -> PrivacyLoss:
        """Test and projection together: pairs fixed beforehand compose exactly."""
        return _tested_loss(self.shift, self.excess, components)


def propose_test_release(
    epsilon: float,
    delta: float,
    components: int,
    *,
    shift: float | None = None,
    shares: tuple[float, ...] = FAILURE_SHARES,
) -> ProposeTestRelease:
    """The split between test, projection and failure for which the ridge vanishes from the smallest eigenvalue on.

    With p the leverage allowed and t = l^2/tau the test's mean shift, the ridge vanishes with probability 0.95 once the
    smallest eigenvalue exceeds l^2 (1/p + (z(1 - failure) + z(0.95))/t), z the normal quantile (corrections N3). That
    is minimised over t and over the share of delta that failures may cost, all public. A given `shift` is kept, and
    refused where the test alone spends the promise, eps_T >= epsilon: NDIS Figure 4 overspends there.
    """
    _check_promise(epsilon, delta, components)
    if shift is not None:
        checks.positive("shift", shift)
    return _propose_test_release(
        float(epsilon), float(delta), int(components), shift, shares
    )


@lru_cache(maxsize=64)
def _propose_test_release(
    epsilon: float,
    delta: float,
    components: int,
    shift: float | None,
    shares: tuple[float, ...],
) -> ProposeTestRelease:
    # Coarsely over all tests, then finely around the best one.
    if shift is None:
        shifts = mean_shift_for(epsilon, delta) * np.geomspace(
            0.02, 0.98, 25
        )  # all of which leave something over
    else:
        shifts = np.array([float(shift)])
    best = min(
        _best_split(shifts, share, epsilon, delta, components) for share in shares
    )
    if shift is None and math.isfinite(best[0]):
        best = _best_split(
            best[1] * np.geomspace(0.8, 1.25, 9), best[2], epsilon, delta, components
        )
    if not math.isfinite(best[0]):
        raise ParameterError(
            f"the test must cost less than the whole promise: its own epsilon must stay below epsilon = {epsilon:g}. "
            "Give the test more noise, or use the variant 'ridge'."
        )
    _, chosen, share = best
    ideal = delta * (1 - share) * (1 - 1e-15)

    def is_private(excess: float) -> bool:
        loss = _tested_loss(chosen, excess, components)
        return all(
            pair.enclose(epsilon).upper <= ideal for pair in (loss, loss.reversed())
        )

    gap = _log_gap(
        lambda excess: _tested_loss(chosen, excess, components), epsilon, ideal
    )
    return ProposeTestRelease(
        chosen, _private_root(gap, is_private), share * delta / (1 + math.exp(epsilon))
    )


def _best_split(
    shifts: Floats, share: float, epsilon: float, delta: float, components: int
) -> tuple[float, float, float]:
    """(smallest eigenvalue needed, in squared row norms; the test that needs it; the share of delta for failures)."""
    # A failed test moves either law by this total variation, which costs (1 + e^epsilon) times as much delta.
    failure = share * delta / (1 + math.exp(epsilon))
    quantiles = -float(ndtri(failure)) + float(ndtri(CONFIDENCE))
    excess = _excess_beside(shifts, epsilon, delta * (1 - share), components)
    with np.errstate(divide="ignore"):
        eigenvalue = 1 + 1 / excess + quantiles / shifts
    place = int(np.argmin(eigenvalue))
    return float(eigenvalue[place]), float(shifts[place]), share


def _tested_loss(shift: float, excess: float, components: int) -> PrivacyLoss:
    return PrivacyLoss.from_terms(
        [0.0, -excess], [1.0, float(components)], [shift * shift, 0.0]
    )


def _excess_beside(
    shifts: Floats, epsilon: float, room: float, components: int
) -> Floats:
    """For each test the largest a that fits beside it, to a few digits; 0 where none does."""

    def fits(log_excess: Floats) -> NDArray[np.bool_]:
        gap = np.stack([np.zeros(len(shifts)), -np.exp(log_excess)], axis=-1)
        energy = np.stack([shifts**2, np.zeros(len(shifts))], axis=-1)
        loss = PrivacyLoss.from_terms(
            gap, np.broadcast_to([1.0, float(components)], gap.shape), energy
        )
        return np.asarray(loss.dp_delta(epsilon)) <= room

    low = np.full(len(shifts), math.log(SMALLEST_EXCESS))
    high = np.full(len(shifts), math.log(LARGEST_EXCESS))
    possible = fits(low)
    largest, _ = turns(lambda log_excess: ~fits(log_excess), low, high, 16)
    return np.where(possible, np.exp(largest), 0.0)
