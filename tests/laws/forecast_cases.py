"""Private forecasts under the laws: the data is the name of the household whose forecast is released."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import PrivateForecaster
from gaussveil.timeseries import Readings, simulate_households
from gaussveil.timeseries.household_models import HouseholdModels, Queries

Matrix = NDArray[np.float64]

SETTINGS: dict[str, Any] = {
    "horizon": 2,
    "clusters": 1,
    "order": (1, 0),
    "noise_means": False,
    "common_covariance": True,
}


@cache
def readings() -> Readings:
    return simulate_households(3, 15, step_minutes=60, seed=1)


@cache
def models() -> HouseholdModels:
    """Of the readings, whatever is promised: fitted once."""
    return PrivateForecaster(**SETTINGS, epsilon=1.0, delta=0.2).fit(readings())._models


def fitted(mechanism: PrivateForecaster) -> PrivateForecaster:
    mechanism.check()
    mechanism._models = models()
    return mechanism


@cache
def forecasts() -> Matrix:
    """Log forecasts of the three households, which the data decide alone."""
    found: Queries = models().queries(readings(), range(3), 2)
    return found.forecast


def farthest() -> tuple[int, int]:
    gaps = np.linalg.norm(forecasts()[:, None] - forecasts()[None], axis=2)
    first, second = divmod(int(np.argmax(gaps)), 3)
    return first, second


def forecast(name: str) -> dict[str, Any]:
    """Three households in one cluster; the value and its neighbour are the two farthest apart."""
    first, second = farthest()
    names = readings().households

    def build(**changes: Any) -> PrivateForecaster:
        return PrivateForecaster(**SETTINGS, **changes)

    def centre(household: str) -> Matrix:
        return np.asarray(forecasts()[names.index(household)])

    def draws(mechanism: PrivateForecaster, household: str, count: int) -> Matrix:
        plan = fitted(mechanism)._window(household, None, swap=False).noise.plan_
        position = names.index(household)
        return np.stack([plan.draw(position, centre(household), mechanism.generator) for _ in range(count)])

    def release(mechanism: PrivateForecaster, household: str) -> Release[Any]:
        return fitted(mechanism).release(household)

    def covariance(certificate: Certificate) -> Matrix:
        return np.asarray(certificate.parameters["noise_covariance"], dtype=np.float64)

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(noise @ np.linalg.solve(covariance(certificate), forecasts()[second] - forecasts()[first]))

    return {
        "name": name,
        "build": build,
        "value": names[first],
        "neighbour": names[second],
        "centre": centre,
        "draws": draws,
        "residuals": residuals,
        "score": score,
        "release": release,
        "malformed": ("nobody", "", None, 0),
    }
