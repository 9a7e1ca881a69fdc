"""Whether files are whole, and whether they fit, before anything of them is used.

Half a gzip would give half of the rows, and a flipped bit other sums, both in silence: gzip's own sum is checked, and
the checksums of Parquet's pages where they were written. A small Parquet file may hold more cells than any memory: what
is read at once is counted before and while it is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gaussveil.errors import FormatError, SourceError

MOST_CELLS = 1 << 28  # of a table that is read at once
MOST_BYTES = 1 << 32  # of the same, unpacked
STEP_BYTES = 1 << 26  # that a step of reading may unpack
STEP_ROWS = 1 << 16
CHUNK = 1 << 20
_MAY_FAIL = (pa.ArrowException, OSError)


def require_whole(files: Sequence[str]) -> None:
    """Refuse files that are damaged or cut, as far as they can tell."""
    for file in files:
        if file.lower().endswith(".gz"):
            unpacked_bytes(file)
        elif file.lower().endswith(".parquet") and _has_checksums(file):
            with (
                _damage_named(file),
                pq.ParquetFile(file, page_checksum_verification=True) as opened,
            ):
                for _ in _steps(opened):
                    pass
        elif file.lower().endswith((".arrow", ".feather")):
            _require_valid(file)


def _require_valid(file: str) -> None:
    """Refuse an Arrow file whose offsets or texts lead out of it: Arrow itself believes them, and ends the process."""
    with (
        _damage_named(file),
        pa.memory_map(file) as stored,
        pa.ipc.open_file(stored) as opened,
    ):
        for number in range(opened.num_record_batches):
            opened.get_batch(number).validate(full=True)


def require_fitting(file: str) -> None:
    """Refuse a table that could not be read at once."""
    if file.lower().endswith(".gz"):
        if unpacked_bytes(file) > MOST_BYTES:
            raise _too_large(file)
    elif file.lower().endswith(".parquet"):
        with _damage_named(file), pq.ParquetFile(file) as opened:
            _require_cells(opened, file)


def unpacked_bytes(file: str) -> int:
    """The size of what a gzip file holds; refused where its end or its sum is missing."""
    size = 0
    ended = False
    unpacker = zlib.decompressobj(wbits=31)
    with open(file, "rb") as stream:
        try:
            while part := stream.read(CHUNK):
                while part:
                    if ended:  # gzip files may follow each other
                        if not part.strip(b"\0"):
                            break
                        unpacker = zlib.decompressobj(wbits=31)
                        ended = False
                    size += len(unpacker.decompress(part, CHUNK))
                    part = unpacker.unconsumed_tail
                    if unpacker.eof:
                        ended = True
                        part = unpacker.unused_data
        except zlib.error:
            ended = False
    if not ended:
        raise FormatError(
            f"{Path(file).name}: is damaged or not whole: its gzip sum is missing or another one"
        )
    return size


def read_parquet(file: str | Path) -> pa.Table:
    """A whole table in memory, its checksums verified, counted while it grows."""
    name = str(file)
    with (
        _damage_named(name),
        pq.ParquetFile(name, page_checksum_verification=True) as opened,
    ):
        _require_cells(opened, name)
        batches = []
        used = 0
        for part in _steps(opened):
            used += part.nbytes
            if used > MOST_BYTES:
                raise _too_large(name)
            batches.append(part)
        return pa.Table.from_batches(batches, opened.schema_arrow)


def _require_cells(opened: Any, file: str) -> None:
    metadata = opened.metadata
    unpacked = sum(
        metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)
    )
    if (
        metadata.num_rows * max(1, metadata.num_columns) > MOST_CELLS
        or unpacked > MOST_BYTES
    ):
        raise _too_large(file)


def _steps(opened: Any) -> Iterator[pa.RecordBatch]:
    """Batches so short that none can be large: a value is at most as long as what its column holds in a row group."""
    metadata = opened.metadata
    widest = 1
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.physical_type == "BYTE_ARRAY":
                widest = max(widest, column.total_uncompressed_size)
    yield from opened.iter_batches(
        batch_size=max(1, min(STEP_ROWS, STEP_BYTES // widest)), use_threads=False
    )


def _has_checksums(file: str) -> bool:
    """Whether the first page has one: field 4 of its header, after three whole numbers, in Thrift's compact form."""
    with _damage_named(file), pq.ParquetFile(file) as opened:
        metadata = opened.metadata
        if not metadata.num_row_groups or not metadata.num_columns:
            return False
        column = metadata.row_group(0).column(0)
        start = column.dictionary_page_offset or column.data_page_offset
    with open(file, "rb") as stream:
        stream.seek(start)
        head = stream.read(64)
        position = 0
    for _ in range(3):
        if position >= len(head) or head[position] != 0x15:
            return False
        position += 1
        while position < len(head) and head[position] & 0x80:
            position += 1
        position += 1
    return position < len(head) and head[position] == 0x15


def _too_large(file: str) -> SourceError:
    return SourceError(
        f"{Path(file).name}: holds more than {MOST_CELLS} cells or {MOST_BYTES >> 30} GiB, more than is read at once. "
        "Use a part of it, or a command that reads tables in passes."
    )


@contextmanager
def _damage_named(file: str) -> Iterator[None]:
    """Say that a file is damaged without repeating the library's words, which may quote a value of it."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except _MAY_FAIL:
        raise FormatError(
            f"{Path(file).name}: not a table of that format, or a damaged one"
        ) from None
