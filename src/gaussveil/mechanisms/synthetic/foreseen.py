"""What a plan says of a synthetic table that nobody has drawn yet: from public numbers alone."""

from __future__ import annotations

import math
from typing import Any

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.stages import for_stages
from gaussveil.mechanisms.synthetic.budget import (
    SHORT_RANGE,
    WITHIN_BALL,
    Shares,
    cells_for,
)
from gaussveil.mechanisms.synthetic.records import TableRecords, is_short
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.quality import (
    LARGEST_GAP,
    expected_gap,
    too_small,
)
from gaussveil.postprocessing.synthetic.search import (
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
    sizes = SIZES if rows is None else (rows,)
    gaps = {f"{size}": _mean_gap(records, shares, mean_shift, size) for size in sizes}
    clipped = {f"{size}": _clipped(records, shares, mean_shift, size) for size in sizes}
    told = {"expected_distance": gaps, "expected_clipped": clipped}
    least = _least_rows(records, shares, mean_shift)
    if not least:
        return told
    return told | {"rows_for_ranges": math.ceil(max(least.values()))}


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
            f"{math.ceil(max(least.values()))} would do. Give it (between, --between), take fewer columns, "
            "a larger epsilon or delta, or fewer rows per unit."
        )
    gap = _mean_gap(records, shares, mean_shift, rows)
    if gap > LARGEST_GAP:
        raise ParameterError(too_small(rows, len(records.features), gap))


def _least_rows(
    records: TableRecords, shares: Shares, mean_shift: float
) -> dict[str, float]:
    """From how many rows on the range of each column that has none is found, nearly always."""
    learnt = [one for one in records.searched if one.low is None]
    deviation = _search_deviation(records, shares, mean_shift)
    looks = looked_for(len(records.searched))
    return {one.name: records_to_stand_out(one, looks) * deviation for one in learnt}


def _search_deviation(
    records: TableRecords, shares: Shares, mean_shift: float
) -> float:
    """Noise of a count of cells that are looked for, all rounds together."""
    if not records.searched:
        return 0.0
    rows = records.source.rows_per_unit
    touched = len(records.searched)
    return math.sqrt(touched / shares.search) * rows / for_stages(mean_shift)


def _mean_gap(
    records: TableRecords, shares: Shares, mean_shift: float, size: int
) -> float:
    deviation = _deviation(records, shares.cells, mean_shift)
    classes = _classes(records)
    finest = deviation * math.sqrt(classes)
    search = _search_deviation(records, shares, mean_shift)
    looks = looked_for(len(records.searched))
    gaps = []
    for one in records.features:
        interval = 0.0
        if one in records.searched and size < search * records_to_stand_out(one, looks):
            interval = 1.0
        cells = _cells(one, size, finest) * classes
        gaps.append(expected_gap(size, cells, deviation, interval))
    return sum(gaps) / len(gaps)


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
