"""Lengths of time as people write them, and wall clocks: what a change to summer time does to a grid of minutes."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, SchemaError

_MINUTES = {
    "s": Fraction(1, 60),
    "min": Fraction(1),
    "m": Fraction(1),
    "h": Fraction(60),
    "d": Fraction(24 * 60),
}
_DURATION = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_MINUTES)})\s*", re.ASCII)
MINUTE = np.timedelta64(1, "m")
_EPOCH = datetime(1970, 1, 1)


def duration_minutes(text: object) -> Fraction | None:
    """The minutes, exactly; None where this is no such text."""
    if isinstance(text, str):
        duration = _DURATION.fullmatch(text)
    else:
        duration = None
    if duration is None:
        return None
    return Fraction(duration[1]) * _MINUTES[duration[2]]


def hours(name: str, value: Any) -> float:
    """A duration in hours, from a number of hours or text such as "5min", "1h", "2d"."""
    minutes = duration_minutes(value)
    if minutes is not None:
        length = float(minutes / 60)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = float(value)
    else:
        raise ParameterError(
            f'{name} must be hours, or text such as "5min", "1h" or "2d". Got {value!r}.'
        )
    if not 0 < length < math.inf:
        raise ParameterError(
            f"{name} must be longer than nothing and finite. Got {value!r}."
        )
    return length


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ParameterError(
            f"time_zone must be a name such as 'Europe/Zurich'. Got {name!r}."
        ) from error


def _offsets(
    minutes: NDArray[np.int64], zone: ZoneInfo, *, utc: bool, fold: int = 0
) -> NDArray[np.int64]:
    """Minutes ahead of UTC at each UTC or wall-clock minute; changes happen on quarter hours."""
    quarters, inverse = np.unique(minutes // 15, return_inverse=True)
    offsets = np.empty(quarters.size, dtype=np.int64)
    for k, quarter in enumerate(quarters.tolist()):
        moment = _EPOCH + timedelta(minutes=15 * quarter)
        if utc:
            aware = moment.replace(tzinfo=UTC).astimezone(zone)
        else:
            aware = moment.replace(tzinfo=zone, fold=fold)
        shift = aware.utcoffset()
        offsets[k] = 0 if shift is None else round(shift.total_seconds() / 60)
    return offsets[inverse]


def to_wall_clock(
    minutes: NDArray[np.int64], aware: bool, time_zone: str, *, column: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Wall-clock minutes, and which of them lie in the hour that autumn repeats."""
    zone = _zone(time_zone)
    if aware:
        wall = minutes + _offsets(minutes, zone, utc=True)
    else:
        wall = minutes
    absent = skipped(wall, time_zone)
    if absent.any():
        raise SchemaError(
            f"column '{column}', row {int(np.argmax(absent))}: this wall-clock time does not exist in {time_zone} "
            "(spring change); leave time_zone out if the times are uniform"
        )
    return wall, _offsets(wall, zone, utc=False) > _offsets(
        wall, zone, utc=False, fold=1
    )


def skipped(wall: NDArray[np.int64], time_zone: str) -> NDArray[np.bool_]:
    """Wall-clock minutes that the spring change leaves out."""
    zone = _zone(time_zone)
    return _offsets(wall, zone, utc=False) < _offsets(wall, zone, utc=False, fold=1)
