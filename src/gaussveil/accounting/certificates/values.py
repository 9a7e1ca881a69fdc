"""The numbers that a certificate is about, in one form that files and libraries cannot change, and its digest.

A released number is kept to 44 significant bits, thirteen digits: such a number is the nearest one to itself also after
a detour through fifteen decimal digits, or a reader that errs in the last bit. So a table has one digest whether it
comes from CSV, Parquet, JSON, Excel or a frame in memory. Lattice points below 2^44 grids, which nearly all are, stay
as they were drawn. Rounding what was released costs no privacy.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from gaussveil.accounting.canonical import fields
from gaussveil.accounting.certificates.cell_text import cell_text, nearest
from gaussveil.accounting.certificates.cells import Sheet, cells_of, kind_of
from gaussveil.errors import FormatError

FORM = 1
DIFFERENT = "the numbers are not those that the certificate was issued for: {}"
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class ValuesDigest:
    """What a certificate says of its numbers: how many, under which names, and their digest."""

    rows: int
    columns: int
    names: tuple[str, ...] | None
    sha256: str

    @classmethod
    def of(cls, cells: Sheet) -> ValuesDigest:
        """The digest of a table."""
        return cls(cells.rows, len(cells.columns), cells.names, _sha256(cells))

    def differs(self, cells: Sheet) -> str | None:
        """In words, what a table has not in common with the one that was digested; None where they are the same."""
        chosen = self._matched(cells)
        if chosen is None:
            return f"it has the columns {_listed(cells)}, not those released"
        if chosen.rows != self.rows or len(chosen.columns) != self.columns:
            return f"{chosen.rows} rows and {len(chosen.columns)} columns, where {self.rows} and {self.columns} were"
        if _sha256(chosen) == self.sha256:
            return None
        return "at least one cell was changed"

    def _matched(self, cells: Sheet) -> Sheet | None:
        """The columns in the order of the digest; a first column without a name that numbers the rows is left out."""
        if self.names is None:
            return Sheet(_unnumbered(cells, self.columns).columns)
        names = cells.names
        if names is None or len(set(names)) < len(names):
            return None
        if not set(self.names) >= set(names):
            cells = _unnumbered(cells, self.columns)
            names = cells.names or ()
        if set(names) != set(self.names):
            return None
        return Sheet(
            [cells.columns[names.index(name)] for name in self.names], self.names
        )

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values."""
        if self.names is None:
            named = None
        else:
            named = list(self.names)
        return {
            "form": FORM,
            "rows": self.rows,
            "columns": self.columns,
            "names": named,
            "sha256": self.sha256,
        }

    @classmethod
    def from_dict(cls, record: object) -> ValuesDigest:
        """Inverse of `to_dict`."""
        what = "the field 'values'"
        stated = fields(record, what, ("form", "rows", "columns", "names", "sha256"))
        rows = stated["rows"]
        columns = stated["columns"]
        names = stated["names"]
        digest = stated["sha256"]
        if stated["form"] != FORM or len(stated) > 5:
            raise FormatError(
                f"{what} has a form that this library does not know; upgrade gaussveil to check it"
            )
        if not (_is_count(rows) and _is_count(columns)):
            raise FormatError(f"{what} must hold whole numbers of rows and columns")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise FormatError(f"{what} must hold a digest of 64 hexadecimal digits")
        if names is not None and not _are_names(names, columns):
            raise FormatError(
                f"{what} must hold a name for each column, or none at all"
            )
        return cls(rows, columns, None if names is None else tuple(names), digest)


def _is_count(number: object) -> TypeGuard[int]:
    return type(number) is int and number >= 0


def _are_names(names: object, columns: int) -> TypeGuard[list[str]]:
    if not isinstance(names, list) or len(names) != columns:
        return False
    return all(isinstance(name, str) for name in names)


