"""What a table's address means, for every engine: docs/sources.md has them all, from Parquet files to PostgreSQL.

Addresses with any other scheme, such as ``s3://bucket/readings.parquet``, are left to what the engine itself can reach.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gaussveil.errors import ParameterError, SourceError

Kind = Literal["parquet", "csv", "arrow", "excel", "duckdb", "sqlite", "postgres"]

_SUFFIXES: dict[str, Kind] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".xls": "excel",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".db": "sqlite",
}

# A user before a server, a scheme without its two slashes (not a drive letter), what follows a URL, names of secrets.
_MAY_HOLD_PASSWORD = re.compile(
    r"@|^[a-z][a-z0-9+.-]+:(?!//)|://.*[?]|passw|pwd=|secret|token", re.IGNORECASE
)


@dataclass(frozen=True)
class Location:
    """Where a table lies: what kind of place, its address, and the table's name where a place holds several."""

    kind: Kind
    address: str = field(repr=False)  # it may hold a password
    table: str = ""

    @property
    def local(self) -> bool:
        """Whether the table lies in files that this process can see."""
        return "://" not in self.address

    def files(self) -> list[str]:
        """The files of the table, in order; the bare address where they lie elsewhere.

        Of a folder or a pattern without names that begin with ``_`` or ``.``: Spark skips them, so all engines do. A
        folder among them, as Spark writes tables, stands for its files.
        """
        if not self.local:
            return [self.address]
        pattern = self.address
        if os.path.isdir(pattern):
            pattern = os.path.join(glob.escape(pattern), "*.parquet")
        names = [pattern] if os.path.exists(pattern) else _matches(pattern)
        files_of = [self._parts(name) for name in names]
        if not names or not all(files_of):
            raise SourceError(
                f"no file matches {spoken_name(self.address)!r}: check the path."
            )
        files = [file for part in files_of for file in part]
        if self.kind in ("parquet", "csv"):
            refuse_wildcards(files, "*?[")
        return files

    def _parts(self, name: str) -> list[str]:
        """The files of a folder, or the file."""
        if not os.path.isdir(name):
            return [name]
        ending = "*.csv*" if self.kind == "csv" else "*.parquet"
        return _matches(os.path.join(glob.escape(name), ending))

    def stamp(self) -> str:
        """Changes when a file of the table is written, replaced, added or removed."""
        files = self.files()
        stats = [(name, os.stat(name)) for name in files]
        parameters = [
            (name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
            for name, s in stats
        ]
        logs = [
            name
            for file in files
            for name in (f"{file}.wal", f"{file}-wal")
            if os.path.exists(name)
        ]
        # SQLite makes an empty log, and sets the owner of any, where it only reads.
        written = [
            (name, s.st_size, s.st_mtime_ns)
            for name in logs
            if (s := os.stat(name)).st_size
        ]
        return hashlib.sha256(repr((parameters, written)).encode()).hexdigest()


def _matches(pattern: str) -> list[str]:
    return sorted(
        name
        for name in glob.glob(pattern)
        if not os.path.basename(name).startswith(("_", "."))
    )


def refuse_wildcards(files: Sequence[str], signs: str) -> None:
    """Refuse names that an engine would take for patterns: it would read other files, or one of them twice."""
    for name in files:
        if any(sign in name for sign in signs):
            raise SourceError(
                f"{name!r} holds one of {signs}, which means several files: rename it or its folder."
            )


def locate(uri: str | os.PathLike[str]) -> Location:
    """Read an address."""
    if not isinstance(uri, str | os.PathLike):
        raise ParameterError(
            f"uri must be a file's path or a table's address. Got {type(uri).__name__}: give a table that is in memory "
            "to the mechanism itself, or to statistics.as_source."
        )
    address, _, table = os.fspath(uri).removeprefix("file://").partition("#")
    if address.startswith(("postgres://", "postgresql://")):
        kind: Kind | None = "postgres"
    elif os.path.isdir(address):
        kind = "parquet"
    else:
        suffixes = "".join(Path(address).suffixes[-2:]).lower()
        kind = _SUFFIXES.get(suffixes) or _SUFFIXES.get(Path(address).suffix.lower())
    if kind is None:
        raise ParameterError(
            f"uri must end in one of {', '.join(_SUFFIXES)}, name a folder or start with postgresql://."
        )
    if kind in ("duckdb", "sqlite", "postgres") and not table:
        raise ParameterError(
            f"uri must name a table of the {kind} database: write ...#table."
        )
    location = Location(kind, address, table)
    location.files()
    return location


def public_name(address: str) -> str:
    """What certificates and pages call a table: neither its server, nor a password that the address may hold."""
    place, _, table = address.rpartition("#") if "#" in address else (address, "", "")
    scheme, elsewhere, rest = place.partition("?")[0].rstrip("/").partition("://")
    if (
        elsewhere
    ):  # user, password and server are before the path, of which there may be none
        name = rest.rpartition("@")[2].partition("/")[2].rpartition("/")[2] or scheme
    else:
        name = scheme.rpartition("/")[2]
    if table:
        return f"{name}#{table}"
    return name


def may_hold_password(address: str) -> bool:
    """Whether an address, right or mistyped, must not be repeated."""
    return _MAY_HOLD_PASSWORD.search(address) is not None


def spoken_name(address: str) -> str:
    """How messages name an address: as it is, or only its last part where it may hold a password."""
    if not may_hold_password(address):
        return address
    name = public_name(address)
    if may_hold_password(name):
        return "the table"
    return name
