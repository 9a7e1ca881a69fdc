"""What a stream of many meters keeps while it runs: filters and arrays, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gaussveil.noise.filter_bank import FilterBank
from gaussveil.streaming.drawn import REGISTERS, DrawnFrame
from gaussveil.streaming.mark import Mark
from gaussveil.streaming.meter_arrays import MeterArrays
from gaussveil.streaming.meters import Meter


class HeldState:
    """What a gateway keeps: under which name it speaks, in which folder, and what holds that folder for it alone."""

    identity = ""
    folder = Path()
    mark: Mark | None = None
    """What lies outside the folder, so that a copy of the folder does not carry it."""

    def close(self) -> None:
        """Let go of what holds the state."""


class StreamMemory(HeldState):
    """Filters and arrays of some meters; whoever makes them durable overrides `commit`."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self.meters = tuple(meters)
        self.bank = FilterBank([meter.design.filter for meter in meters])
        windows = np.zeros((REGISTERS, len(meters)), np.int64)
        for row, meter in enumerate(meters):
            for number, register in enumerate(meter.design.registers):
                windows[number, row] = register.samples
        self.arrays = MeterArrays(windows, len(self.bank.states), len(self.bank.past))
        self.bank.states, self.bank.past = self.arrays.states, self.arrays.past

    def commit(self, frames: Sequence[DrawnFrame]) -> None:
        """Make draws durable that `arrays` hold already."""
