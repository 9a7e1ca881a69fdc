"""A saved stream goes on once: in the ledger that paid for it, or by marks that a copy of its file does not carry.

Two continuations of one state would answer readings with two noises, or show the difference of two readings under one.
So a state is claimed when its first reading after saving is drawn. With an account the ledger holds the seal of the
newest state and who goes on from it. Without one the file names itself (its device and number on the disk), and a mark
beside it names the states that were continued.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from gaussveil.accounting import Account, Ledger
from gaussveil.accounting.canonical import canonical_json
from gaussveil.errors import AssumptionError, FormatError
from gaussveil.files import PRIVATE, replacing

CONTINUED = ".continued"


@dataclass(frozen=True)
class Continuation:
    """A state that waits to be continued: its token, its content, where it lies and who paid."""

    token: str
    content: bytes
    path: Path
    account: Account | None
    release_id: str

    def claim(self) -> None:
        """Go on from the state, once and for all; refused where somebody did, or where the file is a copy."""
        if self.account is not None:
            Ledger(self.account.ledger).note_continued(self.release_id, self.content)
            return
        mark = _mark_beside(self.path)
        handle = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two that ask at once are told apart
            if (
                self.token
                in os.pread(handle, os.fstat(handle).st_size, 0)
                .decode(errors="replace")
                .split()
            ):
                raise AssumptionError(
                    f"the stream {self.path.name} was continued from this state already; a second continuation would "
                    "answer with noise that was used. Load what was saved last, or open a new stream"
                )
            os.write(handle, f"{self.token}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)


def save(
    path: Path, record: dict[str, Any], account: Account | None, release_id: str | None
) -> Continuation | None:
    """Write a stream's record, and say that this state may be continued; None where nothing was drawn yet."""
    token = uuid4().hex
    with replacing(path, PRIVATE) as stream:
        status = os.fstat(stream.fileno())
        sealed = json.loads(
            json.dumps(
                {**record, "token": token, "file": [status.st_dev, status.st_ino]}
            )
        )
        sealed["digest"] = _digest(sealed)
        stream.write(json.dumps(sealed, allow_nan=False).encode())
    if release_id is None:
        return None
    made = Continuation(token, _content(sealed), path.absolute(), account, release_id)
    if account is not None:
        Ledger(account.ledger).note_saved(release_id, made.content)
    return made


def saved(
    path: Path, record: Mapping[str, Any], account: Account | None, release_id: str
) -> Continuation:
    """The state in a file, checked against the file itself."""
    if "digest" not in record or record["digest"] != _digest(record):
        raise FormatError(
            f"the meter stream {path} was changed after it was saved, or is of an earlier version"
        )
    status = os.stat(path)
    if account is None and record["file"] != [status.st_dev, status.st_ino]:
        raise AssumptionError(
            f"the meter stream {path} is a copy: the file that it was copied from may have been continued, and without "
            "an account nobody can tell. Load that one, or open a new stream"
        )
    return Continuation(
        str(record["token"]), _content(record), path.absolute(), account, release_id
    )


def _mark_beside(path: Path) -> Path:
    return path.with_name(path.name + CONTINUED)


def _content(record: Mapping[str, Any]) -> bytes:
    return canonical_json(
        {name: value for name, value in record.items() if name != "digest"}
    ).encode()


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(_content(record)).hexdigest()
