"""Scattering readings on a regular grid: the step, second readings of a cell, and gaps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import SchemaError

Gaps = Literal["refuse", "interpolate", "hold", "week"]
Duplicates = Literal["refuse", "mean", "first", "last"]


def refuse(
    bad: NDArray[np.bool_], rows: NDArray[Any], column: str | NDArray[Any], rule: str
) -> None:
    """Refuse the table if any row is bad, naming the first."""
    if bad.any():
        first = int(np.argmax(bad))
        if isinstance(column, str):
            name = column
        else:
            name = column[first]
        raise SchemaError(
            f"column '{name}', row {int(rows[first])}: the value {rule} ({int(bad.sum())} such rows)"
        )


def infer_step(minutes: NDArray[np.int64], time: str) -> int:
    """The commonest difference of successive times, in minutes."""
    gaps = np.diff(np.unique(minutes))
    if not gaps.size:
        raise SchemaError(
            f"column '{time}': one time alone does not tell the step; give step_minutes"
        )
    sizes, counts = np.unique(gaps, return_counts=True)
    return int(sizes[np.argmax(counts)])


def place(
    homes: NDArray[Any],
    cells: NDArray[Any],
    values: NDArray[Any],
    shape: tuple[int, int],
    rows: NDArray[Any],
    labels: NDArray[Any],
    duplicates: Duplicates,
    repeated: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Scatter the readings; more than one per cell by the rule, those of the repeated autumn hour by their mean."""
    present = ~np.isnan(values)
    key = (homes * shape[1] + cells)[present]
    value = values[present]
    row = rows[present]
    label = labels[present]
    autumn = repeated[present]
    order = np.argsort(key, kind="stable")
    key = key[order]
    value = value[order]
    autumn = autumn[order]
    if key.size:
        again = np.r_[False, key[1:] == key[:-1]]
    else:
        again = np.zeros(0, dtype=bool)
    if duplicates == "refuse":
        refuse(
            again & ~autumn,
            row[order],
            label[order],
            "is a second reading of the same household and time",
        )
    grid = np.full(shape[0] * shape[1], np.nan)
    if duplicates == "first":
        grid[key[::-1]] = value[::-1]
    elif duplicates == "last":
        grid[key] = value
    if duplicates in ("first", "last"):
        mean = autumn
    else:
        mean = np.ones(key.size, dtype=bool)
    total = np.bincount(key[mean], weights=value[mean], minlength=grid.size)
    number = np.bincount(key[mean], minlength=grid.size)
    grid[number > 0] = total[number > 0] / number[number > 0]
    return grid.reshape(shape)


def fill(
    grid: NDArray[np.float64],
    gaps: Gaps,
    max_gap: int,
    week: int,
    lost: NDArray[np.bool_],
    power: str,
    names: tuple[str, ...],
) -> NDArray[np.float64]:
    """Fill missing cells by the rule; the hour that spring skips is always interpolated."""
    missing = np.isnan(grid)
    if not missing.any():
        return grid
    reported = missing & ~lost
    columns = np.arange(grid.shape[1])
    if gaps == "refuse":
        bad = reported
        remedy = "choose a rule with gaps (--gaps)"
    else:
        last = np.maximum.accumulate(np.where(missing, -1, columns), axis=1)
        bad = columns - last > max_gap
        remedy = f"the run is longer than max_gap={max_gap}"
    if bad.any():
        home, column = np.argwhere(bad)[0]
        if power:
            where = f"column '{power}', household number {home}"
        else:
            where = f"column '{names[home]}'"
        raise SchemaError(
            f"{where}, time number {column}: reading missing ({int(reported.sum())} in all); {remedy}"
        )
    filled = grid.copy()
    for home in np.flatnonzero(missing.any(axis=1)):
        if missing[home].all():
            raise SchemaError(f"household number {home} has no reading at all")
        filled[home] = _interpolated(grid[home])
        ruled = missing[home] & ~lost
        if gaps == "hold":
            filled[home, ruled] = _held(grid[home], columns[ruled])
        elif gaps == "week":
            for shift in (week, -week):  # the week before wins: it is written last
                places, values = _moved(grid[home], columns[ruled], shift)
                filled[home, places] = values
    return filled


def _interpolated(readings: NDArray[np.float64]) -> NDArray[np.float64]:
    """A household's readings, those that are missing on straight lines between their neighbours."""
    columns = np.arange(readings.size)
    gap = np.isnan(readings)
    filled = readings.copy()
    filled[gap] = np.interp(columns[gap], columns[~gap], readings[~gap])
    return filled


def _held(
    readings: NDArray[np.float64], places: NDArray[np.int_]
) -> NDArray[np.float64]:
    """The last reading before each place, or the first of all."""
    present = np.flatnonzero(~np.isnan(readings))
    last = np.searchsorted(present, places, side="right") - 1
    return np.asarray(readings[present][np.maximum(last, 0)])


def _moved(
    readings: NDArray[np.float64], places: NDArray[np.int_], shift: int
) -> tuple[NDArray[np.int_], NDArray[np.float64]]:
    """The readings `shift` steps away from places, with the places that have one."""
    source = places + shift
    usable = (source >= 0) & (source < readings.size)
    usable[usable] = ~np.isnan(readings[source[usable]])
    return places[usable], readings[source[usable]]
