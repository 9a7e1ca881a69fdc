"""How commands read tables of meter readings, and how they notice the wrong unit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil.errors import FormatError, SchemaError, SourceError

if TYPE_CHECKING:
    from gaussveil.timeseries import Readings

TABLES = (".parquet", ".csv", ".csv.gz")
HIGHEST_MEDIAN_KW = 50.0  # no town of homes draws more; watts taken for kilowatts do


def read_table(path: Path) -> Any:
    """The table of a Parquet or CSV file, as Arrow; what cannot be read is named."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    if not path.name.lower().endswith(TABLES):
        raise FormatError(f"{path}: readings are read from {', '.join(TABLES)}; got {path.suffix or 'no ending'!r}")
    try:
        with path.open("rb") as stream:  # an unreadable file fails here, with the system's own words
            if path.suffix.lower() == ".parquet":
                return pq.read_table(stream)
        return csv.read_csv(path)
    except pa.ArrowException:
        raise FormatError(f"{path}: not a table of that format") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or 'not such a file'})") from None


def check_unit(readings: Readings, unit: str) -> None:
    """Refuse readings that no homes can have: most likely the unit is another one."""
    import numpy as np

    if float(np.median(readings.values)) > HIGHEST_MEDIAN_KW:
        raise SchemaError(
            f"half of the readings are above {HIGHEST_MEDIAN_KW:g} kW if the unit is {unit}; homes draw less. "
            "Give the right --unit: kW, W, kWh or Wh per step"
        )
