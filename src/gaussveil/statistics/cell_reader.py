"""One pass over a table: what every unit has in every group, whatever the order of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil.errors import SchemaError
from gaussveil.statistics.block import numbers, plain, require_columns, require_numbers
from gaussveil.statistics.column_types import holds, is_found
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Bins, Thresholds
from gaussveil.statistics.row_hash import is_identifier
from gaussveil.statistics.unit_cells import Feature, UnitCells
from gaussveil.typing import Floats, Integers

_BATCH_ROWS = 2**20
_CHUNK_CELLS = 2**25  # int64 cells held at once, 256 MiB
Batches = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True)
class CellReader:
    """What one pass reads of a table: whose row, which group, which numbers."""

    unit: str
    keys: tuple[Key, ...]
    features: tuple[Feature, ...] = ()
    bins: tuple[Bins | Thresholds, ...] = ()
    present: tuple[str, ...] = ()
    """Columns that a row must have a number in beside."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns that must be scanned, the unit's first."""
        return tuple(
            dict.fromkeys(
                (self.unit, *(key.column for key in self.keys), *self.numbers)
            )
        )

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Columns whose numbers are read; a row without one of them is left out."""
        features = (feature.column for feature in self.features)
        bins = (column_bins.column for column_bins in self.bins)
        return tuple(dict.fromkeys((*features, *bins, *self.present)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each key has."""
        return tuple(len(key.values) for key in self.keys)

    @property
    def groups(self) -> int:
        """Number of groups: all combinations of the keys' values."""
        return math.prod(self.sizes)

    @property
    def width(self) -> int:
        """How many features a row has."""
        return len(self.features)

    def integers(self, values: dict[str, Floats]) -> Iterator[Integers]:
        """The features of these rows, one after the other."""
        return (feature.integers(values[feature.column]) for feature in self.features)

    def check(self, schema: pa.Schema) -> None:
        """Refuse missing columns and wrong types, by the schema alone; a column without any value has every type."""
        require_columns(schema, self.columns)
        of_columns = pa.schema(
            [field for field in schema if not pa.types.is_null(field.type)]
        )
        if self.unit in of_columns.names:
            require_unit(of_columns, self.unit)
        for key in self.keys:
            if key.column in of_columns.names:
                key.check(of_columns)
        numbers = [column for column in self.numbers if column in of_columns.names]
        require_numbers(of_columns, numbers, asked=True)

    def chunks(self, batches: Batches) -> Iterator[UnitCells]:
        """All units of the table, some at a time: a table of more units than fit is read again for the next ones."""
        per_unit = self.groups * (1 + self.width) + sum(
            self.groups * b.size for b in self.bins
        )
        most = max(1, _CHUNK_CELLS // per_unit)
        first = 0
        total = 1
        known: pa.Array | None = None
        while first < total:
            fold = _Fold(self, first, most, known)
            for table in joined(batches()):
                fold.add(table)
            known, total = fold.known, len(fold.known)
            if len(fold.rows):
                yield fold.cells()
            first += most


class _Fold:
    """The running cells of units number `first` to `first + most`, in the order in which units appear."""

    def __init__(
        self, reader: CellReader, first: int, most: int, known: pa.Array | None
    ) -> None:
        self.reader = reader
        self.first = first
        self.most = most
        if known is None:
            self.known = pa.nulls(0, pa.string())
        else:
            self.known = known
        self.begun = known is not None
        widths = [column_bins.size for column_bins in reader.bins]
        self.rows: Integers = np.zeros((0, reader.groups), dtype=np.int64)
        self.features: list[Integers] = [
            np.zeros_like(self.rows) for _ in range(reader.width)
        ]
        self.bins: list[Integers] = [
            np.zeros((0, reader.groups, width), dtype=np.int64) for width in widths
        ]
        if self.begun:
            self._grow()

    def cells(self) -> UnitCells:
        if self.features:
            features = np.stack(self.features)
        else:
            features = np.zeros((0, *self.rows.shape), dtype=np.int64)
        return UnitCells(
            self.known.slice(self.first, len(self.rows)),
            self.rows,
            features,
            tuple(self.bins),
        )

    def add(self, table: pa.Table) -> None:
        reader = self.reader
        unit = self._units(plain(table.column(reader.unit).combine_chunks()))
        group = np.zeros(len(unit), dtype=np.int64)
        kept = (unit >= self.first) & (unit < self.first + self.most)
        for key, size in zip(reader.keys, reader.sizes):
            cells = table.column(key.column).combine_chunks()
            if pa.types.is_null(cells.type):
                codes = np.full(len(unit), -1)
            else:
                codes = key.codes(cells)
            kept &= codes >= 0
            group = group * size + codes
        cells = {
            name: numbers(table.column(name).combine_chunks())
            for name in reader.numbers
        }
        values = {
            name: np.asarray(column, dtype=np.float64) for name, column in cells.items()
        }
        for column in values.values():
            kept &= np.isfinite(column)
        if not kept.all():
            unit = unit[kept]
            group = group[kept]
            values = {name: column[kept] for name, column in values.items()}
        cell = (unit - self.first) * reader.groups + group
        np.add.at(self.rows.reshape(-1), cell, 1)
        for total, integers in zip(self.features, reader.integers(values)):
            np.add.at(total.reshape(-1), cell, integers)
        for histogram, bins in zip(self.bins, reader.bins):
            place = bins.places(values[bins.column], group)
            inside = place >= 0
            np.add.at(histogram.reshape(-1), (cell * bins.size + place)[inside], 1)

    def _units(self, column: pa.Array) -> Integers:
        """Number of every row's unit, -1 for nobody's; new ones are appended."""
        if pa.types.is_null(column.type):
            return np.full(len(column), -1, dtype=np.int64)
        encoded = column.dictionary_encode()
        if not self.begun:
            self.known = encoded.dictionary.slice(0, 0)
            self.begun = True
        local = pc.index_in(encoded.dictionary, value_set=self.known)
        new = encoded.dictionary.filter(
            pc.and_(local.is_null(), encoded.dictionary.is_valid())
        )
        if len(new):
            self.known = pa.concat_arrays([self.known, new])
            local = pc.index_in(encoded.dictionary, value_set=self.known)
            self._grow()
        if len(local) == 0:
            return np.full(len(column), -1, dtype=np.int64)
        places = local.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(np.where(codes >= 0, places[codes], -1))

    def _grow(self) -> None:
        """Room for the units known now."""
        units = min(max(len(self.known) - self.first, 0), self.most)
        self.rows, *self.features = (
            _room(sums, units) for sums in (self.rows, *self.features)
        )
        self.bins = [_room(counts, units) for counts in self.bins]


def _room(cells: Integers, units: int) -> Integers:
    grown = np.zeros((max(units, 0), *cells.shape[1:]), dtype=np.int64)
    grown[: len(cells)] = cells
    return grown


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together until they are worth the work per batch."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield pa.Table.from_batches(pending)
            pending = []
            rows = 0
    if pending:
        yield pa.Table.from_batches(pending)


def require_values(schema: pa.Schema, column: str) -> None:
    """Refuse a column whose values nobody can list: numbers, unless their type was found in cells.

    There one 2.5 among whole numbers would refuse the column, and the refusal tell of it.
    """
    require_columns(schema, [column])
    field = schema.field(column)
    if not (is_found(field) and pa.types.is_floating(field.type)):
        require_unit(schema, column)


def require_unit(schema: pa.Schema, unit: str) -> None:
    """Refuse a unit that is missing or whose cells name nobody."""
    require_columns(schema, [unit])
    kind = schema.field(unit).type
    if not (is_identifier(kind) or pa.types.is_null(kind)):
        raise SchemaError(
            f"the unit {unit!r} must be a column of text or integers. Got {holds(kind)}."
        )
