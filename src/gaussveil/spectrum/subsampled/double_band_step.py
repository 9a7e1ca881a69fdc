"""One step in one band, in doubles: its points, its weights, and what roundings may move its sums by.

    weight  1 |-------------.
              |              \\   W_b = Phi((cap - z)/w)            `whole`: all outputs up to the cap
              |       .-------\\
              |      /  band   \\  W_b - W_{b+1}                    `inside`: those of the band
            0 |-----'-----------'------> z
                  low cap      cap   end = cap + 9.2 w

It is `ball_band_step.BallBandStep` in doubles. Points are chosen from what terms are there (`windowed_points`), not
from cells; sums are taken less 1, so that M - 1 keeps its digits; nodes come in blocks of 32: within a block the sums
over outputs are one product of matrices, as e^{i n h L} of a node is that of the block's first node times that of its
place (docs/math/subsampled, "Bands" and "One band in doubles and in balls").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.subsampled.bands import Band
from gaussveil.spectrum.subsampled.step import (
    SUM_REACH,
    Complexes,
    log_one_plus,
    turn_less_one,
)
from gaussveil.spectrum.subsampled.windowed_points import Points
from gaussveil.typing import Floats

BLOCK_NODES = 32  # as in native/steps.h
MOST_LINE_POINTS = 100_000
# roundings of a term, and of its angle, which is carried on from node to node: charged, not proven
TURNED = 24.0
TURNED_INSIDE = 8.0  # the same of the terms of the band alone
NOTHING_KEPT = -1e3  # log of the share of M that is below a band which holds all of it


class BlockMoments(NamedTuple):
    """log M up to the cap, and the log of its share that is below the band, at nodes; and how far each may be off."""

    log_moment: Complexes
    log_kept: Complexes
    rounding: Floats
    moved: Floats


class DoubleBandStep:
    """One step in a band: points, weights up to the cap and in the band, and roundings of their sums."""

    def __init__(
        self, band: Band, index: int, c: float, between: float, height: float
    ) -> None:
        self.count = band.parts.steps[index][1]
        self.low = band.lows[index]
        self.between = between
        self.points = self._place_points(band, index, c, height)
        if self.points is not None:
            self._weigh(self.points, c)

    def _place_points(
        self, band: Band, index: int, c: float, height: float
    ) -> Points | None:
        """Where points lie; None where they would be too many."""
        coarse = band.coarse[index]
        low, high = coarse.range(c)
        # `missing` is of all that
        low = min(low, -SUM_REACH)
        high = max(high, min(SUM_REACH, float(coarse.z[-1])))
        apart = coarse.spacing(c, height, self.count)
        if not (high - low) < MOST_LINE_POINTS * apart:
            return None
        step = band.parts.steps[index][0]
        return Points(step, band.caps[index], self.low, (low, high), apart)

    def _weigh(self, points: Points, c: float) -> None:
        """Losses and both weights at the points, and roundings of sums: at the real order, and for each height."""
        exponent = points.base + c * points.loss
        whole = np.exp(points.whole)
        inside = np.exp(points.inside + exponent)
        self.start = float(whole @ np.expm1(exponent)) - points.missing  # M(c) - 1
        self.start_inside = inside.sum()
        self.turning = np.array(
            [whole * np.exp(exponent), inside, self.between * points.loss]
        )
        # both logs are rounded
        far = np.abs(points.base) + np.abs(points.base - points.loss)
        grown = np.exp(points.whole + np.maximum(exponent, 0.0))
        size = np.abs(points.base) + c * far
        summed = whole @ np.abs(np.expm1(exponent))
        by_height = np.array([grown @ size + summed, grown @ far])
        self.errors = TURNED * UNIT_ROUNDOFF * by_height
        by_height = np.array([inside @ (1.0 + size), inside @ far])
        self.inner = TURNED_INSIDE * UNIT_ROUNDOFF * by_height

    def moments(self, first: int, rows: int) -> BlockMoments:
        """Both moments at `rows` blocks of nodes from the one numbered `first` on."""
        blocks = BLOCK_NODES * np.arange(float(first), first + rows)[:, None]
        above, part = (
            sums.reshape(rows, BLOCK_NODES)
            for sums in turned_sums(self.turning, BLOCK_NODES * first, rows)
        )
        above = above + self.start
        part = part + self.start_inside
        last = (blocks + (BLOCK_NODES - 1.0)) * self.between
        size = np.abs(1.0 + above)
        share = part / (1.0 + above)
        rounding = (self.errors[0] + last * self.errors[1]) / size
        away = (self.inner[0] + last * self.inner[1]) / size + np.abs(share) * rounding
        left = np.abs(1.0 - share)
        small = ~(self.count * away < 0.05 * left)  # but rounding is below the band
        kept = np.where(small, np.log(left + away), log_one_plus(-share))
        moved = np.where(small, 2.0 / self.count, away / left)
        if math.isinf(self.low):  # nothing is below the last band
            kept = np.full_like(kept, NOTHING_KEPT)
            moved = np.zeros_like(moved)
        kept = np.where(np.isfinite(kept), kept, NOTHING_KEPT)
        columns = (log_one_plus(above), kept, rounding, moved)
        return BlockMoments(*(column.ravel() for column in columns))


def turned_sums(points: Floats, first: int, rows: int) -> Complexes:
    """Sums of both weights times e^{i n angle} - 1, n = first, first + 1, ..., over points: weights and angles."""
    native = compiled_steps()
    if native is not None:
        sums = native.step_sums("turned", points, BLOCK_NODES * rows, 4, first=first)
        return sums[::2] + 1j * sums[1::2]
    starts = turns_less_one(BLOCK_NODES * points[2], rows)
    before = turn_less_one(first * points[2])
    starts = starts * (1.0 + before) + before
    left = starts * points[:2, None]
    sums = (left + points[:2, None]) @ turns_less_one(
        points[2], BLOCK_NODES
    ).T + left.sum(axis=2)[:, :, None]
    return sums.reshape(2, -1)


def turns_less_one(angle: Floats, count: int) -> Complexes:
    """e^{i n angle} - 1 for n = 0, 1, ..., count - 1, in rows, by doubling."""
    turns = np.zeros((count, angle.size), dtype=complex)
    turn = turn_less_one(angle)
    filled = 1
    while filled < count:
        before = turns[: min(filled, count - filled)]
        after = turns[filled : 2 * filled]
        np.multiply(before, turn, out=after)
        after += before
        after += turn
        turn = turn * (2.0 + turn)
        filled *= 2
    return turns
