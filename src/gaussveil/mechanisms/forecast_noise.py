"""The noise of one forecast: class-label noise whose certificate speaks of forecasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import accounting
from gaussveil.accounting import PrivateDiagnostics
from gaussveil.errors import ShapeError
from gaussveil.mechanisms.class_label import ClassLabelNoise
from gaussveil.mechanisms.forecast_plan import errors_kw
from gaussveil.mechanisms.release_path import Plan
from gaussveil.postprocessing.forecast import PowerScale
from gaussveil.timeseries import Readings, to_kw
from gaussveil.timeseries.household_models import Queries
from gaussveil.typing import Floats, Times

PAST_KNOWN = "past known"


RANDOM_PAST = "random past"


Model = Literal["past known", "random past"]


MODEL_IN_WORDS = {
    PAST_KNOWN: "the receiver may know the past of every household: forecasts are constants, only the noise protects",
    RANDOM_PAST: "the past of the household is random and unknown to the receiver: its forecast is Gaussian",
}


_PAST_KNOWN_REASON = (
    "hidden is which household of its cluster a forecast is of; clusters and forecasts of all of them are taken for "
    "public numbers, and the readings behind them are not protected"
)


_KEPT_BACK = ("noise_means", "noise_covariances")


_RANDOM_PAST_REASON = (
    "log power of each household is a season plus a Gaussian ARMA process; pasts of different households, and pasts "
    "behind different releases, are independent"
)


@dataclass(kw_only=True, eq=False)
class _ForecastNoise(ClassLabelNoise):
    """Class-label noise whose certificate speaks of forecasts; of the noise it shows the mean covariance only."""

    mechanism = "private forecast"
    carrier = "household"
    released: str
    stated: tuple[str, ...]
    known: Mapping[str, object]
    past: str | None
    """The public name of the past that a random forecast is drawn from."""
    past_days: tuple[str, ...]
    """What is random is the past, where it is, and forecasts from overlapping pasts share days of it."""
    found_form: tuple[str, ...] = ()
    """What of the form of the readings' table nobody wrote down."""

    def _guarantee(self, plan: Plan, found: tuple[str, ...]) -> accounting.Guarantee:
        del found
        return super()._guarantee(plan, self.found_form)

    def _said(self, released: str, *centres: Floats, draw: str | None = None) -> Plan:
        said = super()._said(released, *centres, draw=self.past)
        # Centre less noise mean is a household's forecast: these stay with the owner, though they are assumed public.
        shown = {
            name: value
            for name, value in said.parameters.items()
            if name not in _KEPT_BACK
        }
        return dataclasses.replace(
            said,
            released=self.released,
            model=_PAST_KNOWN_REASON if said.model is None else _RANDOM_PAST_REASON,
            assumptions=(*self.stated, *said.assumptions),
            parameters={
                **shown,
                **self.known,
                "noise_covariance": self.noise_covariances_.mean(axis=0).tolist(),
            },
            drawn_from=self.past_days,
        )


@dataclass(frozen=True, eq=False)
class ForecastWindow:
    """One forecast of one cluster, ready to be drawn: the owner's."""

    names: tuple[str, ...]
    past: Readings
    queries: Queries
    times: Times
    noise: _ForecastNoise
    scale: PowerScale

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        past: Readings,
        queries: Queries,
        times: Times,
        noise: _ForecastNoise,
    ) -> ForecastWindow:
        """With the moments of the whole cluster, which scale what is drawn to kW."""
        plan = noise.plan_
        spread = np.einsum("hii->hi", plan.models.covariances)
        drawn = np.einsum("hii->hi", noise.noise_covariances_)
        scale = PowerScale.of(
            plan.models.means, plan.centres, spread, drawn, queries.error_variance
        )
        return cls(names, past, queries, times, noise, scale)

    def seen_by_owner(
        self, household: str, truth: ArrayLike | None
    ) -> PrivateDiagnostics:
        """Past day, plain forecast, expected errors in kW, the truth if given."""
        plan = self.noise.plan_
        row = self.names.index(household)
        forecast = self.queries.forecast[row]
        error = self.queries.error_variance[row]
        centre = forecast + plan.shifts[row]
        noise = np.diagonal(np.asarray(plan.noises[row].covariance))
        day = self.past.steps_per_day
        own = self.past.values[self.past.households.index(household)]
        plain_rmse, private_rmse = errors_kw(
            forecast, error, centre + self.scale.log_factor, noise
        )
        group = to_kw(self.queries.forecast, self.queries.error_variance)
        return PrivateDiagnostics(
            past_times=self.past.times[-day:].astype(str).tolist(),
            past_kw=own[-day:].copy(),
            times=self.times.astype(str).tolist(),
            plain_kw=to_kw(forecast, error),
            group_kw=group.mean(axis=0),
            plain_rmse_kw=plain_rmse,
            private_rmse_kw=private_rmse,
            plain_log_kw=forecast.copy(),
            log_mse=float(np.mean((centre - forecast) ** 2 + noise)),
            cluster_log_forecasts=self.queries.forecast.copy(),
            cluster_households=list(self.names),
            **_truth_of(truth, forecast.shape),
        )


def _truth_of(truth: ArrayLike | None, shape: tuple[int, ...]) -> dict[str, Floats]:
    if truth is None:
        return {}
    powers = np.asarray(truth, dtype=np.float64)
    if powers.shape != shape:
        raise ShapeError(
            f"truth must hold one power in kW per step, {shape[0]} in all. Got shape {powers.shape}."
        )
    return {"truth_kw": powers}


def noise_of_group(
    alone: _ForecastNoise, forecasts: Floats, whose: str
) -> _ForecastNoise:
    """The cluster's centre: with room enough for its farthest household, the design needs no more than that."""
    farthest = float(np.max(np.mean((forecasts - forecasts.mean(axis=0)) ** 2, axis=1)))
    group = dataclasses.replace(
        alone,
        delta=None,
        accuracy=1.0001 * farthest + 1e-9,
        noise_means=True,
        released=f"load forecast of a group, the average of its {whose}",
        known={
            **alone.known,
            "product": "group",
            "kept_alone": alone.retained_variance_,
        },
    )
    group.design(forecasts, labels=alone.plan_.labels)
    return group
