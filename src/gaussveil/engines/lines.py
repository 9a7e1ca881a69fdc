"""The lines of text files, as Arrow columns of text: one rule for every engine.

A line ends where a mark of its end stands, whatever quotes are open. What is longer than `MOST_BYTES` is no line, what
is empty is none, and a byte that is no letter of the encoding becomes the mark U+FFFD, which no cell may hold.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from gaussveil.engines.text_files import open_bytes

LINE = "line"
SCHEMA = pa.schema([(LINE, pa.string())])
MOST_BYTES = 1 << 24
_BLOCK = 1 << 22


def line_reader(files: Sequence[str], encoding: str) -> pa.RecordBatchReader:
    """All lines of some files, once."""
    batches = (batch for file in files for batch in line_batches(file, encoding))
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


def line_batches(file: str, encoding: str) -> Iterator[pa.RecordBatch]:
    """The lines of a file, some megabytes at a time."""
    rest = b""
    too_long = False
    with open_bytes(file) as stream:
        for block in _in_utf8(stream, encoding):
            end = block.rfind(b"\n") + 1
            if end == 0:
                rest += block if not too_long else b""
                too_long = too_long or len(rest) > MOST_BYTES
                if too_long:
                    rest = b""
                continue
            whole = block[:end]
            if too_long:
                whole = whole[whole.find(b"\n") + 1 :]
            else:
                whole = rest + whole
            rest = block[end:]
            too_long = False
            yield _batch(whole)
    if rest and not too_long:
        yield _batch(rest + b"\n")


def decoded(lines: pa.Array, encoding: str) -> pa.RecordBatch:
    """Lines that came as bytes of an encoding in which ends of lines are what they are in ASCII."""
    if encoding == "utf-8":
        try:
            return pa.record_batch([lines.cast(pa.string())], schema=SCHEMA)
        except pa.ArrowInvalid:  # some byte is no letter: that line is mended by itself
            pass
    texts = [
        (line or b"")[: MOST_BYTES + 1].decode(encoding, errors="replace")
        for line in lines.to_pylist()
    ]
    return pa.record_batch([pa.array(texts, pa.string())], schema=SCHEMA)


def _in_utf8(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Blocks in UTF-8 with one mark at the end of lines; empty lines more do no harm, for they are left out."""
    if encoding == "utf-8":
        decoder = None
    else:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    first = True
    while block := stream.read(_BLOCK):
        if decoder is None:
            data = block
        else:
            data = decoder.decode(block).encode("utf-8", errors="replace")
        if first and data:
            data = data.removeprefix(codecs.BOM_UTF8)
            first = False
        yield data.replace(b"\r", b"\n")
    if decoder is not None and (last := decoder.decode(b"", final=True)):
        yield last.encode("utf-8", errors="replace").replace(b"\r", b"\n")


def _batch(data: bytes) -> pa.RecordBatch:
    """Text that ends with the end of a line, as one text for each line."""
    signs = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(signs == 10)
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    text = signs[signs != 10]
    lines = pa.Array.from_buffers(
        pa.string(),
        len(ends),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))],
    )
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:  # some byte is no letter
        return _batch(data.decode(errors="replace").encode())
    return pa.record_batch([lines], schema=SCHEMA)
