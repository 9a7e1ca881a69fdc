"""The gateway's rules, without any transport: messages of readings in, private readings out.

- A meter counts its readings from 0: the sequence number is public, and below the certificate's sample limit.
- The next reading is answered with fresh noise. One that was answered before gets the identical answer again; with
  another value it is refused, since two noises on one reading tell more than the certificate says.
- What is older than the kept outputs is late: refused. Missing readings are replaced by the public substitute and
  answered; after a gap longer than `longest_gap` the filters start anew instead.
- A reading that is no number counts as missing. Unknown meters and messages without a sequence number are refused.

Every rule depends on public things only: names, sequence numbers, and whether a value is a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import SourceError
from gaussveil.mechanisms.meter_stream.noise import to_steps
from gaussveil.mechanisms.meter_stream.registers import Energy, register_noise
from gaussveil.noise import DiscreteGaussian, Generator, default_generator
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.state import (
    ABSENT,
    KEPT,
    NONE,
    READING,
    RECORD,
    REGISTER,
    START,
    SUBSTITUTE,
    Records,
    StreamState,
)
from gaussveil.typing import Floats, Integers

LONGEST_GAP = 288
LARGEST_SEQUENCE = 2**62


@dataclass(frozen=True, eq=False)
class Message:
    """Consecutive readings of one meter, kW; NaN where a reading is malformed or missing."""

    meter: str
    sequence: int
    values: Floats = field(repr=False)  # private


@dataclass(eq=False)
class Answer:
    """Private readings for one message: consecutive runs, each with its first sequence number; and energies."""

    meter: str
    runs: list[tuple[int, Floats]] = field(default_factory=list)
    energies: list[Energy] = field(default_factory=list)


@dataclass(eq=False)
class _Work:
    """A message on its way: what must be drawn for it, from sequence number `first` on."""

    row: int
    answer: Answer
    first: int
    steps: Integers | list[int]
    known: NDArray[np.bool_] | list[bool]
    restart: bool


class Gateway:
    """Answers groups of messages; every answer is durable in the state before it is returned."""

    def __init__(
        self,
        meters: Sequence[Meter],
        state: StreamState,
        *,
        generator: Generator | None = None,
        longest_gap: int = LONGEST_GAP,
    ) -> None:
        self.meters = tuple(meters)
        self.state = state
        self.counters: Counter[str] = Counter()
        self.longest_gap = longest_gap
        self._generator = default_generator() if generator is None else generator
        self._rows = {meter.name: row for row, meter in enumerate(meters)}
        self._limit = [min(meter.design.sample_limit, LARGEST_SEQUENCE) for meter in meters]
        grids = state.bank.input_grid.tolist()
        self._rules: list[tuple[float, float, float, float]] = [
            (*meter.design.limits, meter.design.substitute, grid) for meter, grid in zip(meters, grids)
        ]
        self._noise: dict[tuple[int, int], DiscreteGaussian] = {}
        self._broken = False

    def answer(self, messages: Sequence[Message]) -> list[Answer]:
        """Answers in the order of the messages, in one durable group; a refused message has an empty answer."""
        if self._broken:
            raise SourceError("an earlier group could not be logged. Restart the gateway: it continues from its log.")
        answers, waiting = [], []
        for message in messages:
            answers.append(Answer(message.meter))
            waiting.append((message, answers[-1]))
        frames: list[Records] = []
        self._broken = True  # until the frame is on the disk, memory is ahead of the log
        while waiting:
            waiting = self._wave(waiting, frames)
        if frames:
            self.state.commit(np.concatenate(frames))
        self._broken = False
        return answers

    def health(self) -> dict[str, int]:
        """What happened so far; public figures only."""
        names = ("accepted", "substituted", "repeated", "conflicts", "late", "malformed", "unknown", "restarts")
        return {"meters": len(self.meters), **{name: self.counters[name] for name in names}}

    def _wave(self, waiting: list[tuple[Message, Answer]], frames: list[Records]) -> list[tuple[Message, Answer]]:
        """Handle at most one message of each meter; give back the rest."""
        later: list[tuple[Message, Answer]] = []
        works: dict[tuple[int, bool], list[_Work]] = {}
        seen: set[int] = set()
        for message, answer in waiting:
            row = self._rows.get(message.meter, NONE)
            if row in seen:
                later.append((message, answer))
            elif row == NONE:
                self.counters["unknown"] += 1
            else:
                seen.add(row)
                work = self._examine(row, message, answer)
                if work is not None:
                    works.setdefault((len(work.steps), work.restart), []).append(work)
        for (_, restart), group in works.items():
            frames.extend(self._draw(group, restart))
        return later

    def _examine(self, row: int, message: Message, answer: Answer) -> _Work | None:
        """Refuse, repeat, or say what is to be drawn."""
        count, first = message.values.size, message.sequence
        if count == 0 or not self.state.first_sequence <= first <= self._limit[row] - count:
            self.counters["late" if count and first < self.state.first_sequence else "malformed"] += 1
            return None
        expected = int(self.state.next[row])
        if count == 1 and first == expected:  # the common case, without the overhead of arrays
            value = float(message.values[0])
            return _Work(row, answer, first, [self._step(row, value)], [value == value], False)
        known = ~np.isnan(message.values)
        steps = self._steps(row, message.values)
        if expected == NONE:
            return _Work(row, answer, first, steps, known, True)
        old = max(0, min(count, expected - first))
        if old:
            self._repeat(row, first, np.where(known, steps, ABSENT)[:old], answer)
        if old == count:
            return None
        gap = first + old - expected
        if gap > self.longest_gap:
            return _Work(row, answer, first, steps, known, True)
        if gap:
            filler = self._steps(row, np.full(gap, np.nan))
            steps, known = np.concatenate([filler, steps]), np.concatenate([np.zeros(gap, bool), known])
            return _Work(row, answer, expected, steps, known, False)
        return _Work(row, answer, expected, steps[old:], known[old:], False)

    def _steps(self, row: int, values: Floats) -> Integers:
        low, high, substitute, grid = self._rules[row]
        return to_steps(values, grid, low, high, substitute)

    def _step(self, row: int, value: float) -> int:
        """The same for one value: rounds half to even as well."""
        low, high, substitute, grid = self._rules[row]
        return round((substitute if value != value else min(max(value, low), high)) / grid)

    def _repeat(self, row: int, first: int, steps: Integers, answer: Answer) -> None:
        """Answer again what was answered before, to the bit; refuse other values and what is no longer kept.

        A reading that comes after its substitute was sent is late, whatever its value: an answer that depended on the
        value would be an output without noise.
        """
        sequence = first + np.arange(steps.size)
        slot = sequence % KEPT
        kept = self.state.kept_sequence[row, slot] == sequence
        before = self.state.kept_value[row, slot]
        same = kept & (before == steps)
        late = ~kept | ((before == ABSENT) & ~same)
        outputs = self.state.kept_output[row, slot] * float(self.state.bank.grid[row])
        for run in np.split(np.arange(steps.size), np.flatnonzero(np.diff(same.astype(int))) + 1):
            if same[run[0]]:
                answer.runs.append((int(sequence[run[0]]), outputs[run]))
        for number in range(len(self.meters[row].design.registers)):
            closed = self.state.register_sequence[number, row]
            for window in np.flatnonzero((closed >= first) & (closed < first + steps.size)):
                if same[closed[window] - first]:
                    noisy = int(self.state.register_output[number, row, window])
                    answer.energies.append(self._energy(row, number, int(closed[window]), noisy))
        self.counters["repeated"] += int(same.sum())
        self.counters["conflicts"] += int((~same & ~late).sum())
        self.counters["late"] += int(late.sum())

    def _draw(self, works: list[_Work], restart: bool) -> list[Records]:
        """Fresh outputs for works of equal length, each of another meter."""
        rows = np.array([work.row for work in works])
        first = np.array([work.first for work in works])
        frames = [self._start(rows, first)] if restart else []
        steps = np.array([work.steps for work in works], dtype=np.int64).T
        outputs, states = self.state.bank.push(steps, self._generator, rows)
        count = len(steps)
        records = np.empty((len(works), count), RECORD)  # by meter, so that a meter's records are in order
        records["meter"] = rows[:, None]
        records["sequence"] = first[:, None] + np.arange(count)
        records["value"], records["output"], records["state"] = steps.T, outputs.T, states.T
        known = np.array([work.known for work in works])
        records["kind"] = np.where(known, READING, SUBSTITUTE)
        scaled = outputs.T * self.state.bank.grid[rows][:, None]
        for work, values in zip(works, scaled):
            work.answer.runs.append((work.first, values))
        self.counters["accepted"] += int(known.sum())
        self.counters["substituted"] += int((~known).sum())
        frames += self._with_registers(works, records) if self.state.has_registers[rows].any() else [records.ravel()]
        self.state.keep(np.concatenate(frames))
        return frames

    def _start(self, rows: Integers, first: Integers) -> Records:
        """Fresh filters, readings and noise together; their states are logged, oldest first."""
        self.counters["restarts"] += rows.size
        self.state.bank.start(self._generator, rows)
        self.state.sums[:, rows] = 0
        self.state.started[rows] = first
        depth = max(1, len(self.state.bank.states))
        records = np.zeros((rows.size, depth), RECORD)
        records["meter"], records["kind"] = rows[:, None], START
        records["value"], records["sequence"] = np.arange(depth - 1, -1, -1), first[:, None]
        if len(self.state.bank.states):
            records["state"] = self.state.bank.states[::-1, rows].T
        return records.ravel()

    def _with_registers(self, works: list[_Work], records: Records) -> list[Records]:
        """The records of billing meters, with each register's record after the reading that closes its window."""
        frames = []
        for work, own in zip(works, records):
            start = 0
            design = self.meters[work.row].design
            windows = [register.samples for register in design.registers]
            for stop in range(1, own.size + 1) if windows else ():
                sequence = int(own["sequence"][stop - 1])
                self.state.sums[: len(windows), work.row] += own["value"][stop - 1]
                for number, samples in enumerate(windows):
                    if (sequence + 1) % samples == 0:
                        if sequence + 1 - samples >= self.state.started[work.row]:  # else a part only: not released
                            frames += [own[start:stop], self._close(work, number, sequence)]
                            start = stop
                        self.state.sums[number, work.row] = 0
            frames.append(own[start:])
        return [frame for frame in frames if frame.size]

    def _close(self, work: _Work, number: int, sequence: int) -> Records:
        key = (work.row, number)
        if key not in self._noise:
            design = self.meters[work.row].design
            self._noise[key] = register_noise(design.registers[number], design.filter.input_grid)
        noisy = int(self.state.sums[number, work.row]) + int(self._noise[key].draw((), self._generator))
        work.answer.energies.append(self._energy(work.row, number, sequence, noisy))
        return np.array([(work.row, REGISTER + number, sequence, 0, noisy, 0.0)], RECORD)

    def _energy(self, row: int, number: int, sequence: int, noisy: int) -> Energy:
        design = self.meters[row].design
        register = design.registers[number]
        unit = design.filter.input_grid * design.sample_period
        return Energy(register.name, sequence + 1 - register.samples, register.samples, noisy * unit)
