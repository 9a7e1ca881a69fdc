"""The first lines of CSV files: names of columns, and the same in every file of a table.

Engines read the files of a table by place. A file with other columns, or the same in another order, would have readings
taken for privacy units; a file without a header would have readings taken for names, which are public.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from gaussveil.engines.location import Location
from gaussveil.errors import ParameterError, SchemaError, SourceError

_NUMBER = re.compile(r"\s*[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?\s*")


def require_header(names: Sequence[str]) -> None:
    """Refuse a first line that holds readings; it is not repeated.

    A whole number may name a meter or an hour beside other names; numbers alone, a sign or a fraction are readings.
    """
    whole = [name.strip().isdecimal() for name in names]
    if all(whole) or any(_NUMBER.fullmatch(name) and not one for name, one in zip(names, whole)):
        raise SourceError("the first line of a CSV file must name the columns; it seems to hold numbers.")


def require_csv(location: Location, types: Mapping[str, str] | None) -> None:
    """Refuse declared types of a table that has its own."""
    if types and location.kind != "csv":
        raise ParameterError(f"types are declared of CSV files only: a table of kind {location.kind} has its own.")


def require_declared(types: Iterable[str], names: Sequence[str]) -> None:
    """Refuse declared types of columns that are not there."""
    if unknown := [name for name in types if name not in names]:
        raise SchemaError(f"types declares {', '.join(map(repr, unknown))}, which the table does not have.")


def require_same_headers(files: Sequence[str], *, delimiter: str = ",", skipped: int = 0, comment: str = "") -> None:
    """Refuse files of one table whose first lines differ; empty lines and comments do not count."""
    first = _header(files[0], delimiter, skipped, comment)
    for file in files[1:]:
        if _header(file, delimiter, skipped, comment) != first:
            raise SourceError(
                f"{file}: its first line is not that of {files[0]}; all files of a table need the same columns, named "
                "in the same order."
            )


def _header(file: str, delimiter: str, skipped: int, comment: str) -> list[str]:
    with _text(file) as stream:
        for _ in range(skipped):
            stream.readline()
        line = stream.readline()
        while line and (not line.strip() or (comment and line.startswith(comment))):
            line = stream.readline()
    cells = next(csv.reader([line], delimiter=delimiter), []) if len(delimiter) == 1 else [line]
    return [cell.strip() for cell in cells]


def _text(file: str) -> TextIO:
    if file.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8-sig", errors="replace")
    return open(file, encoding="utf-8-sig", errors="replace")
