"""NDIS Figure 4, the propose-test-release sketch, exactly as printed. NOT private as printed: see docs/corrections N3.

Step 1 sets epsilon_R = max(epsilon - epsilon_T, 0). When the test alone needs epsilon_T > epsilon, the clamp hides that
the budget is already overspent. What is released is the sketch alone (step 5); where it is wide, the ridge, and with it
the tested bound, can be read off it. At other parameters, in few columns, the sketch alone keeps the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from gaussveil.errors import NumericalError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.closed_forms import log_delta_equal_ratios
from gaussveil.typing import Floats


@dataclass(frozen=True, kw_only=True)
class PublishedTestedSketch:
    """Parameters of Figure 4; delta = delta_release + delta_test + delta_failure."""

    epsilon: float
    delta_release: float
    delta_test: float
    delta_failure: float
    test_noise: float
    row_norm: float
    n_components: int

    @property
    def claim(self) -> tuple[float, float]:
        """What Theorem 5.4 promises."""
        return self.epsilon, self.delta_release + self.delta_test + self.delta_failure

    @cached_property
    def test_epsilon(self) -> float:
        """Step 1: what the test alone needs at delta_test."""
        return float(self.test_pair().epsilon(self.delta_test))

    @cached_property
    def leverage(self) -> float:
        """Step 2: the largest p with delta_gRP(epsilon_R; p) <= delta_release, by bisection."""
        release_epsilon = max(self.epsilon - self.test_epsilon, 0.0)
        goal = math.log(self.delta_release)
        low = 0.0
        high = 1.0 - 1e-9
        for _ in range(60):
            middle = (low + high) / 2.0
            ok = (
                float(
                    log_delta_equal_ratios(
                        1.0 / (1.0 - middle), self.n_components, release_epsilon
                    )
                )
                <= goal
            )
            low, high = (middle, high) if ok else (low, middle)
        if low == 0.0:
            raise NumericalError(
                "no leverage keeps the release within 'delta_release'; choose a larger one"
            )
        return low

    @property
    def margin(self) -> float:
        """Step 3: alpha, by which the tested eigenvalue is lowered."""
        return self.test_noise * float(ndtri(1.0 - self.delta_failure))

    def transcript(
        self, rows: Any, generator: np.random.Generator
    ) -> tuple[float, Floats]:
        """Steps 3 to 5: the noisy bound on the smallest eigenvalue, and the sketch ridged by it."""
        data = np.asarray(rows, dtype=np.float64)
        gram = data.T @ data
        smallest = float(np.linalg.eigvalsh(gram)[0])
        bound = max(smallest + self.test_noise * generator.normal() - self.margin, 0.0)
        ridge = max(self.row_norm**2 / self.leverage - bound, 0.0)
        factor = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
        return bound, factor @ generator.normal(size=(len(gram), self.n_components))

    def test_pair(self) -> PrivacyLoss:
        """What the bound alone shows of two neighbours whose smallest eigenvalues differ by row_norm^2 (far above
        zero, where step 3 does not clip).
        """
        return GaussianPair.mean_shift(self.row_norm**2 / self.test_noise)

    def worst_pair(self) -> PrivacyLoss:
        """The bound together with a sketch in which the row has the tolerated leverage."""
        ratio = 1.0 / (1.0 - self.leverage)
        return compose(
            self.test_pair(),
            PrivacyLoss.from_terms([1.0 - ratio], [float(self.n_components)], [0.0]),
        )
