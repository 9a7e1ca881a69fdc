"""Durable state of all meters: arrays in memory, logged ahead of every output, with group commit.

A frame of the log holds what one group of outputs was made of. It is on the disk before any of them leaves, so after a
crash either an output was never seen, or its frame is there and the very same output can be given again. The folder
holds readings and noise: only its owner may read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.mechanisms.meter_stream.noise import FilterBank
from gaussveil.streaming.meters import Meter, digest_of

READING, SUBSTITUTE, START, REGISTER = 0, 1, 2, 8  # kinds of records; REGISTER + r is the r-th register
RECORD = np.dtype(
    [("meter", "<u4"), ("kind", "<u4"), ("sequence", "<i8"), ("value", "<i8"), ("output", "<i8"), ("state", "<f8")]
)
FRAME = struct.Struct("<4sII")  # mark, records, checksum
MARK = b"GVF1"
NONE = -1
ABSENT = np.iinfo(np.int64).min  # stands for the value of a reading that was substituted
REGISTERS = 3
KEPT = 256  # readings per meter whose outputs can be given again
KEPT_WINDOWS = 12  # the same for registers
CHECKPOINT_RECORDS = 1 << 21

Records = NDArray[np.void]


class StreamState:
    """Arrays by meter: next sequence number, filter states, sums of registers, and the last outputs.

    `open` reads the folder, or makes it. One process at a time holds it.
    """

    def __init__(self, folder: Path, meters: Sequence[Meter], lock: int, first_sequence: int) -> None:
        self.folder, self._lock = folder, lock
        self.first_sequence = first_sequence  # what was answered before a reset must not be answered again
        self.bank = FilterBank([meter.design.filter for meter in meters])
        count = len(meters)
        self.digest = digest_of(meters)
        self.generation = 0
        self.next = np.full(count, NONE, dtype=np.int64)
        self.started = np.zeros(count, dtype=np.int64)
        self.sums = np.zeros((REGISTERS, count), dtype=np.int64)
        self.kept_sequence = np.full((count, KEPT), NONE, dtype=np.int64)
        self.kept_value = np.zeros((count, KEPT), dtype=np.int64)
        self.kept_output = np.zeros((count, KEPT), dtype=np.int64)
        self.register_sequence = np.full((REGISTERS, count, KEPT_WINDOWS), NONE, dtype=np.int64)
        self.register_output = np.zeros((REGISTERS, count, KEPT_WINDOWS), dtype=np.int64)
        windows = [
            [r.samples for r in m.design.registers] + [0] * (REGISTERS - len(m.design.registers)) for m in meters
        ]
        self.windows = np.array(windows, dtype=np.int64).T
        self.has_registers = self.windows[0] > 0
        self._logged = 0
        self._log = NONE

    @classmethod
    def exists(cls, folder: str | os.PathLike[str]) -> bool:
        """Whether a state was kept there."""
        return (Path(folder) / "state.json").exists()

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], meters: Sequence[Meter], *, reset_from: int | None = None
    ) -> StreamState:
        """Recover the state: last checkpoint, then every complete frame of the log.

        `reset_from` forgets all state, filters and noise together, and refuses every earlier sequence number. Where the
        old state can still be read, a number that it has answered is refused: it would be answered with a second noise.
        """
        if reset_from is not None and reset_from < 0:
            raise ParameterError(f"a reset must name a sequence number, 0 or later. Got {reset_from} instead.")
        path = Path(folder)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise SourceError(f"the state in {path} is in use by another gateway. Stop it first.") from None
        try:
            state = cls(path, meters, lock, reset_from or 0)
            if cls.exists(path) and reset_from is None:
                state._recover()
            else:
                if cls.exists(path):
                    _check_reset(cls(path, meters, NONE, 0), reset_from or 0)
                # Never over files that are in force: a crash leaves the old state or the new one, not parts of both.
                state.generation = max(_generations(path), default=0)
                state.checkpoint()
        except BaseException:
            os.close(lock)
            raise
        return state

    @property
    def bytes_per_meter(self) -> float:
        """Memory of the arrays."""
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        arrays += [value for value in vars(self.bank).values() if isinstance(value, np.ndarray)]
        return sum(array.nbytes for array in arrays) / len(self.next)

    def commit(self, records: Records) -> None:
        """Log one frame durably; only then may its outputs be published."""
        body = records.tobytes()
        frame = memoryview(FRAME.pack(MARK, len(records), zlib.crc32(body)) + body)
        while frame:
            frame = frame[os.write(self._log, frame) :]
        os.fdatasync(self._log)
        self._logged += len(records)
        if self._logged >= CHECKPOINT_RECORDS:
            self.checkpoint()

    def keep(self, records: Records) -> None:
        """Remember outputs and positions, in memory; filter states are the bank's."""
        readings = records[records["kind"] <= SUBSTITUTE]
        meter, slot = readings["meter"], readings["sequence"] % KEPT
        self.kept_sequence[meter, slot] = readings["sequence"]
        self.kept_value[meter, slot] = np.where(readings["kind"] == SUBSTITUTE, ABSENT, readings["value"])
        self.kept_output[meter, slot] = readings["output"]
        self.next[meter] = readings["sequence"] + 1  # a meter's later records come later
        closed = records[records["kind"] >= REGISTER]
        if closed.size:
            number, meter = closed["kind"] - REGISTER, closed["meter"]
            slot = (closed["sequence"] + 1) // self.windows[number, meter] % KEPT_WINDOWS
            self.register_sequence[number, meter, slot] = closed["sequence"]
            self.register_output[number, meter, slot] = closed["output"]

    def checkpoint(self) -> None:
        """Write all arrays, then start an empty log; a crash in between leaves the older pair in force."""
        generation = self.generation + 1
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        target = self.folder / f"arrays-{generation}.npz"
        with _private(target) as handle:
            np.savez(handle, states=self.bank.states, past=self.bank.past, **arrays)
            handle.flush()
            os.fsync(handle.fileno())
        log = os.open(self._log_path(generation), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.fsync(log)
        head = {"format": 1, "generation": generation, "meters": self.digest, "from": self.first_sequence}
        write_whole(self.folder / "state.json", json.dumps(head), PRIVATE)
        if self._log != NONE:
            os.close(self._log)
        for old in _generations(self.folder) - {generation}:  # also what a crash or a reset left: it holds readings
            self._log_path(old).unlink(missing_ok=True)
            (self.folder / f"arrays-{old}.npz").unlink(missing_ok=True)
        self.generation, self._log, self._logged = generation, log, 0

    def close(self) -> None:
        """Checkpoint and let go of the folder."""
        self.checkpoint()
        os.close(self._log)
        os.close(self._lock)
        self._log = NONE

    def _log_path(self, generation: int) -> Path:
        return self.folder / f"log-{generation}"

    def _recover(self) -> None:
        complete = self.read_back()
        self._log = os.open(self._log_path(self.generation), os.O_RDWR | os.O_APPEND)
        os.ftruncate(self._log, complete)  # a torn frame was never published
        os.fsync(self._log)

    def read_back(self) -> int:
        """Take over the last checkpoint and its log; give the length of the log's complete frames."""
        try:
            head = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            self.generation, self.first_sequence = int(head["generation"]), int(head["from"])
            if head["format"] != 1 or head["meters"] != self.digest:
                raise FormatError(f"the state in {self.folder} belongs to other meters or another version")
            with np.load(self.folder / f"arrays-{self.generation}.npz") as arrays:
                for name in _ARRAYS:
                    getattr(self, name)[...] = arrays[name]
                self.bank.states[...], self.bank.past[...] = arrays["states"], arrays["past"]
            body = self._log_path(self.generation).read_bytes()
        except FormatError:
            raise
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise FormatError(
                f"the state in {self.folder} is damaged ({type(error).__name__}). Start anew with a reset: "
                "readings that were answered before must not be sent again."
            ) from error
        return self._replay(body)

    def _replay(self, body: bytes) -> int:
        """Apply every complete frame; give the length of what was applied."""
        position = 0
        while position + FRAME.size <= len(body):
            content = _frame_at(body, position)
            if content is None:
                if _frame_follows(body, position):
                    raise FormatError(f"the log in {self.folder} is damaged in the middle. Start anew with a reset.")
                break
            records = np.frombuffer(content, RECORD)
            self._apply(records)
            self._logged += len(records)
            position += FRAME.size + len(content)
        return position

    def _apply(self, records: Records) -> None:
        """The arrays after a frame, from its records alone."""
        deep = len(self.bank.states) > 1 or len(self.bank.past) > 0
        if deep or self.has_registers.any() or (records["kind"] == START).any():
            for record in records:
                self._apply_one(record)
        elif len(self.bank.states):
            self.bank.states[0, records["meter"]] = records["state"]
        self.keep(records)

    def _apply_one(self, record: np.void) -> None:
        meter, kind = int(record["meter"]), int(record["kind"])
        if kind == START:  # the age of the state is in the value; age 0 comes last
            if len(self.bank.states):
                self.bank.states[int(record["value"]), meter] = record["state"]
            self.bank.past[:, meter] = 0
            self.sums[:, meter] = 0
            self.started[meter] = record["sequence"]
        elif kind < REGISTER:
            if len(self.bank.states):
                self.bank.states[1:, meter] = self.bank.states[:-1, meter].copy()
                self.bank.states[0, meter] = record["state"]
            if len(self.bank.past):
                self.bank.past[1:, meter] = self.bank.past[:-1, meter].copy()
                self.bank.past[0, meter] = record["value"]
            windows = self.windows[:, meter]
            self.sums[:, meter] += record["value"] * (windows > 0)
            self.sums[(windows > 0) & ((record["sequence"] + 1) % np.maximum(windows, 1) == 0), meter] = 0


_ARRAYS = (
    "next",
    "started",
    "sums",
    "kept_sequence",
    "kept_value",
    "kept_output",
    "register_sequence",
    "register_output",
)


def _check_reset(old: StreamState, reset_from: int) -> None:
    """Refuse to answer again what the old state, if it can be read, says was answered."""
    try:
        old.read_back()
    except FormatError:
        return  # it cannot say, or it belongs to streams that another debit paid for
    answered = max(old.first_sequence, int(old.next.max()))
    if reset_from < answered:
        raise ParameterError(f"readings before {answered} may have been answered: reset from {answered} or later.")


def _frame_at(body: bytes, position: int) -> bytes | None:
    """The records of the frame that begins there; None unless it is whole."""
    if position + FRAME.size > len(body):
        return None
    mark, count, checksum = FRAME.unpack_from(body, position)
    start = position + FRAME.size
    content = body[start : start + count * RECORD.itemsize]
    whole = mark == MARK and len(content) == count * RECORD.itemsize > 0 and zlib.crc32(content) == checksum
    return content if whole else None


def _frame_follows(body: bytes, position: int) -> bool:
    """Whether more was logged after a bad frame: then it is damaged, not torn. Its own length may be the damage."""
    end = position + FRAME.size + FRAME.unpack_from(body, position)[1] * RECORD.itemsize
    if body.find(MARK, end) >= 0:
        return True
    while (position := body.find(MARK, position + 1)) >= 0:
        if _frame_at(body, position) is not None:
            return True
    return False


def _generations(folder: Path) -> set[int]:
    """Numbers of all checkpoints of which a file is there."""
    names = {path.name.removesuffix(".npz").removeprefix("arrays-").removeprefix("log-") for path in folder.iterdir()}
    return {int(name) for name in names if name.isdecimal()}


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
