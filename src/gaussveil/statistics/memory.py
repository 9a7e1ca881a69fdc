"""Tables in memory: NumPy arrays, pandas and polars frames, Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.containers import (
    cell_name,
    cell_number,
    cell_numbers,
    is_missing,
    is_ragged,
    library_of,
    uncoerced,
)
from gaussveil.errors import SchemaError, ShapeError
from gaussveil.statistics.block import Block, Reader, plain
from gaussveil.statistics.row_hash import BOUND_KEY, hash_rows
from gaussveil.statistics.source import (
    FOUND_FORM,
    FOUND_IN_OBJECTS,
    Source,
    View,
    Watch,
)

_BATCH_ROWS = 2**13


class MemorySource(Source):
    """A table in this process's memory. Arrays are read where they lie, without a copy."""

    def __init__(
        self,
        data: Any,
        *,
        label: Any = None,
        view: View | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._data: pa.Table | NDArray[Any] = (
            data if view is not None else _accept(data)
        )
        self._label: pa.Array | None = (
            label if view is not None or label is None else _column(label, self._data)
        )
        if view is None:
            _require_distinct(self.table_schema.names)
        self.view = view or View(tuple(self.table_schema.names))
        self.watch = watch or Watch()
        self._kept: NDArray[np.bool_] | None = None

    @property
    def table_schema(self) -> pa.Schema:
        """Columns of the frame; those of an array are x0, x1, ...; ``label`` is the separate label column."""
        if isinstance(self._data, pa.Table):
            schema = self._data.schema
        else:
            kind = pa.from_numpy_dtype(self._data.dtype)
            schema = pa.schema([(f"x{j}", kind) for j in range(self._data.shape[1])])
        if self._label is None:
            return schema
        return schema.append(pa.field("label", self._label.type))

    def identified(self, unit: str) -> Self:
        """The same table, its units named by whole numbers where a missing one made floats of them all."""
        table = self._data
        if not isinstance(table, pa.Table) or unit not in table.schema.names:
            return self
        place = table.schema.get_field_index(unit)
        if not pa.types.is_floating(table.schema.field(place).type):
            return self
        names = pa.array(
            [cell_name(cell) for cell in table.column(place).to_pylist()], pa.string()
        )
        return type(self)(
            table.set_column(place, unit, names),
            label=self._label,
            view=self.view,
            watch=self.watch,
        )

    @property
    def found_form(self) -> tuple[str, ...]:
        """What nobody wrote down of the table that this one was brought from."""
        if isinstance(self._data, pa.Table):
            metadata = self._data.schema.metadata
        else:
            metadata = None
        found = (metadata or {}).get(FOUND_FORM, b"").decode()
        if found:
            return tuple(found.split(", "))
        return ()

    def fingerprint(self) -> str:
        """Length, and checksums of the words in memory, labels beside an array included."""
        if isinstance(self._data, pa.Table):
            buffers = [
                part
                for column in self._data.columns
                for chunk in column.chunks
                for part in _buffers(chunk)
            ]
        else:
            buffers = [self._data.ravel(order="K").view(np.uint8)]
        if self._label is not None:
            buffers += _buffers(self._label)
        if not isinstance(self._data, pa.Table):
            rows = len(self._data)
        else:
            rows = self._data.num_rows
        return f"{rows}:" + ",".join(_checksum(buffer) for buffer in buffers)

    def batches(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The kept rows, in the order of the table or sorted."""
        kept = self._rows()
        if order:
            table = pa.Table.from_batches(
                self._slices(self.view.columns, kept), schema=self.schema
            )
            ties = [name for name in self.view.columns if name not in order]
            keys = [
                (name, "ascending") for name in (*order, *ties)
            ]  # nulls last is Arrow's default
            # Arrow does not sort by dictionaries.
            sortable = pa.table(
                {name: plain(table.column(name).combine_chunks()) for name, _ in keys}
            )
            table = table.take(pc.sort_indices(sortable, sort_keys=keys))
            yield from table.select(list(columns)).to_batches()
        else:
            yield from self._slices(columns, kept)

    def _with_view(self, view: View) -> Self:
        return type(self)(self._data, label=self._label, view=view, watch=self.watch)

    def _blocks(self, reader: Reader) -> Iterator[Block]:
        if isinstance(self._data, pa.Table) or any(
            name == "label" for name in reader.columns
        ):
            yield from super()._blocks(reader)
            return
        kept = self._rows()
        places = [int(name[1:]) for name in reader.columns]
        everything = places == list(range(self._data.shape[1]))
        for start in range(0, len(self._data), reader.block_rows):
            here = slice(start, start + reader.block_rows)
            if everything:
                rows = self._data[here]
            else:
                rows = self._data[here][:, places]
            if self._label is None:
                labels = None
            else:
                labels = self._label.slice(here.start, here.stop - here.start)
            if kept is not None:
                rows = rows[kept[here]]
                if labels is None:
                    labels = None
                else:
                    labels = labels.filter(pa.array(kept[here]))
            # Groups are gathered from the block, so only a block without groups is overwritten and must be a copy.
            own = np.array if reader.group is None else np.asarray
            yield reader.block(own(rows, dtype=np.float64, order="C").T, labels)

    def _slices(
        self, columns: Sequence[str], kept: NDArray[np.bool_] | None
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.table_schema.field(name) for name in columns])
        if isinstance(self._data, pa.Table):
            rows = self._data.num_rows
        else:
            rows = len(self._data)
        for start in range(0, rows, _BATCH_ROWS):
            end = min(start + _BATCH_ROWS, rows)
            batch = _record_batch(
                [self._cells(name, start, end) for name in columns], schema, end - start
            )
            yield batch if kept is None else batch.filter(pa.array(kept[start:end]))

    def _cells(self, name: str, start: int, end: int) -> pa.Array:
        if name == "label" and self._label is not None:
            return self._label.slice(start, end - start)
        if isinstance(self._data, pa.Table):
            return self._data.column(name).slice(start, end - start).combine_chunks()
        return _numbers(self._data[start:end, int(name[1:])])

    def _rows(self) -> NDArray[np.bool_] | None:
        """Which rows the view keeps; None for all."""
        if self.view.unit is None and self.view.rate is None:
            return None
        if self._kept is None:
            names = self.view.columns
            table = pa.Table.from_batches(
                self._slices(names, None), schema=self.schema
            ).combine_chunks()
            if table.num_rows:
                columns = [table.column(name).combine_chunks() for name in names]
            else:
                columns = []
            if columns:
                self._kept = self._choose(columns)
            else:
                self._kept = np.zeros(0, dtype=np.bool_)
        return self._kept

    def _choose(self, columns: list[pa.Array]) -> NDArray[np.bool_]:
        kept = np.ones(len(columns[0]), dtype=np.bool_)
        if self.view.unit is not None and self.view.max_rows is not None:
            unit = plain(columns[self.view.columns.index(self.view.unit)])
            codes = (
                unit.dictionary_encode()
                .indices.fill_null(-1)
                .to_numpy(zero_copy_only=False)
            )
            place = self.view.columns.index(self.view.unit)
            kept = (
                _rank(codes, hash_rows(columns, BOUND_KEY, place)) < self.view.max_rows
            ) & (codes >= 0)
        if self.view.rate is None:
            return kept
        if self.view.unit is not None:
            coins = hash_rows([unit], self.view.coin_key, 0)
        else:
            rows = hash_rows(columns, self.view.row_key)
            coins = hash_rows(
                [_numbers(rows), _numbers(_rank(rows, rows))], self.view.coin_key
            )
        return kept & (coins < self.view.threshold)


def _accept(data: Any) -> pa.Table | NDArray[Any]:
    if isinstance(data, pa.Table):
        if any(_bare_type(kind) != kind for kind in data.schema.types):
            return _stored(data)
        return data
    if hasattr(data, "__arrow_c_stream__"):
        try:
            table = pa.table(data)
            index = (table.schema.pandas_metadata or {}).get(
                "index_columns", []
            )  # a pandas index is not a column
            return _told(
                _stored(
                    table.drop_columns(
                        [name for name in index if isinstance(name, str)]
                    )
                ),
                data,
            )
        except (
            pa.ArrowException,
            TypeError,
            ValueError,
            OverflowError,
        ):  # their words may quote a value
            return _told(_frame_by_columns(data), data)
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


def _require_distinct(names: Sequence[str]) -> None:
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise SchemaError(
            f"columns must have names of their own. {', '.join(map(repr, twice))} occurs twice: rename it."
        )


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
        return table.replace_schema_metadata({FOUND_FORM: FOUND_IN_OBJECTS})
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


def _column(label: Any, data: pa.Table | NDArray[Any]) -> pa.Array:
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


def _numbers(array: NDArray[Any]) -> pa.Array:
    """Numbers as they lie in memory; `pa.array` would load pandas first."""
    if array.dtype == np.bool_:
        return pa.array(array)
    array = np.ascontiguousarray(array)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)]
    )


def _record_batch(
    arrays: list[pa.Array], schema: pa.Schema, rows: int
) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # A batch without columns still has rows to count.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, type=pa.struct([])))


def _rank(groups: NDArray[Any], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each row among the rows of its group, by increasing value."""
    order = np.lexsort((values, groups))
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(
        starts, np.diff(np.r_[starts, len(order)])
    )
    return rank


def _buffers(array: pa.Array) -> list[NDArray[np.uint8]]:
    found = (buffer for buffer in array.buffers() if buffer is not None and buffer.size)
    return [np.frombuffer(buffer, dtype=np.uint8) for buffer in found]


def _checksum(buffer: NDArray[np.uint8]) -> str:
    words = buffer[: len(buffer) // 8 * 8].view(np.uint64)
    return f"{int(words.sum(dtype=np.uint64)):x}.{buffer[len(words) * 8 :].tobytes().hex()}"
