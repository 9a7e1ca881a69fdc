"""A table of meter readings on a regular grid: households x times, kW.

`read_readings` turns a table, long (household, time, kW) or wide (time, one column per household), into `Readings`.
What real tables get wrong is handled by a rule that the caller names, or refused with a message that names column and
row, never the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.containers import form_notes
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.timeseries.clock import MINUTE, skipped, to_wall_clock
from gaussveil.timeseries.gridding import (
    Duplicates,
    Gaps,
    fill,
    infer_step,
    place,
    refuse,
)
from gaussveil.timeseries.tables import (
    Columns,
    columns_of,
    to_categories,
    to_float,
    to_minutes,
)
from gaussveil.typing import Floats, Integers

if TYPE_CHECKING:
    import pyarrow as pa

MINUTES_PER_DAY = 24 * 60
_MONDAY = np.datetime64("1970-01-05T00:00", "m")

Zeros = Literal["keep", "missing", "refuse"]
Unit = Literal["kW", "W", "kWh", "Wh"]
_NamedCells = tuple[
    tuple[str, ...], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]
]
"""Names of households; of each cell the household, the row, the value, and the column that a message names."""


@dataclass(frozen=True, eq=False)
class Readings:
    """Average power in kW of every household over the interval that starts at each time of a regular grid.

    `values` has one row per household; column k starts at `start + k * step_minutes`.
    """

    values: NDArray[np.float64]
    households: tuple[str, ...]
    start: np.datetime64
    step_minutes: int
    found_form: tuple[str, ...] = ()
    """What of the form of their table nobody wrote down: guarantees name it."""

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != len(self.households):
            raise ShapeError(
                f"values must have one row per household ({len(self.households)} named) and one column per time. "
                f"Got shape {values.shape}."
            )
        if len(set(self.households)) != len(self.households):
            raise SchemaError(
                "households must be distinct; at least one name occurs twice"
            )
        if self.step_minutes < 1 or MINUTES_PER_DAY % self.step_minutes:
            raise ParameterError(
                f"step_minutes must divide a day of 1440 minutes. Got {self.step_minutes}."
            )
        if not np.isfinite(values).all() or (values < 0).any():
            home, column = np.argwhere(~np.isfinite(values) | (values < 0))[0]
            raise SchemaError(
                f"values must be finite and not negative; household {home}, time {column} is not"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(
            self, "start", np.asarray(self.start, dtype="datetime64[m]")[()]
        )

    def __len__(self) -> int:
        return len(self.households)

    @property
    def count(self) -> int:
        """Number of times."""
        return int(self.values.shape[1])

    @property
    def times(self) -> NDArray[np.datetime64]:
        """Start of every interval."""
        return self.start + np.arange(self.count) * np.timedelta64(
            self.step_minutes, "m"
        )

    @property
    def steps_per_day(self) -> int:
        """Readings in a day."""
        return MINUTES_PER_DAY // self.step_minutes

    @property
    def week_phase(self) -> int:
        """Position of the first reading in the week, counted in steps from Monday 00:00."""
        return (
            int((self.start - _MONDAY) // MINUTE % (7 * MINUTES_PER_DAY))
            // self.step_minutes
        )

    def to_arrow(self) -> pa.Table:
        """The long table that `read_readings` reads: household, time, kw."""
        import pyarrow as pa

        homes = pa.array(self.households).take(
            np.repeat(np.arange(len(self)), self.count)
        )
        times = np.tile(self.times.astype("datetime64[us]"), len(self))
        return pa.table({"household": homes, "time": times, "kw": self.values.ravel()})

    def to_pandas(self) -> Any:
        """The same as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a polars frame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def select(self, households: Sequence[str]) -> Readings:
        """The named households, in the order asked."""
        rows = {name: row for row, name in enumerate(self.households)}
        missing = sum(name not in rows for name in households)
        if missing:
            raise SchemaError(
                f"{missing} of the {len(households)} households asked for are not among the {len(self)} read"
            )
        return Readings(
            self.values[[rows[name] for name in households]],
            tuple(households),
            self.start,
            self.step_minutes,
            self.found_form,
        )

    def window(self, first: int, count: int) -> Readings:
        """`count` consecutive times from position `first`."""
        if first < 0 or count < 1 or first + count > self.count:
            raise ParameterError(
                f"window needs 0 <= first and first + count <= {self.count}. Got {first} and {count}."
            )
        start = self.start + first * np.timedelta64(self.step_minutes, "m")
        return Readings(
            self.values[:, first : first + count],
            self.households,
            start,
            self.step_minutes,
            self.found_form,
        )

    def resample(self, step_minutes: int) -> Readings:
        """Average power over longer steps; an incomplete last step is dropped."""
        factor = step_minutes // self.step_minutes
        if step_minutes % self.step_minutes or factor < 1 or self.count < factor:
            raise ParameterError(
                f"step_minutes must be a multiple of {self.step_minutes} that fits the {self.count} readings. "
                f"Got {step_minutes}."
            )
        whole = self.values[:, : self.count // factor * factor].reshape(
            len(self), -1, factor
        )
        return Readings(
            whole.mean(axis=2),
            self.households,
            self.start,
            step_minutes,
            self.found_form,
        )


def _as_long(columns: Columns, household: str, power: str) -> _NamedCells:
    """A row per reading: names, whose readings they are, their rows and values, and how a message calls them."""
    if household not in columns:
        raise SchemaError(
            f"a long table needs the column '{household}'; found {sorted(columns)[:8]}"
        )
    names, homes = to_categories(columns, household)
    values = to_float(columns, power)
    rows = np.arange(values.size)
    return names, homes, rows, values, np.full(values.size, power, dtype=object)


