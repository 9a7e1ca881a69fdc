"""Files of real data that studies read: where they are looked for, and the Swiss homes."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from gaussveil.errors import MissingDataError
from gaussveil.timeseries import Readings, read_readings
from gaussveil_studies.summaries import SWISS_HOMES


def data_file(folder: Path | None, name: str) -> Path:
    """A file of the folder, or of the one that GAUSSVEIL_DATA names."""
    path = (folder or Path(os.environ.get("GAUSSVEIL_DATA", "."))) / name
    if not path.is_file():
        raise MissingDataError(
            f"{name} was not found; name its folder, or set GAUSSVEIL_DATA to it"
        )
    return path


def swiss_homes(folder: Path | None) -> Readings:
    """404 Swiss homes of late 2018, every 15 minutes."""
    return _read(data_file(folder, SWISS_HOMES))


@lru_cache(maxsize=1)
def _read(path: Path) -> Readings:
    """A study's parts read the same file one after the other."""
    from pyarrow import csv

    return read_readings(csv.read_csv(path))
