"""The gateway's rules, without any transport: messages of readings in, private readings out.

A meter counts its readings from 0. The next one is answered with fresh noise, one that was answered before with the
identical answer, whatever value comes with it; what is missing, late, ahead or no number has its rule in docs/gateway.
Every rule depends on public things only: names, sequence numbers, and whether a value is a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Literal

import numpy as np

from gaussveil.errors import SourceError
from gaussveil.mechanisms.meter_stream.registers import (
    Energy,
    register_noise,
    window_sums,
)
from gaussveil.noise import DiscreteGaussianNoise, Generator, default_generator
from gaussveil.noise.filter_bank import to_steps
from gaussveil.streaming.drawn import REGISTER, DrawnFrame, Registers
from gaussveil.streaming.held_state import HeldState, StreamMemory
from gaussveil.streaming.meter_arrays import NO_ANSWER, NOT_STARTED
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.readings import Answer, Message, Segment
from gaussveil.typing import Floats, Integers

LONGEST_GAP = 288
LONGEST_JUMP = 1 << 15  # 113 days of five minutes
LARGEST_SEQUENCE = 2**62
COUNTED = (
    "accepted",
    "substituted",
    "repeated",
    "late",
    "unknown",
    "restarts",
    "delivered",
)
REASONS = ("payload", "size", "empty", "range", "jump", "value")
Missing = Literal["refuse", "substitute"]


class MessageGateway(ABC):
    """What transports serve: groups of messages in, durable answers out; rows of meters, counters, and a state."""

    def __init__(
        self,
        rows: Mapping[str, int],
        state: HeldState,
        *,
        longest_jump: int,
        missing: Missing,
    ) -> None:
        self.state = state
        self.counters: Counter[str] = Counter()
        self.longest_jump = longest_jump
        self.missing = missing
        self.broken = False
        self._rows = dict(rows)

    @abstractmethod
    def answer(self, messages: Sequence[Message]) -> list[Answer]:
        """Answers in the order of the messages, in one durable group; a refused message has an empty answer."""

    @abstractmethod
    def confirm(self, answer: Answer) -> None:
        """The answer was delivered, and need not be kept; to be called in the order of the answers of a meter."""

    @abstractmethod
    def hand_over(self, answer: Answer) -> None:
        """The transport keeps sending the answer for as long as it lives."""

    @abstractmethod
    def forget_before(self, last: int) -> None:
        """Let go of answers that are not among the last so many of their meter, delivered or not."""

    @abstractmethod
    def health(self) -> dict[str, int]:
        """What happened so far, in counts; the owner's alone, as they tell how many readings were missing."""

    def refuse(self, reason: str) -> None:
        """Count a message that is no reading."""
        self.counters[f"malformed_{reason}"] += 1


