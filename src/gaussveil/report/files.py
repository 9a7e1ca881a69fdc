"""Files that are read as JSON, and files whose room is taken before anything is spent."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gaussveil.errors import FormatError, SourceError


@contextmanager
def reserved(target: Path, room: int = 0) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `target` when the block ends well; its room on the disk is taken at once."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise SourceError(f"{target}: cannot be written ({error.strerror}); nothing was drawn or spent") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            try:
                if room:
                    os.posix_fallocate(handle, 0, room)
            except OSError as error:
                raise SourceError(f"{target}: no room for it ({error.strerror}); nothing was drawn or spent") from None
            yield stream
            stream.truncate()
            stream.flush()
            os.fsync(handle)
        os.chmod(name, 0o644)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


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
