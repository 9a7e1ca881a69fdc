"""What the demo makes of a town's readings before anything is released: whole days, profiles of days and of homes.

All rules are public: which days, which parts of the day, the floor below the logarithm, the centre of the profiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import SchemaError
from gaussveil.timeseries import Readings
from gaussveil.typing import Floats

FEWEST_HOMES = 8
FEWEST_DAYS = 10
PART_HOURS = 3
PARTS = tuple(
    f"{hour:02d}-{hour + PART_HOURS:02d} h" for hour in range(0, 24, PART_HOURS)
)
DAY_KINDS = ("weekday", "weekend")
PROFILE_DAYS = 7
FLOOR_KW = 0.01
LARGEST_KW = 20.0
CENTRE = -0.5  # log kW: about 0.6 kW, what a home draws on average, known to everybody


def whole_days(readings: Readings) -> Readings:
    """Readings from the first midnight on, in whole days, at 15 minutes or more; a town too small is refused."""
    if len(readings) < FEWEST_HOMES:
        raise SchemaError(
            f"the table must hold at least {FEWEST_HOMES} households, or there is nobody to hide among; "
            f"it holds {len(readings)}"
        )
    if (PART_HOURS * 60) % readings.step_minutes:
        raise SchemaError(
            f"the step of the readings must divide {PART_HOURS} hours; it is {readings.step_minutes} minutes. "
            "Average them over 15, 30 or 60 minutes first"
        )
    first = -readings.week_phase % readings.steps_per_day
    days = (readings.count - first) // readings.steps_per_day
    if days < FEWEST_DAYS:
        raise SchemaError(
            f"the table must span at least {FEWEST_DAYS} whole days from midnight to midnight, for a weekly season and "
            f"three evenings to forecast; it spans {max(days, 0)}"
        )
    whole = readings.window(first, days * readings.steps_per_day)
    # Finer steps would cost minutes of computing and show no more.
    if 15 % readings.step_minutes == 0 and readings.step_minutes < 15:
        return whole.resample(15)
    return whole


def by_hour(readings: Readings) -> Readings:
    """Means over hours, where the readings are finer."""
    if 60 % readings.step_minutes == 0:
        return readings.resample(60)
    return readings


def log_parts(readings: Readings) -> Floats:
    """Mean log power of every home, day and part of the day: homes x days x 8."""
    log = np.log(np.maximum(readings.values, FLOOR_KW))
    return np.asarray(
        log.reshape(
            len(readings), -1, len(PARTS), readings.steps_per_day // len(PARTS)
        ).mean(axis=3)
    )


def day_parts(readings: Readings) -> Floats:
    """Mean power in kW of every home, each of the last week's days and each part of the day: homes x days x 8."""
    shape = len(readings), -1, len(PARTS), readings.steps_per_day // len(PARTS)
    return np.asarray(readings.values.reshape(shape).mean(axis=3)[:, -PROFILE_DAYS:])


def day_table(readings: Readings) -> Any:
    """One row per home and day of the last week: eight parts of the day, weekday or weekend, whose home it is."""
    import pyarrow as pa

    rows = day_parts(readings).reshape(-1, len(PARTS))
    kinds = np.tile(day_kinds(readings)[-PROFILE_DAYS:], len(readings))
    homes = np.repeat(np.array(readings.households), PROFILE_DAYS)
    columns: dict[str, Any] = {name: rows[:, k] for k, name in enumerate(PARTS)}
    return pa.table({"kind": kinds.tolist(), **columns, "household": homes.tolist()})


def day_kinds(readings: Readings) -> NDArray[np.str_]:
    """Weekday or weekend, for every day."""
    first = readings.week_phase // readings.steps_per_day
    weekday = (first + np.arange(readings.count // readings.steps_per_day)) % 7
    return np.where(weekday >= 5, DAY_KINDS[1], DAY_KINDS[0])


def home_rows(readings: Readings) -> Floats:
    """One row per home: its mean log power in each part of the day, less the public centre."""
    return np.asarray(log_parts(readings).mean(axis=1) - CENTRE)


def home_table(readings: Readings) -> Any:
    """The rows of `home_rows` with the names of the parts and of the homes."""
    import pyarrow as pa

    rows = home_rows(readings)
    columns: dict[str, Any] = {name: rows[:, k] for k, name in enumerate(PARTS)}
    return pa.table({**columns, "household": list(readings.households)})


def reading_table(readings: Readings) -> Any:
    """One row per reading: whose it is, when, how many kW."""
    import pyarrow as pa

    homes = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(len(readings)), readings.count), list(readings.households)
    )
    times = np.tile(readings.times.astype("datetime64[us]"), len(readings))
    return pa.table({"household": homes, "time": times, "kw": readings.values.ravel()})


def day_quantiles(readings: Readings) -> dict[str, Floats]:
    """Private: the quantiles 5, 50 and 95 % of the last week's days in kW, for each kind of day."""
    parts = day_parts(readings)
    kinds = day_kinds(readings)[-PROFILE_DAYS:]
    return {
        name: np.percentile(
            parts[:, kinds == name].reshape(-1, len(PARTS)), [5.0, 50.0, 95.0], axis=0
        )
        for name in DAY_KINDS
    }
