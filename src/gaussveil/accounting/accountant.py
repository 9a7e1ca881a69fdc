"""`Accountant`: the privacy of a training run or of any list of releases, and the noise that a promise needs.

Pairs and steps share one contour integral, all else joins on a grid; answers are on the private side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from gaussveil.accounting.charge import Charge, LossOrProfile
from gaussveil.accounting.composition import UNDERFLOW, WorseOrientation, is_asymmetric, largest_loss
from gaussveil.accounting.cumulants import renyi_bound, renyi_upper
from gaussveil.accounting.matrix_mechanism import RELATIONS, MatrixMechanism, shift_of
from gaussveil.checks import one_of, real, refuse, whole
from gaussveil.errors import ParameterError
from gaussveil.shown import Shown
from gaussveil.spectrum import Enclosure, GaussianPair, PrivacyLoss
from gaussveil.spectrum.attack_risk import GaussianDP
from gaussveil.spectrum.curve import Curve
from gaussveil.spectrum.enclosures.interval import exp_up, log_down
from gaussveil.spectrum.mixtures import GaussianMixture
from gaussveil.spectrum.profiles import PoissonSubsampled, PrivacyProfile
from gaussveil.spectrum.renyi_bounds import RenyiBound, ZeroConcentrated
from gaussveil.spectrum.roots import brent
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.composed import SMALLEST_RATE, composed, lower_end
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.loss import ENDS, SubsampledLoss, stored
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import Step

NOISE_RANGE = (1e-2, 1e6)
FINEST = 1e-10  # relative width to which a noise multiplier is searched


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Gaussian noise; `noise_multiplier` is its standard deviation over how far a neighbour can move the value."""

    noise_multiplier: float | None = None

    def source(self, relation: str) -> LossOrProfile:
        """A mean shift of 1 / noise_multiplier."""
        return GaussianPair.mean_shift(shift_of(self))


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """One step of DP-SGD: the clipped gradients of a random batch are summed and noised.

    `noise_multiplier` is the standard deviation over the clipping norm; each record takes part with probability
    `sampling_rate`, independently of all others. With `fixed_size` that is the batch's share of all records, drawn
    without replacement, and one record is replaced.
    """

    noise_multiplier: float | None = None
    sampling_rate: float
    fixed_size: bool = False

    def source(self, relation: str) -> LossOrProfile | Step:
        """A mixture against the noise alone; against another mixture where a record is replaced."""
        shift, rate = shift_of(self), real("sampling_rate", self.sampling_rate, "(0, 1]")
        if self.fixed_size:
            one_of("relation", relation, RELATIONS[1:])
            return FixedSizeBatch(real("noise_multiplier", self.noise_multiplier), max(rate, 1e-9))
        if rate == 1.0:
            return GaussianPair.mean_shift(shift if relation == RELATIONS[0] else 2.0 * shift)
        if relation == RELATIONS[0]:
            exact = rate >= SMALLEST_RATE  # a profile holds 1 / noise_multiplier, rounded up
            noise = real("noise_multiplier", self.noise_multiplier)
            return Step(noise, rate) if exact else PoissonSubsampled(GaussianPair.mean_shift(shift), max(rate, 1e-12))
        return ReplacedInBatch(real("noise_multiplier", self.noise_multiplier), max(rate, 1e-9))


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """One pass of `steps` noisy sums of clipped gradients; each record is in exactly `takes`, drawn uniformly."""

    noise_multiplier: float | None = None
    steps: int
    takes: int = 1

    def source(self, relation: str) -> LossOrProfile:
        """The profile of all steps together, for an added or removed record."""
        one_of("relation", relation, RELATIONS[:1])
        return RandomAllocation(1.0 / shift_of(self) * (1.0 - 1e-15), self.steps, self.takes)


ONCE = Gaussian()
FAINTER = 1.0 - 2.0**-48  # more than roundings of noise multipliers and shifts are
Mechanism = Gaussian | DPSGD | Allocation | MatrixMechanism


