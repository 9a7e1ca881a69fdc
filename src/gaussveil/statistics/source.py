"""The Source protocol: the only door through which mechanisms reach data, wherever the data lies.

A Source is an immutable view of a table. ``select``, ``bounded`` and ``sample`` return narrower views; ``aggregate``,
``map_groups`` and ``windows`` read. An engine supplies four things: the schema, a fingerprint, batches of the view, and
(where work should not come to the driver) its own fold and map. Refusals depend on the schema and on public parameters
only; nothing here logs or reports a value or a count of the data.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil import checks
from gaussveil.containers import FormNotes
from gaussveil.errors import ParameterError, SchemaError, SourceError
from gaussveil.shown import Described
from gaussveil.statistics.block import Block, Grouping, Reader, plain, require_columns
from gaussveil.statistics.cell_reader import CellReader, require_unit, require_values
from gaussveil.statistics.clocks import on_clock
from gaussveil.statistics.column_types import holds
from gaussveil.statistics.legible import python_cells
from gaussveil.statistics.row_hash import (
    coin_threshold,
    derive_key,
    is_identifier,
    require_hashable,
)
from gaussveil.statistics.statistic import RowCount, State, Statistic
from gaussveil.statistics.unit_cells import UnitCells, UnitTotals
from gaussveil.statistics.unit_counts import units_per_value
from gaussveil.typing import Integers

Result = TypeVar("Result")


@dataclass(frozen=True)
class View:
    """What of a table is read, in this order: columns, rows kept per privacy unit, Poisson sample."""

    columns: tuple[str, ...]
    unit: str | None = None
    max_rows: int | None = None
    rate: float | None = None
    key: bytes = field(default=b"", repr=False)
    seeded: bool = False

    @property
    def threshold(self) -> int:
        """A row whose coin is below this is in the sample."""
        return coin_threshold(1.0 if self.rate is None else self.rate)

    @property
    def row_key(self) -> bytes:
        """Key of the row hash that tells rows apart for sampling."""
        return derive_key(self.key, b"row")

    @property
    def coin_key(self) -> bytes:
        """Key of the sampling coins."""
        return derive_key(self.key, b"coin")

    def needed(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Sequence[str]:
        """Which columns a pass over some of them must read: all, where rows are chosen or sorted by all of them."""
        whole = self.unit is not None or self.rate is not None or order
        if whole:
            return self.columns
        return columns or self.columns[:1]


class Watch:
    """Remembers a table's fingerprint from its first pass; shared by all views of the table.

    Checked at the end of every pass, before its result is handed out; engines on files also note it when they open one.
    """

    def __init__(self) -> None:
        self._first: str | None = None

    @property
    def begun(self) -> bool:
        """Whether a fingerprint is noted."""
        return self._first is not None

    def check(self, fingerprint: str) -> None:
        """Refuse a table that is not the one seen first."""
        if self._first is None:
            self._first = fingerprint
        elif fingerprint != self._first:
            raise SourceError(
                "the table changed between two passes: stop what writes to it, open it again and restart."
            )


class Source(Described, ABC):
    """A table that statistics, samples and per-household jobs run over."""

    view: View
    watch: Watch

    # What an engine supplies.

    @property
    @abstractmethod
    def table_schema(self) -> pa.Schema:
        """Schema of the whole table, known without reading records."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes when the table changes: accidents are detected, not forgers."""

    @abstractmethod
    def batches(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the view; with ``order`` sorted by those columns, nulls last, ties by all columns of the view."""

    @abstractmethod
    def _with_view(self, view: View) -> Self:
        """The same table seen through another view."""

    def _fold(self, statistic: Statistic[Any], reader: Reader) -> State:
        return statistic.fold(self._blocks(reader), len(reader.columns), reader.groups)

    def _blocks(self, reader: Reader) -> Iterator[Block]:
        for batch in self.batches(reader.needed):
            yield from reader.blocks(batch)

    def _map(
        self,
        function: Callable[[pa.Table], Any],
        by: str,
        order: Sequence[str],
        jobs: int,
    ) -> list[Any]:
        groups = split_groups(self.batches(self.view.columns, (by, *order)), by)
        if jobs == 1:
            return [_apply(function, key, table) for key, table in groups]
        from joblib import Parallel, delayed

        # A slice is pickled with the whole batch it is cut from; a copy of its rows is not.
        groups = ((key, table.take(np.arange(table.num_rows))) for key, table in groups)
        return list(
            Parallel(n_jobs=jobs)(
                delayed(_apply)(function, key, table) for key, table in groups
            )
        )

    @property
    def form_notes(self) -> FormNotes:
        """What the form says beside names and types: whose rows these are, the clock, what nobody wrote down."""
        return FormNotes()

    @property
    def found_form(self) -> tuple[str, ...]:
        """What of the table's form nobody wrote down: it was found in private cells."""
        return self.form_notes.found

    def identified(self, unit: str) -> Self:
        """The same table, its units named by the text of their cells where they lie as text, whatever they seem to be.

        100 and 0100 are two homes, and no other home's name makes one of them.
        """
        return self

    # What every Source can do.

    def _facts(self) -> dict[str, str]:
        names = self.schema.names
        return {"columns": f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"}

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the view's columns."""
        whole = self.table_schema
        return pa.schema([whole.field(name) for name in self.view.columns])

    @property
    def rows_per_unit(self) -> int:
        """How many rows of a pass one privacy unit can change."""
        return self.view.max_rows or 1

    def select(self, columns: Sequence[str]) -> Self:
        """Only these columns; before ``bounded`` and ``sample``, whose choice of rows depends on the columns."""
        if self.view.unit is not None or self.view.rate is not None:
            raise ParameterError(
                "select comes before bounded and sample: call it first."
            )
        if not columns:
            raise ParameterError("columns must name at least one column.")
        require_columns(self.schema, columns)
        return self._with_view(replace(self.view, columns=tuple(columns)))

    def bounded(self, unit: str, max_rows: int) -> Self:
        """At most ``max_rows`` rows per privacy unit: those with the smallest hash (public key) of the view's columns.

        Which rows of a unit stay depends on that unit's rows alone, so adding or removing a unit changes at most
        ``max_rows`` rows of everything computed from the view. Rows without a unit are left out.
        """
        if self.view.unit is not None or self.view.rate is not None:
            raise ParameterError("bounded is called once, before sample.")
        checks.whole("max_rows", max_rows)
        require_columns(self.schema, [unit])
        source = self.identified(unit)
        if not is_identifier(source.schema.field(unit).type):
            kind = source.schema.field(unit).type
            raise SchemaError(
                f"privacy unit {unit!r} must be a column of text or integers. Got {holds(kind)}."
            )
        require_hashable(source.schema, self.view.columns)
        return source._with_view(replace(self.view, unit=unit, max_rows=int(max_rows)))

    def sample(self, rate: float, key: bytes | int | None = None) -> Self:
        """Poisson sample: every privacy unit (every row, where there is none) is in with probability ``rate``.

        The coins are a keyed hash of the unit, or of the row and its number among equal rows, so they are independent,
        and all engines agree given the key. ``key=None`` draws a fresh secret one. An integer makes a repeatable sample
        for studies and tests: amplification by sampling may then not be claimed (``view.seeded``).
        """
        if self.view.rate is not None:
            raise ParameterError(
                "a sample is drawn once per view: sample the original source again."
            )
        seeded = isinstance(key, int | np.integer)
        if key is None:
            key = secrets.token_bytes(32)
        elif isinstance(key, int | np.integer):
            key = derive_key(b"seed", str(int(key)).encode())
        if len(key) != 32:
            raise ParameterError(f"key must have 32 bytes. Got {len(key)}.")
        coin_threshold(rate)
        require_hashable(self.schema, self.view.columns)
        return self._with_view(
            replace(self.view, rate=float(rate), key=key, seeded=seeded)
        )

    def aggregate(
        self,
        statistic: Statistic[Result],
        *,
        columns: Sequence[str] | None = None,
        group: Grouping = None,
        log: float | None = None,
    ) -> Result:
        """One pass: the statistic of these columns (default: all of the view), or of their logarithms, per group."""
        reader = Reader(
            self.view.columns if columns is None else tuple(columns), group, log
        )
        reader.check(self.schema)
        statistic.shapes(len(reader.columns), reader.groups)
        state = self._fold(statistic, reader)
        self.watch.check(self.fingerprint())
        return statistic.finish(state)

    def fold_units(
        self, reader: CellReader, totals: UnitTotals, kept: list[UnitCells]
    ) -> State:
        """One pass over whole units: the sums of what a public map makes of each unit's groups.

        `kept` is a list that one release hands to all its passes: units that fit in memory at once are read once.
        """
        self._require_same_unit(reader.unit)
        source = self.identified(reader.unit)
        reader = on_clock(reader, self.form_notes.time_zone)
        reader.check(source.schema)
        state = source._fold_units(reader, totals, kept)
        self.watch.check(self.fingerprint())
        return state

    def units_per_value(
        self, unit: str, column: str, per_unit: int
    ) -> tuple[pa.Array, Integers]:
        """Values of a column and how many units have each; private, both of them."""
        self._require_same_unit(unit)
        source = self.identified(unit)
        require_unit(source.schema, unit)
        require_values(source.schema, column)
        counted = source._units_per_value(unit, column, per_unit)
        self.watch.check(self.fingerprint())
        return counted

    def _require_same_unit(self, unit: str) -> None:
        """Where rows were chosen per home, one person decides which rows of others are there."""
        if self.view.unit not in (None, unit):
            raise ParameterError(
                f"the unit must be {self.view.unit!r}, per which the rows were bounded. Got {unit!r}."
            )

    def _fold_units(
        self, reader: CellReader, totals: UnitTotals, kept: list[UnitCells]
    ) -> State:
        def chunks() -> Iterator[UnitCells]:
            for number, cells in enumerate(
                reader.chunks(lambda: self.batches(reader.columns))
            ):
                kept[:] = [cells] if number == 0 else []
                yield cells

        return totals.fold(list(kept) or chunks())

    def _units_per_value(
        self, unit: str, column: str, per_unit: int
    ) -> tuple[pa.Array, Integers]:
        return units_per_value(self.batches([unit, column]), per_unit)

    def row_count(self) -> int:
        """Number of rows of the view. Private: never print it or log it."""
        return int(self.aggregate(RowCount(), columns=()).integers()[0])

    def table(
        self, columns: Sequence[str] | None = None, *, order: Sequence[str] = ()
    ) -> pa.Table:
        """The rows of the view brought here whole, sorted by ``order``: private, and for tables that fit in memory."""
        if columns is None:
            names = self.view.columns
        else:
            names = tuple(columns)
        schema = self.schema
        require_columns(schema, [*names, *order])
        rows = list(self.batches(names, tuple(order)))
        self.watch.check(self.fingerprint())
        table = pa.Table.from_batches(
            rows, schema=pa.schema([schema.field(name) for name in names])
        )
        return table.replace_schema_metadata(self.form_notes.metadata())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's protocol, so that what reads frames (``read_readings``) reads a Source as well."""
        return self.table(order=self.view.columns).__arrow_c_stream__(requested_schema)

    def map_groups(
        self,
        function: Callable[[pa.Table], Result],
        *,
        by: str,
        order: Sequence[str] = (),
        jobs: int = 1,
    ) -> list[tuple[Any, Result]]:
        """``function`` of each household's rows (an Arrow table, sorted by ``order``), sorted by household."""
        require_columns(self.schema, [by, *order])
        results = self.identified(by)._map(function, by, order, jobs)
        self.watch.check(self.fingerprint())
        return results

    def windows(
        self, *, by: str, order: str, length: int, step: int | None = None
    ) -> Iterator[tuple[Any, pa.Table]]:
        """Windows of ``length`` consecutive rows per meter, in the order of a column; a short rest is left out."""
        if length < 1 or (step is not None and step < 1):
            raise ParameterError(
                f"length and step must be positive. Got {length!r} and {step!r}."
            )
        require_columns(self.schema, [by, order])
        return self.identified(by)._windows(by, order, length, step or length)

    def _windows(
        self, by: str, order: str, length: int, step: int
    ) -> Iterator[tuple[Any, pa.Table]]:
        for key, table in split_groups(
            self.batches(self.view.columns, (by, order)), by
        ):
            for start in range(0, table.num_rows - length + 1, step):
                yield key, table.slice(start, length)
        self.watch.check(self.fingerprint())


def split_groups(
    batches: Iterator[pa.RecordBatch], by: str
) -> Iterator[tuple[Any, pa.Table]]:
    """Cut batches sorted by a column into one table per value; rows without one (of Python's) are left out."""
    pending: list[pa.RecordBatch] = []
    current: Any = None
    for batch in batches:
        runs = pc.run_end_encode(plain(batch.column(by)))
        start = 0
        for key, end in zip(python_cells(runs.values), runs.run_ends.to_pylist()):
            if pending and key != current:
                yield current, pa.Table.from_batches(pending)
                pending = []
            current = key
            if key is not None:
                pending.append(batch.slice(start, end - start))
            start = end
    if pending:
        yield current, pa.Table.from_batches(pending)


def _apply(
    function: Callable[[pa.Table], Result], key: Any, table: pa.Table
) -> tuple[Any, Result]:
    return key, function(table)
