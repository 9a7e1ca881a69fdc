"""Models of every household and its forecasts, computed from readings: they stay with the owner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks, timeseries
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.timeseries.clock import duration_minutes
from gaussveil.typing import Floats


def steps_ahead(horizon: int | str, step_minutes: int = 1) -> int:
    """Whole steps in a horizon given as a count, or as text such as "3h", "45min" or "1d"."""
    if isinstance(horizon, str):
        minutes = duration_minutes(horizon)
        if not minutes:
            raise ParameterError(
                f"horizon must be a time such as '3h' or '45min' (in Python also a number of steps). Got {horizon!r}."
            )
        if minutes % step_minutes:
            raise ParameterError(
                f"horizon must be a time such as '3h' that is a multiple of the readings' step of {step_minutes} min "
                f"(in Python also a number of steps). Got {horizon!r}."
            )
        return int(minutes / step_minutes)
    if (
        isinstance(horizon, bool)
        or not isinstance(horizon, int | np.integer)
        or horizon < 1
    ):
        raise ParameterError(
            f"horizon must be at least 1 step, or text such as '3h'. Got {horizon!r}."
        )
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

    readings: timeseries.Readings
    season: timeseries.WeeklySeason
    arma: timeseries.ArmaModels
    cluster: NDArray[np.int64]

    @classmethod
    def fit(
        cls,
        readings: timeseries.Readings,
        *,
        clusters: int | Mapping[str, object],
        smallest: int,
        floor: float,
        weekday_weight: float,
        order: tuple[int, int],
    ) -> HouseholdModels:
        """Fit all models; clusters are given by name, or found by k-means on daily profiles."""
        season = timeseries.fit_weekly_season(
            readings, floor, weekday_weight=weekday_weight
        )
        if isinstance(clusters, Mapping):
            labels = _given_clusters(readings.households, clusters, smallest)
        else:
            checks.whole("clusters", clusters, f"[1, {len(readings)}]")
            labels = timeseries.cluster_households(
                timeseries.day_profiles(season), clusters, smallest=smallest
            ).labels
        return cls(
            readings,
            season,
            timeseries.fit_arma(season.residual(readings), order),
            labels,
        )

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

    def newer(self, past: timeseries.Readings) -> timeseries.Readings:
        """Readings of the same households and step, in the same order, or an error."""
        if past.step_minutes != self.season.step_minutes or set(past.households) != set(
            self.readings.households
        ):
            raise SchemaError(
                f"past must hold the {len(self.readings)} households that were fitted, at {self.season.step_minutes} "
                f"min. Got {len(past)} households at {past.step_minutes} min."
            )
        return past.select(self.readings.households)

    def queries(
        self,
        past: timeseries.Readings,
        rows: Sequence[int],
        horizon: int,
        *,
        season: bool = True,
    ) -> Queries:
        """Forecast the steps after `past` for some households; `season=False` leaves the residual's forecast alone."""
        chosen = list(rows)
        arma = timeseries.ArmaModels(
            self.arma.ar[chosen],
            self.arma.ma[chosen],
            self.arma.variance[chosen],
            self.arma.mean[chosen],
        )
        forecast = timeseries.mmse_forecast(
            arma, self.season.residual(past)[chosen], horizon
        )
        if season:
            level = self.season.after(past, horizon)[chosen]
        else:
            level = np.zeros_like(forecast.mean)
        spread = forecast.forecast_covariance
        return Queries(
            forecast=forecast.mean + level,
            mean=level + arma.mean[:, None],
            covariance=(spread + spread.transpose(0, 2, 1)) / 2,
            error_variance=self._inflation()
            * np.einsum("hii->hi", forecast.error_covariance),
        )

    def _inflation(self) -> float:
        inflation = self.season.variance_inflation
        if not math.isfinite(inflation):
            raise ParameterError(
                "readings must span more than one week: from one week alone the error of the weekly season cannot be "
                "told. Give more readings, or weekday_weight below 1."
            )
        return inflation


def _given_clusters(
    households: Sequence[str], clusters: Mapping[str, object], smallest: int
) -> NDArray[np.int64]:
    missing = sum(name not in clusters for name in households)
    if missing:
        raise ParameterError(
            f"clusters must name a cluster for every household. {missing} have none."
        )
    names = [str(clusters[name]) for name in households]
    _, labels, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if sizes.min() < smallest:
        raise ParameterError(
            f"clusters must hold at least {smallest} households each, or they have too few to hide among. "
            f"The smallest has {sizes.min()}."
        )
    return np.asarray(labels, dtype=np.int64)
