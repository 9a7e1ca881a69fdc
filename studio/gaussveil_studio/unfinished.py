"""Releases that were paid and drawn while their process was killed before the files had their names.

Before the files are renamed everything lies in the folder: both of them, complete under hidden names, and a note of
what will be told, with their digests. Whoever looks at the folder afterwards gives the files their names. Only what has
the noted digest is ever taken for a file of the release.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from gaussveil.files import PRIVATE, json_values, sync_folder, write_whole

UNFINISHED = "unfinished.json"
DONE = "done.json"


def settled(stream: IO[bytes], content: bytes) -> None:
    """Write the whole content, give back the room that it does not take, and wait until it is on the disk."""
    stream.write(content)
    stream.truncate()
    stream.flush()
    os.fsync(stream.fileno())


def note_unfinished(
    folder: Path, done: Mapping[str, Any], files: Mapping[str, bytes]
) -> None:
    """Note what will be told, and by which digests the files are known."""
    digests = {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    note = {"done": json_values(done, not_finite_as_null=True), "digests": digests}
    write_whole(folder / UNFINISHED, json.dumps(note, allow_nan=False), PRIVATE)


def recover(folder: Path) -> bool:
    """Finish a release whose process is gone; whether there was one. What killed writers left hidden is removed."""
    note_path = folder / UNFINISHED
    recovered = False
    if note_path.is_file() and not (folder / DONE).exists():
        note = json.loads(note_path.read_text(encoding="utf-8"))
        named = [
            _is_named(folder, name, digest) for name, digest in note["digests"].items()
        ]
        recovered = all(named)
        if recovered:
            write_whole(
                folder / DONE, json.dumps(note["done"], allow_nan=False), PRIVATE
            )
    for left in _hidden(folder):
        left.unlink(missing_ok=True)
    return recovered


def _is_named(folder: Path, name: str, digest: str) -> bool:
    """Whether the file is there, after a look at what a killed process left under hidden names."""
    target = folder / name
    if target.is_file() and _digest(target) == digest:
        return True
    for left in _hidden(folder):
        if left.name.startswith(f".{name}.") and _digest(left) == digest:
            os.chmod(left, PRIVATE)
            os.replace(left, target)
            sync_folder(folder)
            return True
    return False


def _hidden(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.startswith(".") and path.is_file()
    )


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