def rounded(value: Any) -> Any:
    """The same array, list or frame with its floating-point numbers kept to 44 significant bits; others as they are."""
    rounded_frame = _ROUNDED_FRAMES.get(kind_of(value))
    if rounded_frame is not None:
        return rounded_frame(value)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return _rounded(value)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return type(value)(_rounded(np.array([value]))[0])
    return value


def _rounded_pandas_series(series: Any) -> Any:
    if series.dtype != np.float64:
        return series
    numbers = _rounded(series.to_numpy())
    return type(series)(numbers, index=series.index, name=series.name)


def _rounded_pandas_frame(table: Any) -> Any:
    made = table.copy()
    for place, kind in enumerate(table.dtypes):
        if kind == np.float64:
            made.isetitem(place, _rounded(table.iloc[:, place].to_numpy()))
    return made


def _rounded_polars_series(series: Any) -> Any:
    if not series.dtype.is_float():
        return series
    numbers = [rounded(cell) for cell in series.to_list()]
    return type(series)(series.name, numbers, dtype=series.dtype)


def _rounded_polars_frame(table: Any) -> Any:
    return table.with_columns(
        [rounded(column) for column in table if column.dtype.is_float()]
    )


def digest_of(value: Any) -> ValuesDigest | None:
    """The digest of a released value; None where it is no table or document of numbers and texts."""
    cells = cells_of(value)
    if cells is None:
        return None
    return ValuesDigest.of(cells)


def _sha256(cells: Sheet) -> str:
    """Of one JSON text: the names, then each row."""
    rows = zip(*(_column_texts(column) for column in cells.columns), strict=True)
    return hashlib.sha256(
        json.dumps([cells.names, *rows], separators=(",", ":")).encode()
    ).hexdigest()


def _column_texts(column: list[Any]) -> list[str]:
    """`cell_text` of each cell; of all finite floats at once."""
    finite = [type(cell) is float and math.isfinite(cell) for cell in column]
    kept = iter(
        nearest(
            np.array(
                [cell for cell, is_finite in zip(column, finite) if is_finite],
                np.float64,
            )
        ).tolist()
    )
    return [
        next(kept).hex() if is_finite else cell_text(cell)
        for cell, is_finite in zip(column, finite)
    ]


def _unnumbered(cells: Sheet, wanted: int) -> Sheet:
    """Without a first column that only numbers the rows, where there is one column too many."""
    if len(cells.columns) != wanted + 1:
        return cells
    if cells.names:
        first = cells.names[0]
    else:
        first = ""
    numbers = [cell_text(number) for number in range(cells.rows)]
    if (
        first in ("", "Unnamed: 0", "index")
        and [cell_text(cell) for cell in cells.columns[0]] == numbers
    ):
        return Sheet(cells.columns[1:], cells.names[1:] if cells.names else None)
    return cells


def _listed(cells: Sheet) -> str:
    if cells.names is None:
        return "without names"
    return ", ".join(cells.names[:20])


def _rounded(numbers: Any) -> Any:
    """Each number, if it is finite and no decimal of thirteen digits, which every reader takes as it is written."""
    near = nearest(np.where(np.isfinite(numbers), numbers, 0.0))
    near = np.where(np.isfinite(numbers) & np.isfinite(near), near, numbers)
    for place in np.argwhere((near != numbers) & np.isfinite(numbers)):
        number = float(numbers[tuple(place)])
        if float(f"{number:.12e}") == number:
            near[tuple(place)] = number
    return near


def _rounded_arrow(table: Any) -> Any:
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_float64(field.type):
            column = table.column(place).combine_chunks()
            numbers = _rounded(column.to_numpy(zero_copy_only=False))
            table = table.set_column(
                place, field, pa.array(numbers, mask=np.asarray(column.is_null()))
            )
    return table


_ROUNDED_FRAMES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("pandas", "Series"): _rounded_pandas_series,
    ("pandas", "DataFrame"): _rounded_pandas_frame,
    ("polars", "Series"): _rounded_polars_series,
    ("polars", "DataFrame"): _rounded_polars_frame,
    ("pyarrow", "Table"): _rounded_arrow,
}
