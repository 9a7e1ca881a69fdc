"""Sheets of Excel files as tables: the first row names the columns, a column holds numbers, times or text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gaussveil.engines.csv_files import require_header
from gaussveil.engines.location import Location
from gaussveil.engines.whole_files import MOST_CELLS
from gaussveil.errors import FormatError, MissingDependencyError, SchemaError, SourceError


def read_excel(location: Location) -> pa.Table:
    """A sheet, by default the first."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "Excel files are read with pip install 'gaussveil[excel]'; or save the sheet as CSV."
        ) from None
    name = Path(location.address).name
    try:
        book = CalamineWorkbook.from_path(location.address)
    except (CalamineError, OSError):
        raise FormatError(f"{name}: not an Excel file, or a damaged one") from None
    if location.table and location.table not in book.sheet_names:
        raise SourceError(f"{name} has no sheet {location.table!r}: check the name after '#'.")
    sheet = book.get_sheet_by_name(location.table) if location.table else book.get_sheet_by_index(0)
    if sheet.total_height * sheet.total_width > MOST_CELLS:
        raise SourceError(f"{name}: the sheet is too large to be read at once; save it as CSV.")
    rows = sheet.to_python()
    if not rows:
        raise SourceError(f"{name}: the sheet is empty.")
    names = [str(cell).strip() or f"column{place}" for place, cell in enumerate(rows[0])]
    require_header(names)
    if len(set(names)) < len(names):
        raise SchemaError(f"{name}: columns must have names of their own; at least one occurs twice.")
    return pa.table({name: _column([row[place] for row in rows[1:]]) for place, name in enumerate(names)})


def _column(cells: Sequence[Any]) -> pa.Array:
    """Numbers, times or truth values where all cells are; else text, in which 7 typed as a number is 7 typed as text.

    Whole numbers too large to be told apart are missing: one of them must not decide whether a table can be read.
    """
    values = [None if cell == "" else cell for cell in cells]
    for fits in (_is_fraction, _is_time):  # where most are, one other cell must not make text of them: it is missing
        if 2 * sum(map(fits, values)) > sum(value is not None for value in values):
            kind = float if fits is _is_fraction else datetime.date
            values = [value if isinstance(value, kind) else None for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and all(float(value).is_integer() for value in values if value is not None):
        return pa.array([None if value is None or abs(value) >= 2**63 else int(value) for value in values], pa.int64())
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    if kinds == {datetime.datetime} or kinds == {datetime.datetime, datetime.date}:
        return pa.array(values, pa.timestamp("us"))
    if kinds in ({datetime.date}, {bool}):
        return pa.array(values)
    whole = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    return pa.array([None if value is None else str(value) for value in whole], pa.string())


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime.date)
