"""The owner's half of a private forecast: models of every household, and what a receiver makes of a noisy forecast.

Everything in `HouseholdModels` and `Queries` is computed from readings and stays with the owner. `PowerScale` holds
moments over a whole cluster only: it treats every household of the cluster alike, so it does not say which one it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import logsumexp, ndtri

from gaussveil.calibration.class_noise import design_class_noise
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.class_label_plan import ClassLabelPlan
from gaussveil.mechanisms.containers import frame
from gaussveil.timeseries import (
    ArmaModels,
    Readings,
    WeeklySeason,
    cluster_households,
    day_profiles,
    fit_arma,
    fit_weekly_season,
    mmse_forecast,
)
from gaussveil.timeseries.durations import duration_minutes
from gaussveil.typing import Floats, Times


def steps_ahead(horizon: int | str, step_minutes: int) -> int:
    """Whole steps in a horizon given as a count, or as text such as "3h", "45min" or "1d"."""
    if isinstance(horizon, str):
        minutes = duration_minutes(horizon)
        if not minutes or minutes % step_minutes:
            raise ParameterError(
                f"horizon must be a number of steps, or text such as '3h' that is a multiple of the readings' step of "
                f"{step_minutes} min. Got {horizon!r}."
            )
        return int(minutes / step_minutes)
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ParameterError(f"horizon must be at least 1 step, or text such as '3h'. Got {horizon!r}.")
    return int(horizon)


@dataclass(frozen=True, eq=False)
class Queries:
    """Log-power forecasts of some households, one row each.

    `forecast`: given the past. `mean`, `covariance`: of the forecast over random pasts. `error_variance`: of the future
    about the forecast, enlarged for the season's own error.
    """

    forecast: Floats
    mean: Floats
    covariance: Floats
    error_variance: Floats


@dataclass(frozen=True, eq=False)
class HouseholdModels:
    """Weekly season and ARMA residual of every household, and the cluster of each."""

    readings: Readings
    season: WeeklySeason
    arma: ArmaModels
    cluster: NDArray[np.int64]

    @classmethod
    def fit(
        cls,
        readings: Readings,
        *,
        clusters: int | Mapping[str, object],
        smallest: int,
        floor: float,
        weekday_weight: float,
        order: tuple[int, int],
    ) -> HouseholdModels:
        """Fit all models; clusters are given by name, or found by k-means on daily profiles."""
        season = fit_weekly_season(readings, floor, weekday_weight=weekday_weight)
        if isinstance(clusters, Mapping):
            labels = _given_clusters(readings.households, clusters, smallest)
        else:
            labels = cluster_households(day_profiles(season), clusters, smallest=smallest).labels
        return cls(readings, season, fit_arma(season.residual(readings), order), labels)

    @property
    def sizes(self) -> list[int]:
        """Households per cluster."""
        return [int(size) for size in np.bincount(self.cluster)]

    def position(self, household: str) -> int:
        """Row of a household; the message never names the others."""
        if household not in self.readings.households:
            raise ParameterError(
                f"household must be one of the {len(self.readings)} in the readings. Got another one; names are "
                "compared as text, with case."
            )
        return self.readings.households.index(household)

    def members(self, household: str) -> list[int]:
        """Rows of the household's cluster, in the order of the readings."""
        cluster = self.cluster[self.position(household)]
        return [int(row) for row in np.flatnonzero(self.cluster == cluster)]

    def newer(self, past: Readings) -> Readings:
        """Readings of the same households and step, in the same order, or an error."""
        if past.step_minutes != self.season.step_minutes or set(past.households) != set(self.readings.households):
            raise SchemaError(
                f"past must hold the {len(self.readings)} households that were fitted, at {self.season.step_minutes} "
                f"min. Got {len(past)} households at {past.step_minutes} min."
            )
        return past.select(self.readings.households)

    def queries(self, past: Readings, rows: Sequence[int], horizon: int, *, season: bool = True) -> Queries:
        """Forecast the steps after `past` for some households; `season=False` leaves the residual's forecast alone."""
        chosen = list(rows)
        arma = ArmaModels(
            self.arma.ar[chosen], self.arma.ma[chosen], self.arma.variance[chosen], self.arma.mean[chosen]
        )
        found = mmse_forecast(arma, self.season.residual(past)[chosen], horizon)
        level = self.season.after(past, horizon)[chosen] if season else np.zeros_like(found.mean)
        spread = found.forecast_covariance
        return Queries(
            forecast=found.mean + level,
            mean=level + arma.mean[:, None],
            covariance=(spread + spread.transpose(0, 2, 1)) / 2,
            error_variance=self._inflation() * np.einsum("hii->hi", found.error_covariance),
        )

    def _inflation(self) -> float:
        inflation = self.season.variance_inflation
        if not math.isfinite(inflation):
            raise ParameterError(
                "readings must span more than one week: from one week alone the error of the weekly season cannot be "
                "told. Give more readings, or weekday_weight below 1."
            )
        return inflation


