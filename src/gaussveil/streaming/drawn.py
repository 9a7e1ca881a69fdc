"""What one draw gave, and its place in the log: a frame with a checksum, from which memory can be rebuilt."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.typing import Floats, Integers

REGISTERS = 3
REGISTER = np.dtype(
    [("meter", "<u4"), ("number", "<u4"), ("sequence", "<i8"), ("output", "<i8")]
)
HEAD = struct.Struct(
    "<4sIIIII"
)  # mark, restart, meters, readings of each, closed registers, depth and reach
CHECKSUM = struct.Struct("<I")
MARK = b"GVF2"
DEEP = 1 << 16

Registers = NDArray[np.void]


@dataclass(frozen=True, eq=False, repr=False)
class DrawnFrame:
    """Outputs for the same number of consecutive readings of some meters, and the filters as they are after them.

    Raw readings are not here, except those few that a filter or an open register still needs.
    """

    restart: bool
    rows: Integers
    first: Integers
    outputs: Integers  # (meters, readings), in units of the grid
    states: Floats  # (depth, meters)
    past: Integers  # (reach, meters)
    sums: Integers  # (registers, meters)
    registers: Registers

    def to_frame(self) -> bytes:
        """One frame of the log."""
        meters, count = self.outputs.shape
        depth = len(self.states) * DEEP + len(self.past)
        head = HEAD.pack(MARK, self.restart, meters, count, self.registers.size, depth)
        arrays = (
            self.rows,
            self.first,
            self.outputs,
            self.states,
            self.past,
            self.sums,
        )
        kinds = ("<i8", "<i8", "<i8", "<f8", "<i8", "<i8")
        parts = [
            np.ascontiguousarray(array, kind).tobytes()
            for array, kind in zip(arrays, kinds)
        ]
        body = b"".join((head, *parts, self.registers.tobytes()))
        return body + CHECKSUM.pack(zlib.crc32(body))


def frames_in(body: bytes) -> Iterator[tuple[int, DrawnFrame]]:
    """Every complete frame from the beginning on, with the position where it ends."""
    position = 0
    while (found := _frame_at(body, position)) is not None:
        position = found[0]
        yield found


def frame_follows(body: bytes, position: int) -> bool:
    """Whether a whole frame lies behind a bad one: then it is damaged, not torn."""
    while (position := body.find(MARK, position + 1)) >= 0:
        if _frame_at(body, position) is not None:
            return True
    return False


def _frame_at(body: bytes, position: int) -> tuple[int, DrawnFrame] | None:
    if position + HEAD.size > len(body):
        return None
    mark, restart, meters, count, closed, deep = HEAD.unpack_from(body, position)
    depth, reach = divmod(deep, DEEP)
    shapes = (
        (meters,),
        (meters,),
        (meters, count),
        (depth, meters),
        (reach, meters),
        (REGISTERS, meters),
    )
    kinds = ("<i8", "<i8", "<i8", "<f8", "<i8", "<i8")
    sizes = [int(np.prod(shape, dtype=object)) * 8 for shape in shapes]
    start = position + HEAD.size
    end = start + sum(sizes) + closed * REGISTER.itemsize
    if mark != MARK or end + CHECKSUM.size > len(body):
        return None
    if CHECKSUM.unpack_from(body, end)[0] != zlib.crc32(memoryview(body)[position:end]):
        return None
    arrays: list[Any] = []
    for shape, kind, size in zip(shapes, kinds, sizes):
        arrays.append(np.frombuffer(body, kind, size // 8, start).reshape(shape))
        start += size
    rows, first, outputs, states, past, sums = arrays
    registers = np.frombuffer(body, REGISTER, closed, start)
    return end + CHECKSUM.size, DrawnFrame(
        bool(restart), rows, first, outputs, states, past, sums, registers
    )