class Gateway(MessageGateway):
    """Answers groups of messages; every answer is durable in the state before it is returned."""

    state: StreamMemory

    def __init__(
        self,
        meters: Sequence[Meter],
        state: StreamMemory,
        *,
        generator: Generator | None = None,
        longest_gap: int = LONGEST_GAP,
        longest_jump: int = LONGEST_JUMP,
        missing: Missing = "refuse",
    ) -> None:
        rows = {meter.name: row for row, meter in enumerate(meters)}
        super().__init__(rows, state, longest_jump=longest_jump, missing=missing)
        self.meters = tuple(meters)
        self.longest_gap = longest_gap
        self._generator = default_generator() if generator is None else generator
        self._limit = [
            min(meter.design.sample_limit, LARGEST_SEQUENCE) for meter in meters
        ]
        self._low, self._high = np.array([meter.design.limits for meter in meters]).T
        self._substitute = np.array([meter.design.substitute for meter in meters])
        self._noise: dict[tuple[int, int], DiscreteGaussianNoise] = {}

    def answer(self, messages: Sequence[Message]) -> list[Answer]:
        """Answers in the order of the messages, in one durable group; a refused message has an empty answer."""
        if self.broken:
            raise SourceError(
                "an earlier group could not be logged. Restart the gateway: it continues from its log."
            )
        answers = [Answer(message.meter) for message in messages]
        current: dict[int, Segment] = {}
        turns: list[list[Segment]] = []
        again: list[tuple[int, int, int, Answer]] = []
        for message, answer in zip(messages, answers):
            row = self._rows.get(message.meter)
            if row is None:
                self.counters["unknown"] += 1
            else:
                self._examine(row, message, answer, current, turns, again)
        if turns:
            self.broken = (
                True  # until the frames are on the disk, memory is ahead of the log
            )
            frames = [drawn for turn in turns for drawn in self._drawn(turn)]
            self.state.commit(frames)
            self.broken = False
        for row, first, count, answer in again:
            self._repeat(row, first, count, answer)
        return answers

    def confirm(self, answer: Answer) -> None:
        """The answer was delivered, and need not be kept; to be called in the order of the answers of a meter."""
        if answer.end:
            self.state.arrays.confirm(self._rows[answer.meter], answer.end)
            self.counters["delivered"] += 1

    def hand_over(self, answer: Answer) -> None:
        """The transport keeps sending the answer for as long as it lives; nothing to do where numbers are asked for."""

    def forget_before(self, last: int) -> None:
        """Let go of answers that are not among the last so many of their meter, delivered or not."""
        arrays = self.state.arrays
        for row in np.flatnonzero(arrays.next - last > arrays.confirmed).tolist():
            arrays.confirm(row, int(arrays.next[row]) - last)

    def health(self) -> dict[str, int]:
        """What happened so far, in counts; the owner's alone, as they tell how many readings were missing."""
        reasons = {reason: self.counters[f"malformed_{reason}"] for reason in REASONS}
        arrays = self.state.arrays
        left = min(
            limit - int(reached) for limit, reached in zip(self._limit, arrays.next)
        )
        return {
            "meters": len(self.meters),
            **{name: self.counters[name] for name in COUNTED},
            "malformed": sum(reasons.values()),
            **{f"malformed_{reason}": count for reason, count in reasons.items()},
            "unconfirmed": arrays.unconfirmed,
            "readings_left": left,
        }

    def _examine(
        self,
        row: int,
        message: Message,
        answer: Answer,
        current: dict[int, Segment],
        turns: list[list[Segment]],
        again: list[tuple[int, int, int, Answer]],
    ) -> None:
        """Refuse a message, note what was answered before, and append the rest to what is to be drawn."""
        values = message.values
        first = message.sequence
        count = len(values)
        segment = current.get(row)
        arrays = self.state.arrays
        if segment is not None:
            expected = segment.end
        else:
            expected = int(arrays.next[row])
        misplaced = self._misplaced(row, message, expected)
        if misplaced:
            self.refuse(misplaced)
            return
        answer.end = first + count
        if first < expected:
            old = min(count, expected - first)
            again.append((row, first, old, answer))
            if old == count:
                return
            values = values[old:]
            first = expected
        if self.missing == "refuse" and isnan(
            values.min()
        ):  # which is no number where one is none
            answer.end = self._answered_before(message, first)
            self.refuse("value")
            return
        if segment is None or first - expected > self.longest_gap:
            segment = self._begun(row, first, expected, segment)
            current[row] = segment
            if segment.turn == len(turns):
                turns.append([])
            turns[segment.turn].append(segment)
        segment.append(first, values, answer)

    def _misplaced(self, row: int, message: Message, expected: int) -> str:
        """Why the numbers of a message's readings cannot be those of a meter that is expected to go on there; or ""."""
        count = len(message.values)
        if count == 0:
            return "empty"
        if not 0 <= message.sequence <= self._limit[row] - count:
            return "range"
        if message.sequence > expected + self.longest_jump:
            return "jump"
        return ""

    @staticmethod
    def _answered_before(message: Message, first: int) -> int:
        """Where the part of a message ends that was answered before, whose new part begins at `first`; 0 for none."""
        if first > message.sequence:
            return first
        return 0

    def _begun(
        self, row: int, first: int, expected: int, before: Segment | None
    ) -> Segment:
        """A run of readings from `first` on, anew behind a long gap; a short one before it is filled."""
        anew = first - expected > self.longest_gap
        turn = 0
        if before is not None:
            turn = before.turn + 1
        else:
            anew = anew or bool(self.state.arrays.started[row] == NOT_STARTED)
        begin = first if anew else expected
        return Segment(row, begin, anew, turn, begin)

    def _repeat(self, row: int, first: int, count: int, answer: Answer) -> None:
        """Answer again what was answered before, to the bit; what is no longer kept, or never was answered, is late."""
        arrays = self.state.arrays
        steps = arrays.answers(row, first, count)
        kept = steps != NO_ANSWER
        outputs: Floats = steps.astype(np.float64) * self.state.bank.grid[row]
        edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).reshape(
            -1, 2
        )
        answer.runs[:0] = [
            (first + start, outputs[start:stop]) for start, stop in edges.tolist()
        ]
        closed = arrays.closed_registers(row, first, count)
        answer.energies[:0] = [
            self._energy(row, number, sequence, output)
            for number, sequence, output in closed
            if kept[sequence - first]
        ]
        self.counters["repeated"] += int(kept.sum())
        self.counters["late"] += int((~kept).sum())

    def _drawn(self, segments: list[Segment]) -> list[DrawnFrame]:
        """Fresh outputs for segments of different meters, those of equal length together."""
        groups: dict[tuple[int, bool], list[Segment]] = {}
        for segment in segments:
            groups.setdefault(
                (segment.end - segment.first, segment.restart), []
            ).append(segment)
        return [
            self._draw(group, count, restart)
            for (count, restart), group in groups.items()
        ]

    def _draw(self, segments: list[Segment], count: int, restart: bool) -> DrawnFrame:
        bank = self.state.bank
        state = self.state
        rows = np.array([segment.row for segment in segments])
        first = np.array([segment.first for segment in segments])
        if restart:
            self.counters["restarts"] += rows.size
            bank.start(self._generator, rows)
            state.arrays.sums[:, rows] = 0
            state.arrays.started[rows] = first
        values = np.concatenate(
            [part for segment in segments for part in segment.values]
        ).reshape(rows.size, count)
        columns = rows[:, None]
        rules = (self._low[columns], self._high[columns], self._substitute[columns])
        steps = to_steps(values, bank.input_grid[columns], *rules)
        outputs = bank.push(steps.T, self._generator, rows)[0].T
        scaled = outputs * bank.grid[columns]
        for segment, own in zip(segments, scaled):
            for answer, offset, length in segment.pieces:
                answer.runs.append(
                    (segment.first + offset, own[offset : offset + length])
                )
        present = int(np.count_nonzero(values == values))
        self.counters["accepted"] += present
        self.counters["substituted"] += values.size - present
        if state.arrays.windows[0, rows].any():
            registers = self._close_registers(segments, steps)
        else:
            registers = _no_registers()
        left = bank.states[:, rows], bank.past[:, rows], state.arrays.sums[:, rows]
        drawn = DrawnFrame(restart, rows, first, outputs, *left, registers)
        state.arrays.apply(drawn)
        return drawn

    def _close_registers(self, segments: list[Segment], steps: Integers) -> Registers:
        """Add readings to the open registers; those whose whole window has passed are released."""
        arrays = self.state.arrays
        closed = []
        for segment, own in zip(segments, steps):
            row = segment.row
            pieces_end = [offset + length for _, offset, length in segment.pieces]
            found = []
            for number, register in enumerate(self.meters[row].design.registers):
                opened = int(arrays.sums[number, row])
                sums, arrays.sums[number, row] = window_sums(
                    own, segment.first, register.samples, opened
                )
                found += [
                    (end - 1, number, self._register_output(row, number, total))
                    for end, total in sums
                    if end - register.samples
                    >= arrays.started[row]  # else a part only: not released
                ]
            for sequence, number, output in sorted(found):
                closed.append((row, number, sequence, output))
                energy = self._energy(row, number, sequence, output)
                piece = bisect_right(pieces_end, sequence - segment.first)
                segment.pieces[piece][0].energies.append(energy)
        if closed:
            return np.array(closed, REGISTER)
        return _no_registers()

    def _register_output(self, row: int, number: int, total: int) -> int:
        key = (row, number)
        if key not in self._noise:
            design = self.meters[row].design
            self._noise[key] = register_noise(
                design.registers[number], design.filter.input_grid
            )
        return total + int(self._noise[key].draw((), self._generator))

    def _energy(self, row: int, number: int, sequence: int, noisy: int) -> Energy:
        design = self.meters[row].design
        register = design.registers[number]
        unit = design.filter.input_grid * design.sample_period
        return Energy(
            register.name,
            sequence + 1 - register.samples,
            register.samples,
            noisy * unit,
        )


def _no_registers() -> Registers:
    return np.empty(0, REGISTER)
