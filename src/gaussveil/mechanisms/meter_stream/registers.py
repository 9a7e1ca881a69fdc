"""Energy registers of a billing stream: exact sums over aligned windows, each released once with its own noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from gaussveil.mechanisms.meter_stream.design import RegisterDesign
from gaussveil.noise import DiscreteGaussian, Generator
from gaussveil.noise.gaussian import LATTICE_VARIANCE
from gaussveil.typing import Integers


@dataclass(frozen=True)
class Energy:
    """A released register: the window of `samples` readings that starts at reading `first`, in kWh."""

    name: str
    first: int
    samples: int
    kwh: float


def register_noise(register: RegisterDesign, grid: float) -> DiscreteGaussian:
    """Lattice noise of a register whose sum is in units of the grid."""
    return DiscreteGaussian((Fraction(register.noise_sd) / Fraction(grid)) ** 2 + LATTICE_VARIANCE)


def window_sums(steps: Integers, first: int, samples: int, opened: int) -> tuple[list[tuple[int, int]], int]:
    """Sums of the aligned windows that end in a block of readings from `first` on, each with the reading after its
    last; and what stays open. `opened` is what the block finds open. Whole numbers of any size: nothing overflows.
    """
    ends = range(samples - first % samples, steps.size + 1, samples)
    edges = [0, *ends, steps.size]
    high, low = (np.concatenate([[0], np.cumsum(part)])[edges].tolist() for part in (steps >> 20, steps & (2**20 - 1)))
    sums = [(after - before << 20) + rest for (before, after), rest in zip(pairwise(high), np.diff(low).tolist())]
    sums[0] += opened
    return [(first + end, total) for end, total in zip(ends, sums)], sums[-1]


class RegisterBank:
    """Sums of one meter, in integers; windows are counted from reading 0.

    A sum is None while the readings of its window are not all known: such a window is never released.
    """

    def __init__(self, registers: Sequence[RegisterDesign], grid: float, sample_period: float) -> None:
        self.registers = tuple(registers)
        self.noise = [register_noise(register, grid) for register in registers]
        self.unit = grid * sample_period
        self.sums: list[int | None] = [0] * len(self.registers)

    def forget(self, index: int) -> None:
        """Lose the windows that have begun before reading `index`: half an energy is no energy."""
        self.sums = [0 if index % register.samples == 0 else None for register in self.registers]

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
            closed, opened = window_sums(part, index - part.size, register.samples, before or 0)
            for _, total in closed:
                noise = int(self.noise[number].draw((), generator))  # drawn in any case: one code path
                if before is not None:
                    kwh = (total + noise) * self.unit
                    done.append(Energy(register.name, index - register.samples, register.samples, kwh))
            self.sums[number] = opened if closed or before is not None else None
        return done