class Accountant(Shown):
    """Adds up releases; `epsilon`, `delta` and the attack risks speak of all of them together.

    Exact for a sequence fixed in advance (what is asked may follow earlier answers, the mechanisms not). With the
    relation "replace" one record is exchanged for another, by default one is added or removed.
    """

    def __init__(self, relation: str = RELATIONS[0]) -> None:
        self.relation = one_of("relation", relation, RELATIONS)
        self._parts: list[tuple[LossOrProfile | Step, int]] = []
        self._loss: PrivacyLoss | Curve | None = None

    def _brief(self) -> dict[str, str]:
        return {"releases": str(sum(count for _, count in self._parts)), "relation": self.relation}

    def add(self, mechanism: Mechanism | Charge | LossOrProfile, steps: int = 1) -> Accountant:
        """Count `steps` uses of a mechanism, a loss, a profile or a charge; the accountant itself is returned."""
        steps = whole("steps", steps, "[1, 9007199254740992]")
        if isinstance(mechanism, Charge):
            if mechanism.sampler_error or mechanism.draw_identities:
                raise ParameterError("charges must name no draw and no sampler error here: charge them to an account.")
            self._parts += [(self._checked(part.source), part.count * steps) for part in mechanism.parts]
        elif isinstance(mechanism, PrivacyLoss | PrivacyProfile):
            self._parts.append((self._checked(mechanism), steps))
        elif isinstance(mechanism, MatrixMechanism):
            self._parts += [(source, count * steps) for source, count in mechanism.sources(self.relation)]
        elif isinstance(mechanism, Mechanism):
            self._parts.append((mechanism.source(self.relation), steps))
        else:
            refuse("mechanism", "a DPSGD, a Gaussian, a privacy loss, a profile or a charge", mechanism)
        self._loss = None
        return self

    def _checked(self, source: LossOrProfile) -> LossOrProfile:
        """Refuse random batches that were accounted for other neighbours than this relation's."""
        kind = source.neighbours if isinstance(source, PrivacyProfile) else None
        if kind is not None and kind != ("replace" if self.relation == RELATIONS[1] else "add-remove"):
            raise ParameterError(
                f"random batches must be accounted for the relation {self.relation!r}. Got a profile for {kind!r}."
            )
        return source

    @property
    def charges(self) -> list[tuple[Charge, int]]:
        """What an account is charged for the same: charges with their counts."""
        return [(Charge(stored(one) if isinstance(one, Step) else one), count) for one, count in self._parts]

    @property
    def loss(self) -> PrivacyLoss | Curve:
        """The composed privacy curve; exact, or on a grid where profiles without a contour take part."""
        if self._loss is None:
            found = composed(self._oriented())
            self._loss = found if found is not None else PrivacyLoss.from_terms([0.0], [1.0], [0.0])
        return self._loss

    def _oriented(self) -> list[tuple[Any, int]]:
        """The parts; among several, where a record is replaced, each that is not symmetric either way round."""
        if self.relation == RELATIONS[0] or sum(count for _, count in self._parts) < 2:
            return list(self._parts)
        return [
            (WorseOrientation(one) if not isinstance(one, Step) and is_asymmetric(one) else one, count)
            for one, count in self._parts
        ]

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of (epsilon, delta)-differential privacy, on the private side."""
        real("delta", delta, "[0, 1]")
        found = float(np.max(self.loss.dp_epsilon(delta)))
        if isinstance(self.loss, PrivacyLoss | SubsampledLoss):
            return found
        worst = [(WorseOrientation(cast("Any", one)), count) for one, count in self._parts]
        others = [float(bound.epsilon(delta)) for bound in self._added()]
        return min(found, float(largest_loss(worst)) * (1.0 + 1e-15), *others)  # a grid's upper ends do not reach it

    def delta(self, epsilon: float) -> float:
        """Smallest delta of (epsilon, delta)-differential privacy, its error bound included."""
        real("epsilon", epsilon, "[0, inf)")
        loss = self.loss
        if isinstance(loss, PrivacyLoss):
            return float(_worse(loss, epsilon).upper)
        if isinstance(loss, SubsampledLoss):
            return float(exp_up(loss.log_dp_delta(epsilon)))
        if isinstance(loss, FixedSizeBatch):
            return loss.ends(epsilon)[1] + UNDERFLOW
        found = max(float(side.delta(epsilon)) * (1.0 + side.relative_error) for side in (loss, loss.reversed()))
        return min(found, 1.0, *(float(bound.delta(epsilon)) for bound in self._added()))

    def _added(self) -> list[RenyiBound]:
        """Divergences added up, which may say more than a grid where nothing else is known of a part; or nothing."""
        bound = any(isinstance(one, ZeroConcentrated | RenyiBound) for one, _ in self._parts)
        return [found] if bound and (found := renyi_bound(self._parts)) else []

    def enclose(self, epsilon: float) -> Enclosure:
        """Rigorous ends of delta(epsilon); where there is a grid the lower one is that of the parts that have one."""
        real("epsilon", epsilon, "[0, inf)")
        fainter = [(_fainter(one), count) for one, count in self._parts]
        if isinstance(self.loss, PrivacyLoss | SubsampledLoss):
            found = low = _worse(self.loss, epsilon)
            if fainter != self._parts:
                low = _worse(cast("PrivacyLoss | SubsampledLoss", composed(fainter)), epsilon)
            return Enclosure(low.lower, found.upper, low.log_lower, found.log_upper)
        ends = lower_end(fainter, epsilon), self.delta(epsilon)
        return Enclosure(*ends, *(math.log(end) if end else -math.inf for end in ends))

    def tradeoff(self, type_one_error: Any) -> Any:
        """Smallest type II error of any test at the given type I error, in the worse direction."""
        return np.minimum(self.loss.tradeoff(type_one_error), self.loss.reversed().tradeoff(type_one_error))[()]

    def advantage(self) -> float:
        """Largest true-positive rate less false-positive rate of any attack."""
        return self.delta(0.0)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Largest true-positive rate of any attack with the given false-positive rate."""
        return float(np.max(self.loss.true_positive_rate(false_positive_rate)))

    def mu(self, smallest_delta: float = 1e-10) -> GaussianDP:
        """Smallest Gaussian-DP curve above this one, down to `smallest_delta`, with its regret."""
        return self.loss.mu(smallest_delta)

    def renyi(self, order: float) -> float:
        """Renyi divergence of an order above 1, in the worse direction; an upper end where profiles take part."""
        real("order", order, "(1, inf)")
        if isinstance(self.loss, PrivacyLoss | SubsampledLoss):
            return float(max(np.max(side.renyi(order)) for side in (self.loss, self.loss.reversed()))) * (1.0 + 1e-13)
        return math.fsum(count * renyi_upper(one, order) for one, count in self._parts) * (1.0 + 1e-15)

    def _curve(self) -> PrivacyLoss | Curve:
        return self.loss


