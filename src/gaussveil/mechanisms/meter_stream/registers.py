"""Energy registers of a stream: exact sums over aligned windows, each released once.

Beside readings each register has its own noise. Registers alone are nested: only the shortest windows get noise, and
the longer ones add up what was released of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from gaussveil.mechanisms.meter_stream.design import StreamDesign
from gaussveil.mechanisms.meter_stream.register_design import RegisterDesign
from gaussveil.mechanisms.meter_stream.register_tree import bridge
from gaussveil.noise import DiscreteGaussianNoise, Generator
from gaussveil.noise.gaussian import LATTICE_VARIANCE
from gaussveil.typing import Integers


@dataclass(frozen=True)
class Energy:
    """A released register: the window of `samples` readings that starts at reading `first`, in kWh."""

    name: str
    first: int
    samples: int
    kwh: float


def register_noise(register: RegisterDesign, grid: float) -> DiscreteGaussianNoise:
    """Lattice noise of a register whose sum is in units of the grid."""
    return DiscreteGaussianNoise(
        (Fraction(register.noise_sd) / Fraction(grid)) ** 2 + LATTICE_VARIANCE
    )


def window_sums(
    steps: Integers, first: int, samples: int, opened: int
) -> tuple[list[tuple[int, int]], int]:
    """Sums of the aligned windows that end in a block of readings from `first` on, each with the reading after its
    last; and what stays open. `opened` is what the block finds open. Whole numbers of any size: nothing overflows.
    """
    ends = range(samples - first % samples, steps.size + 1, samples)
    edges = [0, *ends, steps.size]
    high, low = (
        np.concatenate([[0], np.cumsum(part)])[edges].tolist()
        for part in (steps >> 20, steps & (2**20 - 1))
    )
    sums = [
        (after - before << 20) + rest
        for (before, after), rest in zip(pairwise(high), np.diff(low).tolist())
    ]
    sums[0] += opened
    return [(first + end, total) for end, total in zip(ends, sums)], sums[-1]


class RegisterBank:
    """Sums of one meter, in integers; windows are counted from reading 0.

    A sum is None while the readings of its window are not all known: such a window is never released.
    """

    def __init__(self, design: StreamDesign) -> None:
        self.registers = design.registers
        grid = design.filter.input_grid
        if design.readings:
            self.noise = [register_noise(register, grid) for register in self.registers]
        else:
            self.noise = []
        self.unit = grid * design.sample_period
        self.sums: list[int | None] = [0] * len(self.registers)
        self.remainders: list[float] = []

    def start(self, index: int, generator: Generator) -> None:
        """Noise from reading `index` on has nothing to do with the noise before it."""

    def forget(self, index: int) -> None:
        """Lose the windows that have begun before reading `index`: half an energy is no energy."""
        self.sums = [
            0 if index % register.samples == 0 else None for register in self.registers
        ]

    def cuts(self, index: int, steps: Integers) -> Iterator[Integers]:
        """The block in parts that end where a window ends."""
        if not self.registers:
            if steps.size:
                yield steps
            return
        shortest = min(register.samples for register in self.registers)
        first = 0
        while first < steps.size:
            last = min(steps.size, first + shortest - (index + first) % shortest)
            yield steps[first:last]
            first = last

    def push(self, index: int, part: Integers, generator: Generator) -> list[Energy]:
        """Add a part that ends before reading `index`; release the registers whose window ends there."""
        done = []
        for number, register in enumerate(self.registers):
            before = self.sums[number]
            closed, opened = window_sums(
                part, index - part.size, register.samples, before or 0
            )
            for _, total in closed:
                noise = int(
                    self.noise[number].draw((), generator)
                )  # drawn in any case: one code path
                if before is not None:
                    kwh = (total + noise) * self.unit
                    done.append(
                        Energy(
                            register.name,
                            index - register.samples,
                            register.samples,
                            kwh,
                        )
                    )
            self.sums[number] = opened if closed or before is not None else None
        return done


class NestedRegisters(RegisterBank):
    """Registers alone. The noise of a window is drawn when it begins and handed down to the windows in it.

    `remainders` holds, by level, the noise that the current window still has to hand down, in steps of the grid.
    """

    def __init__(self, design: StreamDesign) -> None:
        super().__init__(design)
        shortest = self.registers[0].samples
        self.filter = design.filter
        # What is left beside the white part on the lattice, by level.
        self.spreads = [
            math.sqrt(
                register.noise_sd**2
                - register.samples / shortest * self.filter.white**2
            )
            / self.filter.grid
            for register in self.registers
        ]

    def start(self, index: int, generator: Generator) -> None:
        """Draw the noise of all windows that have begun, and of what they handed down before reading `index`."""
        self.remainders = [0.0] * len(self.registers)
        first = index
        for level in range(
            len(self.registers) - 1, -1, -1
        ):  # windows that are over take their noise with them
            window = self.registers[level].samples
            for begun in range(first - first % window, index + 1, window):
                self._hand_down(level, begun, generator)
            first = index - index % window

    def _hand_down(self, level: int, index: int, generator: Generator) -> None:
        shock = int(self.filter.inner.draw((), generator)) * 2.0**-self.filter.width
        if level == len(self.registers) - 1:
            self.remainders[level] = self.spreads[level] * shock
            return
        window = self.registers[level].samples
        around = self.registers[level + 1].samples
        left = (around - index % around) // window
        part = bridge(self.remainders[level + 1], left, self.spreads[level], shock)
        self.remainders[level + 1] -= part
        self.remainders[level] = part

    def _closed(self, index: int, noisy: int | None) -> list[Energy]:
        """What ends before reading `index`, the shortest window first; None where a part of it was lost."""
        done = []
        for level, register in enumerate(self.registers):
            if level:
                earlier = self.sums[level]
                noisy = None if noisy is None or earlier is None else earlier + noisy
                self.sums[level] = noisy
            if index % register.samples:
                break
            if noisy is not None:
                first = index - register.samples
                kwh = noisy * self.unit
                done.append(Energy(register.name, first, register.samples, kwh))
            self.sums[level] = 0
        return done

    def push(self, index: int, part: Integers, generator: Generator) -> list[Energy]:
        """Add a part that ends before reading `index`; what ends there is released, longer windows as sums of it."""
        closed, opened = window_sums(
            part, index - part.size, self.registers[0].samples, self.sums[0] or 0
        )
        total = None
        if self.sums[0] is not None:
            total = closed[0][1] if closed else opened
        if not closed:
            self.sums[0] = total
            return []
        noise = int(self.filter.outer.draw((), generator)) + round(self.remainders[0])
        noisy = None if total is None else total + noise
        done = self._closed(index, noisy)
        # noise of the windows that begin here, the longest first
        for level in reversed(range(len(self.registers))):
            if index % self.registers[level].samples == 0:
                self._hand_down(level, index, generator)
        return done


def register_bank(design: StreamDesign) -> RegisterBank:
    """The registers of a stream."""
    if design.readings:
        return RegisterBank(design)
    return NestedRegisters(design)
