"""`Unit`: whose row it is, and how many rows each may bring. What a promise protects is one unit, whole.

A unit is a column of the table, or identifiers beside an array; of each at most `rows` rows are used, chosen by a
public hash of the row (`Source.bounded`), so the bound is enforced and not believed. Without one every row is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gaussveil import checks
from gaussveil.containers import cell_name, uncoerced
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.statistics.memory import MemorySource
from gaussveil.statistics.source import Source

BESIDE = "unit"  # the column that identifiers beside a table become


@dataclass(frozen=True, eq=False)
class Unit:
    """A column that names whose row it is, and how many rows of each are used."""

    column: str
    rows: int
    identifiers: Any = None  # one per row, where they are not a column of the table

    @classmethod
    def of(cls, unit: Any, rows: object) -> Unit | None:
        """From what a caller gave: a column's name or an array of identifiers with a bound on rows, or neither."""
        if unit is None and rows is None:
            return None
        if unit is None or rows is None:
            raise ParameterError(
                "unit and rows_per_unit must be given together: whose row it is, and how many rows of each are used. "
                f"Got {'rows_per_unit' if unit is None else 'unit'} alone."
            )
        bound = checks.whole("rows_per_unit", rows)
        if isinstance(unit, str):
            return cls(unit, bound)
        return cls(BESIDE, bound, _identifiers(unit))

    def beside(self, source: Source) -> Source:
        """The table with the identifiers as one more column, where they are not a column already."""
        if self.identifiers is None:
            return source
        if not isinstance(source, MemorySource):
            raise SchemaError(
                "unit must be a column of the Source, not an array beside it: name the column."
            )
        if BESIDE in source.schema.names:
            raise SchemaError(
                f"the table has a column {BESIDE!r} already: name the unit's column instead of an array."
            )
        table = source.table()
        if len(self.identifiers) != table.num_rows:
            raise ShapeError("unit must hold one identifier per row of the table.")
        return MemorySource(table.append_column(BESIDE, self.identifiers))

    def bounded(self, source: Source) -> Source:
        """At most `rows` rows of each unit, by a public rule."""
        return self.beside(source).bounded(self.column, self.rows)


def unit_of(source: Source) -> str:
    """What one unit of a view is called on a certificate."""
    return source.view.unit or "row"


def as_source(
    data: Any, *, label: Any = None, unit: Any = None, rows_per_unit: int | None = None
) -> Source:
    """What every mechanism calls on its data: a Source stays itself, anything tabular in memory becomes one.

    `label` is an array beside the data (scikit-learn's y); it becomes the column `label`. `unit` names the column of
    who is protected, or holds one identifier per row; at most `rows_per_unit` rows of each are then used. A Source that
    was bounded already stays so, and takes no other unit.
    """
    return bounded_source(data, label, Unit.of(unit, rows_per_unit))


def bounded_source(data: Any, label: Any, unit: Unit | None) -> Source:
    """The same for a unit that was read before."""
    if isinstance(data, Source):
        if label is not None:
            raise SchemaError(
                "label must be a column of the Source, not an array beside it: pass label=None."
            )
        if unit is not None and unit.identifiers is not None:
            raise SchemaError(
                "unit must be a column of the Source, not an array beside it: name the column."
            )
        if unit is None:
            return data
        return unit.bounded(data)
    source = MemorySource(data, label=label)
    if unit is None:
        return source
    return unit.bounded(source)


def _identifiers(unit: Any) -> pa.Array:
    """Identifiers beside a table: text, or whole numbers, which are their digits; what is neither is nobody's."""
    if isinstance(unit, pa.Array | pa.ChunkedArray):
        return unit
    array = uncoerced(unit)
    if array.ndim != 1:
        raise ShapeError("unit must hold one identifier per row of the table.")
    if array.dtype.kind in "iu":
        return pa.array(array)
    if array.dtype.kind not in "OfU":
        raise SchemaError(
            "unit must be a column's name or one identifier per row, text or whole numbers."
        )
    return pa.array([cell_name(cell) for cell in array.tolist()], pa.string())
