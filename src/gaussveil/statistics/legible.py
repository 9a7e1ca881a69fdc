"""Text whose bytes are letters: what is not, in a file that says it were, is a missing cell in every engine.

Arrow and its readers believe a file that calls bytes text. Engines do not: one refuses the table for such a cell,
another sorts it by a rule made for letters and reads on in the next column.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Well-formed UTF-8, byte by byte: the Unicode Standard, table 3-7. RE2 reads binary cells as bytes.
_TAIL = r"[\x80-\xbf]"
_LETTERS = (
    r"\A(?:[\x00-\x7f]"
    rf"|[\xc2-\xdf]{_TAIL}"
    rf"|\xe0[\xa0-\xbf]{_TAIL}|[\xe1-\xec\xee\xef]{_TAIL}{{2}}|\xed[\x80-\x9f]{_TAIL}"
    rf"|\xf0[\x90-\xbf]{_TAIL}{{2}}|[\xf1-\xf3]{_TAIL}{{3}}|\xf4[\x80-\x8f]{_TAIL}{{2}}"
    r")*\z"
)
_NOT_PYTHONS = (
    UnicodeDecodeError,
    OverflowError,
)  # of a cell that Python has no value for


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text in one of Arrow's plain forms."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def legible(cells: Any, kind: pa.DataType) -> Any:
    """A column of text, or an expression of one, without what is no text."""
    large = pa.types.is_large_string(kind)
    letters = cells.cast(pa.large_binary() if large else pa.binary())
    return pc.if_else(
        pc.match_substring_regex(letters, _LETTERS), cells, pa.scalar(None, kind)
    )


def legible_table(table: pa.Table) -> pa.Table:
    """The same of all columns of a table; one whose text is text is given back as it is."""
    for place, field in enumerate(table.schema):
        if is_text(field.type):
            try:
                table.column(place).validate(full=True)
            except pa.ArrowInvalid:
                made = legible(table.column(place), field.type)
                table = table.set_column(place, field, made)
    return table


def python_cells(column: pa.Array) -> list[Any]:
    """The cells as Python's own values, None where it has none: bytes that are no text, days beyond its calendar."""
    try:
        cells: list[Any] = column.to_pylist()
    except _NOT_PYTHONS:
        cells = [python_cell(cell) for cell in column]
    return cells


def python_cell(cell: pa.Scalar) -> Any:
    """One of them."""
    try:
        return cell.as_py()
    except _NOT_PYTHONS:
        return None
