"""Offer: a load forecast that hides which household of its cluster it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussveil.accounting import Account
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import PrivateForecast, PrivateForecaster
from gaussveil.noise import SeededGenerator
from gaussveil.report.number_files import encode_columns
from gaussveil.timeseries import read_readings, simulate_households
from gaussveil.timeseries.household_models import steps_ahead
from gaussveil_studio.offers.offer import ASKED_AGAIN, Offer, Outcome, Picture, Plan, band, spelled
from gaussveil_studio.offers.tables import open_source

ROOM = 4 << 20  # bytes: certificates hold a loss for every pair of households
MOST_DRAWN = 6


class ForecastOffer(Offer):
    """The next hours of one household, or of a whole cluster."""

    file_name = "forecast.csv"

    def _forecaster(self, **more: Any) -> PrivateForecaster:
        order = self.order
        if not order["home"]:
            raise ParameterError("name the household whose forecast, or whose cluster's forecasts, to release")
        known = {name: order[name] for name in ("horizon", "epsilon", "delta", "clusters")}
        return PrivateForecaster(model=order["past"], **{**known, **more})

    def plan(self) -> Plan:
        """What is promised. The noise depends on forecasts and these on readings: homes of nobody stand for them."""
        steps_ahead(self._forecaster().horizon, 1)
        homes = simulate_households(8, 15, step_minutes=60, seed=1)
        rehearsed = self._forecaster(horizon="3h", clusters=1, generator=SeededGenerator(1)).fit(homes)
        return Plan(
            facts=(
                ("Hidden", "which household of its cluster the forecast belongs to"),
                ("Horizon", str(self.order["horizon"])),
                (
                    "Noise",
                    "not shown yet: its size follows from the readings and would tell of them before anything is paid. "
                    "It will be the smallest that keeps the promise, and the certificate states it",
                ),
                ("Assumed public", "which household is in which cluster, and the models of the households"),
            ),
            simulated=_picture("Three hours of one of eight simulated homes", rehearsed.release("home00002").value),
        )

    def prepare(self) -> int:
        """Read the readings, fit the models, search the noise."""
        readings = read_readings(open_source(self.needed_table()), measured_in=self.order["measured_in"])
        forecaster = self._known["forecaster"] = self._forecaster().fit(readings)
        # Designs the noise now, so that whatever is refused is refused before the debit.
        forecaster.diagnostics(self.order["home"], whole=self.order["whole_cluster"])
        return ROOM

    def python(self) -> str:
        """As Python; whose forecast it is stands in no file that may be given away."""
        call = "release_cluster_of" if self.order["whole_cluster"] else "release"
        fitted = f"fit(read_readings(gaussveil.open(table), measured_in={self.order['measured_in']!r}))"
        return f"{ASKED_AGAIN}\nrelease = {spelled(self._forecaster())}.{fitted}.{call}(whose)"

    def release(self, account: Account) -> Outcome:
        """Draw."""
        forecaster, name = self._known["forecaster"], self.order["home"]
        forecaster.account = account
        release = forecaster.release_cluster_of(name) if self.order["whole_cluster"] else forecaster.release(name)
        known = release.certificate.parameters
        return Outcome(
            body=encode_columns(release.value.columns(), ".csv"),
            certificate=release.certificate,
            facts=(
                ("Released", release.certificate.released),
                ("Hidden among", f"{known['cluster_size']} households"),
                ("Error", f"mean squared, {float(known['accuracy']):.4g} in log power"),
            ),
            picture=lambda: _picture("Released forecast", release.value),
        )


def _picture(title: str, value: PrivateForecast) -> Picture:
    times = [str(time).replace("T", " ") for time in value.times.astype("datetime64[m]")]
    series: dict[str, Any] = {}
    for index, row in enumerate(np.atleast_2d(value.kw)[:MOST_DRAWN]):
        series["released" if value.kw.ndim == 1 else f"row {index + 1}"] = row.tolist()
    bands = []
    if value.kw.ndim == 1:
        bands = [band(value.lower_kw.tolist(), value.upper_kw.tolist(), f"{value.coverage:.0%} band")]
    return Picture(title, times, series, "time", "kW", bands=bands)
