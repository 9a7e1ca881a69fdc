"""The ledger's file: short SQLite connections, durable commits, our own errors.

WAL with synchronous=FULL makes a commit durable before it returns; what was committed is then copied into the file
itself, so that a file moved without its log loses nothing. A connection lives for one operation or one release, so that
handles survive fork, pickling and threads; writers queue on BEGIN IMMEDIATE.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gaussveil.accounting.ledger import journal, migrations
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
        self._held: tuple[int, sqlite3.Connection] | None = None

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
        with self._translated(), closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            migrations.make_tables(connection)
            connection.execute(f"PRAGMA application_id={migrations.APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={migrations.VERSION}")
            connection.execute("COMMIT")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let all operations of the block share one connection."""
        before = self._held
        if before is None or before[0] != os.getpid():
            with self._translated():
                self._held = os.getpid(), self._open()
        try:
            yield
        finally:
            if self._held is not before and self._held is not None:
                self._held[1].close()
            self._held = before

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give one consistent snapshot."""
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN")
            before = self._stamp()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if self._frozen and self._stamp() != before:
                raise LedgerUnavailableError(f"the ledger {self.path.name} changed while it was read; try again")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the single writer's transaction; durable once the block ends, undone if it raises."""
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            except sqlite3.Error as error:  # it is recorded all the same
                LOGGER.warning("the ledger %s could not be brought up to date with its log: %s", self.path.name, error)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The held connection, or one for this operation; never one that was opened before a fork."""
        if self._held is not None and self._held[0] == os.getpid():
            yield self._held[1]
            return
        with closing(self._open()) as connection:
            yield connection

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            if self._version(connection) < migrations.VERSION:
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _frozen(self) -> bool:
        """Whether SQLite must read the file without locks: nothing can be written beside it, and no log lies there."""
        return not os.access(self.path.parent, os.W_OK) and not os.path.exists(f"{self.path}-wal")

    def _stamp(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size

    def _connect(self) -> sqlite3.Connection:
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
        mode = "ro&immutable=1" if self._frozen else "rw"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self.busy_seconds,
            isolation_level=None,
            check_same_thread=False,  # a release may be drawn in another thread than the one that debits it
        )
        connection.executescript("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON")
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Our errors for SQLite's."""
        try:
            yield
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except UnicodeEncodeError:
            raise ParameterError("names and texts of a ledger must be valid Unicode. Got a lone surrogate.") from None

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
                for (name,) in connection.execute("SELECT '' UNION ALL SELECT name FROM accounts").fetchall():
                    journal.record_event(connection, name, "", "migrated", f"format version {step} to {step + 1}")
                LOGGER.info("ledger %s migrated from format version %d to %d", self.path.name, step, step + 1)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA foreign_keys=ON")
