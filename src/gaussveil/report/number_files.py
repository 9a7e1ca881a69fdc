"""Arrays of numbers in files: read from CSV, NPY and Parquet, and written with every digit.

Errors name places, never contents.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from gaussveil.errors import FormatError, ShapeError, SourceError
from gaussveil.files import csv_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gaussveil.statistics import Source

ENDINGS = (".csv", ".npy", ".parquet")
BYTES_PER_NUMBER = 32  # more than any of the formats needs
COLUMN_NAME = re.compile(
    r"(?!(?:na|null|none|nan|inf|infinity)$)[a-z_].*", re.IGNORECASE
)


# What NumPy raises over headers that are cut off, no Python, of impossible shape or type, or of a damaged archive.
LYING_HEADER = (
    *(
        ArithmeticError,
        EOFError,
        LookupError,
        MemoryError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
    ),
    *(BadZipFile, TokenError),
)


@dataclass(frozen=True)
class Numbers:
    """What a file holds: an array and, for tables with a header, the names of its columns."""

    values: NDArray[np.float64]
    columns: tuple[str, ...] | None = None


def sorted_rows(
    table: Source, order: Sequence[str], leave_out: Sequence[str] = ()
) -> Numbers:
    """Every column of a table that is not left out, sorted; only finite numbers pass."""
    import numpy as np

    from gaussveil.mechanisms.source_rows import sorted_columns

    columns = sorted_columns(table, order, leave_out)
    values = np.stack([column.to_numpy() for column in columns.columns], axis=1)
    if not np.all(np.isfinite(values)):
        raise FormatError(
            "every entry must be a finite number; impute missing ones by a public rule first"
        )
    return Numbers(values, tuple(columns.column_names))


def read_numbers(path: Path) -> Numbers:
    """Read an array; the name's ending says the format. Errors name places, never contents."""
    import numpy as np

    readers = {".csv": _read_csv, ".npy": _read_npy, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(
            f"{path}: numbers are read from {', '.join(ENDINGS)}. Got {path.suffix or 'no ending'!r}."
        )
    try:
        numbers = reader(path)
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or 'not such a file'})"
        ) from None
    if not numbers.values.size:
        raise FormatError(f"{path}: holds no numbers")
    if numbers.values.dtype.kind not in "biuf" or numbers.values.dtype.itemsize > 8:
        raise FormatError(
            f"{path}: must hold real numbers of at most 64 bits. Got {numbers.values.dtype}."
        )
    if not np.all(np.isfinite(numbers.values)):
        raise FormatError(
            f"{path}: every entry must be a finite number; impute missing ones by a public rule first"
        )
    return numbers


def _read_csv(path: Path) -> Numbers:
    import numpy as np

    from gaussveil.engines.csv_files import read_head
    from gaussveil.engines.form import given_form
    from gaussveil.engines.text_files import open_text

    form = read_head(str(path), given_form()).dialect
    try:
        with open_text(str(path), form.encoding) as stream:
            cells = csv.reader(stream, delimiter=form.separator)
            rows = [
                (cells.line_num, row)
                for row in cells
                if row and not (form.comment and row[0].startswith("#"))
            ]
    except csv.Error:
        raise FormatError(f"{path}: not a CSV table") from None
    if not rows:
        raise FormatError(f"{path}: holds no numbers")
    # A header is copied to the output, so nothing that might be a damaged number counts as one.
    first = [cell.strip() for cell in rows[0][1]]
    header = None
    if all(map(COLUMN_NAME.fullmatch, first)):
        header = tuple(first)
        rows = rows[1:]
    width = len(first)
    values = []
    for line, row in rows:
        try:
            values.append(line_of_numbers(path, line, row, width, form.decimal))
        except FormatError as error:
            raise FormatError(
                f"{error}, or a name in the first line; leave columns of text and times out, fill empty cells by a "
                "public rule"
            ) from None
    return Numbers(
        np.array(values, dtype=np.float64).reshape(len(values), width), header
    )


def line_of_numbers(
    path: Path, line: int, row: Sequence[str], count: int, decimal: str = "."
) -> list[float]:
    """The cells of one line of a CSV file, so many numbers."""
    if len(row) != count:
        raise ShapeError(
            f"{path}, line {line}: expected {count} numbers. Got {len(row)}."
        )
    try:
        return [
            float(cell if decimal == "." else cell.replace(",", ".")) for cell in row
        ]
    except ValueError:
        raise FormatError(f"{path}, line {line}: every cell must be a number") from None


def _read_npy(path: Path) -> Numbers:
    import numpy as np

    try:
        values = np.load(
            path, mmap_mode="r", allow_pickle=False
        )  # takes no memory for what is not there
    except LYING_HEADER:
        raise FormatError(
            f"{path}: not an .npy file of plain numbers; write it with numpy.save"
        ) from None
    if not isinstance(values, np.memmap):
        raise FormatError(f"{path}: holds several arrays; write one with numpy.save")
    if values.offset + values.nbytes != path.stat().st_size:
        raise FormatError(
            f"{path}: holds more than its shape says; write it with numpy.save"
        )
    return Numbers(np.array(values))


def _read_parquet(path: Path) -> Numbers:
    import numpy as np
    import pyarrow as pa

    from gaussveil.engines.whole_files import read_parquet

    table = read_parquet(path)
    for field in table.schema:
        if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
            raise FormatError(
                f"{path}: column {field.name!r} must hold numbers. Got {field.type}."
            )
    if table.num_columns == 0:
        raise FormatError(f"{path}: holds no columns")
    columns = [
        column.to_numpy() for column in table.columns
    ]  # missing entries become NaN
    return Numbers(np.stack(columns, axis=1), tuple(table.column_names))


def encode(numbers: Numbers, ending: str) -> bytes:
    """The bytes of a file; floats keep every digit."""
    import numpy as np

    buffer = io.BytesIO()
    if ending == ".npy":
        np.save(buffer, numbers.values, allow_pickle=False)
        return buffer.getvalue()
    if numbers.values.ndim:
        table = numbers.values.reshape(len(numbers.values), -1)
    else:
        table = numbers.values.reshape(1, 1)
    if ending == ".csv":
        if numbers.columns is None:
            header = []
        else:
            header = [numbers.columns]
        return csv_text([*header, *table.tolist()]).encode()
    names = numbers.columns or tuple(f"x{index}" for index in range(table.shape[1]))
    return encode_columns(dict(zip(names, table.T)), ".parquet")


def encode_columns(columns: Mapping[str, NDArray[np.generic]], ending: str) -> bytes:
    """The bytes of a table with named columns, .csv or .parquet; times to the second."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet as pq

    plain = {
        name: values.astype("M8[s]") if values.dtype.kind == "M" else values
        for name, values in columns.items()
    }
    table = pa.table(plain)
    buffer = io.BytesIO()
    if ending == ".parquet":
        pq.write_table(table, buffer)
    else:
        arrow_csv.write_csv(table, buffer)
    return buffer.getvalue()
