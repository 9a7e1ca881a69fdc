"""Log power, its weekly season and the residual: x[k] = log p[k] - mu[k] (class-based paper, eq. (61), with a period of
seven days); clusters of households with similar seasons."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries.readings import Readings
from gaussveil.typing import Floats


def log_power(values: NDArray[np.float64], floor: float = 0.01) -> NDArray[np.float64]:
    """log(max(p, floor)): a zero becomes the public floor (kW), record by record."""
    checks.positive("floor", floor)  # a power in kW, chosen without looking at the data
    return np.asarray(np.log(np.maximum(values, floor)))


@dataclass(frozen=True, eq=False)
class WeeklySeason:
    """Expected log power of every household at each step of the week, counted from Monday 00:00.

    `weeks` is how many weeks it was averaged over, `weekday_weight` how much a weekday counts against the mean day.
    """

    mean: NDArray[np.float64]
    step_minutes: int
    floor: float
    weeks: float
    weekday_weight: float = 1.0

    @property
    def variance_inflation(self) -> float:
        """How much larger the residual's variance is on new data than on the data the season was fitted to.

        The season is a mean of noisy logs: it takes part of the noise away in the sample and adds its own error
        outside. For independent noise and the plain weekly mean the factor is (weeks + 1)/(weeks - 1), infinite for
        one week. Multiply error variances of forecasts by it before giving bands or means in kW. Derived: docs/math.
        """
        days = 7 * self.weeks
        own = self.weekday_weight / self.weeks + (1 - self.weekday_weight) / days
        spread = (
            self.weeks * own**2
            + (days - self.weeks) * ((1 - self.weekday_weight) / days) ** 2
        )
        inside = 1 - 2 * own + spread
        if inside > 1e-12:
            return (1 + spread) / inside
        return np.inf

    def at(self, first_phase: int, count: int) -> NDArray[np.float64]:
        """The season of `count` steps from position `first_phase` of the week on, one row per household."""
        return self.mean[:, (first_phase + np.arange(count)) % self.mean.shape[1]]

    def after(self, readings: Readings, count: int) -> NDArray[np.float64]:
        """The season of the `count` steps that follow the readings."""
        return self.at(readings.week_phase + readings.count, count)

    def residual(self, readings: Readings) -> NDArray[np.float64]:
        """Log power less season, for readings of the same households and step."""
        if (
            len(readings) != self.mean.shape[0]
            or readings.step_minutes != self.step_minutes
        ):
            raise ParameterError(
                f"the season was fitted to {self.mean.shape[0]} households at {self.step_minutes} minutes. Got "
                f"{len(readings)} at {readings.step_minutes}"
            )
        return log_power(readings.values, self.floor) - self.at(
            readings.week_phase, readings.count
        )


def fit_weekly_season(
    readings: Readings, floor: float = 0.01, *, weekday_weight: float = 1.0
) -> WeeklySeason:
    """Average log power over the weeks, step by step; needs at least one whole week.

    With `weekday_weight` below 1 each weekday is drawn towards the mean day (0: one profile for all days, the daily
    mean below eq. (61)). Two weeks of data overfit a weekly mean: on 404 real homes with 15 days of training, 0
    leaves a 22 % smaller residual variance in the following week than 1.
    """
    period = 7 * readings.steps_per_day
    if readings.count < period:
        raise ParameterError(
            f"a weekly season needs at least {period} readings (one week). Got {readings.count}."
        )
    checks.real("weekday_weight", weekday_weight, "[0, 1]")
    logs = log_power(readings.values, floor)
    phase = (readings.week_phase + np.arange(readings.count)) % period
    total = np.zeros((len(readings), period))
    for first in range(
        0, readings.count, period
    ):  # within one week every phase occurs once
        total[:, phase[first : first + period]] += logs[:, first : first + period]
    counts = np.bincount(phase, minlength=period)
    per_day = (len(readings), 7, readings.steps_per_day)
    day = total.reshape(per_day).sum(axis=1) / counts.reshape(per_day[1:]).sum(axis=0)
    mean = weekday_weight * (total / counts) + (1 - weekday_weight) * np.tile(day, 7)
    return WeeklySeason(
        mean, readings.step_minutes, floor, readings.count / period, weekday_weight
    )


@dataclass(frozen=True, eq=False)
class Clusters:
    """Cluster number of every household; clusters are numbered by falling size."""

    labels: NDArray[np.int64]
    centres: Floats

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Households per cluster."""
        return np.bincount(self.labels, minlength=len(self.centres))

    def members(self, cluster: int) -> NDArray[np.int64]:
        """Positions of the households of one cluster."""
        checks.whole("cluster", cluster, f"[0, {len(self.centres) - 1}]")
        return np.flatnonzero(self.labels == cluster)


def day_profiles(season: WeeklySeason) -> Floats:
    """Mean log power of every household by hour of the day, over the week: the features to cluster."""
    steps = 24 * 60 // season.step_minutes
    per_hour = max(60 // season.step_minutes, 1)
    days = season.mean.reshape(len(season.mean), 7, steps).mean(axis=1)
    return np.asarray(days.reshape(len(days), -1, per_hour).mean(axis=2))


def cluster_households(
    profiles: ArrayLike, count: int, *, smallest: int = 2, seed: int = 0
) -> Clusters:
    """K-means with a fixed seed; a cluster of fewer than `smallest` households is dissolved into the nearest others.

    Smallest cluster first, one at a time, so the result has at most `count` clusters, none too small. A household
    alone in its cluster has nobody to hide among, hence the default of 2.
    """
    points = np.asarray(profiles, dtype=np.float64)
    if points.ndim != 2 or len(points) < 1:
        raise ShapeError(
            f"profiles must be households x features. Got shape {points.shape}."
        )
    if not np.isfinite(points).all():
        raise NotFiniteError("profiles must be finite")
    checks.whole("count", count, f"[1, {len(points)}]")  # the households
    checks.whole("smallest", smallest, f"[1, {len(points)}]")
    from sklearn.cluster import (
        KMeans,
    )  # takes a second to load, which only clustering should pay
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # equal households may leave clusters empty
        clustering = KMeans(n_clusters=count, n_init=10, random_state=seed).fit(points)
    kept, labels = np.unique(clustering.labels_.astype(np.int64), return_inverse=True)
    centres = clustering.cluster_centers_[kept]
    while (sizes := np.bincount(labels, minlength=len(centres))).min() < smallest:
        weakest = int(np.argmin(sizes))
        centres = np.delete(centres, weakest, axis=0)
        orphans = labels == weakest
        distance = ((points[orphans, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels = np.where(labels > weakest, labels - 1, labels)
        labels[orphans] = np.argmin(distance, axis=1)
        centres = np.stack(
            [points[labels == k].mean(axis=0) for k in range(len(centres))]
        )
    order = np.argsort(-np.bincount(labels, minlength=len(centres)), kind="stable")
    return Clusters(np.argsort(order)[labels].astype(np.int64), centres[order])
