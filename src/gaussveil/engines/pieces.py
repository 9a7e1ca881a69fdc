"""Parquet files cut into pieces that a cluster's Python workers read by themselves.

Spark's own reader turns columns into rows of Java objects and back into columns for Python, which takes several times
what the sums take. Where a pass reads plain columns of files that workers can open, Spark only hands out the pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gaussveil.errors import SchemaError
from gaussveil.statistics.block import plain
from gaussveil.statistics.legible import legible_table

Part = tuple[
    str, int, int, int
]  # a file, the part's number, how many parts the file has, bytes of a part
Piece = list[Part]

_PIECES_PER_CORE = 4  # so that no core waits long for the last piece of another
_SMALLEST = 2**22
_LARGEST = 2**26
_BATCH_ROWS = 2**16
_TYPES = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
}


def cut_files(files: Sequence[str], cores: int) -> list[Piece]:
    """Pieces of about equal size; a large file is in several, small files are together in one."""
    sizes = {os.path.abspath(file): os.path.getsize(file) for file in files}
    size = min(
        max(sum(sizes.values()) // (cores * _PIECES_PER_CORE), _SMALLEST), _LARGEST
    )
    pieces: list[Piece] = []
    filled = size
    for file, whole in sizes.items():
        count = max(1, round(whole / size))
        for number in range(count):
            if filled + whole // count > size:
                pieces.append([])
                filled = 0
            pieces[-1].append((file, number, count, -(-whole // count)))
            filled += whole // count
    return pieces


def readable(file: str, schema: pa.Schema) -> bool:
    """Whether workers read these columns as Spark would: types that mean one thing only."""
    stored = pq.read_schema(file)
    there = all(
        stored.get_field_index(field.name) >= 0 and field.type in _TYPES
        for field in schema
    )
    return there and all(
        _plain_kind(stored.field(field.name)) == field.type for field in schema
    )


def mixed_columns(files: Sequence[str]) -> frozenset[str]:
    """Columns of the first file that another file lacks or has in another type.

    An engine would make the first file's type of them: it would round, or fail because of one value, or say missing.
    """
    first, *others = [
        {field.name: _plain_kind(field) for field in pq.read_schema(file)}
        for file in files
    ]
    return frozenset(
        name
        for name, kind in first.items()
        if any(other.get(name) != kind for other in others)
    )


def refuse_mixed(mixed: frozenset[str], columns: Iterable[str]) -> None:
    """Refuse a pass over columns that are not the same in all files."""
    for name in columns:
        if name in mixed:
            raise SchemaError(
                f"column {name!r} is not in every file of the table, or not of one type: write the files alike, or "
                "select other columns first."
            )


def read_piece(piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a piece. Every row group belongs to exactly one part of its file, wherever a footer says it lies."""
    for file, number, count, size in piece:
        with pq.ParquetFile(file) as table:
            if not readable(file, schema):
                raise pa.ArrowInvalid(
                    "the files of the table have columns of different types"
                )
            firsts = [
                _first_byte(table.metadata.row_group(k))
                for k in range(table.num_row_groups)
            ]
            groups = [
                k
                for k, first in enumerate(firsts)
                if min(max(first // size, 0), count - 1) == number
            ]
            for batch in table.iter_batches(
                _BATCH_ROWS, groups, columns=schema.names, use_threads=False
            ):
                whole = pa.Table.from_batches([batch])
                yield from legible_table(whole).to_batches()


def _first_byte(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    places = (column.dictionary_page_offset, column.data_page_offset)
    return min(int(place) for place in places if place is not None)


def _plain_kind(field: pa.Field) -> pa.DataType:
    return plain(pa.nulls(0, field.type)).type
