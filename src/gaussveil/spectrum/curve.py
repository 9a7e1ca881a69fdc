"""Privacy curves known in both orientations, and how any pair of distributions is read as one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gaussveil.errors import NumericalError
from gaussveil.spectrum.arguments import epsilon_array, probability_array
from gaussveil.spectrum.attack_risk import AttackRisk, tradeoff_of
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.typing import Floats

UNIT = float(np.finfo(np.float64).eps)
LARGEST_EPSILON = 1e6
LOSS_RELATIVE_ERROR = 1e-9  # what PrivacyLoss promises of its deltas even at the edge of its range


@runtime_checkable
class Divergence(Protocol):
    """What a pair of distributions must offer to be composed: both orientations of its hockey-stick divergence."""

    def delta(self, epsilon: Any) -> Any:
        """Divergence of X from Y at each epsilon >= 0."""

    def reversed(self) -> Divergence:
        """The same pair with X and Y exchanged."""


class Curve(AttackRisk):
    """Both orientations of a privacy curve on epsilon >= 0, and what follows from them."""

    @abstractmethod
    def _divergence(self, epsilon: Floats) -> Any:
        """Delta of X from Y at validated epsilons."""

    @abstractmethod
    def reversed(self) -> Curve:
        """The curve of Y from X."""

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of `delta`; 0 where its values are upper ends."""
        return 0.0

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss: the limit of `delta`."""
        return 0.0

    @property
    def largest_loss(self) -> float:
        """Largest finite loss, beyond which `delta` equals `infinity`."""
        return np.inf

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Divergence of X from Y at each `epsilon >= 0`."""
        return np.asarray(np.clip(self._divergence(epsilon_array(epsilon, np.zeros(()))), 0.0, 1.0)) + 0.0

    def tradeoff(self, type_one_error: ArrayLike) -> Floats:
        """Smallest type II error of a test of Y against X at the given type I error, or a little less."""
        return tradeoff_of(self, probability_array("type_one_error", type_one_error, np.zeros(())))[()]

    def dp_delta(self, epsilon: ArrayLike) -> Floats:
        """The worse of both directions: delta of (epsilon, delta)-differential privacy."""
        return np.maximum(self.delta(epsilon), self.reversed().delta(epsilon))

    def epsilon(self, delta: ArrayLike) -> Floats:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side; infinity where there is none."""
        asked = probability_array("delta", delta, np.zeros(()))
        solvable = asked > self.infinity * (1.0 + self.relative_error)
        target = np.where(solvable, asked, np.inf)
        low, high = np.full(target.shape, -1.0), np.ones(target.shape)
        while not np.all(private := self._upper(high) <= target):
            if np.max(high) > LARGEST_EPSILON:
                raise NumericalError(
                    f"epsilon at delta = {np.min(target)} exceeds {LARGEST_EPSILON}; ask for a larger delta"
                )
            high = np.where(private, high, 2.0 * high)
        for _ in range(12):  # 32 sections at a time: one call of delta costs little more for many points than for one
            points = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, 33)
            points[..., -1] = high
            index = np.argmax(self._upper(np.maximum(points, 0.0)) <= target[..., None], axis=-1)[..., None]
            low = np.take_along_axis(points, np.maximum(index - 1, 0), axis=-1)[..., 0]
            high = np.take_along_axis(points, index, axis=-1)[..., 0]
        limit = np.where(asked < self.infinity, np.inf, self.largest_loss)
        return np.where(solvable, np.maximum(high, 0.0), limit)

    def _upper(self, epsilon: Floats) -> Floats:
        return np.minimum(self.delta(epsilon) * (1.0 + self.relative_error), 1.0)

    def dp_epsilon(self, delta: ArrayLike) -> Floats:
        """Smallest epsilon of (epsilon, delta)-differential privacy, from the private side."""
        return np.maximum(self.epsilon(delta), self.reversed().epsilon(delta))


def worst_delta(pair: Divergence, epsilon: Floats) -> Floats:
    """Delta at each epsilon; of a batch of pairs the largest, which dominates them all."""
    if isinstance(pair, PrivacyLoss) and is_mean_shift(pair):
        return mean_shift_delta(float(np.sqrt(np.max(np.sum(pair.energy, axis=-1)))), epsilon)
    batch = len(getattr(pair, "batch_shape", ()))
    value = np.asarray(pair.delta(epsilon.reshape(epsilon.shape + (1,) * batch)), dtype=np.float64)
    return np.asarray(value.max(axis=tuple(range(-batch, 0)))) if batch else value


def is_mean_shift(loss: PrivacyLoss) -> bool:
    """Whether the closed form below serves (its cancellation grows as the shift shrinks)."""
    return bool(np.all(loss.variance_gap == 0.0) and np.max(np.sum(loss.energy, axis=-1)) >= 1e-6)


@np.errstate(over="ignore")  # of an epsilon beyond all losses
def mean_shift_delta(shift: float, epsilon: Floats) -> Floats:
    """Phi(-eps/t + t/2) - e^eps Phi(-eps/t - t/2), t = shift (Balle, Wang 2018, Theorem 8), through Mills ratios."""
    near, far = epsilon / shift - shift / 2.0, epsilon / shift + shift / 2.0
    mills = np.sqrt(np.pi / 2.0) * (
        scipy.special.erfcx(np.maximum(near, 0.0) / np.sqrt(2.0)) - scipy.special.erfcx(far / np.sqrt(2.0))
    )
    tail = np.exp(-0.5 * near * near) / np.sqrt(2.0 * np.pi) * mills
    bulk = scipy.special.ndtr(-near) - np.exp(epsilon + scipy.special.log_ndtr(-far))
    return np.asarray(np.where(near > 0.0, tail, bulk))
