"""What no command may overwrite, and what every release says of its files.

An output that is the ledger, or one of the files SQLite keeps beside it, would erase the record of what was spent;
an output that is an input would erase the data. Both are refused, also with --force.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.files import read_json as read_json
from gaussveil.files import reserved as reserved

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate

CERTIFICATE_BYTES = 65536
LEDGER_FILES = ("", "-wal", "-shm", "-journal", "-witness")


def certificate_beside(out: Path) -> Path:
    """The name of the certificate that goes with an output."""
    return Path(f"{out}.certificate.json")


def check_ending(out: Path | None, *endings: str) -> None:
    """Refuse an output whose name does not end in one of the formats."""
    if out is not None and out.suffix.lower() not in endings:
        raise FormatError(
            f"{out}: the output must end in {', '.join(endings)}. Got {out.suffix or 'no ending'!r}."
        )


def check_targets(
    *targets: Path | None,
    inputs: Iterable[Path | None] = (),
    ledger: Path | None = None,
    force: bool,
) -> None:
    """Refuse outputs that would destroy something, or that cannot be written; to be called before anything is spent."""
    written = [target for target in targets if target is not None]
    read = [file for source in inputs if source is not None for file in _files(source)]
    kept = []
    if ledger is not None:
        kept = [Path(f"{ledger.resolve()}{ending}") for ending in LEDGER_FILES]
    for index, target in enumerate(written):
        _check_place(target)
        _check_apart(target, kept, read, written[:index])
        if target.exists() and not force:
            raise ParameterError(
                f"{target}: exists already; choose another name or add --force"
            )


def _check_apart(
    target: Path, kept: list[Path], read: list[Path], before: list[Path]
) -> None:
    """Refuse an output that is a file of the ledger, an input, or an output before it."""
    if _is_among(target, kept):
        raise ParameterError(
            f"{target}: an output must not be the ledger or a file that belongs to it; choose another name"
        )
    if _is_among(target, read):
        raise ParameterError(
            f"{target}: an output must not be the input itself; choose another name"
        )
    if _is_among(target, before):
        raise ParameterError(
            f"{target}: each output needs a file of its own. Got the same file twice."
        )


def _check_place(target: Path) -> None:
    if target.is_dir():
        raise SourceError(f"{target}: is a folder; name a file")
    if not target.absolute().parent.is_dir():
        raise SourceError(
            f"{target}: its folder does not exist; make it first, or choose another name"
        )


def _is_among(target: Path, files: Iterable[Path]) -> bool:
    return any(_same(target, file) for file in files)


def _same(one: Path, other: Path) -> bool:
    # By name too: SQLite makes -wal and -shm only while the ledger is in use.
    return one.resolve() == other.resolve() or (
        one.exists() and other.exists() and one.samefile(other)
    )


def _files(source: Path) -> list[Path]:
    """The files that a table's address stands for: itself, its database, a pattern's matches, a folder's tables."""
    if source.exists():
        address = str(source)
    else:
        address = str(source).partition("#")[0]
    if os.path.isdir(address):
        pattern = os.path.join(glob.escape(address), "*.parquet")
    else:
        pattern = address
    return [Path(address), *map(Path, glob.glob(pattern))]


def check_release(
    out: Path,
    *others: Path | None,
    endings: Sequence[str],
    inputs: Iterable[Path | None],
    ledger: Path | None,
    force: bool,
) -> None:
    """Refuse a release whose file, certificate or other outputs cannot be written, or would destroy something."""
    check_ending(out, *endings)
    check_targets(
        out, certificate_beside(out), *others, inputs=inputs, ledger=ledger, force=force
    )


@contextmanager
def release_files(
    out: Path, room: int, note_room: int = CERTIFICATE_BYTES
) -> Iterator[Callable[[bytes, Certificate], None]]:
    """Take the room of a release and of its certificate; what is given then is written where the block ends well."""
    with (
        reserved(out, room) as body,
        reserved(certificate_beside(out), note_room) as note,
    ):

        def write(content: bytes, certificate: Certificate) -> None:
            from gaussveil.report.released import with_digest

            body.write(content)
            note.write(with_digest(certificate, out.name, content).to_json().encode())

        yield write


def release_facts(out: Path, certificate: Certificate) -> dict[str, object]:
    """What the JSON answer of every release says of it."""
    shown = ("release_id", "epsilon", "delta", "delta_upper", "account")
    files = {"out": str(out), "certificate": str(certificate_beside(out))}
    return files | {name: getattr(certificate, name) for name in shown}


def release_lines(out: Path, certificate: Certificate, what: str = "") -> list[str]:
    """What every release says to people at its end."""
    note = certificate_beside(out)
    return [
        f"wrote {out} and {note.name}" + (f": {what}" if what else ""),
        f"protected: {certificate.adjacency}",
        f"account: {certificate.account}; check both with: gaussveil verify {out}",
    ]
