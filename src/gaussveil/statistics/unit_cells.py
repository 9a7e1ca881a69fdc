"""What every unit has in every group of a table: exact integers, bounded unit by unit, then summed.

One pass reads the rows in whatever order they come and adds up, for each unit and group, the number of rows, features
of them in fixed point (each within [-1, 1]) and histograms. All of a unit's rows meet here, so the public map that
bounds it sees the whole unit. Integers make the order irrelevant: engines agree to the bit.

The bounds. A unit keeps at most `groups` groups, those with the smallest public hash of unit and group. Within a group
its rows weigh at most `rows` rows together: of n > rows rows each weighs rows/n. No row is lost to a lottery, a unit's
mean stays its mean, and a million rows of one unit weigh no more than `rows`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.errors import SchemaError
from gaussveil.statistics.block import numbers, plain, require_columns, require_numbers
from gaussveil.statistics.fixed_point import Limbs, carry, scaled
from gaussveil.statistics.keys import Bins, Key, Thresholds
from gaussveil.statistics.row_hash import hash_rows, is_identifier
from gaussveil.typing import Floats, Integers

ROW_BITS = 36  # a feature of one row is a multiple of 2**-36: 2**27 rows of one unit in one group fit
BIN_BITS = 20  # a row in a bin weighs a multiple of 2**-20

_GROUP_KEY = hashlib.blake2b(
    b"gaussveil: groups kept per unit, version 2", digest_size=32
).digest()
_BATCH_ROWS = 2**20
_CHUNK_CELLS = 2**25  # int64 cells held at once, 256 MiB

Batches = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True)
class Feature:
    """A number of each row within [-1, 1], of x clipped to [low, high].

    "value" is its place z between -1 at low and 1 at high, "square" is 2 z^2 - 1, "size" is x over the larger of |low|
    and |high|; "inside" is 1 where low <= x <= high and -1 elsewhere.
    """

    column: str
    low: float
    high: float
    kind: str = "value"

    @property
    def middle(self) -> float:
        """The value of z = 0."""
        if self.kind == "size":
            return 0.0
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """What one unit of z is worth."""
        if self.kind == "size":
            return max(abs(self.low), abs(self.high))
        return self.high / 2 - self.low / 2

    def integers(self, values: Floats) -> Integers:
        """The feature in units of 2**-36, truncated toward zero; every step is elementwise."""
        if self.kind == "inside":
            z = np.where((values >= self.low) & (values <= self.high), 1.0, -1.0)
        else:
            z = np.clip(
                (np.clip(values, self.low, self.high) - self.middle) / self.half,
                -1.0,
                1.0,
            )
            if self.kind == "square":
                z = 2 * z * z - 1
        return np.trunc(z * 2.0**ROW_BITS).astype(np.int64)


@dataclass(frozen=True, repr=False)
class UnitCells:
    """Some units whole: rows (U, G), features (m, U, G) in units of 2**-36, histograms (U, G, bins) in rows."""

    units: pa.Array
    rows: Integers
    features: Integers
    bins: tuple[Integers, ...]

    def bounded(self, rows: int, groups: int) -> UnitCells:
        """Each unit within its bounds, whatever it brought; histograms now in units of 2**-20."""
        counts = np.where(self._kept(groups), self.rows, 0)
        weight = np.where(counts > rows, rows / np.maximum(counts, 1), 1.0) * (
            counts > 0
        )
        limit = np.minimum(counts, rows)
        most = limit * 2**ROW_BITS
        shrunk = weight < 1
        features = np.where(
            shrunk, np.trunc(self.features * weight).astype(np.int64), self.features
        )
        bins = tuple(_weighed(one, weight[..., None], limit) for one in self.bins)
        return UnitCells(self.units, limit, np.clip(features, -most, most), bins)

    def _kept(self, groups: int) -> NDArray[np.bool_]:
        touched = self.rows > 0
        many = np.flatnonzero(touched.sum(axis=1) > groups)
        if len(many) == 0:
            return touched
        unit, group = np.nonzero(touched[many])
        order = hash_rows(
            [self.units.take(pa.array(many[unit])), pa.array(group)], _GROUP_KEY, 0
        )
        places = np.lexsort((group, order, unit))
        starts = np.flatnonzero(np.r_[True, np.diff(unit[places]) > 0])
        rank = np.arange(len(places)) - np.repeat(
            starts, np.diff(np.r_[starts, len(places)])
        )
        dropped = places[rank >= groups]
        touched[many[unit[dropped]], group[dropped]] = False
        return touched


def _weighed(bins: Integers, weight: Floats, limit: Integers) -> Integers:
    """A unit's histogram, its mass within a group at most `limit` rows: each bin is rounded down."""
    found = np.floor(bins * weight * 2.0**BIN_BITS * (1 - 2.0**-50)).astype(np.int64)
    exact = np.where(
        weight < 1, found, bins * 2**BIN_BITS * (weight > 0).astype(np.int64)
    )
    over = exact.sum(axis=-1) > limit * 2**BIN_BITS
    exact[over] = 0  # cannot happen; were it to, the unit's bound holds all the same
    return exact


