"""One release per household, drawn where the household's rows are, debited once whatever fails in between.

A cluster may run a task twice, and each run would draw noise of its own. So what a worker draws is not yet released: it
travels to the driver, which alone takes one result per household, stores it, debits it under an id that follows from
store, account, job and household, and only then gives it away. The debit is bound to the stored value. Every household
thus has at most one debit and at most one value that anybody saw, whatever crashes (docs/sources.md), and an older copy
of the store, which lacks a value that was paid for, releases no other in its place. After the store was lost nobody
knows what was seen: the ids are then others, and everything is paid for anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.accounting import (
    Account,
    Certificate,
    CertificateDraft,
    Release,
    transaction,
)
from gaussveil.accounting.certificates.values import digest_of
from gaussveil.errors import AssumptionError, FormatError, ParameterError, SourceError
from gaussveil.statistics.source import Source

StoredRelease = tuple[bytes, str]  # the value as an .npy file, the certificate as JSON
HOUSEHOLD = "{household}"


def release_households(
    source: Source,
    release: Callable[[pa.Table], Release[Any]],
    *,
    by: str,
    job: str,
    store: str | os.PathLike[str],
    order: Sequence[str] = (),
    account: Account | None = None,
    jobs: int = 1,
) -> Iterator[tuple[Any, Release[Any]]]:
    """Release something of every household, sorted by household; values are arrays of numbers.

    ``release`` gets a household's rows (sorted by ``order``) and returns a mechanism's Release that no account has paid
    for; it runs on the workers and draws from their own secure generators. ``job`` names what is released: the same job
    gives the same values again, whatever the rows are by then; a new release needs a new name. ``store`` is the owner's
    file of values. ``account`` pays; ``{household}`` in its name is replaced, for accounts of their own.
    """
    if not job.strip():
        raise ParameterError("job must not be empty: it names what is released.")
    stored = ReleaseStore(store)
    identifiers = stored.identifiers()
    name = stored.name

    def draw(rows: pa.Table) -> StoredRelease | None:
        household = rows[by][0].as_py()
        if (
            release_id(name, _account_of(account, household), job, household)
            in identifiers
        ):
            return None
        return _packed(release(rows))

    for household, drawn in source.map_groups(draw, by=by, order=order, jobs=jobs):
        paying = _account_of(account, household)
        identifier = release_id(name, paying, job, household)
        yield household, _released(stored, paying, identifier, drawn)


def release_id(store: str, account: Account | None, job: str, household: Any) -> str:
    """The id under which a household's release of a job is debited: the same on every attempt with that store."""
    if account is None:
        paying = ""
    else:
        paying = account.name
    texts = [
        part.encode()
        for part in (store, paying, job, type(household).__name__, str(household))
    ]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in texts)
    return "household-" + hashlib.sha256(text).hexdigest()[:40]


class ReleaseStore:
    """A file of released values by id; the first value stored under an id stays. Only its owner may read it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.exists():
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        with self._writing() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS releases (id TEXT PRIMARY KEY, value BLOB, certificate TEXT)"
            )
            database.execute(
                "CREATE TABLE IF NOT EXISTS store (one INTEGER PRIMARY KEY, name TEXT)"
            )
            database.execute(
                "INSERT OR IGNORE INTO store VALUES (1, ?)", (uuid4().hex,)
            )
            self.name = str(
                database.execute("SELECT name FROM store").fetchone()[0]
            )  # no two stores share it

    def identifiers(self) -> frozenset[str]:
        """Every id that has a value."""
        with self._writing() as database:
            return frozenset(
                row[0] for row in database.execute("SELECT id FROM releases")
            )

    def keep(self, identifier: str, drawn: StoredRelease | None) -> StoredRelease:
        """Store a value durably unless there is one already; give the one that is stored."""
        with self._writing() as database:
            if drawn is not None:
                database.execute(
                    "INSERT OR IGNORE INTO releases VALUES (?, ?, ?)",
                    (identifier, *drawn),
                )
            row = database.execute(
                "SELECT value, certificate FROM releases WHERE id = ?", (identifier,)
            ).fetchone()
        if row is None:
            raise SourceError(
                "a stored release is gone: another process changed the store. Run the job again."
            )
        return bytes(row[0]), str(row[1])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(
                sqlite3.connect(self._path, timeout=60, isolation_level=None)
            ) as database:
                database.execute(
                    "PRAGMA synchronous = EXTRA"
                )  # FULL may lose the last commit with the power
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise SourceError(
                f"the store of releases could not be used ({type(error).__name__})."
            ) from None


def _released(
    stored: ReleaseStore,
    account: Account | None,
    identifier: str,
    drawn: StoredRelease | None,
) -> Release[Any]:
    """Store, debit, hand out: in this order, so that nothing is seen without a record, nor another value than paid."""
    value, note = stored.keep(identifier, drawn)
    certificate = Certificate.from_json(note)
    names = [field.name for field in dataclasses.fields(CertificateDraft)]
    draft = CertificateDraft(**{name: getattr(certificate, name) for name in names})
    # Repeatable: whatever is drawn twice, the store gives the value that came first.
    with transaction(
        account,
        certificate.charge,
        draft,
        release_id=identifier,
        repeatable=True,
        value=value,
    ) as debit:
        kept = debit.draw(lambda: _array(value))
    return Release(kept, debit.certificate.of_values(digest_of(kept)))


def _account_of(account: Account | None, household: Any) -> Account | None:
    if account is None:
        return None
    return Account(account.ledger, account.name.replace(HOUSEHOLD, str(household)))


def _packed(release: Release[Any]) -> StoredRelease:
    if not isinstance(release, Release):
        raise ParameterError(
            f"release must return a mechanism's Release. Got {type(release).__name__}."
        )
    if release.certificate.account != "not recorded":
        raise AssumptionError(
            "release must not pay by itself: give the account to release_households instead."
        )
    value = np.asarray(release.value)
    if value.dtype.kind not in "biuf":
        raise ParameterError(
            f"a household's release must be an array of numbers. Got {value.dtype}."
        )
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    return buffer.getvalue(), release.certificate.to_json()


def _array(packed: bytes) -> NDArray[Any]:
    try:
        return np.asarray(np.load(io.BytesIO(packed), allow_pickle=False))
    except (ValueError, EOFError, OSError):
        raise FormatError("the store of releases is damaged") from None
