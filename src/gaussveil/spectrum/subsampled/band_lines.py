"""The lines of `bands`: moments of each step at equally spaced nodes of a line for each band.

    K_band(s) = sum T log M + log(1 - prod (1 - m/M)^T)      M up to the cap, m in the band, at s = c + i n h

Nodes come in blocks of 32: within a block sums over outputs are one product of matrices, as e^{i n h L} of a node is
that of the block's first node times that of its place. All sums are taken less 1, so that M - 1 keeps its digits
(docs/math/subsampled, "Bands").
"""

from __future__ import annotations

import math

import numpy as np

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.subsampled.bands import (
    LINE_DIGITS,
    Band,
    Chosen,
    Spacing,
    chosen_bands,
)
from gaussveil.spectrum.subsampled.contour import (
    Parts,
)
from gaussveil.spectrum.subsampled.lines import BLOCK_NODES, TRUSTED_CHANGE, Line, Lines
from gaussveil.spectrum.subsampled.step import (
    SUM_REACH,
    Complexes,
    exp_less_one,
    log_one_plus,
    turn_less_one,
)
from gaussveil.spectrum.subsampled.windowed_points import END_DIGITS, Points
from gaussveil.typing import Floats

MOST_BLOCKS = 200
FIRST_ROWS = 8  # blocks of nodes that are taken together at first, at most
MOST_LINE_POINTS = 100_000


class LineMoments:
    """One step's moments at equally spaced nodes of a line, up to a height."""

    def __init__(
        self, band: Band, index: int, c: float, spacing: float, height: float
    ) -> None:
        (step, self.count), cap = band.parts.steps[index], band.caps[index]
        self.low, (low, high) = band.lows[index], band.coarse[index].range(c)
        # `missing` is of all that
        low = min(low, -SUM_REACH)
        high = max(high, min(SUM_REACH, float(band.coarse[index].z[-1])))
        apart = band.coarse[index].spacing(c, height, self.count)
        self.fits = (high - low) < MOST_LINE_POINTS * apart
        if not self.fits:
            return
        self.points = Points(step, cap, self.low, (low, high), apart)
        self.between = spacing
        points = self.points
        self.exponent = points.base + c * points.loss
        whole = np.exp(points.whole)
        self.inside = np.exp(points.inside + self.exponent)
        self.start = float(whole @ np.expm1(self.exponent)) - points.missing  # M(c) - 1
        self.turning = np.array(
            [whole * np.exp(self.exponent), self.inside, spacing * points.loss]
        )
        far = np.abs(points.base) + np.abs(
            points.base - points.loss
        )  # both logs are rounded
        grown = np.exp(points.whole + np.maximum(self.exponent, 0.0))
        size = np.abs(points.base) + c * far
        summed = whole @ np.abs(np.expm1(self.exponent))
        self.errors = (
            24.0 * UNIT_ROUNDOFF * np.array([grown @ size + summed, grown @ far])
        )
        self.inner = (
            8.0
            * UNIT_ROUNDOFF
            * np.array([self.inside @ (1.0 + size), self.inside @ far])
        )

    def blocks(
        self, first: int, rows: int
    ) -> tuple[Complexes, Complexes, Floats, Floats]:
        """log M up to the cap, the log of the share of M that is below the band, and errors of both, block by block."""
        blocks = BLOCK_NODES * np.arange(float(first), first + rows)[:, None]
        above, part = (
            sums.reshape(rows, BLOCK_NODES)
            for sums in turned_sums(self.turning, BLOCK_NODES * first, rows)
        )
        above = above + self.start
        part = part + self.inside.sum()
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
            kept = np.full_like(kept, -1e3)
            moved = np.zeros_like(moved)
        kept = np.where(np.isfinite(kept), kept, -1e3)
        return (
            log_one_plus(above).ravel(),
            kept.ravel(),
            rounding.ravel(),
            moved.ravel(),
        )


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


def line_of(band: Band, c: float, log_delta: float) -> Line | None:
    """Nodes on Re s = c for a delta of about e^log_delta; None where they would be too many."""
    spacing = band.spacing(c, log_delta, LINE_DIGITS)
    if not spacing.between > 0.0:
        return None
    if len(band.coarse) == 1 and not band.parts.companions.present:
        computed = _line_in_c(band, c, spacing)
        if computed is not None:
            real, imaginary, rounding = computed[:3, : max(int(computed[3, 0]), 0)]
            if not real.size:
                return None
            order = c + 1j * spacing.between * np.arange(float(real.size))
            return Line(order, real + 1j * imaginary, rounding, spacing)
    height = max(points.height(c, spacing.digits) for points in band.coarse)
    foreseen = height / (BLOCK_NODES * spacing.between)
    first = 0
    rows = int(min(max(0.6 * foreseen, 2.0), FIRST_ROWS))
    columns: list[tuple[Complexes, Complexes, Floats]] = []
    while first < MOST_BLOCKS:
        numbers = BLOCK_NODES * first + np.arange(float(BLOCK_NODES * rows))
        order = c + 1j * spacing.between * numbers
        there = _cumulant(band, c, order, first, rows, spacing.between)
        if there is None:
            return None
        value, rounding = there
        finite = np.isfinite(value) & np.isfinite(rounding)
        if not (columns or finite[0]):
            return None
        # where it is not finite it is no larger than at the real order
        at_real = columns[0][1][0] if columns else value[0]
        value = np.where(finite, value, at_real.real)
        rounding = np.where(finite, rounding, 1.0)
        log_size = value - order * band.epsilon - np.log(order) - np.log1p(order)
        fallen = log_size.real - spacing.peak < 1.0 - spacing.digits
        noise = rounding > 0.1
        spent = (fallen | noise).reshape(rows, BLOCK_NODES).all(axis=1)
        if spent.any():  # beyond that block there is but rounding
            end = BLOCK_NODES * (int(np.argmax(spent)) + 1)
            columns.append((order[:end], value[:end], rounding[:end]))
            joined = [np.concatenate(column) for column in zip(*columns)]
            return Line(joined[0], joined[1], joined[2], spacing)
        columns.append((order, value, rounding))
        first += rows
        rows = first
    return None


