"""Files that are complete or absent, values as JSON holds them, text as a terminal may show it.

A file is written beside its target, flushed to the disk and only then given the target's name: whoever is interrupted,
or meets a full disk, leaves the older file as it was. What killed writers left under hidden names goes when the next
file is written into the same folder. Which files others may read stands in docs/files.md.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from gaussveil.errors import FormatError, SourceError

PUBLIC = 0o666
"""Mode of what is to be shared, less what the umask takes away, as of any file."""

PRIVATE = 0o600
"""Mode of what the owner of the process alone may read: rows, an account's history, keys, state."""

LEFT = re.compile(r"\.[0-9a-f]{16}\.part$")
"""How the hidden names of unfinished files end."""

STALE_SECONDS = 60.0  # of a hidden file that nobody holds: its writer was killed


@contextmanager
def replacing(target: Path, mode: int = PUBLIC) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `target`, durably, when the block ends well."""
    sweep(target.parent)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            fcntl.flock(handle, fcntl.LOCK_SH)  # says that its writer lives
            yield stream
            stream.flush()
            os.fsync(handle)
            os.replace(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed writers of files left in a folder."""
    for left in folder.glob(".*.part"):
        if not LEFT.search(left.name):
            continue
        try:
            with open(left, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(stream.fileno()).st_mtime > STALE_SECONDS:
                    left.unlink(missing_ok=True)
        except OSError:
            continue  # held by its writer, gone meanwhile, or somebody else's


@contextmanager
def reserved(target: Path, room: int = 0, mode: int = PUBLIC) -> Iterator[IO[bytes]]:
    """The same, its room on the disk taken at once: what cannot be written is refused before anything is spent."""
    with ExitStack() as files:
        try:
            stream = files.enter_context(replacing(target, mode))
        except OSError as error:
            raise SourceError(
                f"{target}: cannot be written ({error.strerror}); nothing was drawn or spent"
            ) from None
        try:
            if room:
                os.posix_fallocate(stream.fileno(), 0, room)
        except OSError as error:
            raise SourceError(
                f"{target}: no room for it ({error.strerror}); nothing was drawn or spent"
            ) from None
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
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or error})"
        ) from None
    except RecursionError:
        raise FormatError(f"{path}: not valid JSON for us: nested too deeply") from None
    except (
        ValueError
    ) as error:  # malformed, not UTF-8, or an integer of thousands of digits
        raise FormatError(f"{path}: not valid JSON ({error})") from None


def json_values(value: Any, *, not_finite_as_null: bool = False) -> Any:
    """Lists, objects and scalars of JSON; arrays become lists.

    JSON has no infinity, and an unbounded epsilon or a log of zero is an honest answer: "inf", "-inf" and "nan" as
    text, or null for whoever draws the values.
    """
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        if not_finite_as_null:
            return None
        return str(value)
    if isinstance(value, Mapping):
        return {
            str(key): json_values(item, not_finite_as_null=not_finite_as_null)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            json_values(item, not_finite_as_null=not_finite_as_null) for item in value
        ]
    if hasattr(value, "tolist"):
        return json_values(value.tolist(), not_finite_as_null=not_finite_as_null)
    return value


def printable(text: str) -> str:
    """Text for one line of a terminal: what would steer it, break the line or turn the reading order is spelt out."""
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text
    )
