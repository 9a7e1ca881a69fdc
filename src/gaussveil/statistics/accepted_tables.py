"""What may be passed as a table in memory, in types that Arrow or NumPy can read where they lie."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.containers import (
    FOUND_IN_OBJECTS,
    FormNotes,
    cell_name,
    cell_number,
    cell_numbers,
    is_missing,
    is_ragged,
    library_of,
    uncoerced,
)
from gaussveil.errors import SchemaError, ShapeError
from gaussveil.statistics.legible import legible_table


def accepted(data: Any) -> pa.Table | NDArray[Any]:
    """An Arrow table or an array of numbers with rows and columns; refuses what is neither."""
    if isinstance(data, pa.Table):
        return legible_table(_bare_table(data))
    if hasattr(data, "__arrow_c_stream__"):
        return _told(legible_table(_of_frame(data)), data)
    return _of_array(data)


def _bare_table(table: pa.Table) -> pa.Table:
    if any(_bare_type(kind) != kind for kind in table.schema.types):
        return _stored(table)
    return table


def _of_frame(data: Any) -> pa.Table:
    try:
        table = pa.table(data)
        metadata = table.schema.pandas_metadata or {}
        # a pandas index is not a column
        index = [
            name for name in metadata.get("index_columns", []) if isinstance(name, str)
        ]
        return _stored(table.drop_columns(index))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _frame_by_columns(data)  # their words may quote a value


def _of_array(data: Any) -> NDArray[Any]:
    array = uncoerced(data)
    if array.dtype == object:
        if is_ragged(array):
            raise ShapeError(
                "data must be a table of rows and columns, every row of the same length."
            )
        array = cell_numbers(array)
    if array.ndim not in (1, 2):
        raise ShapeError(
            f"data must be a table, or gaussveil.open(...) of its file. Got {array.ndim} dimensions."
        )
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise SchemaError(
            f"an array of data must hold real numbers. Got dtype {array.dtype}: use a frame for mixed types."
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim == 1:
        array = array[:, None]
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return array
    return np.ascontiguousarray(array)


def _stored(table: pa.Table) -> pa.Table:
    """The table in types that Arrow can filter and compare: categories and extensions as what they stand for."""
    columns = [
        pa.chunked_array([_bare(chunk) for chunk in one.chunks], _bare_type(one.type))
        for one in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _bare_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _bare_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _bare_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return kind


def _bare(cells: pa.Array) -> pa.Array:
    if isinstance(cells, pa.ExtensionArray):
        return _bare(cells.storage)
    if isinstance(cells, pa.DictionaryArray):
        return _bare(cells.dictionary).take(cells.indices)
    return cells.cast(_bare_type(cells.type))


def _frame_by_columns(data: Any) -> pa.Table:
    """A pandas frame whose objects are of several types: a column is what most cells are, and the others are missing.

    Arrow refuses such a frame, and the refusal would tell of a single cell.
    """
    columns = {}
    try:
        for name in data.columns if library_of(data) == "pandas" else ():
            cells = data[name]
            columns[str(name)] = (
                _objects(cells.tolist())
                if cells.dtype == object
                else pa.table(data[[name]]).column(0)
            )
    except (pa.ArrowException, TypeError, ValueError):
        columns = {}
    if not columns:
        raise SchemaError(
            "the frame has a column that mixes types or a type Arrow cannot hold: convert it first."
        ) from None
    return pa.table(columns)


def _told(table: pa.Table, data: Any) -> pa.Table:
    """The table of a frame; of a pandas frame with columns of objects it says that their types were found in cells."""
    if library_of(data) == "pandas" and any(
        str(kind) == "object" for kind in data.dtypes
    ):
        notes = FormNotes((FOUND_IN_OBJECTS,))
        return table.replace_schema_metadata(notes.metadata())
    return table


def _objects(cells: list[Any]) -> pa.Array:
    found = [cell for cell in cells if not is_missing(cell)]
    numbers = sum(
        isinstance(cell, Real) and not isinstance(cell, bool) for cell in found
    )
    if 2 * numbers > len(found):
        kept = [cell_number(cell) if isinstance(cell, Real) else None for cell in cells]
        return pa.array(kept, pa.float64(), from_pandas=True)
    return pa.array([cell_name(cell) for cell in cells], pa.string())


def label_column(label: Any, data: pa.Table | NDArray[Any]) -> pa.Array:
    """Labels beside the data; of objects each is text, a number by its digits, or no label at all."""
    array = uncoerced(label)
    if isinstance(data, pa.Table):
        rows = data.num_rows
    else:
        rows = len(data)
    if array.shape != (rows,):
        raise ShapeError("label must be one column with as many rows as the data.")
    if array.dtype == object:
        return pa.array([cell_name(cell) for cell in array.tolist()], pa.string())
    return pa.array(array.tolist() if array.dtype.kind == "U" else array)
