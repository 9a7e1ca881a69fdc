"""What a stream would be good for, in figures: one plan, and the plans of all purposes side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gaussveil.accounting import Charge
from gaussveil.mechanisms.meter_stream.design import StreamDesign
from gaussveil.mechanisms.usefulness import Useful, about
from gaussveil.shown import Shown

HEADINGS = ("purpose", "reading kW", "hour kW", "day kWh", "28 days kWh", "good for")
USELESS = "nothing: ask for less, protect smaller events, or add up many homes"


@dataclass(frozen=True, eq=False, repr=False)
class StreamPlan(Shown):
    """What a stream would be like, before anything is spent; energies in kWh are standard deviations of the error."""

    purpose: str
    noise_sd: float
    hourly_sd: float
    daily_energy_sd: float
    monthly_energy_sd: float
    daily_energy_percent: float
    monthly_energy_percent: float
    repeated_events: int
    repeated_epsilon: float
    repeated_delta: float
    good_for: tuple[str, ...]
    charge: Charge
    compared: tuple[StreamPlan, ...] = ()

    def describe(self) -> str:
        """Say it in plain text, and compare the purposes."""
        if self.noise_sd == math.inf:
            readings = "no readings"
        else:
            readings = f"noise {self.noise_sd:.3g} kW per reading"
        if self.hourly_sd == math.inf:
            hour = "no hours"
        else:
            hour = f"{self.hourly_sd:.3g} kW on an hour's mean"
        said = (
            f"{readings}, {hour}; energy error "
            f"{self.daily_energy_sd:.3g} kWh a day ({self.daily_energy_percent:.0f} %), "
            f"{self.monthly_energy_sd:.3g} kWh in 28 days ({self.monthly_energy_percent:.1f} %); a habit repeated on "
            f"{self.repeated_events} days has epsilon {self.repeated_epsilon:.3g}, delta {self.repeated_delta:.2g}; "
            f"good for: {', '.join(self.good_for) or USELESS}"
        )
        rows = [HEADINGS, *(plan._row() for plan in self.compared)]
        wide = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(
            [
                said,
                *(
                    "  ".join(map(str.ljust, row, wide)).rstrip()
                    for row in rows
                    if len(rows) > 1
                ),
            ]
        )

    __str__ = describe

    def useful(self) -> Useful:
        """Whether such a stream can be useful at all, and what to ask instead; in words, from public numbers."""
        if self.good_for:
            return Useful(True, f"useful for {', '.join(self.good_for)}")
        others = {
            plan.purpose: plan.good_for for plan in self.compared if plan.good_for
        }
        words = "cannot be useful: the noise is above a typical load, a quarter of a day's energy and a tenth of a bill"
        if others:
            better = "; ".join(
                f"purpose {purpose!r}, good for {', '.join(uses)}"
                for purpose, uses in others.items()
            )
            return Useful(False, f"{words}. Ask instead for {better}")
        homes = about(max(1.0, self.monthly_energy_percent / 10.0))
        return Useful(
            False,
            f"{words}. Ask instead for the sum of {homes} or more homes (MeterFleet), or smaller events",
        )

    def _facts(self) -> dict[str, str]:
        return {
            **dict(zip(HEADINGS, self._row())),
            "good for": ", ".join(self.good_for) or USELESS,
        }

    def _row(self) -> tuple[str, ...]:
        numbers = (
            self.noise_sd,
            self.hourly_sd,
            self.daily_energy_sd,
            self.monthly_energy_sd,
        )
        shown = ("-" if one == math.inf else f"{one:.3g}" for one in numbers)
        return self.purpose, *shown, ", ".join(self.good_for) or "nothing"


def figures(
    design: StreamDesign, typical_kw: float, repeated_events: int
) -> StreamPlan:
    """The plan of one design against a public typical load."""
    day = design.energy_sd(24.0)
    month = design.energy_sd(28 * 24.0)
    if design.sample_period <= 1 or not design.readings:
        hourly = design.energy_sd(1.0)
    else:
        hourly = design.noise_sd
    repeated = design.promise_of(design.repeated_shift(repeated_events))
    percent = 100 * day / (24 * typical_kw), 100 * month / (28 * 24 * typical_kw)
    uses = (
        ("load shape", hourly <= typical_kw),
        ("daily energy", percent[0] <= 25),
        ("bills", percent[1] <= 10),
    )
    return StreamPlan(
        purpose=design.purpose,
        noise_sd=design.noise_sd,
        hourly_sd=hourly,
        daily_energy_sd=day,
        monthly_energy_sd=month,
        daily_energy_percent=percent[0],
        monthly_energy_percent=percent[1],
        repeated_events=repeated_events,
        repeated_epsilon=repeated[0],
        repeated_delta=repeated[1],
        good_for=tuple(name for name, good in uses if good),
        charge=design.charge,
    )
