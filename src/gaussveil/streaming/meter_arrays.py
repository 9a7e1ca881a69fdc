"""What a gateway knows of its meters, as arrays by meter: positions, filter states, registers and answers.

The last answers of a meter lie in a ring. What leaves the ring before its delivery was confirmed is spilled to an array
that grows, and goes when the confirmation comes. So every answer is there until it was delivered, and memory is small
where deliveries are confirmed.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.streaming.drawn import REGISTERS, DrawnFrame, Registers
from gaussveil.typing import Integers

KEPT = 256  # answers per meter that stay after their delivery
KEPT_WINDOWS = 12  # the same for registers
NOT_STARTED = -1
NO_ANSWER = int(np.iinfo(np.int64).min)
BY_METER = ("next", "confirmed", "started", "kept")
BY_COLUMN = (
    "sums",
    "windows",
    "states",
    "past",
    "register_sequence",
    "register_output",
)


class MeterArrays:
    """By meter: `next`, the first number not passed; `confirmed`, all before were delivered; `started`, of filters."""

    def __init__(self, windows: Integers, depth: int, reach: int) -> None:
        count = windows.shape[1]
        self.windows = windows
        self.next = np.zeros(count, np.int64)
        self.confirmed = np.zeros(count, np.int64)
        self.started = np.full(count, NOT_STARTED, np.int64)
        self.sums = np.zeros((REGISTERS, count), np.int64)
        self.states = np.zeros((depth, count))
        self.past = np.zeros((reach, count), np.int64)
        self.kept = np.full((count, KEPT), NO_ANSWER, np.int64)
        self.register_sequence = np.full(
            (REGISTERS, count, KEPT_WINDOWS), NOT_STARTED, np.int64
        )
        self.register_output = np.zeros((REGISTERS, count, KEPT_WINDOWS), np.int64)
        self._spilled: dict[
            int, array[int]
        ] = {}  # answers that end where the ring begins
        self._spilled_registers: dict[
            int, list[tuple[int, int, int]]
        ] = {}  # number, sequence, output

    def __len__(self) -> int:
        return len(self.next)

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        fixed: int = sum(getattr(self, name).nbytes for name in (*BY_METER, *BY_COLUMN))
        return fixed + sum(8 * len(values) for values in self._spilled.values())

    @property
    def unconfirmed(self) -> int:
        """Readings answered whose delivery is not confirmed."""
        return int((self.next - self.confirmed).clip(0).sum())

    def apply(self, drawn: DrawnFrame) -> None:
        """The arrays after a draw, from its frame alone."""
        rows = drawn.rows
        if drawn.restart:
            for row, begin in zip(rows.tolist(), drawn.first.tolist()):
                self._pass_over(row, begin)
            self.started[rows] = drawn.first
        self.states[:, rows], self.past[:, rows], self.sums[:, rows] = (
            drawn.states,
            drawn.past,
            drawn.sums,
        )
        self._keep(rows, drawn.first, drawn.outputs)
        if drawn.registers.size:
            self._keep_registers(drawn.registers)

    def answers(self, row: int, first: int, count: int) -> Integers:
        """The answers to `count` readings from `first` on, in units of the grid; NO_ANSWER where none is kept."""
        found = np.full(count, NO_ANSWER, np.int64)
        ring = int(self.next[row]) - KEPT
        low = max(first, ring, 0)
        high = min(first + count, ring + KEPT)
        if low < high:
            found[low - first : high - first] = self.kept[
                row, np.arange(low, high) % KEPT
            ]
        values = self._spilled.get(row)
        if values is not None:
            begin = ring - len(values)
            low = max(first, begin)
            high = min(first + count, ring)
            if low < high:
                found[low - first : high - first] = values[low - begin : high - begin]
        return found

    def closed_registers(
        self, row: int, first: int, count: int
    ) -> list[tuple[int, int, int]]:
        """(number, sequence, output) of the registers that these readings closed, in order."""
        closed = self.register_sequence[:, row]
        number, slot = np.nonzero((closed >= first) & (closed < first + count))
        outputs = self.register_output[number, row, slot]
        found = list(
            zip(number.tolist(), closed[number, slot].tolist(), outputs.tolist())
        )
        found += [
            item
            for item in self._spilled_registers.get(row, ())
            if first <= item[1] < first + count
        ]
        return sorted(found, key=lambda item: (item[1], item[0]))

    def confirm(self, row: int, end: int) -> None:
        """All answers before `end` were delivered."""
        if end <= self.confirmed[row]:
            return
        self.confirmed[row] = end
        values = self._spilled.get(row)
        if values is not None:
            staying = int(self.next[row]) - KEPT - end
            if staying <= 0:
                del self._spilled[row]
            else:
                del values[: len(values) - staying]
        registers = self._spilled_registers.get(row)
        if registers is not None:
            registers[:] = [item for item in registers if item[1] >= end]
            if not registers:
                del self._spilled_registers[row]

    def _pass_over(self, row: int, begin: int) -> None:
        """Numbers that will never be answered."""
        before = int(self.next[row])
        if self.confirmed[row] >= before:  # nor is there anything to deliver
            self.confirmed[row] = max(int(self.confirmed[row]), begin)
        self._keep_one(row, np.full(begin - before, NO_ANSWER, np.int64))

    def _keep(self, rows: Integers, first: Integers, outputs: Integers) -> None:
        count = outputs.shape[1]
        leaves = first + count - KEPT > np.maximum(first - KEPT, self.confirmed[rows])
        if count <= KEPT:
            singly = leaves
        else:
            singly = np.ones_like(leaves)
        if singly.any():
            for index in np.flatnonzero(singly).tolist():
                self._keep_one(int(rows[index]), outputs[index])
            rows = rows[~singly]
            first = first[~singly]
            outputs = outputs[~singly]
        if rows.size:
            self.kept[rows[:, None], (first[:, None] + np.arange(count)) % KEPT] = (
                outputs
            )
            self.next[rows] = first + count

    def _keep_one(self, row: int, block: Integers) -> None:
        before = int(self.next[row])
        after = before + len(block)
        low = max(before - KEPT, int(self.confirmed[row]))
        if after - KEPT > low:
            spilled = self._spilled.setdefault(row, array("q"))
            if low < before:
                spilled.frombytes(
                    self.kept[
                        row, np.arange(low, min(before, after - KEPT)) % KEPT
                    ].tobytes()
                )
            spilled.frombytes(
                block[max(0, low - before) : max(0, after - KEPT - before)]
                .astype("=i8")
                .tobytes()
            )
        tail = block[-KEPT:]
        self.kept[row, np.arange(after - len(tail), after) % KEPT] = tail
        self.next[row] = after

    def _keep_registers(self, registers: Registers) -> None:
        number = registers["number"]
        meter = registers["meter"]
        sequence = registers["sequence"]
        slots = (sequence + 1) // self.windows[number, meter] % KEPT_WINDOWS
        for place, reached, output in zip(
            zip(number, meter, slots), sequence, registers["output"]
        ):
            row = int(place[1])
            earlier = int(self.register_sequence[place])
            if earlier >= self.confirmed[row]:
                lost = (int(place[0]), earlier, int(self.register_output[place]))
                self._spilled_registers.setdefault(row, []).append(lost)
            self.register_sequence[place], self.register_output[place] = reached, output

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays."""
        answers = [np.frombuffer(values, np.int64) for values in self._spilled.values()]
        registers = [
            [row, *item]
            for row, items in self._spilled_registers.items()
            for item in items
        ]
        return {
            **{name: getattr(self, name) for name in (*BY_METER, *BY_COLUMN)},
            "spilled_rows": np.array(
                [[row, len(values)] for row, values in self._spilled.items()], np.int64
            ),
            "spilled": np.concatenate([np.empty(0, np.int64), *answers]),
            "spilled_registers": np.array(registers, np.int64),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, NDArray[Any]]) -> MeterArrays:
        """Inverse of `to_dict`."""
        made = cls(
            np.array(stored["windows"], np.int64),
            len(stored["states"]),
            len(stored["past"]),
        )
        for name in (*BY_METER, *BY_COLUMN):
            getattr(made, name)[...] = stored[name]
        values = np.array(stored["spilled"], np.int64)
        position = 0
        for row, length in stored["spilled_rows"].reshape(-1, 2).tolist():
            made._spilled[row] = array(
                "q", values[position : position + length].tolist()
            )
            position += length
        for row, *item in stored["spilled_registers"].reshape(-1, 4).tolist():
            made._spilled_registers.setdefault(row, []).append(tuple(item))
        return made

    def take(self, rows: Integers, other: MeterArrays, from_rows: Integers) -> None:
        """Take over meters of other arrays, of which each may have had other neighbours and so another depth."""
        for name in BY_METER:
            getattr(self, name)[rows] = getattr(other, name)[from_rows]
        for name in BY_COLUMN:
            mine = getattr(self, name)
            theirs = getattr(other, name)
            shared = min(len(mine), len(theirs))
            mine[:shared, rows] = theirs[:shared, from_rows]
        for row, source in zip(rows.tolist(), from_rows.tolist()):
            if source in other._spilled:
                self._spilled[row] = other._spilled[source]
            if source in other._spilled_registers:
                self._spilled_registers[row] = other._spilled_registers[source]
