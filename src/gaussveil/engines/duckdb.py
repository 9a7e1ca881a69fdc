"""Tables in files and databases, through the embedded engine DuckDB. Mirrors spark.py verb by verb."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from gaussveil.checks import refuse
from gaussveil.engines.cell_map import LINES, held, literal, quoted, records, typed
from gaussveil.engines.csv_files import HEAD_LINES, dialect_of, head_of, read_dialect
from gaussveil.engines.excel import ExcelSheet
from gaussveil.engines.form import Dialect, Given, given_form
from gaussveil.engines.lines import line_reader
from gaussveil.engines.location import Location, locate
from gaussveil.engines.pieces import mixed_columns, refuse_mixed
from gaussveil.engines.spill import spill_folder
from gaussveil.engines.sql import kept_rows, select_rows
from gaussveil.engines.sqlite import SqliteTable
from gaussveil.engines.typed_columns import require_stored, stored_form, without_cells
from gaussveil.engines.whole_files import require_whole
from gaussveil.errors import MissingDependencyError, SourceError, install
from gaussveil.statistics.row_hash import hash_rows
from gaussveil.statistics.source import Source, View, Watch

_BATCH_ROWS = 2**17
MEMORY_LIMIT = "2GB"
WHEELS = {"postgres": "duckdb_extension_postgres_scanner"}
_NAMES = itertools.count()
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U")
# Lines of text as they are; those that hold bytes of no text are left out.
_LINES = (
    "auto_detect=false, delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'}, ignore_errors=true, "
    "strict_mode=false, hive_partitioning=false"
)


class DuckDBSource(Source):
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
        **said: Any,
    ) -> None:
        self._location = locate(uri)
        given = given_form(self._location, types, said)
        if self._location.local:
            require_whole(self._location.files())
        self.watch = Watch()
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
        weakref.finalize(
            self.watch, self._connection.close
        )  # all views share the watch
        with _readable(self._memory_limit):
            self._stored = _stored(self._connection, self._location, given)
            parquet = self._location.local and self._location.kind == "parquet"
            if parquet:
                self._mixed = mixed_columns(self._location.files())
            else:
                self._mixed = frozenset()
            self.dialect = self._stored.dialect
            self._shape(given)
        self.view = View(tuple(self._schema.names))
        self._rows = self._table
        if self._location.local:
            self.watch.check(self.fingerprint())

    def _shape(self, given: Given | None = None) -> None:
        """What the table is by its form: SQL, and the names and types of its columns."""
        stored = self._stored
        if stored.of_text:
            self._table = typed(stored.table, self.dialect)
        else:
            self._table = stored.table
            found = self._cursor().sql(f"SELECT * FROM {stored.table} LIMIT 0")
            kinds = dict(zip(found.columns, map(str, found.types)))
            if given is not None:
                form = stored_form(found.to_arrow_table().schema, given)
                self.dialect = replace(form, found=stored.dialect.found)
            self._table = _as_stored(
                stored.table, kinds, self.dialect, self._location.kind
            )
        empty = self._cursor().sql(f"SELECT * FROM {self._table} LIMIT 0")
        self._kinds = dict(zip(empty.columns, empty.types))
        self._schema = without_cells(empty.to_arrow_table().schema, self.dialect)
        if given is not None and given.pinned is not None and not stored.of_text:
            require_stored(self._schema, given.pinned)

    @property
    def found_form(self) -> tuple[str, ...]:
        """What of the form nobody wrote down."""
        return self.dialect.found

    @property
    def table_schema(self) -> pa.Schema:
        """Schema of the whole table."""
        return self._schema

    def fingerprint(self) -> str:
        """Stamps of the files; of a database elsewhere, a hash of the table's rows."""
        if self._location.local:
            return self._location.stamp()
        with _readable(self._memory_limit):
            sums = "SELECT count(*), bit_xor(hash(t)), sum(hash(t)::HUGEINT) FROM"
            return repr(self._cursor().sql(f"{sums} {self._table} AS t").fetchall())

    def batches(
        self, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the view, in whatever order DuckDB finds them, or sorted."""
        refuse_mixed(self._mixed, self.view.needed(columns, order))
        query = select_rows(self.view, self._rows, _names, columns, order)
        if not self.watch.begun:
            self.watch.check(
                self.fingerprint()
            )  # what changes during the first pass must not go unseen
        with _readable(self._memory_limit):
            for batch in self._cursor().sql(query).to_arrow_reader(_BATCH_ROWS):
                yield without_cells(batch, self.dialect)

    def _with_view(self, view: View) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.view = view
        other._rows = kept_rows(view, self._table, _names, other._hash_function)
        return other

    def identified(self, unit: str) -> Self:
        """The same table, its units named by the text of their cells, byte for byte."""
        if not self._stored.of_text or any(
            one == unit and kind == "VARCHAR" for one, kind in self._written_kinds()
        ):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.dialect = self.dialect.identified([unit])
        with _readable(self._memory_limit):
            other._shape()
        return other._with_view(self.view)

    def _written_kinds(self) -> list[tuple[str, str]]:
        return [(column.name, column.kind) for column in self.dialect.columns]

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


@dataclass(frozen=True)
class _Stored:
    """A table as it lies: SQL of its rows, what makes the Arrow object of a pass, and its form where it is text."""

    table: str
    arrow: Callable[[Dialect], Any] | None
    dialect: Dialect
    of_text: bool = False


def _connect(config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(config=config)
    except duckdb.Error:
        refuse("memory_limit", "a size such as 2GB", config["memory_limit"])


def _stored(
    connection: duckdb.DuckDBPyConnection, location: Location, given: Given
) -> _Stored:
    """Where a table lies and how it is read."""
    match location.kind:
        case "csv":
            return _csv(connection, location, given)
        case "excel":
            sheet = ExcelSheet(location, given)
            return _Stored(LINES, sheet.texts, sheet.dialect, of_text=True)
        case "parquet":
            if location.local and _may_refuse(location.files()):
                return _Stored(
                    LINES, _arrow_files(location.files(), "parquet"), Dialect()
                )
            return _Stored(
                f"read_parquet({_list(location.files())}, hive_partitioning=false)",
                None,
                Dialect(),
            )
        case "arrow":
            return _Stored(LINES, _arrow_files(location.files(), "ipc"), Dialect())
        case "sqlite":
            database = SqliteTable(location.address, location.table, given)
            return _Stored(
                database.sql(LINES), lambda _: database.reader(), database.dialect
            )
        case "postgres" if not extension_loaded(connection, "postgres"):
            raise MissingDependencyError(
                "DuckDB's postgres extension is not installed: run INSTALL postgres in DuckDB once, "
                f"or {install('postgres')}."
            )
    return _Stored(_attached(connection, location), None, Dialect())


def _may_refuse(files: Sequence[str]) -> bool:
    """Whether the files have columns that DuckDB's own reader refuses for one cell: coarse times, bytes of no text."""
    from pyarrow.parquet import read_schema

    kinds = map(str, read_schema(files[0]).types) if files else ()
    return any(
        kind.startswith(("timestamp[s", "timestamp[ms")) or "string" in kind
        for kind in kinds
    )


def _arrow_files(files: Sequence[str], form: str) -> Callable[[Dialect], Any]:
    """What makes the Arrow object of a pass; times beyond those that microseconds hold are missing."""
    from pyarrow.compute import field
    from pyarrow.dataset import (
        dataset as arrow_files,
    )  # which loads pandas where there is one

    def scanned(_: Dialect) -> Any:
        dataset = arrow_files(
            files, format=form
        )  # anew for each pass: one remembers where a file's parts were
        columns = {one.name: _held(field(one.name), one.type) for one in dataset.schema}
        if all(columns[name].equals(field(name)) for name in columns):
            return dataset
        return dataset.scanner(columns=columns, batch_size=_BATCH_ROWS)

    return scanned


def _held(cells: Any, kind: pa.DataType) -> Any:
    """Cells of any type in one that DuckDB takes from Arrow."""
    from pyarrow.compute import if_else

    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        number = cells.cast(pa.int64())
        most = (2**63 - 1) // (1_000_000 if kind.unit == "s" else 1000)
        held = if_else(
            (number <= most) & (number >= -most), cells, pa.scalar(None, kind)
        )
        return held.cast(pa.timestamp("us", kind.tz))
    if kind == pa.float16() or pa.types.is_decimal256(kind):
        return cells.cast(pa.float64() if kind.bit_width > 16 else pa.float32())
    if pa.types.is_duration(kind):
        return cells.cast(pa.int64())
    return cells


def _attached(connection: duckdb.DuckDBPyConnection, location: Location) -> str:
    """SQL that names a table of a database; DuckDB's own words would repeat the address, password and all."""
    if location.kind == "duckdb":
        kind = ""
    else:
        kind = f"TYPE {location.kind}, "
    try:
        connection.execute(
            f"ATTACH {literal(location.address)} AS gaussveil_database ({kind}READ_ONLY)"
        )
    except duckdb.Error as error:
        if location.local:
            raise
        raise SourceError(
            f"the database could not be reached ({type(error).__name__}): "
            "check host, port, name of the database, user and password."
        ) from None
    table = "gaussveil_database." + ".".join(
        _names([part]) for part in location.table.split(".")
    )
    try:
        connection.sql(f"SELECT * FROM {table} LIMIT 0")
    except (duckdb.CatalogException, duckdb.BinderException):
        raise SourceError(
            f"the database has no table {location.table!r}: check the name after '#'."
        ) from None
    if location.kind == "postgres":
        return _with_floats(connection, table, location)
    return table


def _with_floats(
    connection: duckdb.DuckDBPyConnection, table: str, location: Location
) -> str:
    """A table of PostgreSQL whose `numeric` columns its server makes floats; what no float holds is missing.

    DuckDB takes a numeric NaN for a number, and it would be clipped to a bound and counted.
    """
    path = ".".join(quoted(part) for part in location.table.split("."))
    kinds = f"attrelid = {literal(path)}::regclass AND atttypid = 'numeric'::regtype AND attnum > 0"
    asked = f"postgres_query('gaussveil_database', {literal(f'SELECT attname FROM pg_attribute WHERE {kinds}')})"
    decimals = {
        name for (name,) in connection.sql(f"SELECT attname FROM {asked}").fetchall()
    }
    if not decimals:
        return table
    cells = []
    for name in connection.sql(f"SELECT * FROM {table} LIMIT 0").columns:
        cell = quoted(name)
        small = f"WHEN abs({cell}) < 1e-300 THEN 0"
        whole = f"CASE {small} WHEN abs({cell}) < 1e308 THEN CAST({cell} AS double precision) END"
        cells.append(f"{whole} AS {cell}" if name in decimals else cell)
    rows = f"SELECT {', '.join(cells)} FROM {path}"
    return f"postgres_query('gaussveil_database', {literal(rows)})"


def _csv(
    connection: duckdb.DuckDBPyConnection, location: Location, given: Given
) -> _Stored:
    """The records of text files; of files elsewhere DuckDB brings the lines, which must be UTF-8."""
    files = location.files()
    if location.local:
        dialect, above = read_dialect(files, given)
        return _Stored(
            records(LINES, dialect, above),
            lambda _: line_reader(files, dialect.encoding),
            dialect,
            True,
        )
    lines = f"read_csv({_list(files)}, {_LINES}, header=false)"
    first = connection.sql(f"SELECT line FROM {lines} LIMIT {HEAD_LINES}").fetchall()
    head = head_of([line or "" for (line,) in first], given)
    dialect = dialect_of(head, given)
    return _Stored(records(lines, dialect, head.above), None, dialect, True)


def _as_stored(table: str, kinds: Mapping[str, str], form: Dialect, place: str) -> str:
    """SQL of a table with types of its own: marks of missing cells are missing, and text has no collation.

    A collation is another notion of equality: two units would be one to the engine, and two to everybody else.
    """
    cells = {}
    own = {column.name: column.missing for column in form.columns}
    for name, kind in kinds.items():
        marks = (*form.missing, *own.get(name, ()))
        cell = quoted(name)
        text = kind == "VARCHAR" or kind.startswith("ENUM")
        if text and place in ("duckdb", "postgres"):
            bare = f"decode(encode(CAST({cell} AS VARCHAR)))"
        else:
            bare = cell
        if text:
            cells[name] = held(bare, True, marks, f"trim({bare})" if marks else None)
        elif kind.startswith(("DECIMAL", "DOUBLE", "FLOAT", *_INTEGERS)):
            cells[name] = held(bare, False, marks)
        else:
            cells[name] = bare
    changed = [
        f"{cell} AS {quoted(name)}"
        for name, cell in cells.items()
        if cell != quoted(name)
    ]
    if changed:
        return f"(SELECT * REPLACE ({', '.join(changed)}) FROM {table})"
    return table


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


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, values)) + "]"


def extension_loaded(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Load one of DuckDB's own extensions from where `INSTALL` put it, or out of a wheel; False where there is none.

    A wheel brings the file that DuckDB publishes, for networks that reach a package index and no more. DuckDB loads it
    only if it bears DuckDB's signature and was built for this very version.
    """
    for file in (name, *_from_wheel(name)):
        try:
            connection.load_extension(file)
        except duckdb.Error:
            continue
        return True
    return False


def _from_wheel(name: str) -> list[str]:
    found = importlib.util.find_spec(WHEELS[name])
    if found is None:
        folders = []
    else:
        folders = list(found.submodule_search_locations or ())
    fitting = f"extensions/v{duckdb.__version__}/*.duckdb_extension"
    return [str(file) for folder in folders for file in Path(folder).glob(fitting)]
