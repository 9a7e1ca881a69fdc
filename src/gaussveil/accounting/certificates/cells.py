"""The cells of whatever can be released: arrays, lists, frames, records, documents."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST_DOCUMENT = (
    1 << 19
)  # numbers: ten classes of a mixture in 200 columns, some seconds


@dataclass(frozen=True)
class Sheet:
    """A table as it was given: columns of cells of any type, and their names where they have some."""

    columns: list[list[Any]]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            plain = tuple(
                unicodedata.normalize("NFC", name.strip()) for name in self.names
            )
            object.__setattr__(self, "names", plain)

    @property
    def rows(self) -> int:
        """Number of rows."""
        if self.columns:
            return len(self.columns[0])
        return 0


def cells_of(value: Any) -> Sheet | None:
    """The cells of an array, list, frame, mapping of columns or list of records; None of anything else.

    A released object of another kind has a `released_document`: its numbers and names as mappings and lists.
    """
    of_frame = _OF_FRAMES.get(kind_of(value))
    if of_frame is not None:
        return of_frame(value)
    if isinstance(value, Mapping):
        return _of_columns(value)
    if _holds_records(value):
        return _of_records(value)
    if isinstance(value, list | np.ndarray | int | float) and not isinstance(
        value, bool
    ):
        return _of_array(value)
    return _of_released_object(value)


def _of_pandas_series(series: Any) -> Sheet | None:
    if type(series.index).__name__ == "RangeIndex":
        return Sheet([series.tolist()])
    return cells_of(series.to_frame())


def _of_pandas_frame(table: Any) -> Sheet:
    if type(table.index).__name__ != "RangeIndex":
        table = table.reset_index(
            names=["" if name is None else str(name) for name in table.index.names]
        )
    columns = [table.iloc[:, at].tolist() for at in range(table.shape[1])]
    return Sheet(columns, tuple(map(str, table.columns)))


def _of_polars_series(series: Any) -> Sheet:
    return Sheet([series.to_list()])


def _of_polars_frame(table: Any) -> Sheet:
    return Sheet([column.to_list() for column in table], tuple(table.columns))


def _of_arrow(table: Any) -> Sheet:
    columns = [column.to_pylist() for column in table.columns]
    return Sheet(columns, tuple(table.column_names))


_OF_FRAMES: dict[tuple[str, str], Callable[[Any], Sheet | None]] = {
    ("pandas", "Series"): _of_pandas_series,
    ("pandas", "DataFrame"): _of_pandas_frame,
    ("polars", "Series"): _of_polars_series,
    ("polars", "DataFrame"): _of_polars_frame,
    ("pyarrow", "Table"): _of_arrow,
}


def _of_columns(named: Mapping[Any, Any]) -> Sheet | None:
    """Of columns by name, all of one length."""
    columns: list[list[Any]] = []
    for column in named.values():
        cells = cells_of(column)
        if cells is None or len(cells.columns) != 1:
            return None
        columns += cells.columns
    if len({len(column) for column in columns}) != 1:
        return None
    return Sheet(columns, tuple(map(str, named)))


def _holds_records(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, Mapping) for row in value)


def _of_records(rows: list[Mapping[Any, Any]]) -> Sheet | None:
    """Of rows that all have the same names in the same order."""
    names = tuple(map(str, rows[0]))
    if any(tuple(map(str, row)) != names for row in rows):
        return None
    return Sheet([[row[name] for row in rows] for name in rows[0]], names)


def _of_released_object(value: Any) -> Sheet | None:
    released_document = getattr(value, "released_document", None)
    if released_document is None:
        return None
    document = released_document()
    if _count(document) <= LARGEST_DOCUMENT:
        return document_cells(document)
    return None


def document_cells(document: Any) -> Sheet:
    """Every number and text of a document of mappings and lists, with the way to it: models, sketches, settings."""
    places: list[str] = []
    values: list[Any] = []
    _walk(document, "", places, values)
    return Sheet([places, values], ("place", "value"))


def _count(document: Any) -> int:
    """Number of numbers and texts in a document."""
    if not isinstance(document, dict | list) or not document:
        return 1
    members = document.values() if isinstance(document, dict) else document
    if all(type(part) is float for part in members):
        return len(document)
    return sum(map(_count, members))


def _walk(document: Any, place: str, places: list[str], values: list[Any]) -> None:
    """Append every number and text of a document and the way to it."""
    if isinstance(document, dict | list) and document:
        items: Any
        if isinstance(document, dict):
            items = document.items()
        else:
            items = enumerate(document)
        for name, part in items:
            if isinstance(name, str):
                below = f"{place}/{json.dumps(name)}"
            else:
                below = f"{place}/{name}"
            if type(part) is float:
                places.append(below)
                values.append(part)
            else:
                _walk(part, below, places, values)
    else:
        places.append(place or "/")
        values.append(
            json.dumps(document) if isinstance(document, dict | list) else document
        )


def _of_array(value: Any) -> Sheet | None:
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.dtype.kind == "O" and array.ndim != 1:
        return None
    if array.ndim > 1 and array.size:
        table = array.reshape(len(array), -1)
    else:
        table = array.reshape(-1, 1)
    return Sheet([column.tolist() for column in table.T])


def kind_of(value: Any) -> tuple[str, str]:
    """The library that a value comes from, and the name of its class."""
    kind = type(value)
    return kind.__module__.partition(".")[0], kind.__name__