def _step(step_minutes: int | None, minutes: NDArray[np.int64], time: str) -> int:
    """The step of the grid in minutes, inferred where it is not given; it must divide a day."""
    if step_minutes is None:
        step_minutes = infer_step(minutes, time)
    if step_minutes < 1 or MINUTES_PER_DAY % step_minutes:
        raise SchemaError(
            f"column '{time}': the step of {step_minutes} minutes does not divide a day; give step_minutes"
        )
    return step_minutes


def read_readings(
    table: Any,
    *,
    household: str = "household",
    time: str = "time",
    power: str = "kw",
    layout: Literal["auto", "long", "wide"] = "auto",
    measured_in: Unit = "kW",
    step_minutes: int | None = None,
    time_zone: str | None = None,
    gaps: Gaps = "refuse",
    max_gap: int = 96,
    duplicates: Duplicates = "refuse",
    zeros: Zeros = "keep",
) -> Readings:
    """Put a table of meter readings on a regular grid.

    `table` is a pandas, polars or pyarrow table, a NumPy structured array or a dict of columns. Long: the columns
    `household`, `time`, `power`; wide: `time` and one column of power per household ("auto" means wide when there is no
    `household` column).

    Rules. A missing reading (no row, null, NaN) follows `gaps`: refused, interpolated linearly, the last value held, or
    the value of one week before (failing that, after; failing that, interpolated); runs longer than `max_gap` steps are
    always refused. A second reading of the same household and time follows `duplicates`. `zeros="missing"` treats a
    reading of exactly 0 as missing. Negative and infinite readings are always refused. `kWh`, `Wh` are energy
    per step.

    Clock changes: without `time_zone`, times are uniform (aware stamps are read as UTC) and nothing special happens.
    With it, the grid runs on that zone's wall clock: the hour repeated in autumn is averaged, the hour skipped in
    spring is interpolated.
    """
    checks.one_of("gaps", gaps, ("refuse", "interpolate", "hold", "week"))
    checks.one_of("duplicates", duplicates, ("refuse", "mean", "first", "last"))
    checks.one_of("zeros", zeros, ("keep", "missing", "refuse"))
    checks.one_of("measured_in", measured_in, ("kW", "W", "kWh", "Wh"))
    checks.one_of("layout", layout, ("auto", "long", "wide"))
    columns = columns_of(table)
    notes = form_notes(table)
    time_zone = time_zone or notes.time_zone
    minutes, aware = to_minutes(columns, time)
    if layout == "long" or (layout == "auto" and household in columns):
        names, homes, rows, values, labels = _as_long(columns, household, power)
        named = power
    else:
        names, homes, rows, values, labels = _melt(columns, time)
        named = ""
    repeated = np.zeros(minutes.size, dtype=bool)
    if time_zone is not None:
        minutes, repeated = to_wall_clock(minutes, aware, time_zone, column=time)
    step = _step(step_minutes, minutes, time)
    refuse(
        (values < 0) | np.isinf(values), rows, labels, "must be finite and not negative"
    )
    values = _without_zeros(values, zeros, rows, labels)
    start = int(minutes.min())
    refuse(
        (minutes - start) % step != 0,
        np.arange(minutes.size),
        time,
        f"is off the grid of {step} minutes",
    )
    cell = (minutes - start) // step
    count = int(cell.max()) + 1
    if count * len(names) > 64 * max(values.size, 1024):
        raise SchemaError(
            f"column '{time}': the span holds {count} steps of {step} minutes, most of them without a reading"
        )
    grid = place(
        homes,
        cell[rows],
        values,
        (len(names), count),
        rows,
        labels,
        duplicates,
        repeated[rows],
    )
    kilowatts = (
        grid * {"kW": 1.0, "W": 1e-3, "kWh": 60 / step, "Wh": 0.06 / step}[measured_in]
    )
    lost = np.zeros(count, dtype=bool)
    if time_zone is not None:
        lost = skipped(start + step * np.arange(count), time_zone)
    filled = fill(
        kilowatts,
        gaps,
        max_gap,
        7 * MINUTES_PER_DAY // step,
        lost,
        named,
        names,
    )
    return Readings(filled, names, np.datetime64(start, "m"), step, notes.found)


def _melt(columns: Columns, time: str) -> _NamedCells:
    """The same of a column per household."""
    names = tuple(name for name in columns if name not in (time, *time.split("+")))
    if not names:
        raise SchemaError(
            f"a wide table needs one column per household beside '{time}'; found none"
        )
    try:
        values = np.concatenate([to_float(columns, name) for name in names])
    except SchemaError as error:
        raise SchemaError(
            f"{error}; of a long table name the column of households (--household)"
        ) from None
    size = values.size // len(names)
    homes = np.repeat(np.arange(len(names)), size)
    labels = np.repeat(np.array(names, dtype=object), size)
    return names, homes, np.tile(np.arange(size), len(names)), values, labels


def _without_zeros(values: Floats, zeros: Zeros, rows: Integers, labels: Any) -> Floats:
    """Readings of exactly 0 as they are, as missing ones, or refused."""
    if zeros == "keep":
        return values
    if zeros == "refuse":
        refuse(values == 0, rows, labels, "is exactly 0 and zeros='refuse'")
    return np.where(values == 0, np.nan, values)
