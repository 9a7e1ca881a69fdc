"""How commands read tables of meter readings, and how they notice the wrong unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.columns import HOUSEHOLD, READINGS, readings_named
from gaussveil.cli.tables import Engine, local_file, open_table
from gaussveil.errors import SchemaError, SourceError

if TYPE_CHECKING:
    from gaussveil.timeseries import Readings

TABLES = (".parquet", ".csv", ".csv.gz")
HIGHEST_MEDIAN_KW = 50.0  # no town of homes draws more; watts taken for kilowatts do


def read_table(address: str, engine: Engine) -> Any:
    """The table of a file, as Arrow and in its order; what cannot be read is named. Others go through an engine."""
    from gaussveil.engines.whole_files import read_parquet, require_fitting

    path = local_file(address)
    if engine is not Engine.duckdb or path is None or not path.name.lower().endswith(TABLES):
        return open_table(address, engine)
    try:
        with path.open("rb"):  # an unreadable file fails here, with the system's own words
            if path.suffix.lower() == ".parquet":
                return read_parquet(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or 'not such a file'})") from None
    require_fitting(str(path))
    return open_table(address, engine).table()


@dataclass(frozen=True)
class HomesTable:
    """How a table holds the readings of homes."""

    household: Annotated[str, typer.Option(help="Column that names the household (long table).")] = HOUSEHOLD
    time: Annotated[str, typer.Option(help="Column of times; DAY+CLOCK joins a column of dates and one of times.")] = (
        "time"
    )
    power: Annotated[str, typer.Option(help="Column of power (long table).")] = "kw"
    measured_in: Annotated[str, typer.Option("--in", help="Power is in kW or W, or energy per step in kWh or Wh.")] = (
        "kW"
    )
    gaps: Annotated[Literal["refuse", "interpolate", "hold", "week"], typer.Option(help="Missing readings.")] = "refuse"
    time_zone: Annotated[str | None, typer.Option(help="Zone of the wall clock, such as Europe/Zurich.")] = None

    def read(self, address: str, engine: Engine) -> Readings:
        """The readings; refused where they are most likely in another unit."""
        from gaussveil.timeseries import read_readings

        table, stated = read_table(address, engine), vars(self)
        found = readings_named([str(name) for name in table.schema.names], {name: stated[name] for name in READINGS})
        readings = read_readings(table, **{**stated, **found})
        _check_unit(readings, self.measured_in)
        return readings


def _check_unit(readings: Readings, unit: str) -> None:
    """Refuse readings that no homes can have: most likely the unit is another one."""
    import numpy as np

    if float(np.median(readings.values)) > HIGHEST_MEDIAN_KW:
        raise SchemaError(
            f"half of the readings are above {HIGHEST_MEDIAN_KW:g} kW if the power is in {unit}; homes draw less. "
            "Say what it is in: --in kW, W, kWh or Wh per step"
        )
