"""Delta as the sum over straight lines, one for each band, from nodes of equal spacing.

    Im s |  :    o    :        delta = sum over bands of (h/pi) sum' Re F(c + i n h)
         |  :    o    :        error: half of |F| on the dotted lines a beside, over e^{2 pi a/h} - 1; what lies beyond
         |  :    o    :               the last node; roundings; what windows leave out; bands that are only bounded
    -----|-c-a---o---c+a--- Re s

(docs/math/subsampled, "Bands" and "Errors in doubles").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.bands import (
    Spacing,
    Tilt,
)
from gaussveil.spectrum.subsampled.step import Complexes
from gaussveil.typing import Floats

BLOCK_NODES = 32  # as in native/steps.h
TRUSTED_CHANGE = 0.7  # change of log delta over which one set of nodes is trusted
USEFUL_ERROR = 3e-8  # relative error with which lines are of use
KNOWN_ERROR = 1e-6  # and up to which they still say where to look, and bound what balls and grids do not


class Line(NamedTuple):
    """Nodes of a line with equal spacing, K there and its rounding error, and K on two lines beside it."""

    order: Complexes
    cumulant: Complexes
    rounding: Floats
    beside: Spacing


class Lines:
    """The lines of all bands; what is left out is charged: by windows, and in bands bounded at their tilts."""

    def __init__(
        self,
        lines: list[Line],
        left_out: float,
        epsilon: float,
        rest: Sequence[Tilt] = (),
    ) -> None:
        self.left_out = left_out
        self.epsilon = epsilon
        self.sizes = [line.order.size for line in lines]
        self.rest = np.array(rest).reshape(-1, 2)
        if not lines:
            return
        self.order, cumulant, self.rounding = (
            np.concatenate(column) for column in zip(*(line[:3] for line in lines))
        )
        self.log_terms = cumulant - np.log(self.order) - np.log1p(self.order)
        self.starts = np.cumsum([0, *self.sizes[:-1]])
        places = [
            self.starts + np.maximum(np.array(self.sizes) - back * BLOCK_NODES, 0)
            for back in (2, 1)
        ]
        self.ends = np.ravel(
            np.column_stack([self.starts, *places])
        )  # and the last two blocks of each line
        place = np.arange(self.order.size) - np.repeat(self.starts, self.sizes)
        between, self.shift, self.below, self.above = np.array(
            [line.beside[:4] for line in lines]
        ).T
        self.scale = np.repeat(between / math.pi, self.sizes) * np.where(
            place == 0, 0.5, 1.0
        )
        self.even, self.turns = (
            np.where(place % 2 == 0, 2.0, 0.0),
            2.0 * math.pi * self.shift / between,
        )

    def near(self, _: float, slope: float, error: float, epsilon: float) -> bool:
        """Whether lines for this epsilon would not differ."""
        return (
            math.isfinite(error)
            and abs(slope * (epsilon - self.epsilon)) < TRUSTED_CHANGE
        )

    def log_deltas(self, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """The same at many epsilons."""
        found = np.array([self.log_delta(float(one)) for one in levels])
        return found[:, 0], found[:, 1], found[:, 2]

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope in epsilon, and a bound on its error (infinite where nothing settled)."""
        if not self.sizes:
            return math.nan, math.nan, math.inf
        terms = self.log_terms - self.order * epsilon
        peak = float(terms.real[self.starts].max())
        if not math.isfinite(peak):
            return math.nan, math.nan, math.inf
        values = np.exp(terms - peak) * self.scale
        size = np.abs(values)
        fine = np.add.reduceat(values.real, self.starts)
        apart = np.abs(fine - np.add.reduceat(values.real * self.even, self.starts))
        whole = np.add.reduceat(size, self.starts)
        far = np.maximum.reduceat(size, self.ends).reshape(-1, 3)[:, 1:]
        falls = np.minimum(
            far[:, 1] / np.maximum(far[:, 0], 1e-300), 0.9
        )  # from block to block, and beyond the last
        beyond = far[:, 1] * BLOCK_NODES * falls / (1.0 - falls)
        c = self.order.real[self.starts]
        # how far sums are from integrals: by those of |F| on lines beside each
        beside = np.exp(
            np.minimum(self.below - (c - self.shift) * epsilon - peak, 700.0)
        ) / (c - self.shift)
        beside += np.exp(
            np.minimum(self.above - (c + self.shift) * epsilon - peak, 700.0)
        ) / (c + self.shift)
        missed, wider = (
            0.5 * beside / np.expm1(np.minimum(self.turns * share, 700.0))
            for share in (1.0, 0.5)
        )
        error = float(
            size @ (self.rounding + UNIT_ROUNDOFF * (16.0 + 4.0 * np.abs(terms)))
            + np.sum(8.0 * far[:, 1] + beyond + missed)
        )
        total = float(fine.sum())
        if not total > 0.0:
            return math.nan, math.nan, math.inf
        value = peak + math.log(total)
        bounds = self.rest[:, 1] - self.rest[:, 0] * (
            epsilon - self.epsilon
        )  # Chernoff's, at any epsilon
        left_out = self.left_out + float(np.exp(np.minimum(bounds, 700.0)).sum())
        relative = error / total + left_out * math.exp(min(-value, 700.0))
        relative += 4.0 * UNIT_ROUNDOFF * (1.0 + abs(peak) + abs(value))
        foreseen = bool(
            np.all(apart <= 2.0 * wider + 1e-12 * whole)
        )  # of half the nodes, which should not be worse
        slope = -float((values * self.order).real.sum()) / total
        return (
            value,
            slope,
            relative if foreseen and relative < KNOWN_ERROR else math.inf,
        )
