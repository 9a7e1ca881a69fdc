"""Text files opened, unpacked where they are packed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gaussveil.errors import FormatError

NO_TEXT = {  # by what such files begin with, whatever they are called
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"%PDF": "a document (PDF)",
    b"PK\x03\x04": "a workbook or an archive (ZIP)",
    b"\xd0\xcf\x11\xe0": "a workbook of an older Excel",
    b"PAR1": "a table in Parquet",
    b"\x1f\x8b": "a packed file (gzip)",
}


class _Packed(gzip.GzipFile):
    """A packed file; where it is damaged or cut it says so, in our words."""

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, unpacked."""
        with self._told():
            return super().read(size)

    def read1(self, size: int = -1) -> bytes:
        """The next bytes, unpacked, as far as one step brings them."""
        with self._told():
            return super().read1(size)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile):
            name = Path(str(self.name)).name
            raise FormatError(
                f"{name}: is damaged or not whole: it cannot be unpacked to its end"
            ) from None


def open_bytes(file: str) -> BinaryIO:
    """A file, unpacked."""
    if file.lower().endswith(".gz"):
        return cast(BinaryIO, _Packed(file, "rb"))
    return open(file, "rb")


def require_text(file: str, head: bytes) -> None:
    """Refuse a file that is of another kind than its name says: any bytes are letters in some encoding."""
    for begin, what in NO_TEXT.items():
        if head.startswith(begin):
            raise FormatError(
                f"{Path(file).name}: holds {what} and no text, whatever its name says: choose another file"
            )


def open_text(file: str, encoding: str) -> io.TextIOWrapper:
    """A CSV file as text, unpacked."""
    if encoding == "utf-8":
        mark = "utf-8-sig"
    else:
        mark = encoding
    return io.TextIOWrapper(open_bytes(file), mark, errors="replace", newline="")
