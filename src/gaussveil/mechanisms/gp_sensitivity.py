"""How far one record moves a Gaussian process's posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.gaussian_output import BOUND_RAISED
from gaussveil.spectrum import PrivacyLoss
from gaussveil.typing import Floats

LARGEST_FEATURE = 2.0**300  # beyond it distances overflow
ERROR_UNITS = 16.0  # of a kernel's entries: so many are paid for with the other arithmetic, more are added to it
CELL_GAP = (
    2.0**-14
)  # relative, between the certified maximum over p and the largest value found


@dataclass(frozen=True, kw_only=True)
class ProcessSensitivity:
    """How far apart two neighbours' laws lie at `points` query points together, by corrections N6.

    `kernel_bound` is l^2, `point_variance` is k(x*, x*). X is the law with the record (narrow), Y that without (wide).
    """

    point_variance: float
    kernel_bound: float
    observation_variance: float
    label_bound: float
    n_max: int
    points: int = 1

    def __call__(self, variance: float) -> tuple[float, float]:
        """Mean gap and log-ratio at an added variance."""
        prior = self.point_variance
        noise = self.observation_variance
        squared = self._largest(
            lambda low, high: prior * high / (prior * noise + variance * (low + noise))
        )
        return math.sqrt(self.points * squared) * BOUND_RAISED, -math.log1p(
            -self._shrinkage(variance)
        ) * BOUND_RAISED

    def pair(self, variance: float) -> PrivacyLoss:
        """One dominating pair at one point: N(R sqrt(tau - 1), tau) against N(0, 1), in units of the wide law."""
        gap = self._shrinkage(variance) * BOUND_RAISED
        return PrivacyLoss.from_terms(
            [gap], [1.0], [self._largest(lambda low, high: np.ones_like(low)) * gap]
        )

    def _shrinkage(self, variance: float) -> float:
        """1 - 1/tau at p = l^2."""
        share = self.kernel_bound / (self.kernel_bound + self.observation_variance)
        found = self.point_variance * share / (self.point_variance + variance)
        if found * BOUND_RAISED >= 1:
            raise ParameterError(
                "observation_variance must be larger against the kernel to be computed with. "
                f"Got {self.observation_variance!r}."
            )
        return found

    def _largest(self, factor: Callable[[Floats, Floats], Floats]) -> float:
        """Certified maximum over p in (0, l^2] of R(p)^2 factor(p, p); factor(low, high) bounds it on a cell."""
        top = self.kernel_bound
        noise = self.observation_variance
        edges = np.concatenate(([0.0], top * np.geomspace(2.0**-30, 1.0, 121)))
        low = edges[:-1]
        high = edges[1:]

        def value(low: Floats, high: Floats) -> Floats:
            middle = np.clip(top / 2, low, high)
            weight = (self.n_max - 1) * middle * (1 - middle / top) / noise
            reach = self.label_bound * (1 + np.sqrt(weight))
            return np.asarray(reach**2 / (low + noise) * factor(low, high))

        found = 0.0
        for _ in range(64):
            upper = value(low, high)
            found = max(
                found, float(np.max(value(high, high))), float(np.max(value(low, low)))
            )
            keep = upper > found * (1 + CELL_GAP)
            if not np.any(keep):
                break
            low = low[keep]
            high = high[keep]
            middle = (low + high) / 2
            low, high = np.concatenate((low, middle)), np.concatenate((middle, high))
        return (
            max(found * (1 + CELL_GAP), float(np.max(upper[keep], initial=0.0)))
            * BOUND_RAISED
        )
