"""The ledger's file: short SQLite connections, durable commits, our own errors.

Every debit is in the file itself before it is acknowledged: the file is kept with a rollback journal, never with a log
beside it, and `synchronous=EXTRA` makes a commit durable before it returns. One connection serves one operation or one
release and is closed, so that handles survive fork, pickling and threads.

SQLite's locks belong to a process and end when it closes any handle of the file, be it to copy it. So writers queue on
a lock of their own, which the ledger's witness keeps (`witness.py`), and readers never undo what seems unfinished.
Readers hold SQLite's lock for as long as they read; a writer waits for them, and gives up after `BUSY_SECONDS` with
nothing recorded.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from gaussveil.accounting.ledger import journal, migrations
from gaussveil.accounting.ledger.witness import LostLines, Witness
from gaussveil.errors import (
    FormatError,
    LedgerCorruptError,
    LedgerError,
    LedgerUnavailableError,
    ParameterError,
)

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
_CORRUPT = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_CONSTRAINT,
}

_NO_SUCH = ("no such column", "no such table")  # of ours: its schema was spoilt


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Our errors for SQLite's, of a ledger that is read inside the block."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema
        raise LedgerCorruptError(
            f"the ledger {path.name} is damaged (its schema is not text); restore a backup, and count every "
            "release since the backup as spent"
        ) from error
    except UnicodeEncodeError:
        raise ParameterError(
            "names and texts of a ledger must be valid Unicode. Got a lone surrogate."
        ) from None


def translate(error: sqlite3.Error, path: Path) -> LedgerError:
    """Give our error for one of SQLite's, with advice."""
    # Extended codes keep the primary code in the low byte; errors raised by the Python wrapper have none.
    code = getattr(error, "sqlite_errorcode", None)
    primary = None
    if code is not None:
        primary = code & 0xFF
    if primary in _UNAVAILABLE:
        return LedgerUnavailableError(
            f"the ledger {path.name} {_UNAVAILABLE[primary]} ({error})"
        )
    spoilt = str(error).startswith(_NO_SUCH)
    if primary in _CORRUPT or isinstance(error, sqlite3.IntegrityError) or spoilt:
        return LedgerCorruptError(
            f"the ledger {path.name} is damaged ({error}); restore a backup, or recover what is left with "
            f"`sqlite3 {path.name} .recover`, and count every release since the backup as spent"
        )
    return LedgerError(f"the ledger {path.name} failed: {error}")


