"""Offer: a load forecast that hides which household of its cluster it is."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.accounting import Account, Adjacency
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms import PrivateForecast, PrivateForecaster
from gaussveil.noise import SeededGenerator
from gaussveil.report.number_files import encode_columns
from gaussveil.statistics.block import is_number, require_columns
from gaussveil.timeseries import read_readings, simulate_households
from gaussveil.timeseries.household_models import steps_ahead
from gaussveil.timeseries.tables import columns_of, to_minutes
from gaussveil_studio.offers.offer import (
    ASKED_AGAIN,
    Offer,
    OfferPlan,
    Outcome,
    Picture,
    band,
    spelled,
)
from gaussveil_studio.offers.rounding import percent
from gaussveil_studio.offers.tables import open_source, proposed, reading_of, schema_of
from gaussveil_studio.shown import written

HOLDS = (
    "In 90 of 100 cases the reading to come lies within the band, if the home goes on as it did: it holds the noise "
    "that was added for privacy and what a forecast cannot know."
)
ROOM = 4 << 20  # bytes: certificates hold a loss for every pair of households
MOST_DRAWN = 6
GAPS = {
    "none are": "refuse",
    "a straight line": "interpolate",
    "the last one": "hold",
    "a week before": "week",
}
# of a design: of start, models, and each pair
SECONDS_AT_LEAST = 6.0
SECONDS_A_HOME = 0.03
SECONDS_A_PAIR = 0.0001


class ForecastOffer(Offer):
    """The next hours of one household, or of a whole cluster."""

    file_name = "forecast.csv"

    def _forecaster(self, **more: Any) -> PrivateForecaster:
        order = self.order
        if not order["home"]:
            raise ParameterError(
                "name the household whose forecast, or whose cluster's forecasts, to release"
            )
        known = {
            name: order[name] for name in ("horizon", "epsilon", "delta", "clusters")
        }
        return PrivateForecaster(model=order["past"], **{**known, **more})

    def _reading(self) -> dict[str, Any]:
        """How the table is read: long, or a column for each home; from its names and types alone."""
        schema = schema_of(self.needed_table())
        order = self.order
        guessed = proposed(schema)
        time = order["time"] or guessed["time"]
        if not time:
            raise SchemaError(
                "the table has no column of times: choose the one that says when a reading was taken"
            )
        require_columns(schema, [time])
        known = {
            "time": time,
            "measured_in": order["measured_in"],
            "gaps": GAPS[order["gaps"]],
        }
        others = [one for one in schema if one.name != time]
        if (
            not order["unit"]
            and len(others) > 1
            and all(is_number(one.type) for one in others)
        ):
            return {**known, "layout": "wide"}
        unit = order["unit"] or guessed["unit"]
        if not unit:
            raise SchemaError(
                "choose the column that names the home, or give a table with a column for each"
            )
        left = [one.name for one in others if one.name != unit and is_number(one.type)]
        reading = order["reading"] or reading_of(left)
        if not reading:
            raise SchemaError(
                "choose the column of readings: the table has several columns of numbers, or none"
            )
        require_columns(schema, [unit, reading])
        return {**known, "layout": "long", "household": unit, "power": reading}

    def _homes(self) -> list[str]:
        """Names of the homes, which are public: the certificate says so."""
        known = self._reading()
        address = self.needed_table()
        if known["layout"] == "wide":
            return [name for name in schema_of(address).names if name != known["time"]]
        return list(_names(address, known["household"], *written(address)))

    def _checked(self) -> list[str]:
        """Everything that names and types can tell, by the code that will read the readings."""
        known = self._reading()
        homes = self._homes()
        schema = schema_of(self.needed_table())
        hours = pa.array(np.arange(4) * 3_600_000_000, pa.timestamp("us"))
        columns: dict[str, Any] = {}
        for one in schema:
            if one.name == known["time"]:
                is_text = pa.types.is_string(one.type) or pa.types.is_large_string(
                    one.type
                )
                columns[one.name] = (
                    hours if is_text else hours.cast(one.type, safe=False)
                )
            elif one.name == known.get("household"):
                columns[one.name] = pa.array(["home"] * 4)
            else:
                columns[one.name] = (
                    pa.array([1] * 4).cast(one.type)
                    if is_number(one.type)
                    else pa.nulls(4, one.type)
                )
        if not pa.types.is_date(schema.field(known["time"]).type):
            read_readings(pa.table(columns), **known)
        times = schema.field(known["time"])
        if not pa.types.is_temporal(times.type) and not _are_times(
            self.needed_table(), times.name, *written(self.address)
        ):
            raise SchemaError(
                f"column '{times.name}' must hold times such as 2018-10-29T00:15 in every row"
            )
        if self.order["home"] not in homes:
            raise ParameterError(
                "home must be one of the table's homes. Got another name."
            )
        if self.order["clusters"] > len(homes) // 2:
            raise ParameterError(
                f"clusters must be at most {len(homes) // 2}, for {len(homes)} households"
            )
        return homes

    def plan(self) -> OfferPlan:
        """What is promised. The noise depends on forecasts and these on readings: homes of nobody stand for them."""
        steps_ahead(self._forecaster().horizon, 1)
        count = len(self._checked())
        homes = simulate_households(8, 15, step_minutes=60, seed=1)
        rehearsed = self._forecaster(
            horizon="3h", clusters=1, generator=SeededGenerator(1)
        ).fit(homes)
        return OfferPlan(
            facts=(
                (
                    "Hidden",
                    f"which household of its cluster the forecast belongs to, of {count} in all",
                ),
                ("Horizon", str(self.order["horizon"])),
                (
                    "Noise",
                    "not shown yet: its size follows from the readings and would tell of them before anything is paid. "
                    "It will be the smallest that keeps the promise, and the certificate states it",
                ),
                (
                    "Assumed public",
                    "which household is in which cluster, and the models of the households",
                ),
            ),
            simulated=_picture(
                "Three hours of one of eight simulated homes",
                rehearsed.release("home00002").value,
            ),
            seconds=self.seconds(),
            # which homes are in its cluster follows from the readings; that it is about labels does not
            adjacency=Adjacency.label_graph([("one", "another")], "household"),
        )

    def seconds(self) -> float:
        """About how long it takes: most of it goes into the pairs of homes of one cluster that must look alike."""
        count = len(self._homes())
        pairs = (count / self.order["clusters"]) ** 2
        return float(SECONDS_AT_LEAST + SECONDS_A_HOME * count + SECONDS_A_PAIR * pairs)

    def prepare(self) -> int:
        """Read the readings, fit the models, search the noise."""
        self._checked()
        readings = read_readings(open_source(self.needed_table()), **self._reading())
        forecaster = self._known["forecaster"] = self._forecaster().fit(readings)
        # Designs the noise now, so that whatever is refused is refused before the debit.
        forecaster.diagnostics(self.order["home"], whole=self.order["whole_cluster"])
        return ROOM

    def python(self) -> str:
        """As Python; whose forecast it is stands in no file that may be given away."""
        if self.order["whole_cluster"]:
            call = "release_cluster_of"
        else:
            call = "release"
        given = ", ".join(
            f"{name}={value!r}" for name, value in self._reading().items()
        )
        fitted = f"fit(read_readings(gaussveil.open(table), {given}))"
        return f"{ASKED_AGAIN}\nrelease = {spelled(self._forecaster())}.{fitted}.{call}(whose)"

    def named(self) -> dict[str, Any]:
        """Columns, as the command names them."""
        return self._reading()

    def release(self, account: Account) -> Outcome:
        """Draw."""
        forecaster = self._known["forecaster"]
        name = self.order["home"]
        forecaster.account = account
        if self.order["whole_cluster"]:
            release = forecaster.release_cluster_of(name)
        else:
            release = forecaster.release(name)
        known = release.certificate.parameters
        factor = math.exp(math.sqrt(float(known["accuracy"])))
        return Outcome(
            body=encode_columns(release.value.columns(), ".csv"),
            certificate=release.certificate,
            facts=(
                ("Released", release.certificate.released),
                ("Hidden among", f"{known['cluster_size']} households"),
                (
                    "Error",
                    f"typically a factor of {factor:.2g} from the forecast of the home itself",
                ),
            ),
            picture=lambda: _picture("Released forecast", release.value),
        )


@lru_cache(maxsize=8)
def _names(address: str, column: str, *_written: int) -> tuple[str, ...]:
    found = open_source(address).table([column])[column].unique()
    return tuple(str(name) for name in found.to_pylist() if name is not None)


@lru_cache(maxsize=8)
def _are_times(address: str, column: str, *_written: int) -> bool:
    """Whether a column that is no column of times can be read as one: what the release would refuse after its start."""
    try:
        to_minutes(columns_of(open_source(address).table([column])), column)
    except SchemaError:
        return False
    return True


def _picture(title: str, value: PrivateForecast) -> Picture:
    moments = value.times.astype("datetime64[m]")
    days = {str(day) for day in moments.astype("datetime64[D]")}
    times = [str(time).replace("T", " ") for time in moments]
    axis = "time"
    if len(days) == 1:  # it is said once
        times = [time.split(" ")[1] for time in times]
        axis = f"time on {days.pop()}"
    series: dict[str, Any] = {}
    for index, row in enumerate(np.atleast_2d(value.kw)[:MOST_DRAWN]):
        series["released" if value.kw.ndim == 1 else f"row {index + 1}"] = row.tolist()
    bands = []
    if value.kw.ndim == 1:
        bands = [
            band(
                value.lower_kw.tolist(),
                value.upper_kw.tolist(),
                f"{percent(value.coverage)} band",
            )
        ]
    return Picture(
        title, times, series, axis, "kW", bands=bands, holds=HOLDS if bands else ""
    )
