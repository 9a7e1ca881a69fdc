"""Where an engine may put rows that do not fit in memory: a folder of its own, for its owner only, gone at the end.

A process that is killed cannot clean up. Its folder is found at the next start: nobody holds its lock any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

PREFIX = "gaussveil-spill-"


def spill_folder(owner: object, parent: str | None = None) -> str:
    """A new folder that lives as long as its owner."""
    place = Path(parent or tempfile.gettempdir())
    _remove_left_over(place)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)  # mode 0700
    lock = os.open(os.path.join(folder, "new"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(
        os.path.join(folder, "new"), os.path.join(folder, "lock")
    )  # never there without being held
    weakref.finalize(owner, _remove, folder, lock, os.getpid())
    return folder


def _remove(folder: str, lock: int, process: int) -> None:
    if os.getpid() == process:  # not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_left_over(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid() or folder.is_symlink():
                continue
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:  # somebody else's, or just being made or removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # in use
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
