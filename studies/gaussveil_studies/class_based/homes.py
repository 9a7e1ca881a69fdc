"""Class-label noise on real homes (class-based paper, section VI), against white noise: worst deltas.

100 of 404 Swiss homes, 15 days of 15-minute readings, 12 steps ahead, six clusters. A forecast is a constant (model (a)
of K5). Residual forecasts of similar homes are so close together that the centre of the cluster meets the accuracy by
itself: delta is then 0 and the release tells nothing of the home but its cluster. With the weekly mean left in, which
is what a release in kW needs, there is something to hide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist

from gaussveil.calibration.class_noise import design_class_noise
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Readings
from gaussveil.timeseries.household_models import HouseholdModels
from gaussveil.typing import Floats
from gaussveil_studies.real_data import swiss_homes

ACCURACIES = (0.45, 0.7, 1.0, 1.4)
EPSILONS = (0.1, 0.5, 1.0)
TRAINING_DAYS = 15
HORIZON = 12
CLUSTERS = 6


@dataclass(frozen=True)
class WorstDeltas:
    """Worst delta over all clusters at one accuracy and epsilon.

    `centres` counts the clusters whose centre alone meets the accuracy; `retained` is the largest share of
    between-home variance that a cluster's release keeps, among the others.
    """

    season: bool
    accuracy: float
    epsilon: float
    ours: float
    white: float
    centres: int
    clusters: int
    retained: float


def read_homes(
    folder: Path | None = None, homes: int = 100, days: int = TRAINING_DAYS
) -> Readings:
    """The first homes of the Swiss data set, over the training days or as many as asked for."""
    readings = swiss_homes(folder)
    return readings.window(0, days * readings.steps_per_day).select(
        readings.households[:homes]
    )


def table(
    readings: Readings,
    *,
    clusters: int = CLUSTERS,
    horizon: int = HORIZON,
    accuracies: Sequence[float] = ACCURACIES,
    epsilons: Sequence[float] = EPSILONS,
) -> list[WorstDeltas]:
    """Residual forecasts first, then with the weekly mean left in.

    The noise is the best one with a covariance common to a cluster. For constant queries it does not depend on epsilon:
    the smallest worst Mahalanobis distance is best at every epsilon.
    """
    models = HouseholdModels.fit(
        readings,
        clusters=clusters,
        smallest=3,
        floor=0.01,
        weekday_weight=1.0,
        order=(6, 5),
    )
    rows = []
    for season in (False, True):
        found = models.queries(
            readings, range(len(readings)), horizon, season=season
        ).forecast
        groups = [
            found[models.cluster == cluster] for cluster in range(len(models.sizes))
        ]
        for accuracy in accuracies:
            noises = [closest_shift(group, accuracy) for group in groups]
            reach = max(shift for shift, _ in noises)
            white = max(white_shift(group, accuracy) for group in groups)
            kept = [retained for shift, retained in noises if shift > 0]
            for epsilon in epsilons:
                rows.append(
                    WorstDeltas(
                        season,
                        accuracy,
                        epsilon,
                        _delta(reach, epsilon),
                        _delta(white, epsilon),
                        len(groups) - len(kept),
                        len(groups),
                        max(kept, default=0.0),
                    )
                )
    return rows


def _delta(shift: float, epsilon: float) -> float:
    if shift > 0:
        return float(GaussianPair.mean_shift(shift).delta(epsilon))
    return 0.0


def closest_shift(forecasts: Floats, accuracy: float) -> tuple[float, float]:
    """How many noise deviations the worst two households stay apart under the best noise of one covariance.

    Second, the share of between-household variance that is kept. Both are 0 where the cluster's centre alone meets the
    accuracy. For constant queries the smallest shift is best at every epsilon (mean shift).
    """
    edges = np.array(list(combinations(range(len(forecasts)), 2)))
    found = design_class_noise(
        forecasts, None, edges, epsilon=0.5, accuracy=accuracy, common_covariance=True
    )
    if found.kind == "centre":
        return 0.0, 0.0
    centres = forecasts + found.noise_means
    gaps = centres[edges[:, 0]] - centres[edges[:, 1]]
    lengths = np.einsum(
        "ei,ei->e", gaps, np.linalg.solve(found.noise_covariances[0], gaps.T).T
    )
    return float(np.sqrt(lengths.max())), found.retained_variance


def white_shift(forecasts: Floats, accuracy: float) -> float:
    """The same distance under white noise without noise means."""
    return float(pdist(forecasts).max()) / math.sqrt(accuracy)
