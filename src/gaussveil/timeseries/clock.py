"""Wall clocks: what a change between standard and summer time does to a grid of minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, SchemaError

MINUTE = np.timedelta64(1, "m")
_EPOCH = datetime(1970, 1, 1)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ParameterError(f"time_zone must be a name such as 'Europe/Zurich'. Got {name!r}.") from error


def _offsets(minutes: NDArray[np.int64], zone: ZoneInfo, *, utc: bool, fold: int = 0) -> NDArray[np.int64]:
    """Minutes ahead of UTC at each UTC or wall-clock minute; changes happen on quarter hours."""
    quarters, inverse = np.unique(minutes // 15, return_inverse=True)
    found = np.empty(quarters.size, dtype=np.int64)
    for k, quarter in enumerate(quarters.tolist()):
        moment = _EPOCH + timedelta(minutes=15 * quarter)
        aware = moment.replace(tzinfo=UTC).astimezone(zone) if utc else moment.replace(tzinfo=zone, fold=fold)
        shift = aware.utcoffset()
        found[k] = 0 if shift is None else round(shift.total_seconds() / 60)
    return found[inverse]


def to_wall_clock(
    minutes: NDArray[np.int64], aware: bool, time_zone: str, *, column: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Wall-clock minutes, and which of them lie in the hour that autumn repeats."""
    zone = _zone(time_zone)
    wall = minutes + _offsets(minutes, zone, utc=True) if aware else minutes
    absent = skipped(wall, time_zone)
    if absent.any():
        raise SchemaError(
            f"column '{column}', row {int(np.argmax(absent))}: this wall-clock time does not exist in {time_zone} "
            "(spring change); leave time_zone out if the times are uniform"
        )
    return wall, _offsets(wall, zone, utc=False) > _offsets(wall, zone, utc=False, fold=1)


def skipped(wall: NDArray[np.int64], time_zone: str) -> NDArray[np.bool_]:
    """Wall-clock minutes that the spring change leaves out."""
    zone = _zone(time_zone)
    return _offsets(wall, zone, utc=False) < _offsets(wall, zone, utc=False, fold=1)
