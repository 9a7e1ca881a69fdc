"""How much a weekday's own profile should count in the season of a load forecast, and whether the plain band holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from gaussveil.timeseries import Readings, log_power
from gaussveil.timeseries.household_models import HouseholdModels
from gaussveil_studies.class_based.homes import HORIZON, TRAINING_DAYS

WEIGHTS = (0.0, 0.25, 0.5, 1.0)
# forecasts start at other hours of the day each time
ORIGINS = 8
APART_HOURS = 21
FLOOR = 0.01
BAND = 0.9


@dataclass(frozen=True)
class ForecastErrors:
    """Plain forecasts, without noise, under one weight: their error in log power and how often the band held."""

    weight: float
    error: float
    coverage: float


def compared(
    readings: Readings, weights: Sequence[float] = WEIGHTS
) -> Iterator[ForecastErrors]:
    """Models of the first days, forecasts from later and later origins; readings must reach beyond the last one."""
    day = readings.steps_per_day
    training = TRAINING_DAYS * day
    apart = APART_HOURS * day // 24
    truth = log_power(readings.values, FLOOR)
    for weight in weights:
        models = HouseholdModels.fit(
            readings.window(0, training),
            clusters=1,
            smallest=2,
            floor=FLOOR,
            weekday_weight=weight,
            order=(6, 5),
        )
        misses = []
        deviations = []
        for origin in range(ORIGINS):
            first = origin * apart
            found = models.queries(
                readings.window(first, training), range(len(readings)), HORIZON
            )
            end = first + training
            misses.append(truth[:, end : end + HORIZON] - found.forecast)
            deviations.append(np.sqrt(found.error_variance))
        miss = np.array(misses)
        deviation = np.array(deviations)
        inside = np.abs(miss) <= ndtri((1 + BAND) / 2) * deviation
        yield ForecastErrors(weight, float(np.mean(miss**2)), float(np.mean(inside)))
