"""The ledger's file: short SQLite connections, durable commits, our own errors.

WAL with synchronous=FULL makes a commit durable before it returns; what was committed is copied into the file itself
before a draw begins and when an operation or a release ends, so that a file moved without its log loses nothing. One
connection serves one operation or one release at a time, so that handles survive fork, pickling and threads; then it
waits, with no page of the file and nothing in the log, to be used again. Writers queue on BEGIN IMMEDIATE.
"""

from __future__ import annotations

import atexit
import fcntl
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
IDLE = 8  # connections that wait to be used again
SHARED = 510, 0x40000002  # how many bytes SQLite locks in a file that it has open, and from where

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


class Connection(sqlite3.Connection):
    """A connection that knows which file it opened, and in which process."""

    path: Path
    file: tuple[int, int, int] | None = None
    log: str = ""  # its index, which all who have the file open share
    index: tuple[int, int, int] | None = None
    handle: int = -1  # through which the file is locked
    process: int


_IDLE: list[Connection] = []
_LOST: list[Connection] = []  # a parent's, never to be touched


def _identity(path: Path | str | int) -> tuple[int, int, int] | None:
    """Device, number and names of a file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_nlink


def _secured(connection: Connection) -> bool:
    """Whether the connection still shares its log with others.

    A process that closes any handle of a file drops all its locks there (POSIX), be it to copy the file. Another may
    then remove the log, and each writes to its own. So the lock is taken again, before anybody looks.
    """
    try:
        if _identity(connection.handle) != connection.file:  # another thread's, and closed since
            handles = map(int, os.listdir("/dev/fd"))
            connection.handle = next(one for one in handles if _identity(one) == connection.file)
        fcntl.lockf(connection.handle, fcntl.LOCK_SH | fcntl.LOCK_NB, *SHARED)
    except (OSError, ValueError, StopIteration):
        return False
    return connection.index == _identity(connection.log)


def _taken(connection: Connection) -> bool:
    """Whether this thread is the one that took it from those that wait."""
    try:
        _IDLE.remove(connection)
    except ValueError:
        return False
    return True


def _close_idle() -> None:
    for connection in list(_IDLE):
        if _taken(connection):
            connection.close()


def _lose_idle() -> None:
    _LOST.extend(_IDLE)
    _IDLE.clear()


# SQLite's locks belong to a process: a child that inherited an open file would believe to hold its parent's.
os.register_at_fork(before=_close_idle, after_in_child=_lose_idle)
atexit.register(_close_idle)


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
        self._held: tuple[int, Connection] | None = None

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
            mine, self._held = self._held, before
            if mine is not before and mine is not None:
                self._rest(mine[1])

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
    def writing(self, *, copied: bool = False) -> Iterator[sqlite3.Connection]:
        """Give the single writer's transaction; durable once the block ends, undone if it raises.

        With `copied` it is also in the file itself by then, and not only once the connection rests.
        """
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if copied:
                self._copied(connection, "PASSIVE")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """The held connection, or one for this operation; never one that was opened before a fork."""
        if self._held is not None and self._held[0] == os.getpid():
            if not _secured(self._held[1]):
                self._held[1].close()
                self._held = os.getpid(), self._open()
            yield self._held[1]
            return
        connection = self._open()
        try:
            yield connection
        finally:
            self._rest(connection)

    def _copied(self, connection: sqlite3.Connection, mode: str) -> bool:
        """Bring the file up to date with its log; whether all of it was copied."""
        try:
            busy, logged, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error as error:  # it is recorded all the same
            LOGGER.warning("the ledger %s could not be brought up to date with its log: %s", self.path.name, error)
            return False
        return not busy and logged == copied

    def _rest(self, connection: Connection) -> None:
        """Let a connection wait for its next use, if nothing of the file stays with it; close it otherwise."""
        if connection.process != os.getpid():
            _LOST.append(connection)
            return
        try:
            if connection.file == _identity(self.path) and not (self._frozen or connection.in_transaction):
                connection.execute("PRAGMA busy_timeout=0")
                if self._copied(connection, "TRUNCATE"):
                    connection.execute("PRAGMA shrink_memory")
                    _IDLE.append(connection)
                    for oldest in list(_IDLE)[:-IDLE]:
                        if _taken(oldest):
                            oldest.close()
                    return
        except sqlite3.Error:
            pass  # closing it is always right
        connection.close()

    def _rested(self) -> Connection | None:
        """A connection that waits for this file. Whichever waits for a file that is gone or replaced is closed."""
        found = None
        for one in list(_IDLE):
            same = one.file == _identity(one.path) and _secured(one)
            if (same and (one.path != self.path or found is not None)) or not _taken(one):
                continue
            if same:
                found = one
            else:
                one.close()
        if found is not None:
            found.execute(f"PRAGMA busy_timeout={max(0, int(1000 * self.busy_seconds))}")
        return found

    def _open(self) -> Connection:
        connection = self._rested() or self._connect()
        try:
            if self._version(connection) < migrations.VERSION:
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        connection.log = connection.log or f"{os.path.realpath(self.path)}-shm"
        connection.index = connection.index or _identity(connection.log)
        return connection

    @property
    def _frozen(self) -> bool:
        """Whether SQLite must read the file without locks: nothing can be written beside it, and no log lies there."""
        return not os.access(self.path.parent, os.W_OK) and not os.path.exists(f"{self.path}-wal")

    def _stamp(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size

    def _connect(self) -> Connection:
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
        mode, file = "ro&immutable=1" if self._frozen else "rw", _identity(self.path)
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            factory=Connection,
            uri=True,
            timeout=self.busy_seconds,
            isolation_level=None,
            check_same_thread=False,  # a release may be drawn in another thread than the one that debits it
        )
        connection.path, connection.file, connection.process = self.path, file, os.getpid()
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
