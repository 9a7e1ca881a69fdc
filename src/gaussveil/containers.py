"""What mechanisms accept and give: arrays in and arrays out, frames in and frames of the same library out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, ShapeError


def real_array(name: str, value: Any) -> NDArray[Any]:
    """The numbers of an array, list, or pandas or polars frame or series, in their own type; missing ones are NaN."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(f"{name} must not be masked: fill what is missing by a public rule first.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f"{name} must be rectangular: every row of the same length.") from None
    if array.dtype.kind not in "biuf":
        raise ParameterError(f"{name} must hold real numbers only. Got dtype {array.dtype}.")
    return array


def reading_of(cell: Any) -> Any:
    """One number of a list that will be clipped: None is NaN, and a whole number of any size some float."""
    if isinstance(cell, int):
        return float(min(max(cell, -(2**1000)), 2**1000))
    return math.nan if cell is None else cell


def like(value: Any, numbers: NDArray[np.float64]) -> Any:
    """`numbers` in the container of `value`: a list, a frame or series, otherwise an array."""
    kind = type(value)
    library, name = kind.__module__.partition(".")[0], kind.__name__
    if kind is list:
        return numbers.tolist()
    if library == "pandas" and name == "DataFrame":
        return kind(numbers, index=value.index, columns=value.columns)
    if library == "pandas" and name == "Series":
        return kind(numbers, index=value.index, name=value.name)
    if library == "polars" and name == "DataFrame":
        return kind(numbers, schema=value.columns, orient="row")
    if library == "polars" and name == "Series":
        return kind(value.name, numbers)
    if library == "pyarrow" and name == "Table":
        return frame("", dict(zip(value.column_names, numbers.T)))
    return numbers


def library_of(value: Any) -> str:
    """The library that a frame or series belongs to, "pandas" or "polars"; empty for anything else."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return library if library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "Series") else ""


def frame(library: str, columns: Mapping[str, Any]) -> Any:
    """A table of named columns in the library that the input came in; an Arrow table where it came in none."""
    plain = {name: _ticks(np.asarray(column)) for name, column in columns.items()}
    if library == "pandas":
        import pandas

        return pandas.DataFrame(plain)
    if library == "polars":
        import polars

        return polars.DataFrame(plain)
    import pyarrow

    return pyarrow.table(
        {name: pyarrow.array(column.tolist() if column.dtype.kind == "U" else column) for name, column in plain.items()}
    )


def series(library: str, name: str, values: NDArray[Any]) -> Any:
    """One named column in the library that the input came in, an array where it came in none."""
    return frame(library, {name: values})[name] if library else values


def _ticks(column: NDArray[Any]) -> NDArray[Any]:
    # Neither library knows times in minutes; both know microseconds.
    return column.astype("datetime64[us]") if column.dtype.kind == "M" else column
