"""Tables of SQLite files through Python's own SQLite.

SQLite lets every cell have a type of its own. The public rule: a cell that is not of its column's declared type is a
missing value, like a CSV cell that does not parse. DuckDB's own reader would refuse the whole table instead, and the
refusal would tell of one record. Times are text to SQLite: how they are written, and whether they carry a zone, is what
the form says, or what most of the first cells show.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from gaussveil.engines.cell_map import quoted, value
from gaussveil.engines.column_kinds import column_kind, is_missing
from gaussveil.engines.csv_files import HEAD_LINES
from gaussveil.engines.dialect import ColumnForm, Dialect
from gaussveil.engines.form import Given
from gaussveil.errors import SourceError

_BATCH_ROWS = 2**14


class SqliteTable:
    """One table: SQL that DuckDB reads it by, and a fresh reader for every pass."""

    def __init__(self, address: str, table: str, given: Given) -> None:
        self._uri = f"file:{quote(str(Path(address).absolute()))}?mode=ro"
        self._table = _name(table)
        with self._connected() as connection:
            columns = connection.execute(
                "SELECT name, type FROM pragma_table_info(?)", (table,)
            ).fetchall()
        if not columns:
            raise SourceError(
                f"the database has no table {table!r}: check the name after '#'."
            )
        self._kinds = {name: _kind(declared.upper()) for name, declared in columns}
        times = [
            self._times(name, given)
            for name, kind in self._kinds.items()
            if kind == "time"
        ]
        typed = all(column.name in given.types for column in times)
        pinned = given.pinned is not None or typed
        self.dialect = Dialect(
            columns=tuple(times), found=() if pinned else ("forms of times",)
        )

    def sql(self, registered: str) -> str:
        """The table as DuckDB shall see it, where the reader is registered under this name."""
        values = [
            f"{value(column, self.dialect)} AS {quoted(column.name)}"
            for column in self.dialect.columns
        ]
        if values:
            return f"(SELECT * REPLACE ({', '.join(values)}) FROM {registered})"
        return registered

    def _times(self, name: str, given: Given) -> ColumnForm:
        """What a column of times holds: what is said of it, else what most of the first cells are."""
        if given.pinned is not None:
            pinned = {column.name: column for column in given.pinned.columns}
        else:
            pinned = {}
        if name in pinned or given.pinned is not None:
            return pinned.get(name, ColumnForm(name, "TIMESTAMP"))
        if name in given.types:
            return given.column(ColumnForm(name, "TIMESTAMP"))
        with self._connected() as connection:
            query = f"SELECT {_CELL['text'].format(_name(name))} FROM {self._table} LIMIT {HEAD_LINES}"
            counts = Counter(
                cell for (cell,) in connection.execute(query) if cell is not None
            )
        kind, form = column_kind(
            {
                cell: n
                for cell, n in counts.items()
                if not is_missing(cell, given.missing)
            },
            ".",
            given.time_format,
        )
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
            return ColumnForm(name, kind, form)
        return ColumnForm(name, "TIMESTAMP")

    def reader(self) -> pa.RecordBatchReader:
        """All rows, once."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(name, _ARROW[kind]) for name, kind in self._kinds.items()])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        cells = ", ".join(
            _CELL[kind].format(_name(name)) for name, kind in self._kinds.items()
        )
        with self._connected() as connection:
            cursor = connection.execute(f"SELECT {cells} FROM {self._table}")
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = [
                    _array(column, kind)
                    for column, kind in zip(zip(*rows), self._schema.types)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection that is closed at the end of its block; DuckDB may pull from another thread."""
        try:
            with closing(
                sqlite3.connect(self._uri, uri=True, check_same_thread=False)
            ) as connection:
                connection.text_factory = _text
                yield connection
        except sqlite3.Error as error:
            raise SourceError(
                f"the table could not be read ({type(error).__name__}): "
                "check that it is whole and of the kind its name says."
            ) from None


_ARROW = {
    "integer": pa.int64(),
    "real": pa.float64(),
    "truth": pa.bool_(),
    "text": pa.string(),
    "any": pa.string(),
    "time": pa.string(),
    "blob": pa.binary(),
}
_CELL = {
    "integer": "CASE typeof({0}) WHEN 'integer' THEN {0} END",
    "real": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "truth": "CASE WHEN typeof({0}) = 'integer' AND {0} IN (0, 1) THEN {0} END",
    "text": "CASE typeof({0}) WHEN 'text' THEN {0} END",
    "any": "CASE typeof({0}) WHEN 'text' THEN {0} WHEN 'integer' THEN CAST({0} AS TEXT) END",
    "time": "CASE typeof({0}) WHEN 'text' THEN {0} END",
    "blob": "CASE typeof({0}) WHEN 'blob' THEN {0} END",
}


def _kind(declared: str) -> str:
    """SQLite's own rules of affinity, with times and truth values besides; what has no type is text, or digits."""
    for words, kind in (
        (("BOOL",), "truth"),
        (("INT",), "integer"),
        (("DATE", "TIME"), "time"),
        (("CHAR", "CLOB", "TEXT"), "text"),
        (("BLOB",), "blob"),
        (("REAL", "FLOA", "DOUB", "DEC", "NUM"), "real"),
    ):
        if any(word in declared for word in words):
            return kind
    return "any"


def _array(cells: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(cells, pa.int64()).cast(kind)
    return pa.array(cells, kind)


def _text(stored: bytes) -> str | None:
    """A cell of text; what is not UTF-8 is missing: one such cell must not decide whether a table can be read."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
