"""The noise of many meters' streams at once: their filters run on a public lattice, all noise drawn exactly.

H starts in its stationary state. From a zero state the noise of the first samples would be too small: H alone would
still be safe, but not the sum with D2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.noise.discrete_gaussian import DiscreteGaussianNoise
from gaussveil.noise.generator import Generator
from gaussveil.noise.stream_filter import StreamFilter
from gaussveil.typing import Floats, Integers

LARGEST_STEPS = 2**60
CHUNK_WORDS = 1 << 19
FEW_METERS = 8


class FilterBank:
    """Noise and filter state of many meters, each with its own filters, as a structure of arrays.

    Rows are meters. Arrays of samples are time-major: (count, meters). What is drawn does not depend on how a series
    is cut into blocks.
    """

    def __init__(self, filters: Sequence[StreamFilter]) -> None:
        self.grid = _each(filters, "grid")
        self.input_grid = _each(filters, "input_grid")
        self.pole = _each(filters, "pole")
        self.coloured = bool(np.any(_each(filters, "coloured")))
        # D1 has the same width in every filter of a bank only if asked; amplitudes absorb the difference.
        unit = 2.0 ** _each(filters, "width") * self.grid
        self.direct = _each(filters, "direct") / unit
        self.taps = _rows([f.taps for f in filters]) / unit[:, None]
        self.signal = _rows([f.signal for f in filters]).astype(np.int64)
        depth = self.taps.shape[1]
        reach = self.signal.shape[1]
        self.outer = _multipliers([f.outer for f in filters])
        self.inner = np.zeros((len(filters), 0), np.int64)
        if self.coloured:
            self.inner = _multipliers([f.inner for f in filters])
        self.table = filters[0].outer.table
        if any(f.outer.table is not self.table for f in filters):
            raise ParameterError(
                "all filters of a bank must draw from the standard table; use a finer lattice"
            )
        self.states = np.zeros((depth, len(filters)))  # w_{k-1}, w_{k-2}, ...
        self.past = np.zeros(
            (reach - 1, len(filters)), dtype=np.int64
        )  # readings, newest first

    def __len__(self) -> int:
        return len(self.grid)

    @property
    def words(self) -> int:
        """Table draws per sample and meter."""
        return int(self.outer.shape[1]) + (
            int(self.inner.shape[1]) if self.coloured else 0
        )

    def start(self, generator: Generator, rows: Any = slice(None)) -> None:
        """Forget past readings and noise together, and draw stationary filter states."""
        self.past[:, rows] = 0
        depth = len(self.states)
        if depth == 0:
            return
        meters = self.pole[rows].size
        shocks = self._draw(generator, depth, rows, meters, self.inner)
        # the oldest state is stationary by itself, the later ones follow from it
        newest = shocks[0] / np.sqrt(1 - self.pole[rows] ** 2)
        for age in range(depth - 1, -1, -1):
            if age < depth - 1:
                newest = self.pole[rows] * newest + shocks[depth - 1 - age]
            self.states[age, rows] = newest

    def push(
        self, steps: Integers, generator: Generator, rows: Any = slice(None)
    ) -> tuple[Integers, Floats]:
        """Outputs in units of the grid, and the new filter states w, for readings in units of the input grid."""
        count, meters = steps.shape
        outputs = np.empty((count, meters), dtype=np.int64)
        states = np.zeros((count, meters))
        chunk = max(1, CHUNK_WORDS // max(1, meters * self.words))
        for first in range(0, count, chunk):
            part = slice(first, min(first + chunk, count))
            outputs[part], states[part] = self._noise(
                generator, part.stop - first, rows, meters
            )
            outputs[part] += self._filtered(steps[part], rows)
        return outputs, states

    def _noise(
        self, generator: Generator, count: int, rows: Any, meters: int
    ) -> tuple[Integers, Floats]:
        if not self.coloured:
            return self._draw(generator, count, rows, meters, self.outer), np.zeros(
                (count, meters)
            )
        inner = self.inner.shape[1]
        words = self.table.draw(count * meters * self.words, generator).reshape(
            count, meters, self.words
        )
        shocks = _combined(words[:, :, :inner], self.inner[rows]).astype(np.float64)
        result = _combined(words[:, :, inner:], self.outer[rows])
        coloured, states = self._coloured(shocks, rows)
        result += np.rint(coloured, out=coloured).astype(np.int64)
        return result, states

    def _coloured(self, shocks: Floats, rows: Any) -> tuple[Floats, Floats]:
        count = len(shocks)
        depth = len(self.states)
        result = self.direct[rows] * shocks
        if depth == 0:
            return result, np.zeros_like(shocks)
        pole = self.pole[rows]
        taps = self.taps[rows]
        states = np.empty((depth + count, shocks.shape[1]))
        states[:depth] = self.states[::-1, rows]
        if (
            shocks.shape[1] < FEW_METERS
        ):  # one after the other: arrays of few numbers cost more than numbers
            for meter in range(shocks.shape[1]):
                states[depth - 1 :, meter] = _recursion(
                    states[depth - 1, meter], float(pole[meter]), shocks[:, meter]
                )
        else:
            for k in range(count):
                np.multiply(pole, states[depth + k - 1], out=states[depth + k])
                states[depth + k] += shocks[k]
        for lag in range(1, depth + 1):
            result += taps[:, lag - 1] * states[depth - lag : depth - lag + count]
        self.states[:, rows] = states[: -depth - 1 : -1]
        return result, states[depth:]

    def _filtered(self, steps: Integers, rows: Any) -> Integers:
        signal = self.signal[rows]
        reach = len(self.past)
        result: Integers = signal[:, 0] * steps
        if reach:
            series = np.concatenate([self.past[::-1, rows], steps])
            for lag in range(1, reach + 1):
                result += (
                    signal[:, lag] * series[reach - lag : reach - lag + len(steps)]
                )
            self.past[:, rows] = series[: -reach - 1 : -1]
        return result

    def _draw(
        self,
        generator: Generator,
        count: int,
        rows: Any,
        meters: int,
        multipliers: Integers,
    ) -> Integers:
        words = self.table.draw(count * meters * multipliers.shape[1], generator)
        return _combined(
            words.reshape(count, meters, multipliers.shape[1]), multipliers[rows]
        )


def to_steps(
    values: Floats, grid: Floats | float, low: float, high: float, substitute: float
) -> Integers:
    """Readings on the lattice by the public rule: missing ones replaced, the others clipped, all rounded."""
    known = np.where(np.isnan(values), substitute, np.clip(values, low, high))
    return np.rint(known / grid).astype(np.int64)


def _recursion(start: float, pole: float, shocks: Floats) -> list[float]:
    """w_k = pole w_{k-1} + d_k from w_0 = start on, w_0 included; scipy's filters would take seconds to import."""
    return list(
        accumulate(
            shocks.tolist(),
            lambda state, shock: pole * state + shock,
            initial=float(start),
        )
    )


def _combined(words: Integers, multipliers: Integers) -> Integers:
    result = words[:, :, 0] * multipliers[:, 0]
    for j in range(1, multipliers.shape[1]):
        result += words[:, :, j] * multipliers[:, j]
    return result


def _multipliers(laws: Sequence[DiscreteGaussianNoise]) -> Integers:
    longest = max(len(law.multipliers) for law in laws)
    rows = [
        [1, *law.multipliers, *[0] * (longest - len(law.multipliers))] for law in laws
    ]
    return np.array(rows, dtype=np.int64)


def _each(filters: Sequence[StreamFilter], name: str) -> NDArray[Any]:
    return np.array([getattr(own, name) for own in filters])


def _rows(values: Sequence[Sequence[Any]]) -> NDArray[Any]:
    """A row for each filter, zeros after its own numbers."""
    longest = max(map(len, values))
    rows = [[*own, *[0] * (longest - len(own))] for own in values]
    return np.array(rows).reshape(len(values), longest)
