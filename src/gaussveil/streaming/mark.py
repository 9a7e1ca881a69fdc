"""The mark of a durable state: a small file outside its folder that says which state is in force, and how far it came.

A copy of the folder does not carry the mark: an older copy put in the folder's place has come less far than the mark
says, a copy elsewhere finds the mark in use, and a copy of the mark is another file on the disk. Each is refused, since
it would answer readings that were answered with a second noise.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from gaussveil.errors import AssumptionError, SourceError
from gaussveil.files import PRIVATE

RESTORED = "restored"  # begins the mark of a state that comes from a backup
LENGTH = 160  # bytes of a mark, padded, so that each is written over whole
_ANEW = "Reset from a sequence number that was never answered: filters and noise then start anew together."
_MOVE = "Move a state with `gaussveil backup` and `gaussveil restore --moved`."

Progress = tuple[int, int]


@dataclass
class Mark:
    """The open, locked mark of one state."""

    path: Path
    identity: str
    handle: int

    @classmethod
    def claim(
        cls, path: Path, identity: str, progress: Progress, *, anew: bool, fresh: bool
    ) -> Mark:
        """Tie a state to its mark, or to a new one; of two that begin at once one is refused.

        A `fresh` state has no mark yet; with `anew` the former one does not count any more.
        """
        if not (anew or fresh or path.exists()):
            raise AssumptionError(
                f"this state is a copy: its mark {path.name} is not beside it. {_MOVE} {_ANEW}"
            )
        handle = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made = cls(path, identity, handle)
            if not anew:
                made._check(
                    os.pread(handle, 1 << 12, 0).decode(errors="replace"), progress
                )
            os.ftruncate(handle, 0)
            made.note(progress)
            os.fsync(handle)
        except BlockingIOError:
            os.close(handle)
            raise _served_elsewhere() from None
        except BaseException:
            os.close(handle)
            raise
        return made

    def note(self, progress: Progress) -> None:
        """Say how far the state has come; not synced, so that after a loss of power it says less, never more."""
        os.pwrite(self.handle, self._text(progress).ljust(LENGTH).encode(), 0)

    def close(self) -> None:
        """Let another process have it."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def _text(self, progress: Progress) -> str:
        status = os.fstat(self.handle)
        words = f"{self.identity} {status.st_dev} {status.st_ino} {progress[0]} {progress[1]}"
        return f"{words} {zlib.crc32(words.encode())}"

    def _check(self, noted: str, progress: Progress) -> None:
        words = noted.split()
        if noted.startswith(RESTORED):
            raise AssumptionError(
                f"this state was {noted}, and what was answered since is not known. {_ANEW}"
            )
        if not words or words == [
            self.identity
        ]:  # new, of an earlier version, or moved by a backup
            return
        if words[0] != self.identity or len(words) != 6:
            raise _served_elsewhere()
        if words[5] != str(zlib.crc32(" ".join(words[:5]).encode())):
            raise SourceError(
                f"the mark {self.path.name} is damaged: it cannot say from another state folder. {_ANEW}"
            )
        status = os.fstat(self.handle)
        if words[1:3] != [str(status.st_dev), str(status.st_ino)]:
            raise AssumptionError(
                f"this state and its mark {self.path.name} are copies, and those that they were copied from may have "
                f"answered since. {_MOVE} {_ANEW}"
            )
        if progress < (int(words[3]), int(words[4])):
            raise AssumptionError(
                "this state is an older copy: readings were answered since, and would be answered with a second noise. "
                f"Put the newer one back. {_ANEW}"
            )


def _served_elsewhere() -> SourceError:
    return SourceError(
        "these meters are served from another state folder: two would answer one reading with two noises. "
        "Name that folder, or reset from a sequence number that was never answered."
    )
