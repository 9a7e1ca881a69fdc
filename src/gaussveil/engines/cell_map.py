"""What a line and a cell of text are read as: one public map for all engines, as SQL of the embedded engine DuckDB.

Spark's workers run the same SQL on the lines that Spark hands them, and cells of Excel sheets go through it as text. So
a cell means the same everywhere, by itself: it has the form of its column, or it is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import duckdb
import pyarrow as pa

from gaussveil.engines.dialect import NOTHING, ColumnForm, Dialect
from gaussveil.engines.kinds import WHOLE_KINDS
from gaussveil.engines.lines import LINE, MOST_BYTES

LINES = "gaussveil_lines"
_NUMBER = "(?i)[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)"
_COMMA_NUMBER = "(?i)[+-]?(([0-9]+,?[0-9]*|,[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_ISO = {
    "DATE": _DAY,
    "TIMESTAMP": f"{_DAY}({_CLOCK})?",
    "TIMESTAMPTZ": f"{_DAY}{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)",
}
_MARK_OF_A_NUMBER = re.compile(r"[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?")


def records(lines: str, dialect: Dialect, heads: Sequence[str]) -> str:
    """SQL of the records among some lines: one column of text for each column of the table.

    A line that repeats the names, or a title above them, is no record, nor is a comment, an empty line or one with
    cells beyond the last column. What a line leaves open ends with it.
    """
    names = [quoted(column.name) for column in dialect.columns]
    conditions = [f"trim({LINE}, ' \t') <> ''", f"strlen({LINE}) <= {MOST_BYTES}"]
    if heads:
        conditions.append(f"{LINE} NOT IN ({', '.join(map(literal, heads))})")
    if dialect.comment:
        conditions.append(f"NOT starts_with({LINE}, {literal(dialect.comment)})")
    split = f"SELECT {_cells(dialect.separator)} AS cells FROM {lines} WHERE {' AND '.join(conditions)}"
    texts = ", ".join(
        f"nullif(cells[{place}], '') AS {name}" for place, name in enumerate(names, 1)
    )
    beyond = f"len(cells) <= {len(names)} OR len(list_filter(cells[{len(names) + 1}:], lambda x: x <> '')) = 0"
    return f"(SELECT {texts} FROM ({split}) WHERE {beyond})"


def typed(texts: str, dialect: Dialect) -> str:
    """SQL of the values that the texts of some records stand for."""
    values = ", ".join(
        f"{value(column, dialect)} AS {quoted(column.name)}"
        for column in dialect.columns
    )
    return f"(SELECT {values} FROM {texts})"


def _cells(separator: str) -> str:
    """SQL that splits a line: quotes around a cell go, doubled ones inside become one, an open one ends with it."""
    sign = f"\\x{{{ord(separator):x}}}"
    cell = f'{sign}("(?:[^"]|"")*"[^{sign}]*|".*|[^{sign}]*)'
    cells = f"regexp_extract_all({literal(separator)} || {LINE}, {literal(cell)}, 1)"
    inside = """replace(regexp_extract(x, '^"((?:[^"]|"")*)"$', 1), '""', '"')"""
    bare = f"""list_transform({cells}, lambda x: CASE WHEN x LIKE '"%"' AND x <> '"' THEN {inside} ELSE x END)"""
    return f"CASE WHEN contains({LINE}, '\"') THEN {bare} ELSE string_split({LINE}, {literal(separator)}) END"


def value(column: ColumnForm, dialect: Dialect) -> str:
    """SQL that makes a value of a text, or NULL; whole numbers are not rounded, times are read in the form said."""
    cell = quoted(column.name)
    kind = column.kind
    text = f"trim({cell}, ' \t\u00a0')"
    marks = (*dialect.missing, *column.missing)
    if kind in (NOTHING, "VARCHAR"):
        read = f"CASE WHEN contains({cell}, '\ufffd') THEN NULL ELSE {cell} END"
    elif column.form is not None:
        if "%z" in column.form:
            written = f"regexp_replace({text}, 'Z$', '+00:00')"
        else:
            written = text
        read = f"CAST(TRY_STRPTIME({written}, {literal(column.form)}) AS {kind})"
    elif kind == "BOOLEAN":
        word = f"lower({text})"
        read = f"CASE WHEN {word} IN ('true', '1') THEN true WHEN {word} IN ('false', '0') THEN false END"
    elif kind in WHOLE_KINDS:
        read = f"CASE WHEN regexp_full_match({text}, '[+-]?[0-9]+') THEN TRY_CAST({text} AS {kind}) END"
    elif kind in _ISO:
        full = f"regexp_replace({text}, '([T ]..:..)([Z+-])', '\\1:00\\2')"  # which DuckDB reads with seconds only
        read = f"TRY_CAST({full if kind == 'TIMESTAMPTZ' else text} AS {kind})"
        read = f"CASE WHEN regexp_full_match({text}, '{_ISO[kind]}') THEN {read} END"
    else:
        if dialect.decimal == ".":
            pattern = _NUMBER
        else:
            pattern = _COMMA_NUMBER
        if dialect.decimal == ".":
            point = text
        else:
            point = f"replace({text}, ',', '.')"
        read = f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN TRY_CAST({point} AS {kind}) END"
    return held(read, kind in (NOTHING, "VARCHAR"), marks, text)


def held(
    found: str, is_text: bool, marks: Sequence[str], text: str | None = None
) -> str:
    """SQL of a value that is missing where its text, or its number, is one of these marks."""
    numbers = [mark for mark in marks if _MARK_OF_A_NUMBER.fullmatch(mark)]
    if text is None or not marks:
        conditions = []
    else:
        conditions = [f"{text} IN ({', '.join(map(literal, marks))})"]
    if numbers and not is_text:
        conditions.append(f"TRY_CAST({found} AS DOUBLE) IN ({', '.join(numbers)})")
    if conditions:
        return f"CASE WHEN {' OR '.join(conditions)} THEN NULL ELSE {found} END"
    return found


def quoted(name: str) -> str:
    """A name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def schema_of(query: str, source: pa.Schema) -> pa.Schema:
    """Names and types of what a query gives, columns in which nobody has seen a cell included."""
    connection = _connection()
    connection.register(LINES, source.empty_table())
    return connection.sql(query).to_arrow_table().schema


def mapped(
    batches: Iterator[pa.RecordBatch], query: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """What the query makes of batches of lines, one after the other."""
    connection = _connection()
    for batch in batches:
        connection.register(LINES, pa.Table.from_batches([batch]))
        try:
            table = connection.sql(query).to_arrow_table().cast(schema)
        except (
            duckdb.Error,
            pa.ArrowException,
        ) as error:  # whose words may quote a cell, and reach a cluster's logs
            raise RuntimeError(
                f"lines could not be read ({type(error).__name__})"
            ) from None
        yield from table.to_batches()


def _connection() -> duckdb.DuckDBPyConnection:
    config = {"threads": 1, "python_enable_replacements": False}
    connection = duckdb.connect(config=config)  # type: ignore[arg-type]
    connection.execute("SET TimeZone = 'UTC'")
    return connection


Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
