"""The variance that section 6 of NDIS adds to a posterior, beside what privacy needs: the table of the corrections.

Four columns at (1, 1e-5), rows of norm 1: Figure 5 as printed (not private); the paper's sensitivities with the bound
of the right direction; one rank with the triangle bound; the exact joint worst case, which is what we ship.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from scipy.optimize import brentq

from gaussveil.calibration.envelope import variance_for_envelope
from gaussveil.mechanisms.gp_sensitivity import ProcessSensitivity
from gaussveil.mechanisms.logistic import LogisticSensitivity
from gaussveil.spectrum.envelope_search import supremum
from gaussveil_studies.bounds import mean_and_covariance_bound
from gaussveil_studies.published.ndis_calibrated import (
    published_logistic_sensitivity,
    published_process_sensitivity,
    published_variance,
)

EPSILON = 1.0
DELTA = 1e-5
LOGISTIC = (
    (10, 1000, 1.0),
    (10, 1000, 10.0),
    (100, 10_000, 1.0),
)  # columns, records, regularization
PROCESS = (
    (100, 1.0),
    (1, 1.0),
    (100, 0.01),
)  # records, bound of the labels; kernel and noise variance are 1
SMALLEST_DELTA = 1e-300
Sensitivity = Callable[[float], tuple[float, float, float]]


@dataclass(frozen=True)
class Variances:
    """Added variances of one case.

    `spent` bounds what the printed variance spends at worst.
    """

    case: str
    printed: float
    printed_sensitivity: float
    one_rank: float | None
    exact: float
    spent: float


def logistic_variances(dimension: int, count: int, regularization: float) -> Variances:
    """Bayesian logistic regression (Proposition 7, corrections N5), with the number of records private."""
    printed = partial(
        published_logistic_sensitivity,
        row_norm=1.0,
        regularization=regularization,
        count=count,
        dimension=dimension,
    )
    sensitivity = LogisticSensitivity(1.0, regularization)

    def one_rank(variance: float) -> tuple[float, float, float]:
        gap, log_ratio = sensitivity(variance)
        return gap, log_ratio, log_ratio

    as_printed = published_variance(printed, EPSILON, DELTA, dimension)
    exact = variance_for_envelope(sensitivity, 1, EPSILON, DELTA, wider="Y")[0]
    return Variances(
        f"logistic, d = {dimension}, n = {count}, lambda = {regularization:g}",
        as_printed,
        _sound(printed, dimension, as_printed),
        _sound(one_rank, 1, exact),
        exact,
        _bound(printed(as_printed), dimension),
    )


def process_variances(count: int, label_bound: float) -> Variances:
    """Gaussian process regression (Proposition 8, corrections N6), with a public bound on the number of records."""
    printed = partial(
        published_process_sensitivity,
        kernel_deviation=1.0,
        label_bound=label_bound,
        observation_deviation=1.0,
        count=count,
    )
    sensitivity = ProcessSensitivity(
        point_variance=1.0,
        kernel_bound=1.0,
        observation_variance=1.0,
        label_bound=label_bound,
        n_max=count,
    )
    as_printed = published_variance(printed, EPSILON, DELTA, 1)
    return Variances(
        f"process, n = {count}, B = {label_bound:g}",
        as_printed,
        _sound(printed, 1, as_printed),
        None,
        variance_for_envelope(sensitivity, 1, EPSILON, DELTA, wider="Y")[0],
        math.exp(
            max(
                supremum(*sensitivity(as_printed), 1, EPSILON, wide_first=side)[1]
                for side in (True, False)
            )
        ),
    )


def _sound(sensitivity: Sensitivity, rank: int, near: float) -> float:
    """Smallest variance, to three digits, that the triangle bound proves, each step bounded in its own direction."""

    def log_gap(log_variance: float) -> float:
        # the wide law against the narrow one decides; the result is checked both ways
        gap, log_ratio, _ = sensitivity(math.exp(log_variance))
        found = mean_and_covariance_bound(gap, log_ratio, rank, EPSILON)
        return math.log(max(found, SMALLEST_DELTA) / DELTA)

    low = high = math.log(near)
    while log_gap(high) > 0:
        low = high
        high = high + 1.0
    while log_gap(low) <= 0:
        high = low
        low = low - 1.0
    variance = math.exp(float(brentq(log_gap, low, high, xtol=1e-4)))
    while _bound(sensitivity(variance), rank) > DELTA:
        variance *= 1 + 2e-4
    return variance


def _bound(sensitivity: tuple[float, float, float], rank: int) -> float:
    gap, log_ratio, _ = sensitivity
    return max(
        mean_and_covariance_bound(gap, log_ratio, rank, EPSILON, larger=side)
        for side in (True, False)
    )
