"""What may be passed as a table in memory, in types that Arrow or NumPy can read where they lie."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.containers import (
    FOUND_IN_OBJECTS,
    FormNotes,
    cell_name,
    cell_numbers,
    is_ragged,
    library_of,
    uncoerced,
)
from gaussveil.errors import SchemaError, ShapeError
from gaussveil.statistics.column_types import with_found_types
from gaussveil.statistics.legible import legible_table
from gaussveil.statistics.object_cells import object_column

_PLAIN = {  # what pandas calls objects of one kind
    "string": pa.string(),
    "integer": pa.int64(),
    "floating": pa.float64(),
    "boolean": pa.bool_(),
}


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
    if library_of(data) == "pandas" and _has_objects(data):
        return _frame_by_columns(data)
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
        pa.chunked_array(
            [_bare(chunk) for chunk in column.chunks], _bare_type(column.type)
        )
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _bare_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _bare_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _bare_type(kind.value_type)
    if pa.types.is_run_end_encoded(kind):
        return _bare_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return kind


def _bare(cells: pa.Array) -> pa.Array:
    if isinstance(cells, pa.ExtensionArray):
        return _bare(cells.storage)
    if isinstance(cells, pa.DictionaryArray):
        return _bare(cells.dictionary).take(cells.indices)
    if isinstance(cells, pa.RunEndEncodedArray):
        return _bare(pc.run_end_decode(cells))
    return cells.cast(_bare_type(cells.type))


def _frame_by_columns(data: Any) -> pa.Table:
    """A pandas frame column by column: of objects what most are, others by their type, sparse ones whole.

    Arrow refuses such a frame for a single cell, and the refusal would tell of it.
    """
    columns = []
    try:
        if library_of(data) == "pandas":
            columns = [_column(data.iloc[:, k]) for k in range(len(data.columns))]
    except (pa.ArrowException, TypeError, ValueError):
        columns = []
    if not columns:
        raise SchemaError(
            "the frame has a column of a type that Arrow cannot hold: convert it first."
        ) from None
    return _stored(pa.table(columns, names=[str(name) for name in data.columns]))


def _column(cells: Any) -> Any:
    """The cells of one column of a pandas frame."""
    kind = str(cells.dtype)
    if kind == "object":
        return _of_objects(cells)
    if kind.startswith("Sparse"):
        return pa.array(np.asarray(cells), from_pandas=True)
    return pa.table(cells.to_frame()).column(0)


def _of_objects(cells: Any) -> Any:
    """Objects of one plain kind are handed over at once; others are read one by one, to the same types."""
    from pandas.api.types import infer_dtype

    plain = _PLAIN.get(infer_dtype(cells, skipna=True))
    if plain is not None:
        with contextlib.suppress(pa.ArrowException, ValueError, OverflowError):
            return pa.array(cells, plain, from_pandas=True)
    return object_column(cells.tolist())


def _has_objects(data: Any) -> bool:
    return any(str(kind) == "object" for kind in data.dtypes)


def _told(table: pa.Table, data: Any) -> pa.Table:
    """The table of a frame; of a pandas frame with columns of objects it says that their types were found in cells."""
    if library_of(data) == "pandas" and _has_objects(data):
        notes = FormNotes((FOUND_IN_OBJECTS,))
        pairs = zip(table.schema.names, data.dtypes)
        objects = [name for name, kind in pairs if str(kind) == "object"]
        schema = with_found_types(table.schema, objects)
        return table.cast(schema.with_metadata(notes.metadata()))
    return table


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
