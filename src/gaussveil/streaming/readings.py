"""Readings of one meter: as they come, on their way to a draw, and as they go out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gaussveil.mechanisms.meter_stream.registers import Energy
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False, slots=True)
class Message:
    """Consecutive readings of one meter, kW; NaN where a reading is malformed or missing."""

    meter: str
    sequence: int
    values: Floats = field(repr=False)  # private


@dataclass(eq=False, slots=True)
class Answer:
    """Private readings for one message: consecutive runs, each with its first sequence number; and energies."""

    meter: str
    runs: list[tuple[int, Floats]] = field(default_factory=list)
    energies: list[Energy] = field(default_factory=list)
    end: int = 0  # one more than the last number answered


@dataclass(eq=False, repr=False, slots=True)
class Segment:
    """Consecutive readings of one meter that are drawn at once, and the messages that they came in."""

    row: int
    first: int
    restart: bool
    turn: int  # of two segments of one meter, the second is drawn in the next turn
    end: int
    values: list[Floats] = field(default_factory=list)
    pieces: list[tuple[Answer, int, int]] = field(
        default_factory=list
    )  # offset and length in the segment

    def append(self, first: int, values: Floats, answer: Answer) -> None:
        """Readings of a message, of which the first has this number; those missing before it are filled."""
        gap = first - self.end
        if gap:
            self.values.append(np.full(gap, np.nan))
        self.values.append(values)
        length = gap + len(values)
        self.pieces.append((answer, self.end - self.first, length))
        self.end += length