def calibrate(
    mechanism: Mechanism = ONCE,
    *,
    steps: int = 1,
    epsilon: float | None = None,
    delta: float | None = None,
    true_positive_rate: float | None = None,
    at: float | None = None,
    advantage: float | None = None,
    relation: str = RELATIONS[0],
) -> float:
    """The smallest noise multiplier with which `steps` uses keep a promise, on the private side; also `noise_for`.

    The promise is `epsilon` with `delta`, a `true_positive_rate` that no attack exceeds `at` a false-positive rate, or
    a largest `advantage`.
    """
    if (epsilon is None) != (delta is None) or (true_positive_rate is None) != (at is None):
        raise ParameterError("promises must be complete: epsilon with delta, or true_positive_rate with at.")
    if sum(value is not None for value in (epsilon, true_positive_rate, advantage)) != 1:
        raise ParameterError("promises must be one of: epsilon and delta, true_positive_rate and at, advantage.")
    if not isinstance(mechanism, Mechanism):
        refuse("mechanism", "a DPSGD, a Gaussian, an Allocation or a MatrixMechanism", mechanism)

    def with_noise(noise: float) -> Accountant:
        return Accountant(relation).add(replace(mechanism, noise_multiplier=noise), steps)

    if epsilon is not None and delta is not None:
        level, goal = real("epsilon", epsilon, "[0, inf)"), log_down(real("delta", delta, "(0, 1)"))
        return _least_noise(lambda noise: math.log(with_noise(noise).delta(level) or 5e-324) - goal)
    if true_positive_rate is not None and at is not None:
        rate, place = real("true_positive_rate", true_positive_rate, "(0, 1)"), real("at", at, "(0, 1)")
        if rate <= place:
            refuse("true_positive_rate", "above the false-positive rate, which blind guessing reaches", rate)
        return _least_noise(lambda noise: with_noise(noise).true_positive_rate(place) * (1.0 + 1e-9) - rate)
    most = real("advantage", advantage, "(0, 1)")
    return _least_noise(lambda noise: with_noise(noise).delta(0.0) - most)


noise_for = calibrate  # of a single Gaussian release, unless another mechanism is given


def _worse(loss: PrivacyLoss | SubsampledLoss, epsilon: float) -> Enclosure:
    """Rigorous ends of the worse direction's delta; directions of mean shifts are alike."""
    if isinstance(loss, SubsampledLoss):
        return loss.dp_enclose(epsilon)
    sides = (loss, loss.reversed()) if np.any(loss.variance_gap) else (loss,)
    found = [side.enclose(epsilon) for side in sides]
    return Enclosure(*(max(float(np.max(getattr(side, end))) for side in found) for end in ENDS))


def _fainter(source: Any) -> Any:
    """For lower ends: a mean shift, or noise that is kept as one, no larger than it is; either was rounded outwards."""
    if isinstance(source, PoissonSubsampled):
        return replace(source, base=_fainter(source.base))
    if isinstance(source, GaussianMixture):
        return replace(source, shifts=tuple(max(shift * FAINTER, min(shift, 1e-4)) for shift in source.shifts))
    if isinstance(source, RandomAllocation):
        return replace(source, noise_multiplier=min(source.noise_multiplier / FAINTER, 1e3))
    if not isinstance(source, PrivacyLoss) or source.batch_shape or np.any(source.variance_gap):
        return source
    return GaussianPair.mean_shift(math.sqrt(math.fsum(source.energy)) * FAINTER)


def _least_noise(excess: Callable[[float], float]) -> float:
    """Smallest noise multiplier found with excess <= 0; the excess falls with the noise."""
    low, high = NOISE_RANGE[0], 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > NOISE_RANGE[1]:
            raise ParameterError("promises must be within reach of a noise multiplier below 10^6. This one is not.")
    while low == NOISE_RANGE[0] and high > 2.0 * low and excess(high / 2.0) <= 0.0:
        high /= 2.0
    low = max(low, high / 2.0)
    if excess(low) <= 0.0:
        return low
    root = math.exp(brent(lambda log: max(excess(math.exp(log)), -1e6), math.log(low), math.log(high), xtol=FINEST))
    step = FINEST * root
    while excess(root) > 0.0:
        root, step = min(root + step, high), 2.0 * step
    return float(root)
