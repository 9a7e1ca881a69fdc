"""The tables that may be released: those the studio was started with, and uploads. Nothing else can be named.

A table has an id that we gave it. Ids lead to files below the given folders only: names that climb out, hidden files
and links to other places are not listed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gaussveil.engines.location import public_name, spoken_name
from gaussveil.errors import FormatError, GaussveilError, ParameterError, SourceError
from gaussveil.files import PRIVATE, write_whole
from gaussveil_studio.sample_table import NAME, sample_table
from gaussveil_studio.settings import Settings, private_folder

ENDINGS = (
    ".csv.gz",
    ".csv",
    ".parquet",
    ".npy",
    ".xlsx",
    ".xlsm",
    ".xls",
    ".arrow",
    ".feather",
)
MOST_LISTED = 500
SAMPLE = "sample"
MOST_UPLOADS = 32
DEEPEST = 4
CHUNK = 1 << 20
MEANINGFUL = frozenset(
    "*?[#"
)  # in an address these stand for other files or begin a table's name


@dataclass(frozen=True)
class ListedTable:
    """A table: our id for it, what people call it, where it is, and whether it was uploaded."""

    id: str
    name: str
    address: str
    uploaded: bool = False
    sample: bool = False
    """Rows of nobody, which no account need pay for."""


class TableCatalogue:
    """Finds tables by id."""

    def __init__(self, settings: Settings, in_use: Collection[str] = ()) -> None:
        self._limit = settings.upload_limit
        self._folders: dict[str, Path] = {}
        self._fixed: list[ListedTable] = []
        self._uploads: dict[str, ListedTable] = {}
        self._lock = threading.Lock()
        self._store = private_folder(settings.state / "uploads")
        self.clear(in_use)
        for index, address in enumerate(settings.tables):
            path = Path(address)
            if path.is_dir():
                self._folders[f"folder-{len(self._folders)}"] = Path(
                    _plain(str(path.resolve()))
                )
            elif "://" in address or "#" in address:
                self._fixed.append(
                    ListedTable(f"address-{index}", public_name(address), address)
                )
            elif path.is_file():
                self._fixed.append(
                    ListedTable(
                        f"address-{index}", path.name, _plain(str(path.resolve()))
                    )
                )
            else:
                raise SourceError(
                    f"--data {spoken_name(address)}: there is no such folder, file or table"
                )

    def clear(self, in_use: Collection[str] = ()) -> None:
        """Remove what was uploaded, at the start what a killed server left, at the end our own.

        A table that a release is still reading stays until the next start: its account may be debited already.
        """
        for place in self._store.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            elif str(place) not in in_use:
                place.unlink()
        self._uploads.clear()

    @property
    def store(self) -> Path:
        """Where uploads are kept; whatever lies there is removed at the start."""
        return self._store

    def tables(self) -> list[ListedTable]:
        """Every table, uploads first."""
        found = [*self._uploads.values(), *self._fixed]
        for place, folder in self._folders.items():
            found += [
                ListedTable(f"{place}/{name}", name, str(folder / name))
                for name in _files(folder)
            ]
        return found[:MOST_LISTED]

    def find(self, identifier: str) -> ListedTable:
        """The table of an id."""
        if identifier in self._uploads:
            return self._uploads[identifier]
        for table in self._fixed:
            if table.id == identifier:
                return table
        place, _, name = identifier.partition("/")
        folder = self._folders.get(place)
        if folder is not None and name and "\0" not in name and is_inside(folder, name):
            return ListedTable(identifier, name, str(folder / name))
        raise ParameterError("there is no table of that id; see the list of tables")

    def remove(self, identifier: str) -> None:
        """Forget an upload."""
        if found := self._uploads.pop(identifier, None):
            Path(found.address).unlink(missing_ok=True)

    def add(self, name: str, content: BinaryIO) -> ListedTable:
        """Keep an upload, readable by nobody else, until the server stops."""
        shown = Path(name.replace("\\", "/")).name[:100]
        ending = next((end for end in ENDINGS if shown.lower().endswith(end)), "")
        if not ending:
            raise FormatError(f"a table must end in {', '.join(ENDINGS)}")
        if len(self._uploads) >= MOST_UPLOADS:
            raise SourceError(
                f"there are {MOST_UPLOADS} uploads already; restart the studio to clear them"
            )
        identifier = f"upload-{secrets.token_hex(8)}"
        # The ending says the format; the rest of the user's name is for the eye only.
        target = self._store / f"{identifier}{ending}"
        _plain(str(target))
        try:
            with open(
                os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as stream:
                shutil.copyfileobj(content, stream, CHUNK)
        except OSError as error:
            target.unlink(missing_ok=True)
            raise SourceError(f"the upload cannot be kept ({error.strerror})") from None
        if target.stat().st_size > self._limit:
            target.unlink()
            raise SourceError("the upload is too large")
        from gaussveil.engines.whole_files import (
            require_fitting,
        )  # loads what reads tables, which few servers need

        try:
            require_fitting(
                str(target)
            )  # a small file may unpack to more than any memory
        except GaussveilError:
            target.unlink()
            raise
        return self._listed(ListedTable(identifier, shown, str(target), uploaded=True))

    def sample(self) -> ListedTable:
        """The table of nobody that everybody may try things on."""
        if SAMPLE not in self._uploads:
            target = self._store / f"{SAMPLE}.csv"
            write_whole(target, sample_table().read().decode(), PRIVATE)
            self._uploads[SAMPLE] = ListedTable(
                SAMPLE, NAME, str(target), uploaded=True, sample=True
            )
        return self._uploads[SAMPLE]

    def _listed(self, table: ListedTable) -> ListedTable:
        """The upload, or the one of the same name and content that is there already."""
        content = _content(table.address)
        with self._lock:  # two may arrive at once
            for known in self._uploads.values():
                if (
                    known.name == table.name
                    and not known.sample
                    and _content(known.address) == content
                ):
                    Path(table.address).unlink()
                    return known
            self._uploads[table.id] = table
        return table


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def is_inside(folder: Path, name: str) -> bool:
    """Whether a name leads to a table below the folder, links followed."""
    parts = Path(name).parts
    if (
        Path(name).is_absolute()
        or any(part.startswith(".") for part in parts)
        or len(parts) > DEEPEST
    ):
        return False
    if not MEANINGFUL.isdisjoint(name):
        return False
    try:
        target = (folder / name).resolve(strict=True)
    except (OSError, ValueError):
        return False
    return (
        target.is_relative_to(folder)
        and target.is_file()
        and target.name.lower().endswith(ENDINGS)
    )


def _files(folder: Path) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        folders[:] = (
            sorted(name for name in folders if not name.startswith("."))
            if len(below.parts) < DEEPEST - 1
            else []
        )
        found += [
            str(below / name)
            for name in sorted(files)
            if is_inside(folder, str(below / name))
        ]
        if len(found) >= MOST_LISTED:
            break
    return found


def _plain(path: str) -> str:
    """A path that means itself; any other would lead to files that nobody named."""
    if not MEANINGFUL.isdisjoint(path):
        raise SourceError(
            "paths of tables and of --state must not hold any of * ? [ #: rename the folder or the file"
        )
    return path
