"""The ledger's witness: a small file beside it that lets one writer in at a time and notes how far the log had come.

The ledger's own locks are SQLite's, which a process loses when it closes any handle of the file. The witness is locked
by `flock`, which nothing but its end takes away. It is written after each commit, so it never is ahead of the ledger;
where an older copy is put in the ledger's place, it knows lines that the copy lacks, and says so for good.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gaussveil.accounting.ledger import journal
from gaussveil.accounting.ledger.journal import LogHead
from gaussveil.errors import LedgerUnavailableError

LOGGER = logging.getLogger("gaussveil")
SUFFIX = "-witness"
PAUSE = 0.002  # seconds between two looks at the lock
LARGEST = 1 << 16  # bytes of a note
MOST_LOST = 20  # gaps that are remembered


@dataclass(frozen=True)
class LostLines:
    """Lines that were written and are not in the ledger any more: those after one, up to another; when these were."""

    after_line: int
    after: str
    last_line: int
    last: str

    def describe(self) -> str:
        """Say it in one sentence."""
        if self.after:
            start = f"after {self.after} (line {self.after_line} of the log)"
        else:
            start = "of its beginning"
        return (
            f"entries {start} are not in it, up to {self.last} (line {self.last_line}): an older copy was put in its "
            "place. Count what they released as spent"
        )


@dataclass(frozen=True)
class Note:
    """How the log begins, the last line that was written, and what was lost since the log began."""

    begins: str = ""
    line: int = 0
    link: str = ""
    at: str = ""
    lost: tuple[LostLines, ...] = field(default=())

    def with_losses(self, connection: sqlite3.Connection) -> Note:
        """The note, and what of it the ledger no longer holds; a note of another ledger says nothing of this one."""
        head = journal.head(connection)
        if head is None or head.begins != self.begins:
            return Note()
        link = journal.link(connection, self.line)
        if link == self.link:
            return self
        after, last_line = (
            (head.at, self.line) if head.line < self.line else ("", self.line)
        )
        gap = LostLines(head.line if after else 0, after, last_line, self.at)
        return Note(
            self.begins, head.line, head.link, head.at, (*self.lost, gap)[-MOST_LOST:]
        )


class Witness:
    """The file beside a ledger."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = ledger.with_name(ledger.name + SUFFIX)
        self._handle = -1
        self._note = Note()

    def losses(self, connection: sqlite3.Connection) -> tuple[LostLines, ...]:
        """What the ledger lacks, as far as the witness can tell; nothing where there is none."""
        try:
            body = self.path.read_bytes()
        except OSError:
            return ()
        return _read(body).with_losses(connection).lost

    @contextmanager
    def held(self, seconds: float) -> Iterator[Witness]:
        """Keep all other writers out; give up after so many seconds."""
        self._handle = self._locked(seconds)
        try:
            yield self
        finally:
            fcntl.flock(
                self._handle, fcntl.LOCK_UN
            )  # also for a child that inherited it
            os.close(self._handle)
            self._handle = -1

    def compare(self, connection: sqlite3.Connection) -> None:
        """Read the note against the ledger, and warn of what the ledger lost since it was written."""
        before = _read(os.pread(self._handle, LARGEST, 0))
        self._note = before.with_losses(connection)
        for gap in self._note.lost[len(before.lost) :]:
            LOGGER.warning("the ledger %s: %s", self.ledger.name, gap.describe())

    def note(self, head: LogHead | None) -> None:
        """Write down how far the log has come; a full disk leaves the former note, which is true as well."""
        if head is None:
            return
        text = json.dumps(
            asdict(Note(head.begins, head.line, head.link, head.at, self._note.lost))
        ).encode()
        try:
            os.pwrite(self._handle, text.ljust(os.fstat(self._handle).st_size), 0)
        except OSError as error:
            LOGGER.debug(
                "the witness of %s was not written: %s", self.ledger.name, error
            )

    def _locked(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while True:
            handle = self._opened()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_in_place(handle):
                    return handle
            except BlockingIOError:
                pass
            except OSError as error:
                os.close(handle)
                raise self._unavailable(error) from error
            os.close(handle)
            if time.monotonic() >= deadline:
                raise LedgerUnavailableError(
                    f"the ledger {self.ledger.name} is locked by another process; try again, or end the process that "
                    "holds it"
                )
            time.sleep(PAUSE)

    def _opened(self) -> int:
        """A handle of the file, made with the ledger's own permissions where there is none."""
        try:
            mode = os.stat(self.ledger).st_mode & 0o777
            return os.open(self.path, os.O_RDWR | os.O_CREAT, mode)
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"the ledger {self.ledger.name} cannot be written: {self.path.name} beside it cannot be locked "
            f"({error.strerror}); check its permissions and those of its folder"
        )

    def _is_in_place(self, handle: int) -> bool:
        """Whether others would lock the same file: it may have been removed meanwhile."""
        try:
            there = os.stat(self.path)
            mine = os.fstat(handle)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _read(body: bytes) -> Note:
    """The note of a file; none where it is empty or damaged."""
    try:
        stated = json.loads(body)
        return Note(
            **{**stated, "lost": tuple(LostLines(**gap) for gap in stated["lost"])}
        )
    except (ValueError, TypeError, KeyError):
        return Note()
