"""What mechanisms accept and give: arrays in and arrays out, frames in and frames of the same library out.

One rule for cells, whatever container they come in: a cell is read by itself. A list is never made an array of one
type, for a single text among its numbers would make text of them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, ShapeError

_FOUND_FORM = b"gaussveil: found form"  # in the metadata of a table of Arrow
_PEOPLE = b"gaussveil: people"
_CLOCK = b"gaussveil: clock"
FOUND_IN_FILES = "types of columns"  # of a table of text, all of them
FOUND_IN_OBJECTS = (
    "types of columns of objects"  # so a pandas frame says of what nobody wrote down
)
_EXACT = 2**53  # up to which a float is the whole number that somebody wrote

# What the methods of an object raise where it is no number, or is not comparable; their words may quote a value.
RAISED_BY_CELLS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class FormNotes:
    """What a table says of its form beside names and types: what nobody wrote down, whose rows these are, the clock."""

    found: tuple[str, ...] = ()
    people: str | None = None
    time_zone: str | None = None

    def metadata(self) -> dict[bytes, str] | None:
        """As a table of Arrow carries it."""
        texts = {
            _FOUND_FORM: ", ".join(self.found),
            _PEOPLE: self.people or "",
            _CLOCK: self.time_zone or "",
        }
        return {key: text for key, text in texts.items() if text} or None


def form_notes(table: Any) -> FormNotes:
    """The notes of a Source, and of a table that one brought here; a frame's own columns say nothing of it."""
    if isinstance(table, FormNotes):
        return table
    if isinstance(getattr(type(table), "form_notes", None), property):
        notes: FormNotes = table.form_notes
        return notes
    metadata = getattr(getattr(table, "schema", None), "metadata", None)
    if not isinstance(metadata, dict):
        return FormNotes()
    unwritten, people, clock = (
        metadata.get(key, b"").decode() for key in (_FOUND_FORM, _PEOPLE, _CLOCK)
    )
    assumed = tuple(filter(None, unwritten.split(", ")))
    return FormNotes(assumed, people or None, clock or None)


def real_array(name: str, value: Any) -> NDArray[Any]:
    """The numbers of an array, list, or pandas or polars frame or series, in their own type; missing ones are NaN.

    Whoever hands over something that is no number is told so: it is for what is public, or is the value itself.
    """
    array = _rectangular(name, value)
    if array.dtype.kind not in "biuf":
        raise ParameterError(
            f"{name} must hold real numbers only. Got dtype {array.dtype}."
        )
    return array


def readings_array(name: str, value: Any) -> NDArray[Any]:
    """The same of private readings, of which no single one decides whether the others are read.

    Of objects, each that is no number is NaN, and a whole number of any size is some float. So is a list among numbers;
    where most are lists these are rows, which must be of one length.
    """
    array = _unmasked(name, value)
    if array.ndim == 0:
        return real_array(name, array)
    if array.dtype == object and not _holds_rows(array):
        return cell_numbers(array)
    if array.dtype == object:
        raise ShapeError(f"{name} must be rectangular: every row of the same length.")
    return real_array(name, array)


def _rectangular(name: str, value: Any) -> NDArray[Any]:
    array = _unmasked(name, value)
    if array.dtype == object and is_ragged(array):
        raise ShapeError(f"{name} must be rectangular: every row of the same length.")
    return array


def _unmasked(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(
            f"{name} must not be masked: fill what is missing by a public rule first."
        )
    return uncoerced(value)


def uncoerced(value: Any) -> NDArray[Any]:
    """A list as numbers where all of it are numbers, else as objects, each what it is; an array or frame as it is.

    A series of text is objects in every library: the text "1" is not the class 1.
    """
    if not isinstance(value, list | tuple):
        array = np.asarray(value)
        if array.dtype.kind == "U" and library_of(value):
            return array.astype(object)
        return array
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf":
        return array
    return np.array(value, dtype=object)


def cell_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Objects or texts as numbers, each by itself; one that is none is missing."""
    numbers = [cell_number(cell) for cell in cells.ravel().tolist()]
    return np.asarray(numbers, dtype=np.float64).reshape(cells.shape)


def cell_number(cell: Any) -> float:
    """One cell as a number; a whole number of any size is some float, what is no number is NaN."""
    if isinstance(cell, int):
        return float(min(max(cell, -(2**1000)), 2**1000))
    if isinstance(cell, np.ndarray):
        return math.nan
    try:
        return float(cell)
    except RAISED_BY_CELLS:
        return math.nan


def is_missing(cell: Any) -> bool:
    """None, NaN, and what is not comparable even with itself, such as pandas' NA."""
    try:
        return cell is None or not bool(cell == cell)
    except RAISED_BY_CELLS:
        return True


def is_text(cell: Any) -> bool:
    """Whether a cell is a text that a table can hold: half of a letter is none."""
    return isinstance(cell, str) and not any(
        "\ud800" <= letter <= "\udfff" for letter in cell
    )


def cell_name(cell: Any) -> str | None:
    """One cell as the name of somebody or of a class: text as it is, a whole number by its digits, else nobody's."""
    if isinstance(cell, str):
        if is_text(cell):
            return str(cell)
        return None
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, int | np.integer):
        whole = int(cell)
        if abs(whole) < 2**128:
            return str(whole)
        return None
    if (
        isinstance(cell, float | np.floating)
        and abs(float(cell)) < _EXACT
        and float(cell).is_integer()
    ):
        return str(int(cell))
    return None


def is_ragged(array: NDArray[Any]) -> bool:
    """Whether rows are of different lengths: they were left as lists where cells should be."""
    return array.ndim == 1 and any(
        isinstance(row, list | tuple | np.ndarray) for row in array.tolist()
    )


def _holds_rows(array: NDArray[Any]) -> bool:
    """Whether most of what stands in a list are rows of their own."""
    rows = sum(isinstance(row, list | tuple | np.ndarray) for row in array.tolist())
    return array.ndim == 1 and 2 * rows > len(array)


def like(value: Any, numbers: NDArray[np.float64]) -> Any:
    """`numbers` in the container of `value`: a list, a frame or series, otherwise an array."""
    kind = type(value)
    if kind is list:
        return numbers.tolist()
    match kind.__module__.partition(".")[0], kind.__name__:
        case "pandas", "DataFrame":
            return kind(numbers, index=value.index, columns=value.columns)
        case "pandas", "Series":
            return kind(numbers, index=value.index, name=value.name)
        case "polars", "DataFrame":
            return kind(numbers, schema=value.columns, orient="row")
        case "polars", "Series":
            return kind(value.name, numbers)
        case "pyarrow", "Table":
            return frame("", dict(zip(value.column_names, numbers.T)))
    return numbers


def library_of(value: Any) -> str:
    """The library that a frame or series belongs to, "pandas" or "polars"; empty for anything else."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "Series"):
        return library
    return ""


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
        {
            name: pyarrow.array(column.tolist() if column.dtype.kind == "U" else column)
            for name, column in plain.items()
        }
    )


def series(library: str, name: str, values: NDArray[Any]) -> Any:
    """One named column in the library that the input came in, an array where it came in none."""
    if library:
        return frame(library, {name: values})[name]
    return values


def _ticks(column: NDArray[Any]) -> NDArray[Any]:
    # Neither library knows times in minutes; both know microseconds.
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    return column


def unnamed(query: Any) -> Any:
    """A series without its name: a row or column of a frame is often named after the label that is to be hidden."""
    if type(query).__name__ != "Series":
        return query
    library = library_of(query)
    if library == "pandas":
        return query.rename(None)
    if library == "polars":
        return query.alias("")
    return query
