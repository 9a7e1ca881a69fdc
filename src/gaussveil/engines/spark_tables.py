"""Tables as Spark finds them: Parquet with its own types, and lines of text that workers read as every engine does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from gaussveil.engines.cell_map import LINES, mapped, records, schema_of, typed
from gaussveil.engines.csv_files import HEAD_LINES, dialect_of, head_of, read_dialect
from gaussveil.engines.dialect import Dialect
from gaussveil.engines.form import Given
from gaussveil.engines.lines import LINE, SCHEMA, decoded, line_batches
from gaussveil.engines.location import Location, refuse_wildcards
from gaussveil.engines.typed_columns import stored_rows, without_cells
from gaussveil.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
Lines = Callable[[], "tuple[DataFrame, Callable[[Batches], Batches]]"]
"""What hands out lines to workers, and how a worker finds them in what it gets."""


def _files(location: Location) -> list[str]:
    """The files, by names that mean the same to Java: it keeps the folder it was started in."""
    if not location.local:
        return location.files()
    files = [os.path.abspath(file) for file in location.files()]
    refuse_wildcards(files, "*?[]{}\\")
    return files


# A session may be told to pass over damaged files; a table is whole or refused.
_WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


def read_parquet(session: SparkSession, location: Location) -> DataFrame:
    """Parquet files by Spark's own reader."""
    if location.kind != "parquet":
        raise ParameterError(
            f"engine 'spark' reads Parquet and CSV. Got {location.kind}: use engine='duckdb'."
        )
    files = _files(location)
    if location.local:
        _require_known_types(files[0])
    return _of_bytes(session.read.options(**_WHOLE).parquet(*files))


def _of_bytes(frame: DataFrame) -> DataFrame:
    """The same columns, text without collation and without what is no text.

    A collation that Spark wrote knows other units than we do: it takes names for one that differ in case or accents.
    """
    from pyspark.sql.functions import col, try_validate_utf8
    from pyspark.sql.types import StringType

    columns = []
    for field in frame.schema:
        column = col(names_in_sql([field.name]))
        if isinstance(field.dataType, StringType):
            column = try_validate_utf8(column.cast(StringType())).alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def stored_cells(
    batches: Batches, schema: pa.Schema, form: Dialect
) -> tuple[Batches, pa.Schema]:
    """Batches of a table with types of its own, of these columns, as its form says; and their schema."""
    query = stored_rows(LINES, schema, form, collated=False)
    if query == LINES:
        return batches, schema
    made = schema_of(query, schema)
    return mapped(batches, query, made), made


def stored_frame(
    frame: DataFrame, schema: pa.Schema, form: Dialect
) -> tuple[DataFrame, pa.Schema]:
    """A frame of a table with types of its own as its form says, by the map of cells of all engines."""
    from pyspark.sql.pandas.types import from_arrow_schema

    _, made = stored_cells(iter(()), schema, form)
    if made == schema and stored_rows(LINES, schema, form, collated=False) == LINES:
        return frame, schema
    kinds = from_arrow_schema(made, True)
    return frame.mapInArrow(
        lambda batches: stored_cells(batches, schema, form)[0], kinds
    ), made


def read_lines(
    session: SparkSession, location: Location, given: Given
) -> tuple[Lines, Dialect, tuple[str, ...]]:
    """What hands out the lines of the files, how they are written, and the lines above their rows.

    Spark finds the lines itself where an end of line is the byte that it is in ASCII; other files are read whole by
    one worker each, which needs a path that all of them see.
    """
    files = _files(location)
    if location.local:
        dialect, above = read_dialect(files, given)
    else:
        rows = session.read.options(**_WHOLE).text(files).limit(HEAD_LINES).collect()
        head = head_of([row["value"] for row in rows], given)
        dialect = dialect_of(head, given)
        above = head.above
    encoding = dialect.encoding
    if "\n".encode(encoding) == b"\n":

        def lines() -> tuple[DataFrame, Callable[[Batches], Batches]]:
            texts = (
                session.read.options(**_WHOLE)
                .text(files)
                .selectExpr(f"CAST(value AS BINARY) AS {LINE}")
            )
            return texts, lambda batches: (
                decoded(batch.column(0), encoding) for batch in batches
            )

        return lines, dialect, above
    if not location.local:
        raise ParameterError(
            f"encoding of a table elsewhere must be one of single bytes. Got {encoding!r}."
        )

    def whole() -> tuple[DataFrame, Callable[[Batches], Batches]]:
        numbers = session.range(0, len(files), 1, len(files))
        return numbers, lambda batches: (
            lines
            for batch in batches
            for number in batch.column(0).to_pylist()
            for lines in line_batches(files[number], encoding)
        )

    return whole, dialect, above


def records_of(
    lines: Lines, dialect: Dialect, above: Sequence[str]
) -> tuple[DataFrame, pa.Schema]:
    """The records that the workers make of lines, by the same map of cells as everywhere, and their schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    query = typed(records(LINES, dialect, above), dialect)
    stored = schema_of(query, SCHEMA)
    frame, opened = lines()
    made = frame.mapInArrow(
        lambda batches: mapped(opened(batches), query, stored),
        from_arrow_schema(stored, True),
    )
    return made, without_cells(stored, dialect)


def _require_known_types(file: str) -> None:
    """Refuse Parquet columns that Spark has no type for; it would refuse the whole table without naming one."""
    stored = pq.read_metadata(file).schema
    for column in map(stored.column, range(len(stored))):
        kind = json.loads(column.logical_type.to_json())
        if kind["Type"] in ("Float16", "Time") or kind.get("timeUnit") == "nanoseconds":
            raise SchemaError(
                f"column {column.path!r} has a type that Spark does not read: write it as 4-byte floats, as a "
                "timestamp in microseconds or as a number, leave it out, or use engine='duckdb'."
            )


def names_in_sql(names: Sequence[str]) -> str:
    """Names of columns as Spark's SQL quotes them."""
    return ", ".join("`" + name.replace("`", "``") + "`" for name in names)
