"""Tables in files and databases, through the embedded engine DuckDB. Mirrors spark.py verb by verb."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from gaussveil.checks import refuse
from gaussveil.engines.cell_map import LINES, typed
from gaussveil.engines.duckdb_tables import (
    BATCH_ROWS,
    names_in_sql,
    stored_table,
)
from gaussveil.engines.pieces import refuse_mixed
from gaussveil.engines.scanned import ScannedSource
from gaussveil.engines.spill import spill_folder
from gaussveil.engines.typed_columns import stored_form, stored_rows, without_cells
from gaussveil.errors import SourceError
from gaussveil.statistics.row_hash import hash_rows

MEMORY_LIMIT = "2GB"
_NAMES = itertools.count()


class DuckDBSource(ScannedSource):
    """A table that DuckDB scans in batches; it may be larger than memory.

    How text is written and what its columns hold (``dialect``) is public: it is what somebody wrote down (``schema``),
    or it is found in the first lines, with what is said of it (``separator``, ``decimal``, ``encoding``,
    ``time_format``, ``types`` of columns). Cells that do not fit are missing values, and so are marks in ``missing``.
    Sorting and bounding spill above ``memory_limit`` (2GB, or GAUSSVEIL_MEMORY_LIMIT) to a folder of their own below
    ``temp_directory``, which nobody else can read and which goes with the connection.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        types: Mapping[str, str] | None = None,
        memory_limit: str | None = None,
        temp_directory: str | None = None,
        **written: Any,
    ) -> None:
        self._given = self._find(uri, types, written)
        self._memory_limit = (
            memory_limit or os.environ.get("GAUSSVEIL_MEMORY_LIMIT") or MEMORY_LIMIT
        )
        self._connection = _connect(
            {
                "memory_limit": self._memory_limit,
                "temp_directory": spill_folder(self.watch, temp_directory),
                "preserve_insertion_order": False,
                # A table that is not there must be missing, not whatever Python variable has its name.
                "python_enable_replacements": False,
            }
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        # all views share the watch
        weakref.finalize(self.watch, self._connection.close)
        with self._told():
            self._find_mixed()
            self._stored = stored_table(
                self._connection, self._location, self._given, self._mixed
            )
            self.dialect = self._stored.dialect
            self._shape()
        self._see_all()

    def _shape(self) -> None:
        """What the table is by its form: SQL, and the names and types of its columns."""
        stored = self._stored
        if stored.of_text:
            self._table = typed(stored.table, self.dialect)
        else:
            if self._own_schema is None:
                lies = self._cursor().sql(f"SELECT * FROM {stored.table} LIMIT 0")
                self._own_schema = lies.to_arrow_table().schema
                form = stored_form(self._own_schema, self._given)
                self.dialect = replace(form, found=stored.dialect.found)
            collated = self._location.kind in ("duckdb", "postgres")
            self._table = stored_rows(
                stored.table, self._own_schema, self.dialect, collated=collated
            )
        empty = self._cursor().sql(f"SELECT * FROM {self._table} LIMIT 0")
        self._kinds = dict(zip(empty.columns, empty.types))
        self._schema = without_cells(empty.to_arrow_table().schema, self.dialect)

    @property
    def _of_text(self) -> bool:
        return self._stored.of_text

    def _told(self) -> AbstractContextManager[None]:
        return _readable(self._memory_limit)

    def fingerprint(self) -> str:
        """Stamps of the files; of a database elsewhere, a hash of the table's rows."""
        if self._location.local:
            return self._location.stamp()
        with self._told():
            sums = "SELECT count(*), bit_xor(hash(t)), sum(hash(t)::HUGEINT) FROM"
            return repr(self._cursor().sql(f"{sums} {self._table} AS t").fetchall())

    def batches(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the view, in whatever order DuckDB finds them, or sorted."""
        refuse_mixed(self._mixed, self.view.needed(columns, order))
        query = self._query(columns, order)
        self._begin()
        with self._told():
            for batch in self._cursor().sql(query).to_arrow_reader(BATCH_ROWS):
                yield without_cells(batch, self.dialect)

    _names_in_sql = staticmethod(names_in_sql)

    def _hash_function(self, key: bytes, columns: Sequence[str] | None) -> str:
        """Give DuckDB the keyed hash of these columns (None: of two integers) under a fresh name."""
        name = f"gaussveil_hash_{next(_NAMES)}"
        kinds: list[Any]
        if columns is None:
            kinds = ["bigint", "bigint"]
        else:
            kinds = [self._kinds[column] for column in columns]
        self._connection.create_function(
            name,
            _hashing(key, len(kinds), _place(columns, self.view.unit)),
            kinds,
            "bigint",
            type=ARROW,
            null_handling=SPECIAL,
        )
        return name

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self._connection.cursor()
        if self._stored.arrow is not None:
            cursor.register(LINES, self._stored.arrow(self.dialect))
        return cursor


def _connect(config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(config=config)
    except duckdb.Error:
        refuse("memory_limit", "a size such as 2GB", config["memory_limit"])


@contextlib.contextmanager
def _readable(memory_limit: str) -> Iterator[None]:
    """Say that a table cannot be read without repeating DuckDB's message, which may quote a value of it."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise SourceError(
            f"the table needs more memory than the limit of {memory_limit}: give more with memory_limit, "
            "gaussveil --memory-limit or GAUSSVEIL_MEMORY_LIMIT."
        ) from None
    except (
        duckdb.Error,
        pa.ArrowException,
        OSError,
        RuntimeError,
    ) as error:  # the last from DuckDB's extensions
        raise SourceError(
            f"the table could not be read ({type(error).__name__}): "
            "check that it is whole and of the kind its name says."
        ) from None


def _place(columns: Sequence[str] | None, unit: str | None) -> int | None:
    """Where the unit stands among the columns of a hash."""
    if columns is not None and unit is not None and unit in columns:
        return list(columns).index(unit)
    return None


def _hashing(key: bytes, arity: int, unit: int | None) -> Callable[..., pa.Array]:
    def hashing(*columns: Any) -> pa.Array:
        return pa.array(
            hash_rows([column.combine_chunks() for column in columns], key, unit),
            type=pa.int64(),
        )

    # DuckDB counts a function's parameters by its signature.
    names = [
        inspect.Parameter(f"column{i}", inspect.Parameter.POSITIONAL_ONLY)
        for i in range(arity)
    ]
    vars(hashing)["__signature__"] = inspect.Signature(names)
    return hashing
