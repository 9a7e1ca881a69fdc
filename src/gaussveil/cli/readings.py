"""How commands read tables of meter readings, and how they notice the wrong unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.tables import Engine, local_file, open_table
from gaussveil.errors import FormatError, SchemaError, SourceError

if TYPE_CHECKING:
    from gaussveil.timeseries import Readings

TABLES = (".parquet", ".csv", ".csv.gz")
HouseholdColumn = Annotated[str, typer.Option(help="Column of households (long table).")]
TimeColumn = Annotated[str, typer.Option(help="Column of times.")]
PowerColumn = Annotated[str, typer.Option(help="Column of power (long table).")]
PowerUnit = Annotated[str, typer.Option(help="kW, W, kWh or Wh per step.")]
Gaps = Annotated[Literal["refuse", "interpolate", "hold", "week"], typer.Option(help="Missing readings.")]
TimeZone = Annotated[str | None, typer.Option(help="Zone of the wall clock, such as Europe/Zurich.")]
HIGHEST_MEDIAN_KW = 50.0  # no town of homes draws more; watts taken for kilowatts do


def read_table(address: str, engine: Engine) -> Any:
    """The table of a Parquet or CSV file, as Arrow; what cannot be read is named. Other tables go through an engine."""
    import pyarrow as pa
    from pyarrow import csv

    from gaussveil.engines.csv_files import require_header
    from gaussveil.engines.whole_files import read_parquet, require_fitting

    path = local_file(address)
    if engine is not Engine.duckdb or path is None or not path.name.lower().endswith(TABLES):
        return open_table(address, engine)
    try:
        with path.open("rb"):  # an unreadable file fails here, with the system's own words
            if path.suffix.lower() == ".parquet":
                return read_parquet(path)
        require_fitting(str(path))
        table = csv.read_csv(path)
    except pa.ArrowException:
        raise FormatError(f"{path}: not a table of that format") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or 'not such a file'})") from None
    require_header(table.column_names)
    return table


def homes_in(
    address: str,
    engine: Engine,
    household: str,
    time: str,
    power: str,
    unit: Any,
    gaps: Literal["refuse", "interpolate", "hold", "week"],
    time_zone: str | None,
) -> Readings:
    """The readings of homes in a table, by the options above; refused where the unit is most likely another one."""
    from gaussveil.timeseries import read_readings

    table = read_table(address, engine)
    household, time, power = (_column_named(table, name) for name in (household, time, power))
    readings = read_readings(
        table, household=household, time=time, power=power, unit=unit, gaps=gaps, time_zone=time_zone
    )
    _check_unit(readings, unit)
    return readings


def _column_named(table: Any, wanted: str) -> str:
    """The column of that name, or the only one that differs from it by case alone: kW for kw."""
    names = [str(name) for name in table.schema.names]
    alike = [name for name in names if name.lower() == wanted.lower()]
    return alike[0] if wanted not in names and len(alike) == 1 else wanted


def _check_unit(readings: Readings, unit: str) -> None:
    """Refuse readings that no homes can have: most likely the unit is another one."""
    import numpy as np

    if float(np.median(readings.values)) > HIGHEST_MEDIAN_KW:
        raise SchemaError(
            f"half of the readings are above {HIGHEST_MEDIAN_KW:g} kW if the unit is {unit}; homes draw less. "
            "Give the right --unit: kW, W, kWh or Wh per step"
        )
