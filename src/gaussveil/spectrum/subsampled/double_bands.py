"""Delta as the sum over bands, in doubles, from nodes of equal spacing on a line for each band.

    Im s |  :    o    :        delta = sum over bands of (h/pi) sum' Re F(c + i n h)
         |  :    o    :        error: half of |F| on the dotted lines a beside, over e^{2 pi a/h} - 1; what lies beyond
         |  :    o    :               the last node; roundings; what windows leave out; bands that are only bounded
    -----|-c-a---o---c+a--- Re s

It is `ball_bands.BandsInBalls` in doubles, of nodes that serve neighbouring epsilons, too (docs/math/subsampled,
"Bands", "Errors in doubles" and "One band in doubles and in balls").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.bands import Chosen, Tilt, chosen_bands
from gaussveil.spectrum.subsampled.contour import Nodes, Parts
from gaussveil.spectrum.subsampled.double_band import BandNodes, DoubleBand
from gaussveil.spectrum.subsampled.double_band_step import BLOCK_NODES
from gaussveil.spectrum.subsampled.step import Complexes
from gaussveil.typing import Floats

TRUSTED_CHANGE = 0.7  # change of log delta over which one set of nodes is trusted
USEFUL_ERROR = 3e-8  # relative error with which lines are of use
KNOWN_ERROR = 1e-6  # and up to which they still say where to look, and bound what balls and grids do not


# what lies beyond the last node is charged: the largest term of the last block so often, and all blocks after it, each
# of them smaller by what the last one was beside the one before, or by this
LAST_BLOCKS = 8.0
SLOWEST_FALL = 0.9
FORESEEN_ROUNDING = 1e-12  # of all terms, by which a sum over half the nodes may differ


class BandsInDoubles:
    """The lines of all bands; what is left out is charged: by windows, and in bands bounded at their tilts."""

    def __init__(
        self,
        bands: list[BandNodes],
        left_out: float,
        epsilon: float,
        bounded: Sequence[Tilt] = (),
    ) -> None:
        self.left_out = left_out
        self.epsilon = epsilon
        self.sizes = [band.order.size for band in bands]
        self.bounded = np.array(bounded).reshape(-1, 2)
        if not bands:
            return
        self.order, cumulant, self.rounding = (
            np.concatenate(column) for column in zip(*(band[:3] for band in bands))
        )
        self.log_terms = cumulant - np.log(self.order) - np.log1p(self.order)
        self.starts = np.cumsum([0, *self.sizes[:-1]])
        places = [
            self.starts + np.maximum(np.array(self.sizes) - back * BLOCK_NODES, 0)
            for back in (2, 1)
        ]
        # and the last two blocks of each line
        self.ends = np.ravel(np.column_stack([self.starts, *places]))
        place = np.arange(self.order.size) - np.repeat(self.starts, self.sizes)
        between, self.shift, self.below, self.above = np.array(
            [band.beside[:4] for band in bands]
        ).T
        half_first = np.where(place == 0, 0.5, 1.0)
        self.scale = np.repeat(between / math.pi, self.sizes) * half_first
        self.even = np.where(place % 2 == 0, 2.0, 0.0)
        self.turns = 2.0 * math.pi * self.shift / between

    def near(self, _: float, slope: float, error: float, epsilon: float) -> bool:
        """Whether lines for this epsilon would not differ."""
        return (
            math.isfinite(error)
            and abs(slope * (epsilon - self.epsilon)) < TRUSTED_CHANGE
        )

    def log_deltas(self, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """The same at many epsilons."""
        answers = np.array([self.log_delta(float(level)) for level in levels])
        return answers[:, 0], answers[:, 1], answers[:, 2]

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope in epsilon, and a bound on its error (infinite where nothing settled)."""
        if not self.sizes:
            return math.nan, math.nan, math.inf
        terms = self.log_terms - self.order * epsilon
        peak = float(terms.real[self.starts].max())
        if not math.isfinite(peak):
            return math.nan, math.nan, math.inf
        values = np.exp(terms - peak) * self.scale
        sums = np.add.reduceat(values.real, self.starts)
        total = float(sums.sum())
        if not total > 0.0:
            return math.nan, math.nan, math.inf
        size = np.abs(values)
        missed, of_half = self._spacing_errors(epsilon, peak)
        rounded = size @ (self.rounding + UNIT_ROUNDOFF * (16.0 + 4.0 * np.abs(terms)))
        error = float(rounded + np.sum(self._beyond(size) + missed))
        value = peak + math.log(total)
        left_out = self.left_out + self._bounded(epsilon)
        relative = error / total + left_out * math.exp(min(-value, 700.0))
        relative += 4.0 * UNIT_ROUNDOFF * (1.0 + abs(peak) + abs(value))
        if not (self._foreseen(values, sums, size, of_half) and relative < KNOWN_ERROR):
            relative = math.inf
        return value, -float((values * self.order).real.sum()) / total, relative

    def _spacing_errors(self, epsilon: float, peak: float) -> tuple[Floats, Floats]:
        """How far sums are from integrals, by those of |F| on lines beside each; and sums over every other node."""
        c = self.order.real[self.starts]
        low = c - self.shift
        high = c + self.shift
        both = np.exp(np.minimum(self.below - low * epsilon - peak, 700.0)) / low
        both += np.exp(np.minimum(self.above - high * epsilon - peak, 700.0)) / high
        missed, of_half = (
            0.5 * both / np.expm1(np.minimum(self.turns * share, 700.0))
            for share in (1.0, 0.5)
        )
        return missed, of_half

    def _beyond(self, size: Floats) -> Floats:
        """What lies beyond the last node of each line, if it falls on as from block to block before it."""
        last = np.maximum.reduceat(size, self.ends).reshape(-1, 3)[:, 1:]
        falls = last[:, 1] / np.maximum(last[:, 0], 1e-300)
        falls = np.minimum(falls, SLOWEST_FALL)
        return np.asarray(
            LAST_BLOCKS * last[:, 1] + last[:, 1] * BLOCK_NODES * falls / (1.0 - falls)
        )

    def _bounded(self, epsilon: float) -> float:
        """Chernoff's bounds, at any epsilon, of the bands that do not count, and of all below the last one."""
        bounds = self.bounded[:, 1] - self.bounded[:, 0] * (epsilon - self.epsilon)
        return float(np.exp(np.minimum(bounds, 700.0)).sum())

    def _foreseen(
        self, values: Complexes, sums: Floats, size: Floats, of_half: Floats
    ) -> bool:
        """Whether sums over half the nodes are off by no more than was foreseen: a look at what is no theorem."""
        halves = np.add.reduceat(values.real * self.even, self.starts)
        whole = np.add.reduceat(size, self.starts)
        apart = np.abs(sums - halves)
        return bool(np.all(apart <= 2.0 * of_half + FORESEEN_ROUNDING * whole))


AnyNodes = Nodes | BandsInDoubles
"""What a delta in doubles is the sum over: nodes of one line, or of a line for each band."""


def bands_in_doubles(
    parts: Parts, epsilon: float, chosen: Chosen | None = None
) -> BandsInDoubles:
    """Lines for delta at epsilon and nearby, of windowed parts; none where a band takes too many nodes."""
    chosen = chosen or chosen_bands(parts, epsilon)
    if chosen is None:
        return BandsInDoubles([], math.inf, epsilon)
    bounded = [tilt for _, tilt in chosen.negligible]
    if chosen.below is not None:
        bounded.append(chosen.below[1])
    bands = []
    for band, c in chosen.bands:
        nodes = DoubleBand(band, c, chosen.log_delta).nodes()
        if nodes is None:
            return BandsInDoubles([], math.inf, epsilon)
        bands.append(nodes)
    return BandsInDoubles(bands, parts.left_out, epsilon, bounded)
