"""What a plan says of a synthetic table that nobody has drawn yet: from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scipy.special import ndtri

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.stages import for_stages
from gaussveil.mechanisms.synthetic.budget import (
    SHORT_RANGE,
    WITHIN_BALL,
    Shares,
    cells_for,
)
from gaussveil.mechanisms.synthetic.records import TableRecords, is_short
from gaussveil.mechanisms.table.noise import key_threshold
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.quality import (
    LARGEST_GAP,
    expected_gap,
    too_small,
)
from gaussveil.postprocessing.synthetic.search import (
    FOUND_CHANCE,
    looked_for,
    records_to_stand_out,
    standing_out_of,
)

SIZES = (
    1_000,
    10_000,
    100_000,
)  # of tables for which the plan speaks, if nobody says how many rows there are
# of columns whose values have to be found
FEW_VALUES = 12
FEW_CLASSES = 2


def foreseen(
    records: TableRecords, shares: Shares, mean_shift: float, rows: int | None
) -> dict[str, Any]:
    """Expected distance of columns and share of records that are shortened, by the number of rows."""
    sizes = _sizes(rows)
    gaps = {size: _gaps(records, shares, mean_shift, size) for size in sizes}
    clipped = {f"{size}": _clipped(records, shares, mean_shift, size) for size in sizes}
    told = {
        "expected_distance": {f"{size}": _mean(one) for size, one in gaps.items()},
        "expected_distances": {f"{size}": one for size, one in gaps.items()},
        "expected_clipped": clipped,
    }
    least = _least_rows(records, shares, mean_shift)
    if not least:
        return told
    return told | {"rows_for_ranges": math.ceil(max(least.values()))}


def expectations(
    records: TableRecords,
    shares: Shares,
    mean_shift: float,
    rows: int | None,
    key_error: float,
) -> tuple[str, ...]:
    """The same in sentences, from public numbers: column by column, what is moved, what would be left empty."""
    told = []
    least = _least_rows(records, shares, mean_shift)
    for size in _sizes(rows):
        gaps = _gaps(records, shares, mean_shift, size)
        empty = [name for name, needed in least.items() if needed > size]
        clipped = _clipped(records, shares, mean_shift, size)
        told.append(
            f"of {size} rows columns would be off by about {_mean(gaps):.1%} of them: "
            + ", ".join(f"{name} {gap:.1%}" for name, gap in gaps.items())
            + f"; at most {clipped:.1%} are moved to an end of what is learnt, or shortened"
        )
        if empty:
            told.append(f"of {size} rows these might be left empty: {', '.join(empty)}")
    if least:
        told.append(
            f"from {math.ceil(max(least.values()))} rows on all ranges are found with a chance of {FOUND_CHANCE:.0%}, "
            "if half of the numbers of each column lie within a factor of four (of dates, within a year)"
        )
    if records.finding:
        names = ", ".join(one.name for one in records.finding)
        shown = _units_to_show(records, shares, mean_shift, key_error)
        told.append(
            f"of {names}, whose values are not listed, a value shows that some {math.ceil(shown)} "
            "have; others become one, or the column is left empty where there are none (--values lists them)"
        )
    if rows is None:
        told.append(
            "where about how many rows there are is public, --rows says it for that number and refuses too few"
        )
    return tuple(told)


def require_enough(
    records: TableRecords, shares: Shares, mean_shift: float, rows: int | None
) -> None:
    """Refuse a table whose stated size is too small for its columns, before anything is spent."""
    if rows is None:
        return
    least = _least_rows(records, shares, mean_shift)
    unseen = [name for name, needed in least.items() if needed > rows]
    if unseen:
        raise ParameterError(
            f"about {rows} rows are too few to learn the range of {', '.join(unseen)}: "
            f"with {math.ceil(max(least.values()))} all are found with a chance of {FOUND_CHANCE:.0%}. "
            "Give it (between, --between), take fewer columns, a larger epsilon or delta, or fewer rows per unit."
        )
    gap = _mean(_gaps(records, shares, mean_shift, rows))
    if gap > LARGEST_GAP:
        raise ParameterError(too_small(rows, len(records.features), gap))


def _sizes(rows: int | None) -> tuple[int, ...]:
    return SIZES if rows is None else (rows,)


def _mean(gaps: Mapping[str, float]) -> float:
    return sum(gaps.values()) / len(gaps)


def _least_rows(
    records: TableRecords, shares: Shares, mean_shift: float
) -> dict[str, float]:
    """From how many rows on the range of each column that has none is found, all of them with FOUND_CHANCE."""
    learnt = [one for one in records.searched if one.low is None]
    deviation = _search_deviation(records, shares, mean_shift)
    looks = looked_for(len(records.searched))
    return {
        one.name: records_to_stand_out(one, looks, len(learnt)) * deviation
        for one in learnt
    }


def _units_to_show(
    records: TableRecords, shares: Shares, mean_shift: float, key_error: float
) -> float:
    """How many units must have a value that nobody listed for it to show with FOUND_CHANCE."""
    rows = records.source.rows_per_unit
    wanted = len(records.finding)
    deviation = math.sqrt(wanted * rows / shares.found) / for_stages(mean_shift)
    threshold = key_threshold(deviation, key_error / (wanted * rows))
    return threshold - deviation * float(ndtri(1 - FOUND_CHANCE))


def _search_deviation(
    records: TableRecords, shares: Shares, mean_shift: float
) -> float:
    """Noise of a count of cells that are looked for, all rounds together."""
    if not records.searched:
        return 0.0
    rows = records.source.rows_per_unit
    touched = len(records.searched)
    return math.sqrt(touched / shares.search) * rows / for_stages(mean_shift)


def _gaps(
    records: TableRecords, shares: Shares, mean_shift: float, size: int
) -> dict[str, float]:
    """Expected distance of every column; 1 where its range would not be found."""
    deviation = _deviation(records, shares.cells, mean_shift)
    classes = _classes(records)
    finest = deviation * math.sqrt(classes)
    search = _search_deviation(records, shares, mean_shift)
    looks = looked_for(len(records.searched))
    lost = {
        name
        for name, needed in _least_rows(records, shares, mean_shift).items()
        if needed > size
    }
    gaps = {}
    for one in records.features:
        interval = 0.0
        if one in records.searched:
            least = records_to_stand_out(one, looks, len(records.searched))
            if size < search * least:
                interval = 1.0
        cells = _cells(one, size, finest) * classes
        gaps[one.name] = expected_gap(size, cells, deviation, interval)
    return gaps | dict.fromkeys(lost, 1.0)


def _clipped(
    records: TableRecords, shares: Shares, mean_shift: float, size: int
) -> float:
    """Records beyond an end of a learnt range, or outside the ball in which scores are summed: at most, the larger."""
    if shares.means or shares.dependence:
        ball = 1 - WITHIN_BALL
    else:
        ball = 0.0
    learnt = [one for one in records.searched if one.low is None]
    if not learnt:
        return ball
    deviation = _search_deviation(records, shares, mean_shift)
    looks = looked_for(len(records.searched))
    least = max(standing_out_of(one, looks) for one in learnt)
    return min(max(ball, 2 * least * deviation / size), 1.0)


def _deviation(records: TableRecords, share: float, mean_shift: float) -> float:
    """Noise of a count of cells in one class."""
    rows = records.source.rows_per_unit
    return math.sqrt(len(records.features) / share) * rows / for_stages(mean_shift)


def _classes(records: TableRecords) -> int:
    label = next((one for one in records.columns if one.name == records.label), None)
    if label is None:
        return 1
    return len(label.values or ()) or FEW_CLASSES


def _cells(column: Column, size: int, finest: float) -> int:
    if column.is_category:
        if column.values is None:
            return FEW_VALUES
        return max(len(column.values), 1)
    if is_short(column):
        return min(int((column.high or 0) - (column.low or 0)) + 1, SHORT_RANGE)
    return cells_for(size, finest)
