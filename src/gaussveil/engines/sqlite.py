"""Tables of SQLite files through Python's own SQLite.

SQLite lets every cell have a type of its own. The public rule: a cell that is not of its column's declared type is a
missing value, like a CSV cell that does not parse. DuckDB's own reader would refuse the whole table instead, and the
refusal would tell of one record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from gaussveil.errors import SourceError

_BATCH_ROWS = 2**14


class SqliteTable:
    """One table: SQL that DuckDB reads it by, and a fresh reader for every pass."""

    def __init__(self, address: str, table: str) -> None:
        self._uri = f"file:{quote(str(Path(address).absolute()))}?mode=ro"
        self._table = _name(table)
        with self._connected() as connection:
            columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        if not columns:
            raise SourceError(f"the database has no table {table!r}: check the name after '#'.")
        self._kinds = {name: _kind(declared.upper()) for name, declared in columns}

    def sql(self, registered: str) -> str:
        """The table as DuckDB shall see it, where the reader is registered under this name."""
        times = [name for name, kind in self._kinds.items() if kind == "time"]
        casts = ", ".join(f"TRY_CAST({_name(name)} AS TIMESTAMP) AS {_name(name)}" for name in times)
        return f"(SELECT * REPLACE ({casts}) FROM {registered})" if times else registered

    def reader(self) -> pa.RecordBatchReader:
        """All rows, once."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(name, _ARROW[kind]) for name, kind in self._kinds.items()])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        cells = ", ".join(_CELL[kind].format(_name(name)) for name, kind in self._kinds.items())
        with self._connected() as connection:
            cursor = connection.execute(f"SELECT {cells} FROM {self._table}")
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = [pa.array(column, kind) for column, kind in zip(zip(*rows), self._schema.types)]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection that is closed at the end of its block; DuckDB may pull from another thread."""
        try:
            with closing(sqlite3.connect(self._uri, uri=True, check_same_thread=False)) as connection:
                connection.text_factory = _text
                yield connection
        except sqlite3.Error as error:
            raise SourceError(
                f"the table could not be read ({type(error).__name__}): "
                "check that it is whole and of the kind its name says."
            ) from None


_ARROW = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "time": pa.string(), "blob": pa.binary()}
_CELL = {
    "integer": "CASE typeof({0}) WHEN 'integer' THEN {0} END",
    "real": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "text": "CASE typeof({0}) WHEN 'text' THEN {0} END",
    "time": "CASE typeof({0}) WHEN 'text' THEN {0} END",
    "blob": "CASE typeof({0}) WHEN 'blob' THEN {0} END",
}


def _kind(declared: str) -> str:
    """SQLite's own rules of affinity, with times besides; what has no type is text."""
    for words, kind in (
        (("INT",), "integer"),
        (("DATE", "TIME"), "time"),
        (("CHAR", "CLOB", "TEXT"), "text"),
        (("BLOB",), "blob"),
        (("REAL", "FLOA", "DOUB", "DEC", "NUM"), "real"),
    ):
        if any(word in declared for word in words):
            return kind
    return "text"


def _text(stored: bytes) -> str | None:
    """A cell of text; what is not UTF-8 is missing: one such cell must not decide whether a table can be read."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
