"""A release that was paid for and then killed is found again: the same command makes the same values, for nothing.

Before the debit a fresh secret key is written beside the ledger, for its owner alone. The noise is a function of that
key and of everything that decides what is released: the options, forms, version and every byte that is read. Whoever
runs the command again on the same table draws what was paid for, under the same entry; another table or option is
another release, with a key and a debit of its own. The key goes when the files of the release are complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gaussveil.cli.tables import local_file
from gaussveil.errors import GaussveilError
from gaussveil.files import PRIVATE, sync_folder
from gaussveil.project_file import PROJECT_FILE

if TYPE_CHECKING:
    from gaussveil.noise import Generator

_TELLS_NOTHING = (
    "force",
    "json",
    "dry_run",
    "engine",
    "ledger",
    "release_id",
    "report",
)  # of what is released
_CHUNK = 1 << 20
_NOISE: ContextVar[Generator | None] = ContextVar("noise of this release", default=None)


def keyed_noise() -> Generator | None:
    """The noise of the release that is being made, where it can be found again."""
    return _NOISE.get()


@contextmanager
def found_again(options: Mapping[str, Any]) -> Iterator[None]:
    """Make the release inside the block so that it is found again where its process is killed."""
    note = _Note.of(options)
    if note is None:
        with _named(options.get("release_id")):
            yield
        return
    from gaussveil.accounting.debits import release_id_given
    from gaussveil.noise.keyed import KeyedGenerator

    paid = note.is_paid()
    if paid:
        print(
            f"found again: release {note.identifier} was paid for before; it is finished",
            file=sys.stderr,
        )
    token = _NOISE.set(
        KeyedGenerator(note.key, note.digest.encode(), complete_labels=True)
    )
    try:
        with release_id_given(note.identifier, repeatable=paid, value=note.seal):
            yield
    except BaseException:
        note.close(keep=note.is_paid())
        raise
    finally:
        _NOISE.reset(token)
    note.close(keep=False)
    if not paid:
        _tell_alike(note, options)


def _tell_alike(note: _Note, options: Mapping[str, Any]) -> None:
    """Say that the account paid for such a release before: who wanted the same answer had it already."""
    from gaussveil.accounting import Ledger

    before = Ledger(note.ledger).paid_alike(note.identifier)
    if before is None:
        return
    spent = f"epsilon {options['epsilon']:g}"
    if options.get("delta") is not None:
        spent += f" and delta {options['delta']:g}"
    day = before.debited_at[:10]
    print(
        f"{options['account']} paid the same for {before.what} before (release {before.id} of {day}): "
        f"this is another one, with noise of its own, and {spent} was paid again; to have one and the same under "
        "another name: --release-id",
        file=sys.stderr,
    )


@contextmanager
def _named(identifier: str | None) -> Iterator[None]:
    """Give the release inside the id that was asked for."""
    if identifier is None:  # most mistakes are told before anything numerical is loaded
        yield
        return
    from gaussveil.accounting.debits import release_id_given

    with release_id_given(identifier):
        yield


@dataclass
class _Note:
    """The file beside a ledger that holds the key and the id of a release until its files are complete."""

    ledger: Path
    place: Path
    handle: int
    digest: str
    identifier: str
    key: bytes

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _Note | None:
        """The note that a killed process left of this very release, else a new one; None where it cannot be had."""
        digest = _digest(options)
        if digest is not None:
            ledger = Path(options["ledger"]).resolve()
        else:
            ledger = Path()
        if digest is None or not ledger.is_file():
            return None
        place = ledger.with_name(f"{ledger.name}-unfinished-{digest[:24]}")
        try:
            handle = os.open(
                place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE
            )
        except OSError:  # in a folder that cannot be written: told at the debit
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # the same release is being made by another process
            os.close(handle)
            return None
        release_id = options["release_id"]
        left = _read(handle)
        if left.get("release") != digest or release_id not in (None, left.get("id")):
            left = {
                "release": digest,
                "id": release_id or uuid4().hex,
                "key": os.urandom(32).hex(),
            }
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(left).encode(), 0)
            os.fsync(handle)
            sync_folder(place.parent)
        note = cls(
            ledger, place, handle, digest, left["id"], bytes.fromhex(left["key"])
        )
        if (
            note.paid() is False
        ):  # its id paid for another release, which may have been seen
            note.close(keep=False)
            return None
        return note

    @property
    def seal(self) -> bytes:
        """What decides every number that is released: the entry pays for this and nothing else."""
        return self.key + self.digest.encode()

    def paid(self) -> bool | None:
        """Whether the ledger's entry paid for this very release; None where it has none."""
        from gaussveil.accounting import Ledger

        try:
            return Ledger(self.ledger).paid_for(self.identifier, self.seal)
        except (GaussveilError, OSError):  # told at the debit
            return None

    def is_paid(self) -> bool:
        """Whether the ledger has an entry that paid for this very release."""
        return self.paid() is True

    def close(self, *, keep: bool) -> None:
        """Leave the note for the next run, or remove it."""
        if not keep:
            self.place.unlink(missing_ok=True)
        os.close(self.handle)


def _read(handle: int) -> dict[str, Any]:
    try:
        note = json.loads(os.pread(handle, 4096, 0) or b"{}")
    except ValueError:  # a crash cut it short, before the debit
        return {}
    whole = isinstance(note, dict) and all(
        isinstance(note.get(name), str) for name in ("release", "id", "key")
    )
    return note if whole and len(note["key"]) == 64 else {}


def _digest(options: Mapping[str, Any]) -> str | None:
    """What decides a release, all of it; None where that cannot be told, or where nothing is recorded."""
    if None in (
        options.get("ledger"),
        options.get("account"),
        options.get("out"),
    ) or not _is_local(options):
        return None
    from gaussveil import __version__

    digest = hashlib.sha256()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("GAUSSVEIL_")
    }
    chosen = {
        name: value for name, value in options.items() if name not in _TELLS_NOTHING
    }
    told = {
        "options": chosen,
        "environment": environment,
        "folder": os.getcwd(),
        "version": __version__,
    }
    digest.update(json.dumps(told, sort_keys=True, default=str).encode())
    try:
        for file in _files(options, environment):
            digest.update(f"\n{file}\n".encode())
            with open(file, "rb") as stream:
                while part := stream.read(_CHUNK):
                    digest.update(part)
    except (OSError, GaussveilError):  # told in words of its own by whoever reads it
        return None
    return digest.hexdigest()


def _is_local(options: Mapping[str, Any]) -> bool:
    try:
        return local_file(str(options["source"])) is not None
    except GaussveilError:  # told where it is opened
        return False


def _files(options: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Every file that is read: the table's, those that options name, and forms."""
    from gaussveil.engines.location import locate

    source = str(options["source"]).removeprefix("file://")
    if source.lower().endswith(".npy"):
        tables = [source]
    else:
        tables = locate(source).files()
    logs = [
        log
        for table in tables
        for log in (f"{table}-wal", f"{table}.wal")
        if os.path.isfile(log)
    ]
    named = [
        value
        for name, value in options.items()
        if isinstance(value, Path) and name not in ("out", "ledger")
    ]
    forms = [
        environment.get("GAUSSVEIL_SCHEMA"),
        environment.get("GAUSSVEIL_PROJECT"),
        PROJECT_FILE,
    ]
    others = [
        str(file)
        for file in (*named, *forms)
        if file is not None and os.path.isfile(file)
    ]
    return [*tables, *logs, *dict.fromkeys(others)]