class UnitTotals(ABC):
    """Sums over units of what a public map makes of each; every array of integers is one exact total."""

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every total."""

    @abstractmethod
    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """The public map: for every total the units' integers, one row per unit; each bounded by itself."""

    def fold(self, chunks: Iterable[UnitCells]) -> dict[str, Limbs]:
        """The totals of many units."""
        state = self.empty()
        for cells in chunks:
            for name, rows in self.vectors(cells).items():
                high = rows >> 32
                low = rows & (2**32 - 1)
                state[name] = carry(
                    state[name]
                    + scaled(high.sum(axis=0), 32)
                    + scaled(low.sum(axis=0), 0)
                )
        return state

    def empty(self) -> dict[str, Limbs]:
        """The totals of nobody."""
        return {
            name: np.zeros((4, *shape), dtype=np.int64)
            for name, shape in self.shapes().items()
        }


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
        features = (one.column for one in self.features)
        bins = (one.column for one in self.bins)
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
        return (one.integers(values[one.column]) for one in self.features)

    def check(self, schema: pa.Schema) -> None:
        """Refuse missing columns and wrong types, by the schema alone; a column without any value has every type."""
        require_columns(schema, self.columns)
        known = pa.schema(
            [field for field in schema if not pa.types.is_null(field.type)]
        )
        if self.unit in known.names:
            require_unit(known, self.unit)
        for key in self.keys:
            if key.column in known.names:
                key.check(known)
        require_numbers(
            known, [column for column in self.numbers if column in known.names]
        )

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
            for table in _joined(batches()):
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
        widths = [one.size for one in reader.bins]
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
        found = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(np.where(found >= 0, places[found], -1))

    def _grow(self) -> None:
        """Room for the units known now."""
        units = min(max(len(self.known) - self.first, 0), self.most)
        self.rows, *self.features = (
            _room(one, units) for one in (self.rows, *self.features)
        )
        self.bins = [_room(one, units) for one in self.bins]


def _room(cells: Integers, units: int) -> Integers:
    grown = np.zeros((max(units, 0), *cells.shape[1:]), dtype=np.int64)
    grown[: len(cells)] = cells
    return grown


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
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


def units_per_value(
    batches: Iterable[pa.RecordBatch], per_unit: int
) -> tuple[pa.Array, Integers]:
    """How many units have each value of the second column, the first naming units; private.

    Of each unit at most `per_unit` values count, those with the smallest public hash of unit and value.
    """
    pairs = [table.rename_columns(["unit", "value"]) for table in _joined(batches)]
    if not pairs:
        return pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int64)
    if any(
        pa.types.is_null(kind) for kind in pairs[0].schema.types
    ):  # a frame's column without any value
        return pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int64)
    distinct = pa.concat_tables([_distinct(table) for table in pairs])
    distinct = _distinct(distinct).drop_null()
    unit, value = (
        plain(distinct.column(name).combine_chunks()) for name in ("unit", "value")
    )
    codes = unit.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((hash_rows([unit, value], _GROUP_KEY, 0), codes))
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) > 0][: len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    encoded = value.take(pa.array(order[rank < per_unit])).dictionary_encode()
    counts = np.bincount(
        encoded.indices.to_numpy(zero_copy_only=False),
        minlength=len(encoded.dictionary),
    )
    return encoded.dictionary, counts.astype(np.int64)


def _distinct(table: pa.Table) -> pa.Table:
    columns = [plain(column.combine_chunks()) for column in table.columns]
    return (
        pa.table(columns, names=table.column_names)
        .group_by(table.column_names)
        .aggregate([])
    )


def require_unit(schema: pa.Schema, unit: str) -> None:
    """Refuse a unit that is missing or whose cells name nobody."""
    require_columns(schema, [unit])
    kind = schema.field(unit).type
    if not (is_identifier(kind) or pa.types.is_null(kind)):
        raise SchemaError(
            f"the unit {unit!r} must be a column of text or integers. Got {kind}."
        )
