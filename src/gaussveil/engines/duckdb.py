"""Tables in files and databases, through the embedded engine DuckDB. Mirrors spark.py verb by verb."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from gaussveil.checks import refuse
from gaussveil.engines.csv_files import HEAD_LINES, Column, Dialect, given_form, head_dialect, in_utf8, read_dialect
from gaussveil.engines.location import Location, locate
from gaussveil.engines.pieces import mixed_columns, refuse_mixed
from gaussveil.engines.spill import spill_folder
from gaussveil.engines.sql import kept_rows, select_rows
from gaussveil.engines.sqlite import SqliteTable
from gaussveil.engines.whole_files import require_whole
from gaussveil.errors import MissingDependencyError, SourceError, install
from gaussveil.statistics.row_hash import hash_rows
from gaussveil.statistics.source import Source, View, Watch

_BATCH_ROWS = 2**17
MEMORY_LIMIT = "2GB"
WHEELS = {"postgres": "duckdb_extension_postgres_scanner"}
_NAMES = itertools.count()
# Lines of text as they are; those that hold bytes of no text are left out.
_LINES = (
    "auto_detect=false, delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'}, ignore_errors=true, "
    "strict_mode=false, hive_partitioning=false"
)
_WHOLE_NUMBERS = {
    prefix + size for prefix in ("", "u") for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
}


class DuckDBSource(Source):
    """A table that DuckDB scans in batches; it may be larger than memory.

    How a CSV file is written (``dialect``) is found in its head and counts as public, as its schema does; it may be
    given: ``separator``, ``decimal``, ``encoding``, ``time_format``, and ``types`` of columns (SQL names). Cells that
    do not parse as their column's type are missing values.
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
        **written: str | None,
    ) -> None:
        self._location = locate(uri)
        form = given_form(self._location, types, written)
        if self._location.local:
            require_whole(self._location.files())
        self.watch = Watch()
        self.dialect: Dialect | None = None
        self._arrow: Callable[[], Any] | None = None
        self._memory_limit = memory_limit or os.environ.get("GAUSSVEIL_MEMORY_LIMIT") or MEMORY_LIMIT
        folder = spill_folder(self.watch, temp_directory)
        self._connection = _connect(
            {
                "memory_limit": self._memory_limit,
                "temp_directory": folder,
                "preserve_insertion_order": False,
                # A table that is not there must be missing, not whatever Python variable has its name.
                "python_enable_replacements": False,
            }
        )
        weakref.finalize(self.watch, self._connection.close)  # all views share the watch
        with _readable(self._memory_limit):
            if self._location.kind == "csv":
                self.dialect = _dialect(self._connection, self._location, form)
                self._table = _csv(self._location, self.dialect, types or {}, folder)
            else:
                self._table, self._arrow = _attach(self._connection, self._location)
            parquet = self._location.local and self._location.kind == "parquet"
            self._mixed = mixed_columns(self._location.files()) if parquet else frozenset()
            empty = self._cursor().sql(f"SELECT * FROM {self._table} LIMIT 0")
            self._kinds = dict(zip(empty.columns, empty.types))
            self._schema = empty.to_arrow_table().schema
        self.view = View(tuple(self._schema.names))
        self._rows = self._table
        if self._location.local:
            self.watch.check(self.fingerprint())

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

    def batches(self, columns: Sequence[str], order: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of the view, in whatever order DuckDB finds them, or sorted."""
        refuse_mixed(self._mixed, self.view.needed(columns, order))
        query = select_rows(self.view, self._rows, _names, columns, order)
        if not self.watch.begun:
            self.watch.check(self.fingerprint())  # what changes during the first pass must not go unseen
        with _readable(self._memory_limit):
            yield from self._cursor().sql(query).to_arrow_reader(_BATCH_ROWS)

    def _with_view(self, view: View) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.view = view
        other._rows = kept_rows(view, self._table, _names, self._hash_function)
        return other

    def _hash_function(self, key: bytes, columns: Sequence[str] | None) -> str:
        """Give DuckDB the keyed hash of these columns (None: of two integers) under a fresh name."""
        name = f"gaussveil_hash_{next(_NAMES)}"
        kinds: list[Any] = ["bigint", "bigint"] if columns is None else [self._kinds[column] for column in columns]
        self._connection.create_function(
            name, _hashing(key, len(kinds)), kinds, "bigint", type=ARROW, null_handling=SPECIAL
        )
        return name

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self._connection.cursor()
        if self._arrow is not None:
            cursor.register("gaussveil_arrow", self._arrow())
        return cursor


def _connect(config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(config=config)
    except duckdb.Error:
        refuse("memory_limit", "a size such as 2GB", config["memory_limit"])


def _attach(connection: duckdb.DuckDBPyConnection, location: Location) -> tuple[str, Callable[[], Any] | None]:
    """SQL that names the table, and what makes the Arrow object that a pass reads, if any."""
    match location.kind:
        case "parquet":
            if location.local and _may_refuse(location.files()):
                return "gaussveil_arrow", _arrow_files(location.files(), "parquet")
            return f"read_parquet({_list(location.files())}, hive_partitioning=false)", None
        case "arrow":
            return "gaussveil_arrow", _arrow_files(location.files(), "ipc")
        case "sqlite":
            database = SqliteTable(location.address, location.table)
            return database.sql("gaussveil_arrow"), database.reader
        case "postgres" if not extension_loaded(connection, "postgres"):
            raise MissingDependencyError(
                "DuckDB's postgres extension is not installed: run INSTALL postgres in DuckDB once, "
                f"or {install('postgres')}."
            )
    return _attached(connection, location), None


def _may_refuse(files: Sequence[str]) -> bool:
    """Whether the files have columns that DuckDB's own reader refuses for one cell: coarse times, bytes of no text."""
    from pyarrow.parquet import read_schema

    kinds = map(str, read_schema(files[0]).types) if files else ()
    return any(kind.startswith(("timestamp[s", "timestamp[ms")) or "string" in kind for kind in kinds)


def _arrow_files(files: Sequence[str], form: str) -> Callable[[], Any]:
    """What makes the Arrow object of a pass; times beyond those that microseconds hold are missing."""
    from pyarrow.compute import field
    from pyarrow.dataset import dataset as arrow_files  # which loads pandas where there is one

    def scanned() -> Any:
        dataset = arrow_files(files, format=form)  # anew for each pass: one remembers where a file's parts were
        columns = {one.name: _held(field(one.name), one.type) for one in dataset.schema}
        if all(columns[name].equals(field(name)) for name in columns):
            return dataset
        return dataset.scanner(columns=columns, batch_size=_BATCH_ROWS)

    return scanned


def _held(cells: Any, kind: pa.DataType) -> Any:
    """Cells of any type in one that DuckDB takes from Arrow."""
    from pyarrow.compute import if_else

    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        number, most = cells.cast(pa.int64()), (2**63 - 1) // (1_000_000 if kind.unit == "s" else 1000)
        held = if_else((number <= most) & (number >= -most), cells, pa.scalar(None, kind))
        return held.cast(pa.timestamp("us", kind.tz))
    if kind == pa.float16() or pa.types.is_decimal256(kind):
        return cells.cast(pa.float64() if kind.bit_width > 16 else pa.float32())
    return cells.cast(pa.int64()) if pa.types.is_duration(kind) else cells


def _attached(connection: duckdb.DuckDBPyConnection, location: Location) -> str:
    """SQL that names a table of a database; DuckDB's own words would repeat the address, password and all."""
    kind = "" if location.kind == "duckdb" else f"TYPE {location.kind}, "
    try:
        connection.execute(f"ATTACH {_text(location.address)} AS gaussveil_database ({kind}READ_ONLY)")
    except duckdb.Error as error:
        if location.local:
            raise
        raise SourceError(
            f"the database could not be reached ({type(error).__name__}): "
            "check host, port, name of the database, user and password."
        ) from None
    table = "gaussveil_database." + ".".join(_names([part]) for part in location.table.split("."))
    try:
        connection.sql(f"SELECT * FROM {table} LIMIT 0")
    except (duckdb.CatalogException, duckdb.BinderException):
        raise SourceError(f"the database has no table {location.table!r}: check the name after '#'.") from None
    return table


def _dialect(connection: duckdb.DuckDBPyConnection, location: Location, given: Mapping[str, str]) -> Dialect:
    """How the files are written; of files elsewhere DuckDB brings the first lines, which must be UTF-8."""
    if location.local:
        return read_dialect(location.files(), given)
    lines = f"read_csv({_text(location.address)}, {_LINES}, header=false)"
    head = connection.sql(f"SELECT line FROM {lines} LIMIT {HEAD_LINES}")
    return head_dialect([line or "" for (line,) in head.fetchall()], given)


def _csv(location: Location, dialect: Dialect, types: Mapping[str, str], folder: str) -> str:
    """Read cells as text, then cast: a cell that does not parse is missing, a line that does not fit is left out.

    Every line is split by itself, as Spark does: a quote that one record leaves open takes no other record with it.
    """
    files = location.files()
    if dialect.encoding != "utf-8":
        copies = [os.path.join(folder, f"{number}.csv") for number in range(len(files))]
        for file, copy in zip(files, copies):
            in_utf8(file, dialect.encoding, copy)
        files = copies
    options = f"{_LINES}, header=true, comment={_text(dialect.comment)}, skip={dialect.skipped}"
    split = f"SELECT {_cells(dialect.separator)} AS cells"
    lines = f"{split} FROM read_csv({_list(files)}, {options}) WHERE trim(line) <> ''"
    names = [_names([column.name]) for column in dialect.columns]
    texts = ", ".join(f"nullif(cells[{place}], '') AS {name}" for place, name in enumerate(names, 1))
    casts = ", ".join(_cast(column, dialect.decimal) for column in dialect.typed(types))
    return f"(SELECT {casts} FROM (SELECT {texts} FROM ({lines}) WHERE len(cells) <= {len(names)}))"


def _cells(separator: str) -> str:
    """SQL that splits a line: quotes around a cell go, doubled ones inside become one, an open one ends with it."""
    sign = f"\\x{{{ord(separator):x}}}"
    cell = f'{sign}("(?:[^"]|"")*"[^{sign}]*|".*|[^{sign}]*)'
    found = f"regexp_extract_all({_text(separator)} || line, {_text(cell)}, 1)"
    inside = """replace(regexp_extract(x, '^"((?:[^"]|"")*)"$', 1), '""', '"')"""
    bare = f"""list_transform({found}, lambda x: CASE WHEN x LIKE '"%"' AND x <> '"' THEN {inside} ELSE x END)"""
    return f"CASE WHEN contains(line, '\"') THEN {bare} ELSE string_split(line, {_text(separator)}) END"


def _cast(column: Column, decimal: str) -> str:
    """SQL that makes a value of a text, or NULL; whole numbers are not rounded, times are read in the form found."""
    cell = _names([column.name])
    kind = duckdb.sqltype(column.kind).id
    text, value = cell, f"TRY_CAST({cell} AS {column.kind})"
    if column.form is not None:
        if "%z" in column.form:
            text = f"regexp_replace({cell}, 'Z$', '+00:00')"
        value = f"CAST(TRY_STRPTIME({text}, {_text(column.form)}) AS {column.kind})"
    elif kind in _WHOLE_NUMBERS:
        value = f"CASE WHEN regexp_full_match({cell}, '\\s*[+-]?[0-9]+\\s*') THEN {value} END"
    elif kind == "timestamp with time zone":  # which DuckDB reads with seconds only
        value = f"TRY_CAST(regexp_replace({cell}, '([T ]..:..)([Z+-])', '\\1:00\\2') AS {column.kind})"
    elif decimal == "," and kind not in ("varchar", "boolean"):
        value = f"CASE WHEN NOT contains({cell}, '.') THEN TRY_CAST(replace({cell}, ',', '.') AS {column.kind}) END"
    if column.plain:
        value = f"CASE WHEN regexp_full_match(trim({cell}), '{column.plain}') THEN {value} END"
    return f"{value} AS {cell}"


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
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:  # the last from DuckDB's extensions
        raise SourceError(
            f"the table could not be read ({type(error).__name__}): "
            "check that it is whole and of the kind its name says."
        ) from None


def _hashing(key: bytes, arity: int) -> Callable[..., pa.Array]:
    def hashing(*columns: Any) -> pa.Array:
        return pa.array(hash_rows([column.combine_chunks() for column in columns], key), type=pa.int64())

    # DuckDB counts a function's parameters by its signature.
    names = [inspect.Parameter(f"column{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(arity)]
    vars(hashing)["__signature__"] = inspect.Signature(names)
    return hashing


def _names(names: Sequence[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
    folders = [] if found is None else list(found.submodule_search_locations or ())
    fitting = f"extensions/v{duckdb.__version__}/*.duckdb_extension"
    return [str(file) for folder in folders for file in Path(folder).glob(fitting)]
