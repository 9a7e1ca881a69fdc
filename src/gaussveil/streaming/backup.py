"""Backups of a ledger and of a gateway's state: one archive for its owner only, with sums of all it holds.

Both are made while the ledger and the gateway are in use. What is restored is older than what it replaces: debits and
answers since are not in it. So a restored ledger is compared with certificates, and a restored state answers nothing
until somebody says from which number on nothing was answered.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gaussveil.accounting import Certificate, Ledger
from gaussveil.accounting.ledger.database import translated
from gaussveil.accounting.ledger.integrity import check_integrity
from gaussveil.accounting.ledger.migrations import VERSION as VERSION_OF_LEDGER
from gaussveil.errors import AssumptionError, FormatError, ParameterError, SourceError
from gaussveil.files import PRIVATE, replacing, write_whole
from gaussveil.streaming.mark import RESTORED
from gaussveil.streaming.meters import read_meters
from gaussveil.streaming.service import mark_beside
from gaussveil.streaming.state import StreamState, read_state

FORMAT = "gaussveil backup"
VERSION = 1
LARGEST_MEMBER = 1 << 34
ATTEMPTS = 20


@dataclass
class Backup:
    """What an archive holds: when it was made, the head of the ledger's chain, and the sums of its files."""

    made: str
    ledger_events: int = 0
    ledger_head: str = ""
    state: str = ""
    sums: dict[str, str] = field(default_factory=dict)


