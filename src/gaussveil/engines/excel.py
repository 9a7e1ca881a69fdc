"""Sheets of Excel files as tables: the first row names the columns, a column holds numbers, times or text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa

from gaussveil.engines.csv_files import HEAD_LINES, require_header
from gaussveil.engines.location import Location
from gaussveil.engines.whole_files import MOST_CELLS
from gaussveil.errors import FormatError, MissingDependencyError, SchemaError, SourceError, install


def read_excel(location: Location) -> pa.Table:
    """A sheet, by default the first."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ModuleNotFoundError:
        raise MissingDependencyError(
            f"Excel files need python-calamine: {install('excel')}; or save the sheet as CSV."
        ) from None
    name = Path(location.address).name
    try:
        book = CalamineWorkbook.from_path(location.address)
    except (CalamineError, OSError):
        raise FormatError(f"{name}: not an Excel file, or a damaged one") from None
    if location.table and location.table not in book.sheet_names:
        raise SourceError(f"{name} has no sheet {location.table!r}; it has {', '.join(book.sheet_names)}.")
    sheet = book.get_sheet_by_name(location.table) if location.table else book.get_sheet_by_index(0)
    if sheet.total_height * sheet.total_width > MOST_CELLS:
        raise SourceError(f"{name}: the sheet is too large to be read at once; save it as CSV.")
    rows = sheet.to_python()
    if not rows:
        raise SourceError(f"{name}: the sheet is empty.")
    require_header([str(cell) for cell in rows[0]])
    names = [str(cell).strip() or f"column{place}" for place, cell in enumerate(rows[0])]
    if len(set(names)) < len(names):
        raise SchemaError(f"{name}: columns must have names of their own; at least one occurs twice.")
    return pa.table({name: _column([row[place] for row in rows[1:]]) for place, name in enumerate(names)})


def _column(cells: Sequence[Any]) -> pa.Array:
    """Numbers, times or truth values where the first rows hold them, which count as public as in a CSV file; else text.

    Where most are fractions or times, cells that are not are missing, and so are later ones that do not fit: no cell
    decides whether a table can be read. In text 7 typed as a number is 7 typed as text.
    """
    head = [cell for cell in cells[:HEAD_LINES] if cell != ""]
    fractions = sum(map(_is_number, head)) - sum(map(_is_whole, head))
    if 2 * fractions > len(head) or (fractions and all(map(_is_number, head))):
        return pa.array([float(cell) if _is_number(cell) else None for cell in cells], pa.float64())
    if 2 * sum(map(_is_time, head)) > len(head):  # a cell at midnight is a date
        clock = any(isinstance(cell, datetime.datetime) for cell in head)
        times = [numpy.datetime64(cell, "us") if _is_time(cell) else None for cell in cells]
        return pa.array(times, pa.timestamp("us")).cast(pa.timestamp("us") if clock else pa.date32(), safe=False)
    if all(map(_is_whole, head)):
        return pa.array([int(cell) if _is_whole(cell) and abs(cell) < 2**63 else None for cell in cells], pa.int64())
    if all(isinstance(cell, bool) for cell in head):
        return pa.array([cell if isinstance(cell, bool) else None for cell in cells], pa.bool_())
    whole = [int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in cells]
    return pa.array([None if cell == "" else str(cell) for cell in whole], pa.string())


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _is_whole(cell: Any) -> bool:
    return _is_number(cell) and float(cell).is_integer()


def _is_time(cell: Any) -> bool:
    return isinstance(cell, datetime.date)
