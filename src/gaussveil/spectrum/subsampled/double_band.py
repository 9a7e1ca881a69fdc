"""One band's share in delta, in doubles: K at nodes of its line, which serve all epsilons nearby.

    share = (1/pi) int_0^inf Re F(c + iy) dy,    F = e^{K - s eps}/(s(1+s)),

    K = K_beside + log (prod M^T - prod (M - m)^T) = K_beside + sum T log M + log (1 - prod (1 - m/M)^T)

M is a step's moment of all outputs up to the cap, m its part in the band, T its count: `ball_band.BallBand` in doubles,
with the same line, spacing and first guess of a height. Nodes go on, block by block, until |F| has fallen or is less
than its rounding. A band of one step alone is taken whole by native/steps.h where the kernel is at hand
(docs/math/subsampled, "Bands" and "One band in doubles and in balls").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.subsampled.bands import LINE_DIGITS, Band, Spacing
from gaussveil.spectrum.subsampled.double_band_step import BLOCK_NODES, DoubleBandStep
from gaussveil.spectrum.subsampled.step import Complexes, exp_less_one
from gaussveil.spectrum.subsampled.windowed_points import END_DIGITS
from gaussveil.typing import Floats

MOST_BLOCKS = 200
FIRST_ROWS = 8  # blocks of nodes that are taken together at first, at most
FORESEEN = 0.6  # share of the nodes that are foreseen of those taken at first
NOISE = 0.1  # relative rounding of F at which a node tells nothing


class BandNodes(NamedTuple):
    """Nodes of a band's line with equal spacing, K there and its rounding error, and K on two lines beside it."""

    order: Complexes
    cumulant: Complexes
    rounding: Floats
    beside: Spacing


class DoubleBand:
    """A band's line for a delta of about e^log_delta."""

    def __init__(self, band: Band, c: float, log_delta: float) -> None:
        self.band = band
        self.c = c
        self.spacing = band.spacing(c, log_delta, LINE_DIGITS)

    def nodes(self) -> BandNodes | None:
        """The nodes with K there; None where they would be too many."""
        if not self.spacing.between > 0.0:
            return None
        if len(self.band.coarse) == 1 and not self.band.parts.companions.present:
            computed = self._in_c()
            if computed is not None:
                return self._of_c(computed)
        return self._in_blocks()

    def _in_c(self) -> Floats | None:
        """The same of one step alone by native/steps.h: rows of K, its rounding error, and how many nodes there are."""
        band = self.band
        step, count = band.parts.steps[0]
        points = band.coarse[0]
        coarse = np.array(
            [points.z, points.base, points.loss, points.whole, points.inside]
        )
        return step.compiled(
            "line",
            coarse,
            2 * BLOCK_NODES * MOST_BLOCKS,
            4,
            band.caps[0],
            low_cap=band.lows[0],
            tilt=self.c,
            missing=points.missing,
            between=self.spacing.between,
            peak=self.spacing.peak,
            epsilon=band.epsilon,
            steps=count,
            digits=self.spacing.digits,
            ending=END_DIGITS,
        )

    def _of_c(self, computed: Floats) -> BandNodes | None:
        number = max(int(computed[3, 0]), 0)
        if number == 0:
            return None
        real, imaginary, rounding = computed[:3, :number]
        order = self.c + 1j * self.spacing.between * np.arange(float(number))
        return BandNodes(order, real + 1j * imaginary, rounding, self.spacing)

    def _in_blocks(self) -> BandNodes | None:
        """Blocks of nodes, each time as many as there are, until one has fallen."""
        first = 0
        rows = self._first_rows()
        blocks: list[BandNodes] = []
        while first < MOST_BLOCKS:
            block = self._block(first, rows)
            if block is None:
                return None
            finite = np.isfinite(block.cumulant) & np.isfinite(block.rounding)
            if not (blocks or finite[0]):
                return None
            # where it is not finite it is no larger than at the real order
            at_real = (blocks or [block])[0].cumulant[0].real
            block = block._replace(
                cumulant=np.where(finite, block.cumulant, at_real),
                rounding=np.where(finite, block.rounding, 1.0),
            )
            spent = self._spent(block).reshape(rows, BLOCK_NODES).all(axis=1)
            blocks.append(block)
            if spent.any():  # beyond that block there is but rounding
                last = first + int(np.argmax(spent)) + 1
                joined = [
                    np.concatenate(column)[: BLOCK_NODES * last]
                    for column in zip(*(block[:3] for block in blocks))
                ]
                return BandNodes(joined[0], joined[1], joined[2], self.spacing)
            first += rows
            rows = first
        return None

    def _first_rows(self) -> int:
        """How many blocks are taken at first, by the height at which the band's moment should have fallen."""
        height = max(
            points.height(self.c, self.spacing.digits) for points in self.band.coarse
        )
        foreseen = height / (BLOCK_NODES * self.spacing.between)
        return int(min(max(FORESEEN * foreseen, 2.0), FIRST_ROWS))

    def _block(self, first: int, rows: int) -> BandNodes | None:
        """K at blocks of nodes, and its rounding error; None where sums over outputs take too many points."""
        between = self.spacing.between
        numbers = BLOCK_NODES * first + np.arange(float(BLOCK_NODES * rows))
        order = self.c + 1j * between * numbers
        value, rounding = self.band.parts.companions.cumulant(order)
        kept = np.zeros(order.size, dtype=complex)
        moved = np.zeros(order.size)
        for index, (_, count) in enumerate(self.band.parts.steps):
            height = float(order[-1].imag)
            step = DoubleBandStep(self.band, index, self.c, between, height)
            if step.points is None:
                return None
            moments = step.moments(first, rows)
            value += count * moments.log_moment
            kept += count * moments.log_kept
            rounding += count * moments.rounding
            moved += count * moments.moved
        gone = self._gone(kept)
        value += np.log(gone)
        rounding += moved * np.abs(np.exp(kept)) / np.abs(gone)
        return BandNodes(order, value, rounding, self.spacing)

    def _gone(self, log_kept: Complexes) -> Complexes:
        """1 - prod (1 - m/M)^T, with its digits where the shares m/M are small."""
        return -exp_less_one(log_kept)

    def _spent(self, block: BandNodes) -> Floats:
        """At which nodes F has fallen by the e-foldings that are asked for, or is not told from its rounding."""
        order = block.order
        log_size = block.cumulant - order * self.band.epsilon
        log_size = log_size - np.log(order) - np.log1p(order)
        fallen = log_size.real - self.spacing.peak < 1.0 - self.spacing.digits
        return np.asarray(fallen | (block.rounding > NOISE))
