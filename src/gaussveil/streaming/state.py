"""Durable state of all meters: arrays in memory, logged ahead of every output, with group commit.

A frame of the log is on the disk before any of its outputs leaves, so after a crash either an output was never seen, or
its frame is there and the very same output can be given again. How far the log was written is noted in a file of its
own: a log that is shorter lost answers that were given, and is refused. The folder holds noise: only its owner may read
it.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.streaming.drawn import DrawnFrame, frame_follows, frames_in
from gaussveil.streaming.held_state import StreamMemory
from gaussveil.streaming.mark import Progress
from gaussveil.streaming.meter_arrays import NOT_STARTED, MeterArrays
from gaussveil.streaming.meters import Meter

FORMAT = 2
COMMITTED = struct.Struct("<QQI")  # generation, bytes of its log, checksum
CHECKPOINT_BYTES = 1 << 26
CLOSED = -1
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

Reset = int | Mapping[str, int]  # of all meters, or by name


@dataclass(eq=False)
class Stored:
    """What a folder holds: whose arrays, and where meters stopped that were taken out."""

    identity: str
    generation: int
    arrays: MeterArrays
    meters: list[tuple[str, str]]  # name, and the debit that paid
    retired: dict[tuple[str, str], int] = field(default_factory=dict)
    log_bytes: int = 0

    def ends(self) -> dict[tuple[str, str], int]:
        """The number of the next reading of every meter that was ever here."""
        next_readings = self.arrays.next
        current = {
            whose: int(next_readings[row]) for row, whose in enumerate(self.meters)
        }
        return {**self.retired, **current}


class StreamState(StreamMemory):
    """The state in a folder. `open` reads the folder, or makes it. One process at a time holds it."""

    def __init__(self, folder: Path, meters: Sequence[Meter], lock: int) -> None:
        super().__init__(meters)
        self.folder = folder
        self.identity = os.urandom(16).hex()
        self.generation = 0
        self.retired: dict[tuple[str, str], int] = {}
        self._lock = lock
        self._log = CLOSED
        self._committed = CLOSED
        self._written = 0

    @property
    def progress(self) -> Progress:
        """How far the state has come: the number of its checkpoint, and the length of the log since."""
        return self.generation, self._written

    @classmethod
    def exists(cls, folder: str | os.PathLike[str]) -> bool:
        """Whether a state was kept there."""
        return (Path(folder) / "state.json").exists()

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        meters: Sequence[Meter],
        *,
        reset_from: Reset | None = None,
    ) -> StreamState:
        """Recover the state: last checkpoint, then every frame of the log. Meters may have come or gone meanwhile.

        `reset_from` forgets the state of all meters or of those named, filters and noise together, and refuses every
        earlier sequence number. Where the old state can still be read, a number that it has answered is refused: it
        would be answered with a second noise.
        """
        path = Path(folder)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _locked(path)
        try:
            state = cls(path, meters, lock)
            begins = _by_name(reset_from, meters)
            if cls.exists(path):
                stored = _stored(path, all_anew=len(begins) == len(meters))
            else:
                stored = None
            fitting = stored is not None and state._take_over(stored, begins)
            if stored is None:
                state._begin_at(begins)
            if fitting and stored is not None and not begins:
                state._continue_log(stored.log_bytes)
            else:  # never over files that are in force: a crash leaves the old state or the new one, not parts of both
                state.generation = max(_generations(path), default=0)
                state.checkpoint()
        except BaseException:
            os.close(lock)
            raise
        return state

    def _begin_at(self, begins: Mapping[str, int]) -> None:
        """Let meters of which nothing is stored begin at the numbers that were asked for."""
        for row, meter in enumerate(self.meters):
            if meter.name in begins:
                self.arrays.next[row] = begins[meter.name]
                self.arrays.confirmed[row] = begins[meter.name]

    def commit(self, frames: Sequence[DrawnFrame]) -> None:
        """Log frames durably; only then may their outputs be published."""
        body = memoryview(b"".join(frame.to_frame() for frame in frames))
        self._written += len(body)
        while body:
            body = body[os.write(self._log, body) :]
        os.fdatasync(self._log)
        self._note_committed()
        if self._written >= CHECKPOINT_BYTES:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write all arrays, then start an empty log; a crash in between leaves the older pair in force."""
        generation = self.generation + 1
        names = [[meter.name, meter.certificate.release_id] for meter in self.meters]
        record = {
            "meters": names,
            "retired": [[*whose, end] for whose, end in self.retired.items()],
        }
        listed = np.frombuffer(json.dumps(record).encode(), np.uint8)
        with _private(self.folder / f"arrays-{generation}.npz") as handle:
            np.savez(handle, allow_pickle=False, listed=listed, **self.arrays.to_dict())
            _sync(handle)
        log = os.open(
            self.folder / f"log-{generation}",
            os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
            0o600,
        )
        os.fsync(log)
        with _private(self.folder / f"committed-{generation}") as handle:
            handle.write(_committed(generation, 0))
            _sync(handle)
        head = {"format": FORMAT, "generation": generation, "state": self.identity}
        write_whole(self.folder / "state.json", json.dumps(head), PRIVATE)
        self._let_go()
        for old in _generations(self.folder) - {
            generation
        }:  # also what a crash or a reset left
            for name in (f"arrays-{old}.npz", f"log-{old}", f"committed-{old}"):
                (self.folder / name).unlink(missing_ok=True)
        self.generation = generation
        self._log = log
        self._written = 0
        self._committed = os.open(self.folder / f"committed-{generation}", os.O_WRONLY)
        if self.mark is not None:
            self.mark.note(self.progress)

    def close(self) -> None:
        """Checkpoint and let go of the folder."""
        self.checkpoint()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the folder as it is, as a crash would."""
        self._let_go()
        if self._lock != CLOSED:
            os.close(self._lock)
            self._lock = CLOSED
        if self.mark is not None:
            self.mark.close()

    def _let_go(self) -> None:
        for handle in (self._log, self._committed):
            if handle != CLOSED:
                os.close(handle)
        self._log = self._committed = CLOSED

    def _take_over(self, stored: Stored, begins: Mapping[str, int]) -> bool:
        """Continue every meter that is known; whether the file of meters is the one the log was written for."""
        places = {whose: row for row, whose in enumerate(stored.meters)}
        now = [(meter.name, meter.certificate.release_id) for meter in self.meters]
        moved = [
            (row, places[whose]) for row, whose in enumerate(now) if whose in places
        ]
        if moved:
            rows, sources = np.array(moved).T
            self.arrays.take(rows, stored.arrays, sources)
        ends = stored.ends()
        for row, whose in enumerate(now):
            begin = _begin_of(whose[0], begins, ends.get(whose, 0))
            if whose[0] in begins or (begin and whose not in places):
                _forget(self.arrays, row, begin)
        self.identity = stored.identity
        self.generation = stored.generation
        here = set(now)
        self.retired = {whose: end for whose, end in ends.items() if whose not in here}
        return now == stored.meters

    def _continue_log(self, length: int) -> None:
        self._log = os.open(
            self.folder / f"log-{self.generation}", os.O_RDWR | os.O_APPEND
        )
        os.ftruncate(self._log, length)  # a torn frame was never published
        os.fsync(self._log)
        self._written = length
        self._committed = os.open(
            self.folder / f"committed-{self.generation}", os.O_WRONLY
        )
        self._note_committed()

    def _note_committed(self) -> None:
        """Without a sync: it outlives the process, and after a loss of power it says less, never more."""
        os.pwrite(self._committed, _committed(self.generation, self._written), 0)
        if self.mark is not None:
            self.mark.note(self.progress)


def read_state(folder: str | os.PathLike[str]) -> Stored:
    """What a folder of the present format holds, checkpoint and log; nothing is changed."""
    path = Path(folder)
    with _damage_reported(path):
        head = json.loads((path / "state.json").read_text(encoding="utf-8"))
        generation = int(head["generation"])
        identity = str(head["state"])
        if head["format"] != FORMAT:
            raise FormatError(
                f"the state in {path} is of format {head['format']}, not {FORMAT}."
            )
        # read at once: a lazily read archive checks its sums only where it is read
        with np.load(
            io.BytesIO((path / f"arrays-{generation}.npz").read_bytes()),
            allow_pickle=False,
        ) as archive:
            arrays = dict(archive)
        listed = json.loads(arrays["listed"].tobytes())
        meters = [(str(name), str(paid)) for name, paid in listed["meters"]]
        retired = {
            (str(name), str(paid)): int(end) for name, paid, end in listed["retired"]
        }
        stored = Stored(
            identity, generation, MeterArrays.from_dict(arrays), meters, retired
        )
        body = (path / f"log-{generation}").read_bytes()
        noted, written, checksum = COMMITTED.unpack(
            (path / f"committed-{generation}").read_bytes()
        )
        if noted != generation or checksum != zlib.crc32(
            COMMITTED.pack(noted, written, 0)[:16]
        ):
            raise ValueError("committed")
    for position, drawn in frames_in(body):
        stored.arrays.apply(drawn)
        stored.log_bytes = position
    if stored.log_bytes < written or frame_follows(body, stored.log_bytes):
        raise FormatError(
            f"the log in {path} is damaged: {written} bytes were written and {stored.log_bytes} can be read. Answers "
            "that were given are lost: restore the folder, or start anew with a reset."
        )
    return stored


def _stored(path: Path, *, all_anew: bool) -> Stored | None:
    """The state in a folder; None where it is damaged, or of another format, and nothing of it is needed."""
    try:
        return read_state(path)
    except FormatError:
        if all_anew:
            return None  # it cannot say what was answered: whoever resets says so
        raise


@contextmanager
def _damage_reported(folder: Path) -> Iterator[None]:
    """Turn whatever a damaged file of the state leads to into one error."""
    try:
        yield
    except FormatError:
        raise
    except DAMAGE as error:
        raise FormatError(
            f"the state in {folder} is damaged ({type(error).__name__}). Restore it, or start anew with a reset: "
            "readings that were answered before must not be sent again."
        ) from None


def _by_name(reset_from: Reset | None, meters: Sequence[Meter]) -> dict[str, int]:
    """From where each meter that is to be reset begins."""
    if reset_from is None:
        return {}
    names = [meter.name for meter in meters]
    if isinstance(reset_from, int):
        begins = dict.fromkeys(names, reset_from)
    else:
        begins = dict(reset_from)
    if unknown := [name for name in begins if name not in names]:
        raise ParameterError(
            f"reset_from must name meters of the file. Got {unknown[0]!r}."
        )
    if wrong := [begin for begin in begins.values() if begin < 0]:
        raise ParameterError(
            f"reset_from must be a sequence number, 0 or later. Got {wrong[0]}."
        )
    return begins


def _forget(arrays: MeterArrays, row: int, begin: int) -> None:
    """One meter as if no reading had come, and none before `begin` ever will."""
    fresh = MeterArrays(
        arrays.windows[:, row : row + 1], len(arrays.states), len(arrays.past)
    )
    fresh.next[0] = fresh.confirmed[0] = begin
    arrays.confirm(row, int(arrays.next[row]))  # lets go of what was spilled
    arrays.take(np.array([row]), fresh, np.array([0]))
    arrays.started[row] = NOT_STARTED


def _generations(folder: Path) -> set[int]:
    """Numbers of all checkpoints of which a file is there."""
    names = [
        path.name.removesuffix(".npz").rpartition("-") for path in folder.iterdir()
    ]
    return {
        int(number)
        for kind, _, number in names
        if kind in ("arrays", "log", "committed") and number.isdecimal()
    }


def _committed(generation: int, written: int) -> bytes:
    return COMMITTED.pack(
        generation, written, zlib.crc32(COMMITTED.pack(generation, written, 0)[:16])
    )


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _sync(handle: BinaryIO) -> None:
    handle.flush()
    os.fsync(handle.fileno())


def _locked(folder: Path) -> int:
    """The lock of a state's folder, held by this process alone."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise SourceError(
            f"the state in {folder} is in use by another gateway. Stop it first."
        ) from None
    return lock


def _begin_of(meter: str, begins: Mapping[str, int], end: int) -> int:
    """Where a meter goes on: where it ended, or later if that is asked for; never at what may have been answered."""
    begin = begins.get(meter, end)
    if begin < end:
        raise ParameterError(
            f"reset_from must be {end} or later for meter {meter!r}, since what is before may have been "
            f"answered. Got {begin}."
        )
    return begin
