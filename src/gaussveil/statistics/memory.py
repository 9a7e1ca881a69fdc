"""Tables in memory: NumPy arrays, pandas and polars frames, Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.containers import (
    FormNotes,
    cell_name,
    form_notes,
)
from gaussveil.errors import SchemaError
from gaussveil.statistics.accepted_tables import accepted, label_column
from gaussveil.statistics.block import Block, Reader, plain
from gaussveil.statistics.row_hash import BOUND_KEY, hash_rows
from gaussveil.statistics.source import Source, View, Watch

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
            data if view is not None else accepted(data)
        )
        self._label: pa.Array | None = (
            label
            if view is not None or label is None
            else label_column(label, self._data)
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
    def form_notes(self) -> FormNotes:
        """What the form of the table says that this one was brought from."""
        return form_notes(self._data)

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
            rows = self._data[here]
            if not everything:
                rows = rows[:, places]
            if kept is not None:
                rows = rows[kept[here]]
            labels = self._labels(here, kept)
            # Groups are gathered from the block, so only a block without groups is overwritten and must be a copy.
            own = np.array if reader.group is None else np.asarray
            yield reader.block(own(rows, dtype=np.float64, order="C").T, labels)

    def _labels(self, here: slice, kept: NDArray[np.bool_] | None) -> pa.Array | None:
        """The labels of these rows, of those that are kept."""
        if self._label is None:
            return None
        labels = self._label.slice(here.start, here.stop - here.start)
        if kept is not None:
            labels = labels.filter(pa.array(kept[here]))
        return labels

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


def _require_distinct(names: Sequence[str]) -> None:
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise SchemaError(
            f"columns must have names of their own. {', '.join(map(repr, twice))} occurs twice: rename it."
        )


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
    buffers = (
        buffer for buffer in array.buffers() if buffer is not None and buffer.size
    )
    return [np.frombuffer(buffer, dtype=np.uint8) for buffer in buffers]


def _checksum(buffer: NDArray[np.uint8]) -> str:
    words = buffer[: len(buffer) // 8 * 8].view(np.uint64)
    return f"{int(words.sum(dtype=np.uint64)):x}.{buffer[len(words) * 8 :].tobytes().hex()}"
