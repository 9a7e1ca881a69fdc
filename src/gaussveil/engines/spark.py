"""Tables on a cluster, through Spark. Mirrors duckdb.py verb by verb."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gaussveil.engines.pieces import (
    cut_files,
    read_piece,
    readable,
    refuse_mixed,
)
from gaussveil.engines.scanned import ScannedSource
from gaussveil.engines.spark_session import readable_table, start_session, working
from gaussveil.engines.spark_tables import (
    names_in_sql,
    read_lines,
    read_parquet,
    records_of,
    stored_cells,
    stored_frame,
)
from gaussveil.engines.typed_columns import stored_form
from gaussveil.errors import MissingDependencyError, install
from gaussveil.statistics.block import Reader
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.fixed_point import carry
from gaussveil.statistics.legible import python_cell
from gaussveil.statistics.row_hash import hash_rows
from gaussveil.statistics.statistic import State, Statistic
from gaussveil.statistics.unit_cells import UnitCells, UnitTotals
from gaussveil.statistics.unit_counts import units_per_value
from gaussveil.typing import Integers

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_schema
except ImportError as error:
    raise MissingDependencyError(
        f"Spark is not installed: {install('spark')} (and Java 17)."
    ) from error


# its stub knows no function of arbitrarily many columns
_arrow_udf: Callable[..., Any] = arrow_udf
_NAMES = itertools.count()


_TASKS_PER_CORE = 4

Batches = Iterator[pa.RecordBatch]


class SparkSource(ScannedSource):
    """A Parquet or CSV table that Spark scans; statistics run on the workers, only clipped sums reach the driver.

    Pass an existing ``session``, or a ``master`` ("local[2]", "spark://host:7077"; by default GAUSSVEIL_SPARK_MASTER,
    or all cores here). gaussveil must be installed on the workers. ``batches`` and ``windows`` bring rows to the
    driver, one partition at a time: where the work itself is large, ``map_groups`` leaves it on the workers.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        types: Mapping[str, str] | None = None,
        session: SparkSession | None = None,
        master: str | None = None,
        **written: Any,
    ) -> None:
        self._given = self._find(uri, types, written)
        self._session = session or start_session(master)
        with self._told():
            self._find_mixed()
            if self._of_text:
                self._lines, self.dialect, self._above = read_lines(
                    self._session, self._location, self._given
                )
            self._shape()
        self._see_all()

    def _shape(self) -> None:
        """Give Spark the table by its form, under a fresh name."""
        if self._of_text:
            frame, self._schema = records_of(self._lines, self.dialect, self._above)
        else:
            frame = read_parquet(self._session, self._location)
            if self._own_schema is None:
                self._own_schema = to_arrow_schema(frame.schema, timezone="UTC")
                self.dialect = stored_form(self._own_schema, self._given)
            frame, self._schema = stored_frame(frame, self._own_schema, self.dialect)
        self._table = f"gaussveil_table_{next(_NAMES)}"
        frame.createOrReplaceTempView(self._table)

    @property
    def _of_text(self) -> bool:
        return self._location.kind == "csv"

    def _told(self) -> AbstractContextManager[None]:
        return readable_table()

    _names_in_sql = staticmethod(names_in_sql)

    def fingerprint(self) -> str:
        """Stamps of the files; of files elsewhere, a hash of the table's rows."""
        if self._location.local:
            return self._location.stamp()
        with self._told():
            sums = "SELECT count(*), bit_xor(xxhash64(*)), sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) FROM"
            return repr(self._session.sql(f"{sums} {self._table} AS t").collect())

    def batches(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the view, in whatever order Spark finds them, or sorted; a partition at a time."""
        self._begin()
        with self._told():
            for row in (
                self._frame(columns, order)
                .mapInArrow(_enveloped, "batches binary")
                .toLocalIterator()
            ):
                yield from _renamed(
                    pa.ipc.open_stream(row["batches"]), columns or self.view.columns[:1]
                )

    def _frame(self, columns: Sequence[str], order: Sequence[str] = ()) -> DataFrame:
        """These columns by number: PySpark takes a name with a dot in it for a part of another column."""
        refuse_mixed(self._mixed, self.view.needed(columns, order))
        frame = self._session.sql(self._query(columns, order))
        return frame.toDF(*(f"column{k}" for k in range(len(frame.columns))))

    def _hash_function(self, key: bytes, columns: Sequence[str] | None) -> str:
        """Give Spark the keyed hash of columns under a fresh name."""
        name = f"gaussveil_hash_{next(_NAMES)}"
        unit = self.view.unit
        if columns is not None and unit is not None and unit in columns:
            place = list(columns).index(unit)
        else:
            place = None
        self._session.udf.register(name, _arrow_udf(_hashing(key, place), "bigint"))
        return name

    def _fold(self, statistic: Statistic[Any], reader: Reader) -> State:
        """Each task folds its own batches; the driver merges one row of integers per task."""
        empty = statistic.empty(len(reader.columns), reader.groups)
        self._begin()
        frame, rows = self._plan(reader.needed)

        def partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            blocks = (
                block for batch in rows(batches) for block in reader.blocks(batch)
            )
            state = statistic.fold(blocks, len(reader.columns), reader.groups)
            yield pa.record_batch(
                [pa.array([_pack(state)], type=pa.binary())], names=["state"]
            )

        with self._told():
            states = frame.mapInArrow(partials, "state binary").toArrow()
        state = empty
        for packed in states["state"].to_pylist():
            state = statistic.merge(state, _unpack(packed, empty))
        return state

    def _fold_units(
        self, reader: CellReader, totals: UnitTotals, kept: list[UnitCells]
    ) -> State:
        """Each task has all rows of its units; the driver merges one row of integers per task."""

        def partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = list(_renamed(batches, reader.columns))
            state = totals.fold(reader.chunks(lambda: rows))
            yield pa.record_batch(
                [pa.array([_pack(state)], type=pa.binary())], names=["state"]
            )

        state = totals.empty()
        for packed in self._by_unit(reader.columns, partials, "state binary")[
            "state"
        ].to_pylist():
            part = _unpack(packed, state)
            state = {name: carry(state[name] + part[name]) for name in state}
        return state

    def _units_per_value(
        self, unit: str, column: str, per_unit: int
    ) -> tuple[pa.Array, Integers]:
        kind = (
            self._session.sql(
                f"SELECT {names_in_sql([column])} AS value FROM {self._table}"
            )
            .schema[0]
            .dataType
        )

        def partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            values, counts = units_per_value(
                _renamed(batches, ["unit", "value"]), per_unit
            )
            if len(values):
                yield pa.record_batch(
                    [values, pa.array(counts)], names=["value", "units"]
                )

        results = self._by_unit(
            [unit, column], partials, f"value {kind.simpleString()}, units bigint"
        )
        whole = results.group_by("value").aggregate([("units", "sum")])
        return whole["value"].combine_chunks(), whole["units_sum"].to_numpy()

    def _by_unit(
        self,
        columns: Sequence[str],
        partials: Callable[[Batches], Batches],
        schema: str,
    ) -> pa.Table:
        """Hand all rows of a unit, the first column, to one task."""
        self._begin()
        tasks = _TASKS_PER_CORE * self._session.sparkContext.defaultParallelism
        with self._told():
            frame = (
                self._frame(columns)
                .where("column0 IS NOT NULL")
                .repartition(tasks, "column0")
            )
            return frame.mapInArrow(partials, schema).toArrow()

    def _plan(
        self, columns: Sequence[str]
    ) -> tuple[DataFrame, Callable[[Batches], Batches]]:
        """What Spark hands out to tasks, and how a task finds its rows in it: they are it, or it names pieces."""
        refuse_mixed(self._mixed, self.view.needed(columns))
        form = self.dialect
        names = list(columns or self.view.columns[:1])
        stored = self._own_schema or self._schema
        own = pa.schema([stored.field(name) for name in names])
        with self._told():
            files = self._whole_files()
            if not (files and readable(files[0], own)):
                return self._frame(columns), lambda batches: _renamed(batches, names)
            pieces = cut_files(files, self._session.sparkContext.defaultParallelism)

        def rows(batches: Batches) -> Batches:
            numbers = (
                number for batch in batches for number in batch.column(0).to_pylist()
            )
            found = (
                batch for number in numbers for batch in read_piece(pieces[number], own)
            )
            return stored_cells(found, own, form)[0]

        return self._session.range(0, len(pieces), 1, len(pieces)), rows

    def _whole_files(self) -> list[str]:
        """The files that tasks read by themselves where all rows are asked for; none where Spark must read them."""
        location = self._location
        if not (location.local and location.kind == "parquet"):
            return []
        files = location.files()
        if self.view.unit is not None or self.view.rate is not None:
            return []
        return files

    def _map(
        self,
        function: Callable[[pa.Table], Any],
        by: str,
        order: Sequence[str],
        jobs: int,
    ) -> list[Any]:
        """One Spark task per household; results travel pickled between our own processes."""
        names = list(self.view.columns)
        ties = [name for name in names if name not in (by, *order)]
        keys = [(name, "ascending") for name in (*order, *ties)]

        def apply(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            table = table.rename_columns(names)
            if keys:
                ordered = table.take(pc.sort_indices(table, sort_keys=keys))
            else:
                ordered = table
            result = pickle.dumps((python_cell(group[0]), _quietly(function, ordered)))
            return pa.table({"result": pa.array([result], type=pa.binary())})

        self._begin()
        key = f"column{names.index(by)}"
        frame = self._frame(names).where(f"{key} IS NOT NULL")
        # By rows Spark would join tasks until few are left; the work is by household, and no core shall wait long.
        tasks = _TASKS_PER_CORE * self._session.sparkContext.defaultParallelism
        frame = frame.repartition(
            max(
                tasks, int(self._session.conf.get("spark.sql.shuffle.partitions") or 0)
            ),
            key,
        )
        with working():
            results = frame.groupBy(key).applyInArrow(apply, "result binary").toArrow()
        pairs = (pickle.loads(result) for result in results["result"].to_pylist())
        return sorted(
            (pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0]
        )


def _quietly(function: Callable[[pa.Table], Any], rows: pa.Table) -> Any:
    """The function's result; its exception loses its words, which may quote a value and would reach Spark's logs."""
    try:
        return function(rows)
    except Exception as error:
        raise RuntimeError(f"the function raised {type(error).__name__}") from None


def _renamed(batches: Batches, names: Sequence[str]) -> Batches:
    return (batch.rename_columns(list(names)) for batch in batches)


def _enveloped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one binary value, so that a partition reaches the driver without becoming Python rows."""
    for batch in batches:
        envelope = pa.BufferOutputStream()
        with pa.ipc.new_stream(envelope, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch(
            [pa.array([envelope.getvalue().to_pybytes()], type=pa.binary())],
            names=["batches"],
        )


def _hashing(key: bytes, unit: int | None) -> Callable[..., pa.Array]:
    def hashing(*columns: pa.Array) -> pa.Array:
        return pa.array(hash_rows(columns, key, unit), type=pa.int64())

    return hashing


def _pack(state: State) -> bytes:
    return b"".join(
        np.ascontiguousarray(state[name]).tobytes() for name in sorted(state)
    )


def _unpack(packed: bytes, like: State) -> State:
    values = np.frombuffer(packed, dtype=np.int64)
    ends = np.cumsum([like[name].size for name in sorted(like)])
    arrays = np.split(values, ends[:-1])
    return {
        name: part.reshape(like[name].shape) for name, part in zip(sorted(like), arrays)
    }
