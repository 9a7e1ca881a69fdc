"""Kinds of class-label noise on real homes, at the same error: which of them hides a home best.

Queries are 12-step forecasts of the first 100 Swiss homes with the weekly mean left in, constants to an adversary who
knows the past (model (a) of K5). A set is the n homes whose forecasts lie nearest to the median forecast. With R the
radius of the smallest ball around a set, an error of R^2 / k per step releases the centre alone; errors are given as
shares of it. The kinds:

- white noise;
- one covariance, no noise means: the covering ellipsoid of the differences, exactly;
- shrink: one covariance, every forecast drawn to the centre by one factor, in closed form;
- one covariance with the best noise means, a convex problem;
- one covariance per home, the best that searches find.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gaussveil.calibration.class_common import Cover
from gaussveil.calibration.class_noise import (
    ClassNoise,
    checked_models,
    design_class_noise,
)
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Readings
from gaussveil.timeseries.household_models import HouseholdModels
from gaussveil.typing import Floats
from gaussveil_studies.class_based.homes import HORIZON

SHARES = (0.444, 0.691, 0.987)
SETS = {17: (0.5,), 30: (0.1, 0.5, 1.0)}  # homes, and the epsilons to look at


@dataclass(frozen=True)
class DeltasByKind:
    """Worst deltas of one set at one error and epsilon; `ours` is what a design returns, `kind` what it chose."""

    homes: int
    share: float
    accuracy: float
    epsilon: float
    white: float
    covariance_only: float
    shrink: float
    common: float
    own: float
    ours: float
    kind: str
    retained: float


def forecasts(readings: Readings, horizon: int = HORIZON) -> Floats:
    """Forecasts of log power after the readings, the weekly mean left in, one row per home."""
    models = HouseholdModels.fit(
        readings, clusters=1, smallest=2, floor=0.01, weekday_weight=1.0, order=(6, 5)
    )
    return models.queries(readings, range(len(readings)), horizon).forecast


def nearest(found: Floats, count: int) -> Floats:
    """The forecasts nearest to the median one."""
    far = np.sum((found - np.median(found, axis=0)) ** 2, axis=1)
    return found[np.sort(np.argsort(far, kind="stable")[:count])]


def worst_delta(means: Floats, noise: ClassNoise) -> float:
    """Exact delta of the worst ordered pair, from the laws themselves."""
    first, second = np.array(
        [(i, j) for i in range(len(means)) for j in range(len(means)) if i != j]
    ).T
    centres = means + noise.noise_means
    spreads = noise.noise_covariances
    pair = GaussianPair(
        centres[first], spreads[first], centres[second], spreads[second]
    )
    return float(np.max(pair.delta(noise.epsilon)))


def compared(
    means: Floats, shares: Sequence[float], epsilons: Sequence[float]
) -> Iterator[DeltasByKind]:
    """All kinds on one set, row by row: a large set takes a while."""
    edges = np.array(list(combinations(range(len(means)), 2)))
    cover = Cover.of(checked_models(means, None), edges)
    size = means.shape[1]
    reach = cover.radius**2
    trace = float(np.trace(cover.covariance))
    for share in shares:
        budget = share * reach
        accuracy = budget / size
        for epsilon in epsilons:
            alone = design_class_noise(
                means,
                None,
                edges,
                epsilon=epsilon,
                accuracy=accuracy,
                noise_means=False,
                common_covariance=True,
            )
            ours = design_class_noise(
                means, None, edges, epsilon=epsilon, accuracy=accuracy
            )
            shift = math.sqrt(trace * (1 / budget - 1 / reach))
            yield DeltasByKind(
                homes=len(means),
                share=share,
                accuracy=accuracy,
                epsilon=epsilon,
                white=ours.candidates["white"],
                covariance_only=worst_delta(means, alone),
                shrink=float(GaussianPair.mean_shift(shift).delta(epsilon)),
                common=ours.candidates["common"],
                own=ours.candidates["own"],
                ours=worst_delta(means, ours),
                kind=ours.kind,
                retained=ours.retained_variance,
            )
