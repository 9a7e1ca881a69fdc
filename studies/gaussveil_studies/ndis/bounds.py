"""NDIS section 4: the exact spectrum against the paper's bounds, in the direction they hold and in the other one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil_studies.bounds import mean_and_covariance_bound, smaller_covariance_bound
from gaussveil_studies.study import Row

SPECTRUM = (0.6, 0.8, 0.9, 0.95)  # ratios of a narrow covariance to a wide one
JOINT = (0.3, math.log(1.3), 2)  # shift, log-ratio, rank of the example of Theorem 4.2


def narrow_pair(ratios: Sequence[float] = SPECTRUM) -> PrivacyLoss:
    """N(0, diag ratios) against N(0, I)."""
    return GaussianPair.from_reduced(
        [1.0 - ratio for ratio in ratios], [0.0] * len(ratios)
    )


def lemma_2(epsilons: Sequence[float], ratios: Sequence[float] = SPECTRUM) -> list[Row]:
    """Lemma 2's bound, the exact delta in its own direction (narrow against wide), and that of the reverse."""
    pair = narrow_pair(ratios)
    return [
        {
            "epsilon": epsilon,
            "lemma_2": smaller_covariance_bound(ratios, epsilon),
            "narrow_wide": float(pair.delta(epsilon)),
            "wide_narrow": float(pair.reversed().delta(epsilon)),
        }
        for epsilon in epsilons
    ]


def joint_pair() -> PrivacyLoss:
    """A wide Gaussian with a shifted mean against a narrow one; equal ratios, so that the mean's direction is free."""
    shift, log_ratio, rank = JOINT
    return GaussianPair.from_reduced(
        [-math.expm1(log_ratio)] * rank, [shift] + [0.0] * (rank - 1)
    )


def theorem_4_2(epsilons: Sequence[float]) -> list[Row]:
    """Theorem 4.2's two steps (with a sound step in the covariance) against the exact delta of mean and covariance."""
    shift, log_ratio, rank = JOINT
    pair = joint_pair()
    return [
        {
            "epsilon": epsilon,
            "two_steps": mean_and_covariance_bound(
                shift, log_ratio, rank, epsilon, larger=True
            ),
            "exact": float(pair.delta(epsilon)),
        }
        for epsilon in epsilons
    ]


def lemma_3_violations(count: int, seed: int) -> int:
    """How often, over random spectra of one sign, the wide law against the narrow one is NOT the worse direction."""
    generator = np.random.default_rng(seed)
    violations = 0
    for _ in range(count):
        size = int(generator.integers(1, 21))
        ratios: NDArray[np.float64] = np.exp(
            generator.exponential(generator.choice([0.05, 0.3, 1.0]), size=size)
        )
        wide = GaussianPair.from_reduced(1.0 - ratios, np.zeros(size))
        hard, easy = (
            side.delta(np.array([0.1, 0.5, 1.0, 2.0]))
            for side in (wide, wide.reversed())
        )
        violations += bool(np.any(np.asarray(easy) > np.asarray(hard) * (1 + 1e-9)))
    return violations
