"""Log power, its weekly season and the residual: x[k] = log p[k] - mu[k] (class-based paper, eq. (61), with a period of
seven days)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.timeseries.readings import Readings


def log_power(values: NDArray[np.float64], floor: float = 0.01) -> NDArray[np.float64]:
    """log(max(p, floor)): a zero becomes the public floor (kW), record by record."""
    if not (np.isfinite(floor) and floor > 0):
        raise ParameterError(f"floor must be a positive power in kW, chosen without looking at the data; got {floor}")
    return np.asarray(np.log(np.maximum(values, floor)))


@dataclass(frozen=True, eq=False)
class WeeklySeason:
    """Mean log power of every household at each step of the week, counted from Monday 00:00."""

    mean: NDArray[np.float64]
    step_minutes: int
    floor: float

    def at(self, first_phase: int, count: int) -> NDArray[np.float64]:
        """The season of `count` steps from position `first_phase` of the week on, one row per household."""
        return self.mean[:, (first_phase + np.arange(count)) % self.mean.shape[1]]

    def after(self, readings: Readings, count: int) -> NDArray[np.float64]:
        """The season of the `count` steps that follow the readings."""
        return self.at(readings.week_phase + readings.count, count)

    def residual(self, readings: Readings) -> NDArray[np.float64]:
        """Log power less season, for readings of the same households and step."""
        if len(readings) != self.mean.shape[0] or readings.step_minutes != self.step_minutes:
            raise ParameterError(
                f"the season was fitted to {self.mean.shape[0]} households at {self.step_minutes} minutes; got "
                f"{len(readings)} at {readings.step_minutes}"
            )
        return log_power(readings.values, self.floor) - self.at(readings.week_phase, readings.count)


def fit_weekly_season(readings: Readings, floor: float = 0.01) -> WeeklySeason:
    """Average log power over the weeks, step by step; needs at least one whole week."""
    period = 7 * readings.steps_per_day
    if readings.count < period:
        raise ParameterError(f"a weekly season needs at least {period} readings (one week); got {readings.count}")
    logs = log_power(readings.values, floor)
    phase = (readings.week_phase + np.arange(readings.count)) % period
    total = np.zeros((len(readings), period))
    for first in range(0, readings.count, period):  # within one week every phase occurs once
        total[:, phase[first : first + period]] += logs[:, first : first + period]
    return WeeklySeason(total / np.bincount(phase, minlength=period), readings.step_minutes, floor)
