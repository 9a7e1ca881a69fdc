"""How many units have each value of a column: every unit counts once, in whatever order the rows come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil.statistics.block import EXACT, plain
from gaussveil.statistics.cell_reader import joined
from gaussveil.statistics.row_hash import hash_rows
from gaussveil.statistics.unit_cells import GROUP_KEY
from gaussveil.typing import Integers


def units_per_value(
    batches: Iterable[pa.RecordBatch], per_unit: int
) -> tuple[pa.Array, Integers]:
    """How many units have each value of the second column, the first naming units; private.

    Of each unit at most `per_unit` values count, those with the smallest public hash of unit and value.
    """
    pairs = [table.rename_columns(["unit", "value"]) for table in joined(batches)]
    if not pairs:
        return pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int64)
    if any(
        pa.types.is_null(kind) for kind in pairs[0].schema.types
    ):  # a frame's column without any value
        return pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int64)
    distinct = pa.concat_tables([_distinct(table) for table in pairs])
    distinct = _distinct(distinct).drop_null()
    kind = distinct.schema.field("value").type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        distinct = _distinct(distinct.filter(_told_exactly(distinct["value"])))
    unit, value = (
        plain(distinct.column(name).combine_chunks()) for name in ("unit", "value")
    )
    codes = unit.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((hash_rows([unit, value], GROUP_KEY, 0), codes))
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) > 0][: len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    encoded = value.take(pa.array(order[rank < per_unit])).dictionary_encode()
    counts = np.bincount(
        encoded.indices.to_numpy(zero_copy_only=False),
        minlength=len(encoded.dictionary),
    )
    return encoded.dictionary, counts.astype(np.int64)


def _told_exactly(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Finite numbers below 2^53: others are one number where a fraction among them makes doubles of all."""
    if values.type.bit_width < 64 and pa.types.is_integer(values.type):
        return pc.is_valid(values)
    limit = pa.scalar(EXACT, values.type)
    below = pc.less(values, limit)
    if pa.types.is_unsigned_integer(values.type):
        return below
    return pc.and_(below, pc.greater(values, pa.scalar(-EXACT, values.type)))


def _distinct(table: pa.Table) -> pa.Table:
    columns = [plain(column.combine_chunks()) for column in table.columns]
    if pa.types.is_floating(columns[-1].type):  # -0.0 is 0.0, as everywhere else
        columns[-1] = pc.add(columns[-1], pa.scalar(0.0, columns[-1].type))
    return (
        pa.table(columns, names=table.column_names)
        .group_by(table.column_names)
        .aggregate([])
    )