def write_backup(
    target: Path, ledger: Path | None, meters: Path | None, state: Path | None = None
) -> Backup:
    """Write an archive of a ledger, of a gateway, or of both."""
    if ledger is None and meters is None:
        raise ParameterError(
            "a backup must be of a ledger or of meters: name one of them"
        )
    made = Backup(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    files: dict[str, bytes] = {}
    if ledger is not None:
        with translated(ledger):
            files["ledger"] = _ledger_copy(ledger)
            made.ledger_events, made.ledger_head = _head(files["ledger"], ledger.name)
    if meters is not None:
        read_meters(meters)
        files["meters.json"] = meters.read_bytes()
        if state is None:
            folder = meters.with_suffix(".state")
        else:
            folder = state
        if StreamState.exists(folder):
            copied = _state_copy(folder)
            files.update({f"state/{name}": body for name, body in copied.items()})
            made.state = str(json.loads(copied["state.json"])["state"])
    made.sums = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    manifest = {"format": FORMAT, "version": VERSION, **vars(made)}
    with (
        replacing(target, PRIVATE) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, body in {
            "manifest.json": json.dumps(manifest, indent=1).encode(),
            **files,
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            entry.mode = PRIVATE
            archive.addfile(entry, io.BytesIO(body))
    return made


def verify_backup(
    archive: Path, certificates: Iterable[Path] = (), ledger: Path | None = None
) -> Backup:
    """Check sums, the ledger's chain, and the state; that certificates are in it, and that `ledger` has only grown."""
    backup, files = _read(archive)
    with tempfile.TemporaryDirectory(prefix="gaussveil-restore-") as name:
        place = Path(name)
        _unpack(files, place)
        if "ledger" in files:
            copy = Ledger(place / "ledger")
            copy.check()
            missing = [
                path
                for path in certificates
                if copy.entry(Certificate.read(path).release_id) is None
            ]
            if missing:
                raise AssumptionError(
                    f"{len(missing)} certificates are of debits that the backup does not know, {missing[0].name} among "
                    "them: restored, the ledger would forget them and allow too much."
                )
        if "meters.json" in files:
            read_meters(place / "meters.json")
        if backup.state:
            read_state(place / "state")
    if ledger is not None and backup.ledger_head not in _heads(ledger):
        raise AssumptionError(
            "the ledger in use does not continue the one in the backup: one of them was rolled back."
        )
    return backup


def restore_backup(archive: Path, folder: Path, *, moved: bool = False) -> Backup:
    """Unpack a verified archive into a new folder; `moved`: nothing was debited or answered since it was made."""
    backup = verify_backup(archive)
    if folder.exists() and any(folder.iterdir()):
        raise ParameterError(
            f"the folder to restore to must be new or empty. Got {str(folder)!r}."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _, files = _read(archive)
    _unpack(files, folder)
    if backup.state:
        (folder / "state").rename(folder / "meters.state")
        if moved:
            mark = backup.state
        else:
            mark = f"{RESTORED} {backup.made}"
        write_whole(mark_beside(folder / "meters.json"), mark, PRIVATE)
    return backup


def _ledger_copy(ledger: Path) -> bytes:
    """A consistent copy, also while others write."""
    if not ledger.is_file():
        raise SourceError(f"{ledger}: there is no such ledger")
    with tempfile.TemporaryDirectory(prefix="gaussveil-backup-") as name:
        with contextlib.closing(sqlite3.connect(Path(name) / "ledger")) as copy:
            with contextlib.closing(
                sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)
            ) as source:
                source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        return (Path(name) / "ledger").read_bytes()


def _state_copy(folder: Path) -> dict[str, bytes]:
    """The files in force. The note of what was written is read before the log, so the log holds at least that."""
    for _ in range(ATTEMPTS):
        try:
            head = (folder / "state.json").read_bytes()
            number = json.loads(head)["generation"]
            names = (f"committed-{number}", f"arrays-{number}.npz", f"log-{number}")
            return {
                "state.json": head,
                **{name: (folder / name).read_bytes() for name in names},
            }
        except FileNotFoundError:  # a checkpoint came between
            continue
    raise SourceError(
        f"the state in {folder} cannot be copied: it changes too fast or is damaged"
    )


def _head(ledger: bytes, name: str) -> tuple[int, str]:
    """How far the log of a copy has come; a damaged ledger is no backup of anything."""
    connection = sqlite3.connect(":memory:")
    with contextlib.closing(connection):
        connection.deserialize(ledger)
        if connection.execute("PRAGMA user_version").fetchone() == (VERSION_OF_LEDGER,):
            check_integrity(connection, name)
        row = connection.execute(
            "SELECT seq, chain FROM events ORDER BY seq DESC LIMIT 1"
        ).fetchone()
    if row is None:
        return (0, "")
    return (int(row[0]), str(row[1]))


def _heads(ledger: Path) -> set[str]:
    address = f"{ledger.absolute().as_uri()}?mode=ro"
    with (
        translated(ledger),
        contextlib.closing(sqlite3.connect(address, uri=True)) as connection,
    ):
        return {
            "",
            *(
                str(chain)
                for (chain,) in connection.execute("SELECT chain FROM events")
            ),
        }


def _read(archive: Path) -> tuple[Backup, dict[str, bytes]]:
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, mode="r:") as opened:
            for entry in opened:
                content = _content(opened, entry)
                if content is None:
                    raise FormatError(f"{archive}: not a backup of ours")
                files[entry.name] = content
        manifest = json.loads(files.pop("manifest.json"))
        if manifest.pop("format") != FORMAT or manifest.pop("version") != VERSION:
            raise FormatError(f"{archive}: not a backup of version {VERSION}")
        backup = Backup(**manifest)
        sums = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    except FormatError:
        raise
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{archive}: is damaged or no backup ({type(error).__name__})"
        ) from None
    if sums != backup.sums:
        raise FormatError(f"{archive}: is damaged: the sums of its files are others")
    return backup, files


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes | None:
    """What stands in a plain file of a size that a backup's has; None of anything else."""
    if not entry.isfile() or entry.size > LARGEST_MEMBER or not _plain(entry.name):
        return None
    content = archive.extractfile(entry)
    return None if content is None else content.read()


def _plain(name: str) -> bool:
    folders = name.split("/")
    return (
        len(folders) <= 2
        and folders[:-1] in ([], ["state"])
        and folders[-1].replace("-", "").replace(".", "").isalnum()
    )


def _unpack(files: Mapping[str, bytes], folder: Path) -> None:
    for name, body in files.items():
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        with replacing(folder / name, PRIVATE) as stream:
            stream.write(body)
