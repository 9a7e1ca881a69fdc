"""Files of readings in a folder, for Spark: JSON lines, CSV or Parquet with the columns meter, seq and kw.

Spark takes what a file lacks for missing, and a missing reading is answered by its substitute: a folder of the wrong
files would be answered by noise alone, silently. So the files that are there at the start are looked at, for names
only. The first line of a CSV file is also checked on the workers, whenever the file comes, and by our own code: the
words of Spark's own check quote that line, which in a file without a header is a reading, and end in Spark's logs.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gaussveil.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("meter", "seq", "kw")
TYPED = "meter string, seq bigint, kw double"
TEXTS = "meter string, seq string, kw string"
MOST_FILES = 1000  # that are looked at, the newest: a folder may hold years
MOST_LINES = 100  # of each
LONGEST_LINE = 1 << 16
ONLY_SPARK_READS = (".bz2", ".deflate", ".lz4", ".snappy", ".xz", ".zst")
# Options of text that is not as `check_files` reads it.
OTHER_TEXT = {"charset", "comment", "encoding", "linesep", "multiline", "quote"}


def folder_readings(
    session: SparkSession, folder: str, kind: str, options: Mapping[str, str]
) -> DataFrame:
    """A streaming frame of the readings in files that are moved into a folder; options are Spark's own."""
    # Last, so that no option given undoes it: what cannot be read is missing, not quoted by an error.
    reader = (
        session.readStream.format(kind).options(**options).option("mode", "PERMISSIVE")
    )
    if kind != "csv":
        return reader.schema(TYPED).load(folder)
    found = (
        reader.schema(f"{TEXTS}, more string").option("header", "false").load(folder)
    )
    placed = found.selectExpr(
        *COLUMNS,
        "more",
        "_metadata.file_path AS file",
        "_metadata.file_block_start AS start",
    )
    return placed.mapInArrow(_after_headers, TEXTS)


def check_files(folder: str, kind: str, options: Mapping[str, str]) -> None:
    """Refuse a folder whose files hold no readings in that format; their contents are not repeated."""
    files = _files(folder)
    asked = {name.lower(): value for name, value in options.items()}
    if kind == "parquet":
        for file in files:
            _check_parquet(file)
    elif not OTHER_TEXT.isdisjoint(asked):
        return
    elif kind == "csv":
        separator = asked.get("sep") or asked.get("delimiter") or ","
        for file in files:
            _check_csv(file, separator.replace("\\t", "\t"))
    else:
        _check_json(files)


def _check_csv(file: str, separator: str) -> None:
    for line in _lines(file, 1):
        if not _is_header(line.decode(errors="replace").strip().split(separator)):
            raise SourceError(
                f"{file}: must begin with a line that names meter, seq, kw, in this order"
            )


def _check_parquet(file: str) -> None:
    try:
        names = {name.lower() for name in pq.read_schema(file).names}
    except (pa.ArrowException, OSError):
        raise SourceError(
            f"{file}: is no whole Parquet file; --format names the format of the files"
        ) from None
    if missing := [name for name in COLUMNS if name not in names]:
        raise SourceError(
            f"{file}: has no column {', '.join(missing)}; files of readings have meter, seq and kw"
        )


def _check_json(files: Sequence[str]) -> None:
    """A record without kw is a missing reading; but if none has it, the name is another one."""
    names: set[str] = set()
    for file in files:
        lines = list(_lines(file, MOST_LINES))
        records = [record for record in map(_parsed, lines) if isinstance(record, dict)]
        if lines and not any(record.keys() >= {"meter", "seq"} for record in records):
            raise SourceError(
                f"{file}: has no JSON line with meter and seq; --format names the format of the files"
            )
        names.update(name for record in records for name in record)
    if names and "kw" not in names:
        raise SourceError(
            "no reading in the folder has a kw: every one of them would count as missing"
        )


def _after_headers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows without the first line of each file, which must name the columns."""
    begun: set[str] = set()
    for batch in batches:
        keep = [True] * batch.num_rows
        beginning = pc.if_else(
            pc.equal(batch.column("start"), 0), batch.column("file"), None
        )
        for file in pc.unique(beginning).drop_null().to_pylist():
            if file not in begun:
                begun.add(file)
                first = pc.index(beginning, file).as_py()
                *cells, more = [
                    batch.column(name)[first].as_py() for name in (*COLUMNS, "more")
                ]
                if not _is_header(cells) or more is not None:
                    raise SourceError(
                        "a CSV file of readings must begin with a line that names meter, seq, kw"
                    )
                keep[first] = False
        yield batch.select(list(COLUMNS)).filter(pa.array(keep, pa.bool_()))


def _is_header(cells: Sequence[str | None]) -> bool:
    return tuple((cell or "").strip('\ufeff" ').lower() for cell in cells) == COLUMNS


def _files(folder: str) -> list[str]:
    """What Spark finds there, the newest first: not what begins with _ or a dot."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [
            os.path.join(place, name)
            for name in names
            if not name.startswith(("_", "."))
        ]
    return sorted(found, key=os.path.getmtime, reverse=True)[:MOST_FILES]


def _lines(file: str, count: int) -> Iterator[bytes]:
    """So many lines that are not empty; none of a file that only Spark can unpack."""
    if file.lower().endswith(ONLY_SPARK_READS):
        return
    with (
        cast(BinaryIO, gzip.open(file))
        if file.endswith(".gz")
        else open(file, "rb") as stream
    ):
        while count and (line := stream.readline(LONGEST_LINE)):
            if line.strip():
                count -= 1
                yield line


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