def _given_clusters(households: Sequence[str], clusters: Mapping[str, object], smallest: int) -> NDArray[np.int64]:
    missing = sum(name not in clusters for name in households)
    if missing:
        raise ParameterError(f"clusters must name a cluster for every household. {missing} have none.")
    names = [str(clusters[name]) for name in households]
    _, labels, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if sizes.min() < smallest:
        raise ParameterError(
            f"clusters must hold at least {smallest} households each, or they have too few to hide among. "
            f"The smallest has {sizes.min()}."
        )
    return np.asarray(labels, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PrivateForecast:
    """What a receiver gets: noisy log power on the public grid, and power in kW with a band.

    One value per step; for a whole cluster one row per household, in random order and without names. `kw` is scaled so
    that over the cluster its expectation is the expected power. A future reading lies between `lower_kw` and `upper_kw`
    with probability about `coverage`, on average over the cluster.
    """

    times: Times
    log_kw: Floats
    kw: Floats
    lower_kw: Floats
    upper_kw: Floats
    coverage: float
    frame_library: str = ""

    def frame(self) -> Any:
        """The columns as a frame of the library that the readings came in, pandas or polars; otherwise Arrow."""
        return frame(self.frame_library, self.columns())

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Columns of a table: time, row (of a whole cluster), kw, lower_kw, upper_kw, log_kw."""
        numbers = {name: getattr(self, name).ravel() for name in ("kw", "lower_kw", "upper_kw", "log_kw")}
        if self.log_kw.ndim == 1:
            return {"time": self.times, **numbers}
        count = len(self.log_kw)
        rows = np.repeat(np.arange(count), self.times.size)
        return {"time": np.tile(self.times, count), "row": rows, **numbers}


@dataclass(frozen=True, eq=False)
class PowerScale:
    """From noisy log power to kW, by moments over all households of the cluster.

    Log power is log P = f + q + e and the release y = c + q + n, where f and c are the means of the plain and the noisy
    forecast, q is what the past adds if it is random, e the future's error and n the noise. The factor makes the
    cluster's mean of E[factor e^y] equal to its mean of E[P]. The band is that of y - log P: over the cluster its mean
    is that of c - f and its variance that of c - f plus those of n and e (derived: docs/mechanisms/forecast.md).
    """

    log_factor: Floats
    bias: Floats
    variance: Floats

    @classmethod
    def of(cls, plan: ClassLabelPlan, error_variance: Floats) -> PowerScale:
        """Moments over the cluster that the plan hides a household in."""
        plain, noisy = plan.models.means, plan.centres
        own = np.einsum("hii->hi", plan.models.covariances)
        noise = np.stack([np.diagonal(np.asarray(one.covariance)) for one in plan.noises])
        expected = logsumexp(plain + (own + error_variance) / 2, axis=0)
        bias = np.mean(noisy - plain, axis=0)
        apart = np.mean((noisy - plain - bias) ** 2 + noise + error_variance, axis=0)
        return cls(expected - logsumexp(noisy + (own + noise) / 2, axis=0), bias, apart)

    def forecast(self, log_kw: Floats, times: Times, coverage: float) -> PrivateForecast:
        """The receiver's forecast; a function of the release and of the cluster's moments only."""
        reach = float(ndtri((1 + coverage) / 2)) * np.sqrt(self.variance)
        with np.errstate(over="ignore"):  # noise of many logs may leave the range of floats: infinity is honest
            return PrivateForecast(
                times=times,
                log_kw=log_kw,
                kw=np.exp(log_kw + self.log_factor),
                lower_kw=np.exp(log_kw - self.bias - reach),
                upper_kw=np.exp(log_kw - self.bias + reach),
                coverage=coverage,
            )


def closest_shift(forecasts: Floats, accuracy: float) -> tuple[float, float]:
    """How many noise deviations the worst two households stay apart under the best noise of one covariance.

    Second, the share of between-household variance that is kept. Both are 0 where the cluster's centre alone meets the
    accuracy. For constant queries the smallest shift is best at every epsilon (mean shift).
    """
    edges = np.array(list(combinations(range(len(forecasts)), 2)))
    found = design_class_noise(forecasts, None, edges, epsilon=0.5, accuracy=accuracy, common_covariance=True)
    if found.kind == "centre":
        return 0.0, 0.0
    centres = forecasts + found.noise_means
    gaps = centres[edges[:, 0]] - centres[edges[:, 1]]
    lengths = np.einsum("ei,ei->e", gaps, np.linalg.solve(found.noise_covariances[0], gaps.T).T)
    return float(np.sqrt(lengths.max())), found.retained_variance


def white_shift(forecasts: Floats, accuracy: float) -> float:
    """The same distance under white noise without noise means."""
    return float(pdist(forecasts).max()) / math.sqrt(accuracy)