def _line_in_c(band: Band, c: float, spacing: Spacing) -> Floats | None:
    """The same of one step alone by native/steps.h: rows of K, its rounding error, and how many nodes there are."""
    step, count = band.parts.steps[0]
    points = band.coarse[0]
    coarse = np.array([points.z, points.base, points.loss, points.whole, points.inside])
    return step.compiled(
        "line",
        coarse,
        2 * BLOCK_NODES * MOST_BLOCKS,
        4,
        band.caps[0],
        low_cap=band.lows[0],
        tilt=c,
        missing=points.missing,
        between=spacing.between,
        peak=spacing.peak,
        epsilon=band.epsilon,
        steps=count,
        digits=spacing.digits,
        ending=END_DIGITS,
    )


def _cumulant(
    band: Band, c: float, order: Complexes, first: int, rows: int, between: float
) -> tuple[Complexes, Floats] | None:
    """K of the band at blocks of nodes, and its rounding error; None where sums over outputs take too many points."""
    value, rounding = band.parts.companions.cumulant(order)
    kept = np.zeros(order.size, dtype=complex)
    moved = np.zeros(order.size)
    for index, (_, count) in enumerate(band.parts.steps):
        moments = LineMoments(band, index, c, between, float(order[-1].imag))
        if not moments.fits:
            return None
        log_moment, log_kept, error, change = moments.blocks(first, rows)
        value += count * log_moment
        kept += count * log_kept
        rounding += count * error
        moved += count * change
    gone = -exp_less_one(kept)
    value += np.log(gone)
    rounding += moved * np.abs(np.exp(kept)) / np.abs(gone)
    return value, rounding


def band_lines(parts: Parts, epsilon: float, chosen: Chosen | None = None) -> Lines:
    """Lines for delta at epsilon and nearby, of windowed parts; none where a band takes too many nodes."""
    chosen = chosen or chosen_bands(parts, epsilon)
    if chosen is None:
        return Lines([], math.inf, epsilon)
    rest = [
        tilt for _, tilt in chosen.negligible + ([chosen.below] if chosen.below else [])
    ]
    lines = []
    for band, c in chosen.bands:
        line = line_of(band, c, chosen.log_delta)
        if line is None:
            return Lines([], math.inf, epsilon)
        lines.append(line)
    return Lines(lines, parts.left_out, epsilon, rest)


def lines_near(parts: Parts, goal: float, epsilon: float) -> Lines:
    """Lines for about the epsilon at which log delta is the goal, by the saddlepoint approximation of each band."""
    low = 0.0
    high = math.inf
    for _ in range(12):
        chosen = chosen_bands(parts, epsilon)
        if chosen is None:
            break
        sizes = []
        tilts = np.array([c for _, c in chosen.bands])
        for band, c in chosen.bands:
            step = 0.02 * c
            below, value, above = band.real(np.array([c - step, c, c + step]))[0]
            force = (above - below) / (2.0 * step) - epsilon - 1.0 / c - 1.0 / (1.0 + c)
            bend = (
                max((above - 2.0 * value + below) / step**2, 0.0)
                + c**-2
                + (1.0 + c) ** -2
            )
            value -= (
                c * epsilon
                + math.log(c * (1.0 + c) * math.sqrt(2.0 * math.pi * bend))
                + 0.5 * force**2 / bend
            )
            sizes.append(value)
        top = max(sizes)
        shares = np.exp(np.array(sizes) - top)
        excess = top + math.log(shares.sum()) - goal
        slope = -float(shares @ tilts / shares.sum())
        if not abs(excess) > 0.6 * TRUSTED_CHANGE or epsilon == 0.0:
            return band_lines(parts, epsilon, chosen)
        low, high = (epsilon, high) if excess > 0.0 else (low, epsilon)
        epsilon = max(far_from_root(epsilon, excess, slope), 0.0)
        if not low < epsilon < high and low > 0.0:
            epsilon = math.sqrt(low * high)
    return band_lines(parts, epsilon)


def far_from_root(epsilon: float, excess: float, slope: float) -> float:
    """Newton's step; in log eps if that is shorter, as with few steps log delta is more nearly linear in it."""
    straight = epsilon - excess / slope
    change = excess / (-slope * max(epsilon, 1e-300))
    if change < -5.0:
        return straight
    if excess > 0.0:
        return min(straight, epsilon * math.exp(min(change, 1.5)))
    return epsilon * math.exp(change)
