"""What the feeder delivers, as it grows: a running total over all homes, and requests that could not be useful."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaussveil.accounting import Account, Certificate
from gaussveil.mechanisms import Mean, RunningTotal, TableRelease
from gaussveil.noise import Generator
from gaussveil.statistics import hour_of
from gaussveil.timeseries import Readings
from gaussveil.typing import Floats
from gaussveil_town import tables

LARGEST_KW = 25.0  # of a home: its fuse
ZONES = 10


@dataclass(frozen=True, eq=False)
class FeederTotal:
    """Private totals in kWh after each hour; each day's and the last week's energy from them; deviations of errors."""

    kwh: Floats
    sd: float
    per_day: int
    day_kwh: Floats
    day_sd: float
    week_kwh: float
    week_sd: float
    certificate: Certificate
    tree_sd: float
    """Of totals by a binary tree, in the mean of squares; ours beside it."""
    total_sd: float


def energies(town: Readings) -> Floats:
    """Energy in kWh of every hour and home: hours x homes."""
    found = tables.by_hour(town)
    return np.asarray(found.values.T * (found.step_minutes / 60))


def feeder_total(
    town: Readings,
    account: Account,
    generator: Generator | None,
    *,
    epsilon: float,
    delta: float,
) -> FeederTotal:
    """Every hour's energy of all homes, added up; hidden are any 24 hours of a home, wherever they lie."""
    readings = energies(town)
    day = tables.by_hour(town).steps_per_day
    total = RunningTotal(
        steps=len(readings),
        epsilon=epsilon,
        delta=delta,
        limits=(0.0, LARGEST_KW * 24 / day),
        takes=day,
        sample_period=24 / day,
        account=account,
        generator=generator,
    )
    kwh = total.push_many(readings)
    now = total.current()
    week = total.window(len(readings) - 7 * day, len(readings))
    plan = total.plan()
    return FeederTotal(
        kwh=kwh,
        sd=now.sd,
        per_day=day,
        day_kwh=np.diff(kwh[day - 1 :: day], prepend=0.0),
        day_sd=total.window(len(readings) - day, len(readings)).sd,
        week_kwh=week.total,
        week_sd=week.sd,
        certificate=total.certificate_,
        tree_sd=plan.tree_sd,
        total_sd=plan.total_sd,
    )


def by_zone(homes: int, *, epsilon: float, delta: float) -> str:
    """What the plan of an average day by zone says of so many homes; nothing is read or spent."""
    request = TableRelease(
        unit="household",
        epsilon=epsilon,
        delta=delta,
        by={
            "zone": [f"zone {place + 1}" for place in range(ZONES)],
            "hour": hour_of("time"),
        },
        groups_per_unit=24,
        answers=Mean("kw", bounds="auto"),
    )
    return str(request.plan().useful(homes))
