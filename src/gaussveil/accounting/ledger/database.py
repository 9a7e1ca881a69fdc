"""The ledger's file: one short SQLite connection per operation, durable commits, our own errors.

WAL with synchronous=FULL makes a commit durable before it returns. A connection lives for one operation only, so that
handles survive fork, pickling and threads; writers queue on BEGIN IMMEDIATE.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gaussveil.accounting.ledger import migrations
from gaussveil.errors import FormatError, LedgerCorruptError, LedgerError, LedgerUnavailableError, ParameterError

LOGGER = logging.getLogger("gaussveil")
BUSY_SECONDS = 60.0

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "is locked by another process; try again, or end the process that holds it",
    sqlite3.SQLITE_LOCKED: "is locked by another process; try again, or end the process that holds it",
    sqlite3.SQLITE_READONLY: "cannot be written; check its permissions and those of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened; check its permissions",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and may be written",
    sqlite3.SQLITE_FULL: "cannot grow because the disk is full; free some space, nothing was recorded",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk full or failing); nothing was recorded",
    sqlite3.SQLITE_NOLFS: "cannot grow on this file system; nothing was recorded",
}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT}


def now() -> str:
    """Give the current time, UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def translate(error: sqlite3.Error, path: Path) -> LedgerError:
    """Give our error for one of SQLite's, with advice."""
    # Extended codes keep the primary code in the low byte; errors raised by the Python wrapper have none.
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _UNAVAILABLE:
        return LedgerUnavailableError(f"the ledger {path.name} {_UNAVAILABLE[primary]} ({error})")
    if primary in _CORRUPT or isinstance(error, sqlite3.IntegrityError):
        return LedgerCorruptError(
            f"the ledger {path.name} is damaged ({error}); restore a backup, or recover what is left with "
            f"`sqlite3 {path.name} .recover`, and count every release since the backup as spent"
        )
    return LedgerError(f"the ledger {path.name} failed: {error}")


class Database:
    """A ledger file: opens, creates, migrates, and gives transactions."""

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = Path(path).absolute()
        self.busy_seconds = busy_seconds

    def create(self) -> None:
        """Make a new, empty ledger; refuse to touch an existing file."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise ParameterError(
                f"path must not exist yet: {self.path.name} is there already; open it instead"
            ) from None
        except OSError as error:
            raise LedgerUnavailableError(f"the ledger {self.path.name} cannot be created: {error.strerror}") from error
        # The file's name must be as durable as its contents.
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            migrations.make_tables(connection)
            connection.execute(f"PRAGMA application_id={migrations.APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={migrations.VERSION}")
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give one consistent snapshot."""
        with self._open() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the single writer's transaction; durable once the block ends, undone if it raises."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            version = self._version(connection)
            if version < migrations.VERSION:
                self._migrate(connection)
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if not os.path.exists(self.path):
            raise LedgerUnavailableError(
                f"there is no ledger {self.path.name}; make one with Ledger.create or `gaussveil budget new`"
            )
        if os.stat(self.path).st_nlink > 1:
            # Each name has its own write-ahead log: writers under two names would not see each other's debits.
            raise LedgerUnavailableError(
                f"the ledger {self.path.name} has a second name (a hard link), under which other debits could be made "
                "unseen; remove the link, and copy the file where a copy is wanted"
            )
        try:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw", uri=True, timeout=self.busy_seconds, isolation_level=None
            )
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA cell_size_check=ON")
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except UnicodeEncodeError:
            raise ParameterError("names and texts of a ledger must be valid Unicode, got a lone surrogate") from None
        finally:
            connection.close()

    def _version(self, connection: sqlite3.Connection) -> int:
        identity = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if identity == version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise FormatError(
                f"{self.path.name} is empty, so not a gaussveil ledger; delete it, or name another file, "
                "and make a ledger with `gaussveil budget new`"
            )
        if identity != migrations.APPLICATION_ID or version < migrations.OLDEST:
            raise FormatError(f"{self.path.name} is not a gaussveil ledger; make one with `gaussveil budget new`")
        if version > migrations.VERSION:
            raise FormatError(
                f"the ledger {self.path.name} has format version {version}, this library writes {migrations.VERSION}; "
                "upgrade gaussveil to use it"
            )
        return version

    def _migrate(self, connection: sqlite3.Connection) -> None:
        # Table rewrites and references do not mix; SQLite only lets foreign keys be switched outside a transaction.
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)  # again: another process may have migrated while this one waited
            for step in range(version, migrations.VERSION):
                migrations.MIGRATIONS[step](connection)
                connection.execute(f"PRAGMA user_version={step + 1}")
                record_event(connection, "", "", "migrated", f"format version {step} to {step + 1}")
                LOGGER.info("ledger %s migrated from format version %d to %d", self.path.name, step, step + 1)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA foreign_keys=ON")


def chained(before: str, fields: tuple[str, ...]) -> str:
    """Give the next link of the log's hash chain."""
    return hashlib.sha256(json.dumps([before, *fields]).encode()).hexdigest()


def record_event(connection: sqlite3.Connection, account: str, entry: str, event: str, detail: str = "") -> None:
    """Append to the log; each line's hash covers the line before it, so that a removed or altered line shows."""
    last = connection.execute("SELECT chain FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    line = (now(), account, entry, event, detail)
    connection.execute(
        "INSERT INTO events (at, account, entry, event, detail, chain) VALUES (?, ?, ?, ?, ?, ?)",
        (*line, chained(last[0] if last else "", line)),
    )
