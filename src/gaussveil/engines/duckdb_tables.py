"""Where a table of DuckDB lies and how its rows are read: files, sheets, databases here and elsewhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from gaussveil.engines.cell_map import LINES, literal, quoted, records
from gaussveil.engines.csv_files import HEAD_LINES, dialect_of, head_of, read_dialect
from gaussveil.engines.dialect import Dialect
from gaussveil.engines.excel import ExcelSheet
from gaussveil.engines.form import Given
from gaussveil.engines.lines import line_reader
from gaussveil.engines.location import Location
from gaussveil.engines.sqlite import SqliteTable
from gaussveil.errors import MissingDependencyError, SourceError, install
from gaussveil.statistics.legible import is_text, legible

BATCH_ROWS = 2**17
WHEELS = {"postgres": "duckdb_extension_postgres_scanner"}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U")


# Lines of text as they are; those that hold bytes of no text are left out.
_LINES = (
    "auto_detect=false, delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'}, ignore_errors=true, "
    "strict_mode=false, hive_partitioning=false"
)


@dataclass(frozen=True)
class StoredTable:
    """A table as it lies: SQL of its rows, what makes the Arrow object of a pass, and its form where it is text."""

    table: str
    arrow: Callable[[Dialect], Any] | None
    dialect: Dialect
    of_text: bool = False


def stored_table(
    connection: duckdb.DuckDBPyConnection,
    location: Location,
    given: Given,
    mixed: frozenset[str],
) -> StoredTable:
    """Where a table lies and how it is read; `mixed` are columns that are not of one type in all of its files."""
    match location.kind:
        case "csv":
            return _csv(connection, location, given)
        case "excel":
            sheet = ExcelSheet(location, given)
            return StoredTable(LINES, sheet.texts, sheet.dialect, of_text=True)
        case "parquet":
            if location.local and _may_refuse(location.files()):
                files = _arrow_files(location.files(), "parquet", mixed)
                return StoredTable(LINES, files, Dialect())
            return StoredTable(
                f"read_parquet({_list(location.files())}, hive_partitioning=false)",
                None,
                Dialect(),
            )
        case "arrow":
            return StoredTable(
                LINES, _arrow_files(location.files(), "ipc", mixed), Dialect()
            )
        case "sqlite":
            database = SqliteTable(location.address, location.table, given)
            return StoredTable(
                database.sql(LINES), lambda _: database.reader(), database.dialect
            )
        case "postgres" if not extension_loaded(connection, "postgres"):
            raise MissingDependencyError(
                "DuckDB's postgres extension is not installed: run INSTALL postgres in DuckDB once, "
                f"or {install('postgres')}."
            )
    return StoredTable(_attached(connection, location), None, Dialect())


def _may_refuse(files: Sequence[str]) -> bool:
    """Whether the files have columns that DuckDB's own reader refuses for one cell: coarse times, bytes of no text."""
    from pyarrow.parquet import read_schema

    kinds = map(str, read_schema(files[0]).types) if files else ()
    return any(
        kind.startswith(("timestamp[s", "timestamp[ms")) or "string" in kind
        for kind in kinds
    )


def _arrow_files(
    files: Sequence[str], form: str, mixed: frozenset[str]
) -> Callable[[Dialect], Any]:
    """What makes the Arrow object of a pass; times beyond microseconds and bytes of no text are missing.

    Columns of another type in the next file are refused by name where they are asked for; here they stand empty, since
    a cell of theirs would end the pass.
    """
    from pyarrow.compute import field, scalar
    from pyarrow.dataset import (
        dataset as arrow_files,
    )  # which loads pandas where there is one

    def scanned(_: Dialect) -> Any:
        dataset = arrow_files(
            files, format=form
        )  # anew for each pass: one remembers where a file's parts were
        columns = {
            column.name: _held(field(column.name), column.type)
            for column in dataset.schema
        }
        columns |= {
            column.name: scalar(pa.scalar(None, column.type))
            for column in dataset.schema
            if column.name in mixed
        }
        if all(columns[name].equals(field(name)) for name in columns):
            return dataset
        return dataset.scanner(columns=columns, batch_size=BATCH_ROWS)

    return scanned


def _held(cells: Any, kind: pa.DataType) -> Any:
    """Cells of any type in one that DuckDB takes from Arrow."""
    from pyarrow.compute import if_else

    if is_text(kind):
        return legible(cells, kind)
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
        names_in_sql([part]) for part in location.table.split(".")
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
) -> StoredTable:
    """The records of text files; of files elsewhere DuckDB brings the lines, which must be UTF-8."""
    files = location.files()
    if location.local:
        dialect, above = read_dialect(files, given)
        return StoredTable(
            records(LINES, dialect, above),
            lambda _: line_reader(files, dialect.encoding),
            dialect,
            True,
        )
    lines = f"read_csv({_list(files)}, {_LINES}, header=false)"
    first = connection.sql(f"SELECT line FROM {lines} LIMIT {HEAD_LINES}").fetchall()
    head = head_of([line or "" for (line,) in first], given)
    dialect = dialect_of(head, given)
    return StoredTable(records(lines, dialect, head.above), None, dialect, True)


def names_in_sql(names: Sequence[str]) -> str:
    """Names of columns as DuckDB's SQL quotes them."""
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
    wheel = importlib.util.find_spec(WHEELS[name])
    if wheel is None:
        folders = []
    else:
        folders = list(wheel.submodule_search_locations or ())
    fitting = f"extensions/v{duckdb.__version__}/*.duckdb_extension"
    return [str(file) for folder in folders for file in Path(folder).glob(fitting)]
