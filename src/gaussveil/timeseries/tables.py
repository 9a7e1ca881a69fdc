"""Columns of any table (pandas, polars, pyarrow, NumPy, dict) through Arrow, checked by name and type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gaussveil.errors import SchemaError

Columns = dict[str, Any]


def _fields_of(table: np.ndarray[Any, Any]) -> dict[str, Any]:
    if table.dtype.names is None:
        raise SchemaError(
            "a NumPy table must be a structured array with named columns; for a plain matrix of kW build "
            f"Readings(values, households, start, step_minutes). Got shape {table.shape}."
        )
    return {name: np.ascontiguousarray(table[name]) for name in table.dtype.names}


def columns_of(table: Any) -> Columns:
    """Named Arrow columns; a pandas index of times becomes the column that it names (or `time`)."""
    if isinstance(table, np.ndarray):
        table = _fields_of(table)
    if isinstance(table, dict):
        table = {name: _array(name, column) for name, column in table.items()}
    if isinstance(table, pa.Table):
        arrow = table
    else:
        arrow = _unless_refused(pa.table, table)
    if arrow is None:
        raise SchemaError(
            f"cannot read a table from {type(table).__name__}: pass a pandas, polars or pyarrow table, a structured "
            "array or a dict of equally long columns, each of one type"
        )
    if arrow.num_rows == 0:
        raise SchemaError("the table has no rows")
    if len(set(arrow.column_names)) != arrow.num_columns:
        raise SchemaError("column names must be distinct; at least one occurs twice")
    columns = {name: arrow.column(name).combine_chunks() for name in arrow.column_names}
    index = columns.pop("__index_level_0__", None)
    if index is not None:
        columns.setdefault("time", index)
    return columns


def _array(name: str, column: Any) -> Any:
    values = np.asarray(column)
    if values.ndim != 1:
        raise SchemaError(
            f"column '{name}' must be one-dimensional. Got shape {values.shape}."
        )
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    array = _unless_refused(
        pa.array, values.tolist() if values.dtype.kind == "U" else values
    )
    if array is None:
        raise SchemaError(
            f"column '{name}' must hold numbers, times or text, all of one type"
        )
    return array


def _unless_refused(convert: Callable[..., Any], *given: Any) -> Any | None:
    """What Arrow makes of it, or None: its own error quotes a cell, so it must not stand behind ours."""
    try:
        return convert(*given)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return None


def _column(columns: Columns, name: str) -> Any:
    if name not in columns:
        raise SchemaError(
            f"the table has no column '{name}'; it has {sorted(columns)[:8]}"
        )
    return columns[name]


def to_float(columns: Columns, name: str) -> NDArray[np.float64]:
    """A numeric column as floats, null as NaN."""
    column = _column(columns, name)
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise SchemaError(f"column '{name}' must hold numbers; its type is {kind}")
    return np.asarray(
        pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False),
        dtype=np.float64,
    )


def to_categories(
    columns: Columns, name: str
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The distinct values of a column as text, sorted, and the position of every row among them."""
    column = _column(columns, name)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise SchemaError(
            f"column '{name}', row {row}: the value is missing ({column.null_count} such rows)"
        )
    if pa.types.is_dictionary(column.type):
        coded = column
    else:
        coded = column.dictionary_encode()
    names, position = np.unique(
        np.array(coded.dictionary.to_pylist(), dtype=str), return_inverse=True
    )
    return tuple(names.tolist()), position[
        coded.indices.to_numpy(zero_copy_only=False)
    ].astype(np.int64)


def to_minutes(columns: Columns, name: str) -> tuple[NDArray[np.int64], bool]:
    """A time column as whole minutes since 1970, and whether its stamps carry a zone (then the minutes are UTC).

    "day+clock" joins a column of dates and one of times of day.
    """
    if name not in columns and "+" in name:
        day, clock = (part.strip() for part in name.split("+", 1))
        minutes, aware = to_minutes(columns, day)
        return minutes + _time_of_day(_column(columns, clock), clock), aware
    column = _column(columns, name)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parse(column, name)
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("s"), safe=False)
    if not pa.types.is_timestamp(column.type):
        raise SchemaError(
            f"column '{name}' must hold time stamps or ISO 8601 text; its type is {column.type}"
        )
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise SchemaError(
            f"column '{name}', row {row}: the time is missing or misspelt ({column.null_count} such rows)"
        )
    aware = column.type.tz is not None
    per_minute = 60 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    ticks = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    if (ticks % per_minute).any():
        row = int(np.argmax(ticks % per_minute != 0))
        raise SchemaError(f"column '{name}', row {row}: the time is not a whole minute")
    return ticks // per_minute, aware


def _time_of_day(column: Any, name: str) -> NDArray[np.int64]:
    """Whole minutes since midnight, of times or of text such as 00:15."""
    text = pc.cast(column, pa.string())
    clock = pc.extract_regex(
        text, r"^\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<rest>:00(?:\.0+)?)?\s*$"
    )
    if clock.null_count:
        row = int(np.argmax(clock.is_null().to_numpy(zero_copy_only=False)))
        raise SchemaError(
            f"column '{name}', row {row}: not a whole minute of the day such as 00:15"
        )
    hour, minute = (
        pc.cast(clock.field(place), pa.int64()).to_numpy(zero_copy_only=False)
        for place in (0, 1)
    )
    return np.asarray(60 * hour + minute)


def _parse(column: Any, name: str) -> Any:
    """ISO 8601 text, with a zone in every row or in none."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        if (times := _unless_refused(pc.cast, column, kind)) is not None:
            return times
    for row, text in enumerate(column.to_pylist()):
        if _unless_refused(pc.cast, pa.array([text]), pa.timestamp("us")) is None:
            raise SchemaError(
                f"column '{name}', row {row}: not ISO 8601 text such as 2018-10-29T00:15, or a zone in some rows only"
            )
    raise SchemaError(f"column '{name}': time stamps must all carry a zone, or none")