def _keeps_log(connection: sqlite3.Connection) -> bool:
    """Whether commits go to a log beside the file (WAL), as earlier versions kept it."""
    return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def _take_snapshot(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


class Connection(sqlite3.Connection):
    """A connection that knows which file it opened: device, number and names."""

    file: tuple[int, int, int]


class Database:
    """A ledger file: opens, creates, migrates, and gives transactions."""

    def __init__(
        self, path: str | os.PathLike[str], *, busy_seconds: float | None = None
    ) -> None:
        self.path = Path(path).absolute()
        if busy_seconds is None:
            self.busy_seconds = BUSY_SECONDS
        else:
            self.busy_seconds = busy_seconds
        self._held = threading.local()

    def lost(self, connection: sqlite3.Connection) -> tuple[LostLines, ...]:
        """What was recorded and is not in the file any more, as far as its witness can tell."""
        return Witness(Path(os.path.realpath(self.path))).losses(connection)

    def create(self) -> None:
        """Make a new, empty ledger; refuse to touch an existing file."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise ParameterError(
                f"path must not exist yet: {self.path.name} is there already; open it instead"
            ) from None
        except OSError as error:
            raise LedgerUnavailableError(
                f"the ledger {self.path.name} cannot be created: {error.strerror}"
            ) from error
        # The file's name must be as durable as its contents.
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        try:
            with self._translated(), closing(self._connect("rw")) as connection:
                connection.execute("BEGIN IMMEDIATE")
                migrations.make_tables(connection)
                connection.execute(f"PRAGMA application_id={migrations.APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={migrations.VERSION}")
                connection.execute("COMMIT")
        except LedgerError:
            if self.path.stat().st_size == 0:  # of a full disk: nothing is in it
                self.path.unlink()
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let all operations of this thread inside the block share their connections."""
        if self._shared() is not None:
            yield
            return
        self._held.connections, self._held.process = {}, os.getpid()
        try:
            yield
        finally:
            for connection in (self._shared() or {}).values():
                connection.close()
            self._held.connections = None

    def _shared(self) -> dict[str, Connection] | None:
        """The connections that this thread holds, by what they are for; never any that were opened before a fork."""
        connections: dict[str, Connection] | None = getattr(
            self._held, "connections", None
        )
        if connections is not None and self._held.process == os.getpid():
            return connections
        return None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give one consistent snapshot."""
        with self._translated(), self._connection("ro") as connection:
            self._begin_reading(connection)
            before = self._stamp()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if self._frozen and self._stamp() != before:
                raise LedgerUnavailableError(
                    f"the ledger {self.path.name} changed while it was read; try again"
                )

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the single writer's transaction; durable in the file once the block ends, undone if it raises."""
        with (
            self._alone() as witness,
            self._translated(),
            self._connection("rw") as connection,
        ):
            self._check_in_place(connection)
            if _keeps_log(connection):
                raise LedgerUnavailableError(
                    f"the ledger {self.path.name} is locked by a program that keeps its debits in a log beside it, "
                    "where a copy of the file would miss them; end that program and try again"
                )
            connection.execute("BEGIN IMMEDIATE")
            try:
                witness.compare(connection)
                yield connection
                head = journal.head(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._check_in_place(connection)
            witness.note(head)

    @contextmanager
    def _alone(self) -> Iterator[Witness]:
        """Keep all other writers out."""
        self._identity()
        with Witness(Path(os.path.realpath(self.path))).held(
            self.busy_seconds
        ) as witness:
            yield witness

    @contextmanager
    def _connection(self, mode: str) -> Iterator[Connection]:
        """The held connection for reading or writing, or one for this operation."""
        shared = self._shared()
        if shared is None:
            with closing(self._open(mode)) as connection:
                yield connection
            return
        if mode not in shared:
            shared[mode] = self._open(mode)
        yield shared[mode]

    def _open(self, mode: str) -> Connection:
        connection = self._connect(mode)
        try:
            if mode == "ro":
                self._begin_reading(connection)
            outdated = self._version(connection) < migrations.VERSION
            logged = _keeps_log(connection)
            if mode == "ro":
                connection.execute("ROLLBACK")
            if not outdated and not (logged and mode == "ro" and not self._frozen):
                return connection
            connection.close()
            self._renew(outdated)
            return self._connect(mode)
        except BaseException:
            connection.close()
            raise

    def _renew(self, outdated: bool) -> None:
        """Bring a file of an earlier version up to date: its tables, and the log beside it back into the file.

        What cannot be written, or is open elsewhere, keeps its log; it can be read, and nothing is debited there.
        """
        try:
            with self._alone(), closing(self._connect("rw")) as connection:
                if outdated:
                    self._migrate(connection)
                connection.execute("PRAGMA journal_mode=DELETE")
        except (LedgerUnavailableError, sqlite3.OperationalError) as error:
            if outdated:
                raise
            LOGGER.debug("the log of %s stays: %s", self.path.name, error)

    def _begin_reading(self, connection: Connection) -> None:
        """Begin a snapshot; where a writer was killed on its way, once what it had not finished is undone.

        Only who holds the witness may undo: a journal without SQLite's lock may be that of a writer at work, whose
        process lost the lock as it read the file as bytes.
        """
        try:
            _take_snapshot(connection)
        except sqlite3.OperationalError as error:
            connection.execute("ROLLBACK")
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            with self._alone():
                with closing(self._connect("rw")) as undoing:
                    _take_snapshot(undoing)
                _take_snapshot(connection)

    def _identity(self) -> tuple[int, int, int]:
        """Device, number and names of the file; refused where there is none or a second name."""
        try:
            status = os.stat(self.path)
        except OSError:
            raise LedgerUnavailableError(
                f"there is no ledger {self.path.name}; make one with Ledger.create or `gaussveil budget new`"
            ) from None
        if status.st_nlink > 1:
            # Each name has its own journal: after a crash under one name the other would show half a debit.
            raise LedgerUnavailableError(
                f"the ledger {self.path.name} has a second name (a hard link), under which other debits could be made "
                "unseen; remove the link, and copy the file where a copy is wanted"
            )
        return status.st_dev, status.st_ino, status.st_nlink

    @property
    def _frozen(self) -> bool:
        """Whether SQLite must read the file without locks: nothing can be written beside it, and nothing lies there."""
        beside = any(
            os.path.exists(f"{self.path}{end}") for end in ("-wal", "-journal")
        )
        return not os.access(self.path.parent, os.W_OK) and not beside

    def _stamp(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_size

    def _connect(self, mode: str) -> Connection:
        file = self._identity()
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={'ro&immutable=1' if self._frozen else mode}",
            factory=Connection,
            uri=True,
            timeout=self.busy_seconds,
            isolation_level=None,
            check_same_thread=False,  # a block may end in another thread than the one that opened it
        )
        connection.file = file
        connection.executescript("PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON")
        # it reads the file, which a reader must not do before `_begin_reading`
        if mode == "rw":
            connection.execute("PRAGMA synchronous=EXTRA")
        return connection

    def _check_in_place(self, connection: Connection) -> None:
        """Raise unless the connection's file is the one at the path, under this one name."""
        if self._identity() != connection.file:
            raise LedgerUnavailableError(
                f"the ledger {self.path.name} was moved or replaced while it was in use; what was to be recorded may "
                "be in the file that was there before: look before you try again"
            )

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.path)

    def _version(self, connection: sqlite3.Connection) -> int:
        identity = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if (
            identity == version == 0
            and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        ):
            raise FormatError(
                f"{self.path.name} is empty, so not a gaussveil ledger; delete it, or name another file, "
                "and make a ledger with `gaussveil budget new`"
            )
        if identity != migrations.APPLICATION_ID or version < migrations.OLDEST:
            raise FormatError(
                f"{self.path.name} is not a gaussveil ledger; make one with `gaussveil budget new`"
            )
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
            version = self._version(
                connection
            )  # again: another process may have migrated while this one waited
            for step in range(version, migrations.VERSION):
                migrations.MIGRATIONS[step](connection)
                connection.execute(f"PRAGMA user_version={step + 1}")
                for (name,) in connection.execute(
                    "SELECT '' UNION ALL SELECT name FROM accounts"
                ).fetchall():
                    journal.record_event(
                        connection,
                        name,
                        "",
                        "migrated",
                        f"format version {step} to {step + 1}",
                    )
                LOGGER.info(
                    "ledger %s migrated from format version %d to %d",
                    self.path.name,
                    step,
                    step + 1,
                )
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA foreign_keys=ON")
