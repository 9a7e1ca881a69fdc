"""The dial of a forecast: how much of one household is kept at what promise and in what group, and what that is worth.

Nothing is drawn or spent. Forecasts and truth are the owner's, so the dial is for the owner alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.class_label import ClassLabelNoise
from gaussveil.mechanisms.forecast_plan import SMALLEST_KEPT
from gaussveil.timeseries import Readings, cluster_households, day_profiles
from gaussveil.timeseries.household_models import HouseholdModels
from gaussveil.typing import Floats, Integers

DIAL_PROMISES = (
    (1.0, 1e-5),
    (1.0, 1e-3),
    (4.0, 1e-3),
    (8.0, 1e-2),
    (16.0, 1e-2),
    (32.0, 1e-2),
)
CLUSTERS = (1, 3, 6)
SMALLEST_GROUP = 6


@dataclass(frozen=True)
class DialPoint:
    """One setting of the dial; errors are root mean squares of the logarithm of power, nan without the truth."""

    clusters: int
    """Groups that were asked for: there are fewer where one of them would have less than six households."""
    group: float
    """Households in a group, on average."""
    epsilon: float
    delta: float
    kept: float
    """Share of the variance between a group's forecasts."""
    private: float
    centre: float
    """Of the group's centre, which costs nothing."""
    plain: float
    """Of the forecast without privacy."""

    @property
    def pays(self) -> bool:
        """Whether it keeps enough of one household, and tells more than the group's centre does."""
        return self.kept >= SMALLEST_KEPT and not self.private >= self.centre


def forecast_dial(
    models: HouseholdModels,
    steps: int,
    truth: Readings | None = None,
    promises: Sequence[tuple[float, float]] = DIAL_PROMISES,
    clusters: Sequence[int] = CLUSTERS,
) -> list[DialPoint]:
    """Design the noise of every group at every promise.

    Args:
        models: seasons and residuals of the households, and the readings that they are forecast from.
        steps: how far ahead.
        truth: the readings that followed, for the errors.
        promises: epsilon and delta.
        clusters: into how many groups of similar households the homes are divided.
    """
    past = models.readings
    count = len(models.readings)
    queries = models.queries(past, range(count), steps)
    came = np.full((count, steps), np.nan)
    if truth is not None:
        came = _log_power(truth, models, steps)
    points = []
    for number in clusters:
        labels = _groups(models, number)
        points += [
            _point(queries.forecast, came, labels, number, *promise)
            for promise in promises
        ]
    return points


def chosen(points: Sequence[DialPoint]) -> DialPoint | None:
    """The setting to release one forecast at: of those that pay the least epsilon, delta and number of groups."""
    paying = [point for point in points if point.pays]
    return min(
        paying,
        key=lambda point: (point.epsilon, point.delta, point.clusters),
        default=None,
    )


def _groups(models: HouseholdModels, number: int) -> Integers:
    smallest = min(SMALLEST_GROUP, len(models.readings))
    return cluster_households(
        day_profiles(models.season), number, smallest=smallest
    ).labels


def _log_power(truth: Readings, models: HouseholdModels, steps: int) -> Floats:
    if truth.count < steps:
        raise ParameterError(
            f"truth must hold the {steps} steps that are forecast. Got {truth.count}."
        )
    kw = truth.select(models.readings.households).values[:, :steps]
    return np.asarray(np.log(np.maximum(kw, models.season.floor)))


def _point(
    forecasts: Floats,
    came: Floats,
    labels: Integers,
    number: int,
    epsilon: float,
    delta: float,
) -> DialPoint:
    kept = 0.0
    private = 0.0
    centre = 0.0
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for rows in groups:
        own = forecasts[rows]
        noise = ClassLabelNoise(epsilon=epsilon, delta=delta, common_covariance=True)
        noise.design(own, labels=tuple(range(len(rows))))
        released = own + noise.plan_.shifts
        drawn = (
            np.trace(noise.noise_covariances_, axis1=1, axis2=2)[:, None] / own.shape[1]
        )
        share = len(rows) / len(forecasts)
        kept += share * noise.retained_variance_
        private += share * float(np.mean((released - came[rows]) ** 2 + drawn))
        centre += share * float(np.mean((own.mean(axis=0) - came[rows]) ** 2))
    plain = float(np.mean((forecasts - came) ** 2))
    group = len(forecasts) / len(groups)
    return DialPoint(
        number,
        group,
        epsilon,
        delta,
        kept,
        math.sqrt(private),
        math.sqrt(centre),
        math.sqrt(plain),
    )
