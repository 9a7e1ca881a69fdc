"""Live private sums over many meters: a feeder, a district, a town.

Released: every period's sum of the meters' readings, each clipped to public limits, with one noise for all of them. Any
window's sum is then known, with its error: the noise of neighbouring periods cancels in part (`energy`), is
independent (`shape`), or only energies are released (`registers`).

Adjacency: one meter changes in at most T consecutive periods, each by at most a kW. With `home="1d"` a is the whole
public range: everything that one home does in a day, its absence included, is hidden.

Theorem. The sum moves by what the one meter moves by, so the meter stream's theorem holds for it word for word
(mechanisms/meter_stream/stream.py). Noise does not grow with the number of meters; its share of the load falls with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.containers import readings_array
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.mechanisms.meter_stream.filter_shapes import energy_shape
from gaussveil.mechanisms.meter_stream.request import HiddenChange
from gaussveil.mechanisms.meter_stream.stream import MeterStream
from gaussveil.mechanisms.source_rows import ordered_table
from gaussveil.noise.stream_filter import StreamFilter
from gaussveil.timeseries.clock import hours
from gaussveil.typing import Floats, Integers

LARGEST_SUM = 2**62  # steps of the lattice, so that noise fits beside it
WINDOW_HOURS = (1.0, 24.0, 7 * 24.0, 28 * 24.0)


@dataclass(frozen=True)
class WindowEnergy:
    """Energy of all meters in the periods [first, last), and the deviation of its error."""

    first: int
    last: int
    kwh: float
    sd: float


@dataclass(frozen=True, eq=False)
class FleetForecast:
    """Power of all meters in the next periods, in kW, and the deviation that the noise alone gives it."""

    kw: Floats
    sd: float


class MeterFleet(MeterStream):
    """Private sums of many meters; make one with `MeterFleet.design`.

    >>> fleet = MeterFleet.design(sample_period="15min", epsilon=1.0, delta=1e-5, home="1d", limits=(0.0, 5.0))
    >>> sums = fleet.push_many(np.full((96, 1000), 0.5))  # a day of a thousand homes
    >>> fleet.window(0, 96).sd < 0.2 * 1000 * 0.5 * 24  # kWh
    True

    A row of readings is a period, a column a meter: a meter counts once per period. The account is debited once, before
    the first sum.

    Args:
        design: of the sums.
        account: debited once, before the first sum.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        spectrum: certificate of the spectrum that the design rests on, if any.
    """

    mechanism = "meter fleet"
    released_as = "sums over meters"

    @classmethod
    def design(
        cls,
        *,
        home: float | str | None = None,
        limits: tuple[float, float] = (0.0, 10.0),
        purpose: str = "energy",
        **given: Any,
    ) -> MeterFleet:
        """Design the sums; nothing is drawn or spent.

        Args:
            home: for how long one home is hidden, whatever it does within the limits; or `event` or `l2_ball`.
            limits: public range in kW that each reading is clipped to.
            purpose: "energy" for any window, "shape" for single periods, "billing" or "registers".
            given: the other arguments of `MeterStream.design`.

        Returns:
            The fleet, not opened yet.

        Raises:
            ParameterError: an argument is out of range, or more than one of home, event and l2_ball is given.
        """
        low, high = checks.span("limits", limits)
        if home is not None:
            if given.get("event") is not None or given.get("l2_ball") is not None:
                raise ParameterError(
                    "give one of home, event and l2_ball: what the sums hide."
                )
            given["event"] = (
                max(high - low, abs(low), abs(high)),
                home,
            )  # a home may also be gone
        if (
            purpose == "energy"
            and given.get("balance") is None
            and given.get("event") is not None
        ):
            period = hours("sample_period", given.get("sample_period"))
            given["balance"] = best_balance(
                HiddenChange.of(given["event"], None, period).samples, period
            )
        made = super().design(limits=(low, high), purpose=purpose, **given)
        assert isinstance(made, MeterFleet)
        return made

    def push(self, reading: Any) -> float:
        """The private sum of one period, from the readings of all meters; None or NaN stands for a missing one.

        Args:
            reading: kW of every meter, in their order.

        Returns:
            The sum in kW.
        """
        return float(self.push_many([reading])[0])

    def _values(self, readings: Any, order: Sequence[str]) -> Floats:
        """One row per period, one column per meter."""
        return meter_columns(
            readings, order, self.design_.limits, self.design_.filter.input_grid
        )

    def _steps(self, values: Floats) -> Integers:
        """Whole numbers: sums are exact, in any order."""
        return np.asarray(super()._steps(values).sum(axis=tuple(range(1, values.ndim))))

    def _push(self, values: Floats) -> Floats:
        outputs = super()._push(values)
        if self.design_.readings:
            self.outputs += outputs.tolist()
        return outputs

    def released(self, first: int) -> Floats:
        """The sums of period `first` and later ones.

        Returns:
            An array, a number for each period.
        """
        return np.array(self.outputs[first:])

    def hold(self, first: int) -> None:
        """Keep the sums from a period on: all are kept, so that any window may be asked for.

        Args:
            first: number of the period.
        """

    def window(self, first: int, last: int) -> WindowEnergy:
        """Energy of the periods [first, last) that were released; free, being post-processing.

        Returns:
            The energy in kWh, and the deviation of its error.

        Raises:
            ParameterError: the periods were not released, or the window is empty.
            AssumptionError: the purpose releases energies alone.
        """
        if not self.design_.readings:
            raise AssumptionError(
                "no sums of periods are released, only energies: see `energies`."
            )
        checks.whole("first", first, f"[0, {len(self.outputs)}]")
        checks.whole("last", last, f"[{first + 1}, {len(self.outputs)}]")
        period = self.design_.sample_period
        kwh = math.fsum(self.outputs[first:last]) * period
        return WindowEnergy(
            first, last, kwh, self.design_.energy_sd((last - first) * period)
        )

    def forecast(
        self, horizon: str | float, season: str | float = "1d"
    ) -> FleetForecast:
        """Power of the next periods: the mean of the same places in all whole seasons released; free, as windows are.

        Args:
            horizon: how far ahead, at most one season: hours, or text such as "6h".
            season: after which the load repeats itself, "1d" or "7d".

        Returns:
            kW of each period ahead, and the deviation of their noise.

        Raises:
            ParameterError: less than a season was released, or the horizon is longer than one.
            AssumptionError: the purpose releases energies alone.
        """
        if not self.design_.readings:
            raise AssumptionError(
                "no sums of periods are released, only energies: see `energies`."
            )
        period = self.design_.sample_period
        length, ahead = (
            round(hours(name, one) / period)
            for name, one in (("season", season), ("horizon", horizon))
        )
        checks.whole("the season's periods", length, f"[1, {len(self.outputs)}]")
        checks.whole("the horizon's periods", ahead, f"[1, {length}]")
        count = len(self.outputs) // length
        mean = np.reshape(self.outputs[-count * length :], (count, length)).mean(axis=0)
        lags = self.design_.filter.noise_lags((count - 1) * length + 1)[::length]
        variance = (
            float(lags[0] + 2 * np.arange(count - 1, 0, -1) @ lags[1:] / count) / count
        )
        return FleetForecast(mean[:ahead], math.sqrt(variance))


def meter_columns(
    readings: Any,
    order: Sequence[str],
    limits: tuple[float, float],
    grid: float,
    *,
    alone: bool = False,
) -> Floats:
    """Readings as one row per period and one column per meter; of one meter `alone` also one number per period."""
    table = ordered_table(readings, order)
    names = list(getattr(readings, "column_names", getattr(readings, "columns", ())))
    if len(set(names)) < len(names):
        raise ParameterError(
            "columns must be one per meter: a name stands twice, and its meter would count twice."
        )
    if table is not readings:
        return np.column_stack([column.to_numpy() for column in table.columns])
    values = readings_array("readings", readings).astype(np.float64)
    if alone and values.ndim == 1:
        return values
    if values.ndim != 2 or values.shape[1] < 1:
        raise ParameterError(
            f"readings must be periods by meters. Got {values.ndim} axes."
        )
    checks.whole(
        "the number of meters",
        values.shape[1],
        f"[1, {int(LARGEST_SUM / (max(map(abs, limits)) / grid))}]",
    )
    return values


@lru_cache
def best_balance(length: int, period: float) -> tuple[float, float]:
    """(rho, p) of "energy" with the least product of the deviations of a period, an hour, a day, a week and 28 days.

    All public: the event's number of periods and their hours. In a product no unit and no weight matters.
    """
    from scipy.optimize import minimize

    windows = sorted({1, *(max(1, round(one / period)) for one in WINDOW_HOURS)})

    def parameters(point: Floats) -> tuple[float, float]:
        return 1 - 10.0 ** float(np.clip(point[0], -8, -0.05)), float(
            np.clip(point[1], 0.001, 0.95)
        )

    def cost(point: Floats) -> float:
        return sum(
            math.log(window_variance(energy_shape(length, 1.0, *parameters(point)), n))
            for n in windows
        )

    starts = (np.array([place, 0.3]) for place in (-1.5, -2.5, -3.5))
    found = min(
        (minimize(cost, start, method="Nelder-Mead") for start in starts),
        key=lambda one: float(one.fun),
    )
    return parameters(found.x)


def window_variance(filters: StreamFilter, length: int) -> float:
    """Variance of the noise's sum over so many periods, of a filter with one pole: a sum of powers, in closed form."""
    variance, side = (float(lag) for lag in np.append(filters.noise_lags(2), 0.0)[:2])
    if length == 1:
        return variance
    gap = 1 - filters.pole
    if gap < 1:
        powers = -math.expm1(length * math.log1p(-gap))
    else:
        powers = 1.0
    total = length * variance + 2 * side * (length * gap - powers) / gap**2
    return max(total, 1e-300)
