"""Released numbers as files hold them, and where their certificates lie: what `verify` compares.

Errors name places, never contents.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate
from gaussveil.accounting.certificates.cells import Sheet, cells_of, document_cells
from gaussveil.accounting.certificates.values import ValuesDigest
from gaussveil.errors import (
    FormatError,
    GaussveilError,
    MissingDependencyError,
    install,
)

ENDINGS = (".csv", ".gz", ".parquet", ".json", ".xlsx", ".npy", ".npz", ".arrow")
NOTE = "certificate.json"
CARRIED = "certificate"  # in a document of its own format
LARGEST_NOTE = 1 << 26
LARGEST = 1 << 28  # bytes of a file in a package, unpacked
SEPARATORS = (",", ";", "\t", "|")


def readings(name: str, content: bytes) -> list[Sheet]:
    """The ways to read a file as a table, the likeliest first; none where it holds no table."""
    ending = Path(name).suffix.lower()
    try:
        if ending == ".gz":
            return readings(Path(name).stem, gzip.decompress(content))
        if ending == ".csv":
            return list(_of_csv(content.decode("utf-8-sig")))
        if ending == ".json":
            return list(_of_json(json.loads(content)))
        if ending == ".npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                return [
                    document_cells(
                        {name: stored[name].tolist() for name in stored.files}
                    )
                ]
        if ending in (".parquet", ".arrow", ".npy"):
            cells = cells_of(_binary(ending, content))
            if cells is None:
                return []
            return [cells]
        if ending == ".xlsx":
            return list(_of_rows(_sheet(content)))
        return []
    except (
        ValueError,
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        RecursionError,
        csv.Error,
    ) as error:
        raise FormatError(
            f"{name}: cannot be read as a table ({type(error).__name__})"
        ) from None


def with_digest(certificate: Certificate, name: str, content: bytes) -> Certificate:
    """The certificate with the digest of the file that is written beside it; as it is where that is no table.

    What was drawn is never lost for want of a digest.
    """
    try:
        tables = readings(name, content)
    except GaussveilError:
        return certificate
    if tables:
        return certificate.of_values(ValuesDigest.of(tables[0]))
    return certificate


def certificate_near(path: Path) -> Path:
    """The certificate that lies beside a released file: of its name, of its stem in another format, or the only one."""
    own = path.with_name(f"{path.name}.{NOTE}")
    if own.is_file():
        return own
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    near = sorted(
        note
        for note in path.parent.glob(f"*{NOTE}")
        if note.name.startswith(f"{stem}.") or note.name == NOTE
    )
    if len(near) != 1:
        if not near:
            told = f"{own.name} is not there"
        else:
            told = f"{len(near)} could be meant"
        raise FormatError(
            f"{path}: is a table whose certificate is not beside it ({told}); name it by --certificate"
        )
    return near[0]


def carries_certificate(path: Path) -> bool:
    """Whether a readable document holds released numbers and their certificate in one."""
    content = json.loads(path.read_bytes())
    return isinstance(content, dict) and isinstance(content.get(CARRIED), dict)


def table_near(certificate: Path) -> Path | None:
    """The released file that a certificate is named after, where it is there."""
    name = certificate.name.removesuffix(f".{NOTE}")
    table = certificate.with_name(name)
    fits = (
        name != certificate.name and table.suffix.lower() in ENDINGS and table.is_file()
    )
    if fits:
        return table
    return None


def _check_package(
    inside: Sequence[zipfile.ZipInfo], notes: Sequence[zipfile.ZipInfo]
) -> None:
    """Refuse a package without its one certificate, with a file twice, or with one that is too large."""
    if len(notes) != 1:
        raise FormatError(
            f"the package must hold one {NOTE}. Got {len(notes)}: unpack it, name one"
        )
    if notes[0].file_size > LARGEST_NOTE:
        raise FormatError(
            f"the package's certificate must have at most {LARGEST_NOTE >> 20} MiB"
        )
    names = {file.filename for file in inside}
    if len(names) < len(inside) or any(file.file_size > LARGEST for file in inside):
        raise FormatError("the package holds a file twice, or one that is too large")


def unpacked(path: Path) -> tuple[str, dict[str, bytes], list[str]]:
    """The certificate of a package, its tables by name, and the names of what is neither."""
    try:
        with zipfile.ZipFile(path) as parcel:
            inside = [member for member in parcel.infolist() if not member.is_dir()]
            notes = [
                member for member in inside if Path(member.filename).name.endswith(NOTE)
            ]
            _check_package(inside, notes)
            tables = [
                member
                for member in inside
                if member not in notes
                and Path(member.filename).suffix.lower() in ENDINGS
            ]
            others = [
                member.filename
                for member in inside
                if member not in notes and member not in tables
            ]
            body = parcel.read(notes[0]).decode("utf-8", "replace")
            return (
                body,
                {table.filename: parcel.read(table) for table in tables},
                others,
            )
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
    ):
        raise FormatError(
            f"the package cannot be unpacked: name the {NOTE} that is inside"
        ) from None


def _of_csv(text: str) -> Iterator[Sheet]:
    for separator in SEPARATORS:
        rows = [
            row
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            if row
        ]
        if rows and len({len(row) for row in rows}) == 1:
            if separator != ",":
                rows = [[_point(cell) for cell in row] for row in rows]
            yield from _of_rows(rows)


def _point(cell: str) -> str:
    """A number with a decimal comma, as lists that semicolons separate have them."""
    whole, comma, rest = cell.partition(",")
    if comma and whole.lstrip("+-").isdigit():
        return f"{whole}.{rest}"
    return cell


def _of_rows(rows: list[list[Any]]) -> Iterator[Sheet]:
    """With the first row as names and without; a number is no name, unless it is the place of a column."""
    if not rows:
        return
    named = Sheet(
        [list(column) for column in zip(*rows[1:])] or [[] for _ in rows[0]],
        tuple(map(str, rows[0])),
    )
    plain = Sheet([list(column) for column in zip(*rows)])
    likely = all(cell != "" and not _is_number(cell) for cell in rows[0])
    yield from (named, plain) if likely else (plain, named)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _of_json(content: Any) -> Iterator[Sheet]:
    """Records, columns or rows; and whatever it is, as places and what stands there.

    A document that carries its own certificate, as a mixture does, is all the rest of it.
    """
    if isinstance(content, Mapping):
        content = {name: part for name, part in content.items() if name != CARRIED}
        columns = {
            name: list(value.values()) if isinstance(value, Mapping) else value
            for name, value in content.items()
        }
        if all(isinstance(column, list) for column in columns.values()):
            table = cells_of(columns)
        else:
            table = None
    else:
        table = cells_of(content)
    if table is not None:
        yield table
    yield document_cells(content)


def _binary(ending: str, content: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    if ending == ".npy":
        return np.load(io.BytesIO(content), allow_pickle=False)
    try:
        if ending == ".parquet":
            return pa.parquet.read_table(pa.BufferReader(content))
        return pa.ipc.open_file(pa.BufferReader(content)).read_all()
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None


def _sheet(content: bytes) -> list[list[Any]]:
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ModuleNotFoundError:
        raise MissingDependencyError(
            f"Excel files need python-calamine: {install('excel')}; or save the sheet as CSV."
        ) from None
    try:
        columns: list[list[Any]] = (
            CalamineWorkbook.from_filelike(io.BytesIO(content))
            .get_sheet_by_index(0)
            .to_python()
        )
    except CalamineError as error:
        raise ValueError(str(error)) from None
    return columns
