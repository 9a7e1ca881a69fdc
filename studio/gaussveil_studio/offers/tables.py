"""How a release reads its table: through the embedded engine, or as plain numbers from one file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil.errors import SourceError
from gaussveil_studio.shown import written

if TYPE_CHECKING:
    import pyarrow as pa

    from gaussveil.report.number_files import Numbers
    from gaussveil.statistics import Source


def open_source(address: str) -> Source:
    """The table as a Source."""
    from gaussveil.engines import open as open_table
    from gaussveil.statistics import as_source

    if Path(address).suffix.lower() == ".npy":
        return as_source(read_plain(address).values)
    return open_table(address)


def schema_of(address: str) -> pa.Schema:
    """Columns and types, kept as long as the file stays as it is: a slider asks for them ten times a second."""
    known = written(address)
    return _schema(address, *known) if known else open_source(address).schema


@lru_cache(maxsize=16)
def _schema(address: str, *_written: int) -> pa.Schema:
    return open_source(address).schema


def read_plain(address: str) -> Numbers:
    """The numbers of one file, in its own order."""
    from gaussveil.report.number_files import ENDINGS, read_numbers

    if Path(address).suffix.lower() not in ENDINGS or "://" in address or "#" in address:
        raise SourceError(f"a vector is read from one file that ends in {', '.join(ENDINGS)}")
    return read_numbers(Path(address))


def describe_table(address: str) -> dict[str, Any]:
    """Columns and their types: the schema counts as public, the number of rows does not."""
    table = open_source(address)
    dialect = getattr(table, "dialect", None)
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    return {"columns": columns, "written": dialect.words() if dialect else ""}
