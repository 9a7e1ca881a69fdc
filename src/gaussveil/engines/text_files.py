"""Text files opened, unpacked where they are packed."""

from __future__ import annotations

import gzip
import io
from typing import BinaryIO, cast


def open_bytes(file: str) -> BinaryIO:
    """A file, unpacked."""
    return cast(BinaryIO, gzip.open(file, "rb")) if file.lower().endswith(".gz") else open(file, "rb")


def open_text(file: str, encoding: str) -> io.TextIOWrapper:
    """A CSV file as text, unpacked."""
    mark = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(open_bytes(file), mark, errors="replace", newline="")
