"""Files that are complete or absent, values as JSON holds them, text as a terminal may show it.

A file is written beside its target, flushed to the disk and only then given the target's name: whoever is interrupted,
or meets a full disk, leaves the older file as it was.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from gaussveil.errors import FormatError, SourceError

PUBLIC, PRIVATE = 0o644, 0o600  # modes: anybody may read, or the owner of the process alone


@contextmanager
def replacing(target: Path, mode: int = PUBLIC) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `target`, durably, when the block ends well."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(handle)
        os.chmod(name, mode)
        os.replace(name, target)
        sync_folder(target.parent)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def reserved(target: Path, room: int = 0) -> Iterator[IO[bytes]]:
    """The same, its room on the disk taken at once: what cannot be written is refused before anything is spent."""
    with ExitStack() as files:
        try:
            stream = files.enter_context(replacing(target))
        except OSError as error:
            raise SourceError(f"{target}: cannot be written ({error.strerror}); nothing was drawn or spent") from None
        try:
            if room:
                os.posix_fallocate(stream.fileno(), 0, room)
        except OSError as error:
            raise SourceError(f"{target}: no room for it ({error.strerror}); nothing was drawn or spent") from None
        yield stream
        stream.truncate()


def write_whole(path: str | os.PathLike[str], text: str, mode: int = PUBLIC) -> Path:
    """Write a file of text that is complete or absent, and durable."""
    target = Path(path)
    with replacing(target, mode) as stream:
        stream.write(text.encode())
    return target


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Lines of CSV, the header among them; floats keep every digit."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read_json(path: Path) -> object:
    """Read a JSON file; whatever is malformed in it is a FormatError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None
    except RecursionError:
        raise FormatError(f"{path}: not valid JSON for us: nested too deeply") from None
    except ValueError as error:  # malformed, not UTF-8, or an integer of thousands of digits
        raise FormatError(f"{path}: not valid JSON ({error})") from None


def json_values(value: Any, *, not_finite_as_null: bool = False) -> Any:
    """Lists, objects and scalars of JSON; arrays become lists.

    JSON has no infinity, and an unbounded epsilon or a log of zero is an honest answer: "inf", "-inf" and "nan" as
    text, or null for whoever draws the values.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None if not_finite_as_null else str(value)
    if isinstance(value, Mapping):
        return {str(key): json_values(item, not_finite_as_null=not_finite_as_null) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item, not_finite_as_null=not_finite_as_null) for item in value]
    if hasattr(value, "tolist"):
        return json_values(value.tolist(), not_finite_as_null=not_finite_as_null)
    return value


def printable(text: str) -> str:
    """Text for one line of a terminal: what would steer it, break the line or turn the reading order is spelt out."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
