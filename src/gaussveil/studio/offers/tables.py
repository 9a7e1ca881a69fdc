"""How a release reads its table: through the embedded engine, or as plain numbers from one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil.errors import FormatError, SourceError

if TYPE_CHECKING:
    from gaussveil.report.number_files import Numbers
    from gaussveil.statistics import Source


def open_source(address: str) -> Source:
    """The table as a Source."""
    from gaussveil.engines import open as open_table
    from gaussveil.statistics import as_source

    if Path(address).suffix.lower() == ".npy":
        return as_source(read_plain(address).values)
    table = open_table(address)
    if Path(address).suffix.lower() == ".csv":
        _require_header(table.schema.names)
    return table


def _require_header(names: list[str]) -> None:
    """Refuse a CSV file without a header: its first record would be shown and released as names of columns.

    Whole numbers may be names, of meters for example, but not every name may be one.
    """
    whole = [name.strip().isdecimal() for name in names]
    if all(whole) or any(_is_number(name) and not one for name, one in zip(names, whole)):
        raise FormatError("the first line of a CSV table must name its columns; here it seems to hold numbers")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_plain(address: str) -> Numbers:
    """The numbers of one file, in its own order."""
    from gaussveil.report.number_files import ENDINGS, read_numbers

    if Path(address).suffix.lower() not in ENDINGS or "://" in address or "#" in address:
        raise SourceError(f"a vector is read from one file that ends in {', '.join(ENDINGS)}")
    return read_numbers(Path(address))


def describe(address: str) -> dict[str, Any]:
    """Columns and their types: the schema counts as public, the number of rows does not."""
    schema = open_source(address).schema
    return {"columns": [{"name": field.name, "type": str(field.type)} for field in schema]}
