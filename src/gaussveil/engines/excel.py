"""Sheets of Excel files as tables of text, which are then read cell by cell as those of a CSV file are.

A number typed as a number is the shortest text that stands for it, a time is ISO 8601. Excel keeps 15 digits: a number
beyond 2^53 names nobody, for the file does not hold the digits that somebody typed.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gaussveil.engines.csv_files import (
    HEAD_LINES,
    column_names,
    found_columns,
    title_rows,
)
from gaussveil.engines.dialect import Dialect
from gaussveil.engines.form import Given
from gaussveil.engines.location import Location
from gaussveil.engines.sheet_cells import sheet_rows
from gaussveil.errors import SourceError

_MOST_TITLES = 50
_EXACT = 2**53


class ExcelSheet:
    """A sheet, by default the first: its form, and its cells as text."""

    def __init__(self, location: Location, given: Given) -> None:
        rows = sheet_rows(location.address, location.table)
        if given.pinned is None:
            above = title_rows([_texts(row) for row in rows[: _MOST_TITLES + 1]])
        else:
            above = given.pinned.above
        if above >= len(rows):
            raise SourceError(f"{Path(location.address).name}: the sheet is empty.")
        names = column_names([_texts(rows[above])])
        self.dialect = self._form(names, rows[above + 1 :], above, given)
        decimal = self.dialect.decimal
        columns = list(zip(*rows[above + 1 :])) or [()] * len(names)
        self._cells = {
            name: [_text(cell, decimal) or None for cell in column]
            for name, column in zip(names, columns)
        }
        self._beyond = {
            name: list(map(_is_beyond, column)) for name, column in zip(names, columns)
        }

    def texts(self, dialect: Dialect) -> pa.Table:
        """The cells as text; in a column of text, numbers beyond all digits are missing."""
        texts = {column.name for column in dialect.columns if column.kind == "VARCHAR"}
        columns = {}
        for name, cells in self._cells.items():
            if name in texts:
                mask = self._beyond[name]
            else:
                mask = [False] * len(cells)
            columns[name] = pa.array(
                [None if hidden else cell for cell, hidden in zip(cells, mask)],
                pa.string(),
            )
        return pa.table(columns)

    @staticmethod
    def _form(
        names: Sequence[str], rows: Sequence[Sequence[Any]], above: int, given: Given
    ) -> Dialect:
        if given.pinned is not None:
            return given.dialect(names)
        form = Dialect(decimal=given.decimal or ".", above=above)
        head = [
            [_text(cell, form.decimal) for cell in row] for row in rows[:HEAD_LINES]
        ]
        found = given.typed(found_columns(form, names, head, given))
        return replace(found, found=("titles", "types of columns"))


def _text(cell: Any, decimal: str) -> str:
    """What a cell would be in a CSV file."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int | float):
        if float(cell).is_integer() and abs(cell) < _EXACT:
            text = str(int(cell))
        else:
            text = repr(float(cell))
        return text.replace(".", decimal)
    if isinstance(cell, datetime.datetime):
        at_midnight = cell.time() == datetime.time()
        if at_midnight:
            return str(cell.date())
        return cell.isoformat(" ")
    return str(cell)


def _texts(row: Sequence[Any]) -> list[str]:
    return [_text(cell, ".") for cell in row]


def _is_beyond(cell: Any) -> bool:
    """Whether a number is one of those that doubles do not tell from their neighbours."""
    return _is_number(cell) and abs(cell) >= _EXACT


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)
