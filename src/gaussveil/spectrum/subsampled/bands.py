"""Few steps that count: delta as a sum over bands of the largest output, each along its own straight line.

Windows below caps that fall step by step split delta into positive terms, what outputs give the largest of which lies
in one band; each line falls like a Gaussian, at a tilt that suits the band (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.subsampled.contour import ACCURATE, Contour, Nodes, Parts, saddle
from gaussveil.spectrum.subsampled.step import REACH, UNIT, Complexes, Step, exp_less_one, log_one_plus
from gaussveil.typing import Floats

HEIGHT = 1.5  # of a band, at most
MOST_BANDS = 40
DIGITS = 36.0  # e-foldings between delta and what a line leaves out
NEGLIGIBLE = 34.0  # e-foldings below delta at which a band is only bounded
WITHIN = 4.0  # e-foldings by which Chernoff's bound may exceed delta
BLOCK = 32
MOST_BLOCKS = 200
MOST_POINTS = 8_000
FARTHEST = 1e3  # cap of a window: outputs beyond it have no probability in doubles
STRIPS = np.array([0.06, 0.15, 0.3, 0.5, 0.75, 0.98])
SHIFTS = np.array([0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.85])  # of lines beside the line, over c
SETTLED = 1e-8  # relative error with which lines are of use
ENDED = 8.7  # edges beyond the cap at which a window ends


def lower_cap(step: Step, cap: float) -> float:
    """The cap below a cap: nearer to the left of the knee, where losses fall by a factor for each sigma."""
    return cap - (HEIGHT if cap - HEIGHT > step.knee else min(HEIGHT, 1.2 * step.noise_multiplier))


def windows(z: Floats, cap: float, step: Step) -> tuple[Floats, Floats]:
    """The window below the cap, and the part of it that is not in the one below the lower cap."""
    top, bottom = (cap - z) / step.edge, (lower_cap(step, cap) - z) / step.edge
    normal = scipy.special.ndtr
    return normal(top), np.where(top + bottom > 0.0, normal(-bottom) - normal(-top), normal(top) - normal(bottom))


class Points:
    """Outputs of a step between two ends: losses, and weights up to the cap and in the band."""

    def __init__(self, step: Step, cap: float, ends: tuple[float, float], spacing: float) -> None:
        self.step, self.z = step, np.arange(ends[0], ends[1], spacing)
        self.base, second = step.logs(self.z)
        self.loss = self.base - second
        density = math.log(spacing / math.sqrt(2.0 * math.pi)) - 0.5 * self.z**2
        self.whole, self.inside = (density + np.log(part) for part in windows(self.z, cap, step))
        self.missing = float(scipy.special.ndtr(-cap / math.hypot(1.0, step.edge)))  # 1 - E W: what the sum lacks

    def means(self, order: float) -> tuple[float, float, float, float]:
        """log of the moment up to the cap at a real order, the band's share of it, and both mean losses."""
        exponent = self.base + order * self.loss
        top = float(np.max(exponent + self.whole))
        whole, inside = np.exp(exponent + self.whole - top), np.exp(exponent + self.inside - top)
        total, part = float(whole.sum()), float(inside.sum())
        mean = float(whole @ self.loss) / total
        return top + math.log(total), part / total, mean, float(inside @ self.loss) / part if part > 0.0 else mean

    def end(self, order: float) -> tuple[float, float]:
        """log of the last term of the band's moment, where the window is ended, and of the largest."""
        size = self.base + order * self.loss + self.inside
        return float(size[-1]), float(size.max())

    def spacing(self, order: float, height: float, count: int) -> float:
        """Distance of points that resolves both moments up to a height, from terms on paths beside the real outputs.

        At z + i d a term grows by e^(d^2/2) of the density, as much of the window, and e^(height |Im L|).
        """
        found = 0.0
        sizes = [self.base + order * self.loss + part for part in (self.whole, self.inside)]
        largest = np.maximum(*(size - size.max() for size in sizes))
        for strip, turned in self._turned:
            cost = float(np.max(largest + height * turned)) + 0.5 * strip**2 * (1.0 + self.step.edge**-2)
            found = max(found, 2.0 * math.pi * strip / (DIGITS + math.log(count) + cost))
        return found

    @cached_property
    def _turned(self) -> list[tuple[float, Floats]]:
        """|Im L| at distances from the real outputs."""
        step, found = self.step, []
        for strip in STRIPS * min(0.5 * math.pi * step.noise_multiplier, 4.0):  # |Im L| grows up to there
            first, second = step.logs(self.z + 1j * strip)
            found.append((float(strip), np.abs((first - second).imag)))
        return found

    def height(self, order: float, digits: float) -> float:
        """About where the band's moment has fallen by so many e-foldings, by the best of the paths."""
        size = self.base + order * self.loss + self.inside
        terms = np.exp(size - size.max())
        heights = np.geomspace(1.0, 1e6, 40) / max(float(terms @ np.abs(self.loss)) / float(terms.sum()), 1e-300)
        fallen = np.zeros(heights.size)
        for strip, turned in self._turned:
            sums = np.exp(-np.multiply.outer(heights, turned)) @ terms / terms.sum()
            fallen = np.minimum(fallen, np.log(sums + 1e-300) + 0.5 * strip**2 * (1.0 + self.step.edge**-2))
        return float(heights[min(int(np.argmax(fallen < -digits)) if fallen.min() < -digits else 39, 39)])

    def range(self, order: float) -> tuple[float, float]:
        """Where terms of either moment at a real order count."""
        exponent, ends = self.base + order * self.loss, []
        for weights in (self.whole, self.inside):
            size = exponent + weights
            places = np.flatnonzero(size >= size.max() - 0.5 * REACH * REACH)
            ends.append((places[0], places[-1]))
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        return float(self.z[max(low - 1, 0)]), float(self.z[min(high + 1, self.z.size - 1)])


class Band:
    """Outputs, composed, the largest of which lies between two caps of each step."""

    def __init__(self, parts: Parts, caps: list[float], epsilon: float, log_delta: float) -> None:
        self.parts, self.caps, self.epsilon, self.log_delta = parts, caps, epsilon, log_delta
        self.coarse = []
        for (step, _), cap in zip(parts.steps, self.caps):
            ends = (-REACH - (40.0 if step.backward else 0.0), cap + ENDED * step.edge)
            self.coarse.append(Points(step, cap, ends, 0.8 * step.edge))

    def real(self, order: float, whole: bool = False) -> tuple[float, float]:
        """log of the moment of the band, or of all up to its cap, at a real order, and its slope.

        The slope is infinite where the windows do not end the moments.
        """
        value, slope, _ = self.parts.gaussians.real_moments(order) if self.parts.gaussians.energy.size else (0.0,) * 3
        kept, pull, rise = 0.0, 0.0, -math.inf
        for points, (_, count) in zip(self.coarse, self.parts.steps):
            log_moment, share, mean, inside = points.means(order)
            share = min(share, 1.0 - UNIT)
            end, top = points.end(order)
            if end > top - DIGITS:
                rise = max(rise, end - log_moment + math.log(count))
            value += count * log_moment
            slope += count * mean
            kept += count * math.log1p(-share)
            pull += count * share * (inside - mean) / (1.0 - share)
        if rise + value - order * self.epsilon > self.log_delta - DIGITS:
            slope = math.inf
        if whole:
            return value, slope
        gone = max(-math.expm1(kept), 1e-300)
        return value + math.log(gone), slope + math.exp(kept) / gone * pull

    def saddle(self, start: float) -> float:
        """c > 0 next to the minimum of log moment - c eps - log c(1+c)."""
        limit = math.log(self.parts.gaussians.highest_order)
        low, high, place, stride = -math.inf, limit, min(math.log(start), limit - 0.1), 0.7
        for _ in range(80):
            c = math.exp(place)
            value, slope = self.real(c)
            force = c * (slope - self.epsilon) - 1.0 - c / (1.0 + c)
            low, high = (place, high) if force <= 0.0 else (low, place)
            spent = force <= 0.0 and value - c * self.epsilon < self.log_delta - 2.0 * NEGLIGIBLE
            if abs(force) < 0.5 or high - low < 0.02 or spent:
                break
            if low == -math.inf or high == math.inf:
                place += stride if force <= 0.0 else -stride
                stride *= 1.5
            else:
                place = 0.5 * (low + high)
        return c if force < math.inf else math.exp(max(low, -30.0))

    def chernoff(self, c: float, whole: bool = False) -> float:
        """log of an upper bound on the share in delta of the band, or of all up to its cap, from the moment at c."""
        return self.real(c, whole)[0] - c * self.epsilon + c * math.log(c) - (1.0 + c) * math.log1p(c)

    def line(self, c: float, log_delta: float) -> Line | None:
        """Nodes on Re s = c for a delta of about e^log_delta; None where they would be too many."""
        peak = self.peak(c)
        digits = max(DIGITS + peak + math.log(c) - log_delta, 3.0)
        spacing = self.spacing(c, digits)
        nodes = self._walked(c, spacing.between, peak, digits)
        return None if nodes is None else Line(*nodes, *spacing)

    def peak(self, c: float) -> float:
        """log of the integrand at a real order."""
        return self.real(c)[0] - c * self.epsilon - math.log(c) - math.log1p(c)

    def spacing(self, c: float, digits: float) -> Spacing:
        """The widest spacing of nodes that the lines beside the line allow for so many e-foldings."""
        best, peak = Spacing(0.0, 0.0, 0.0, 0.0), self.peak(c)
        for shift in SHIFTS * c:
            if c + shift < self.parts.gaussians.highest_order:
                below, above = self.real(c - shift)[0], self.real(c + shift)[0]
                grown = max(below + shift * self.epsilon, above - shift * self.epsilon) - c * self.epsilon - peak
                grown = max(grown - math.log((c - shift) * (1.0 + c - shift)), 0.0)
                best = max(best, Spacing(2.0 * math.pi * shift / (digits + grown), float(shift), below, above))
        return best

    def _walked(
        self, c: float, spacing: float, peak: float, digits: float
    ) -> tuple[Complexes, Complexes, Floats] | None:
        """Blocks of nodes until what follows has fallen."""
        columns: list[tuple[Complexes, Complexes, Floats]] = []
        moments: list[LineMoments] = []
        height, farthest = 0.0, 2.0 * max(points.height(c, digits) for points in self.coarse)
        for block in range(MOST_BLOCKS):
            y = spacing * (BLOCK * block + np.arange(float(BLOCK)))
            if y[-1] > height:
                height = max(min(2.0 * y[-1], farthest), y[-1])
                moments = [LineMoments(self, index, c, spacing, height) for index in range(len(self.caps))]
                if not all(one.fits for one in moments):
                    return None
            order = c + 1j * y
            value = self._gaussian(order)
            kept, rounding, moved = np.zeros(BLOCK, dtype=complex), np.zeros(BLOCK), np.zeros(BLOCK)
            for one, (_, count) in zip(moments, self.parts.steps):
                log_moment, log_kept, error, change = one.block(float(y[0]), float(y[-1]))
                value += count * log_moment
                kept += count * log_kept
                rounding += count * error
                moved += count * change
            gone = -exp_less_one(kept)
            value += np.log(gone)
            rounding += moved * np.abs(np.exp(kept)) / np.abs(gone)
            known = np.isfinite(value) & np.isfinite(rounding)  # else next to nothing is left of either moment
            value, rounding = np.where(known, value, -1e4), np.where(known, rounding, 1.0)
            columns.append((order, value, rounding))
            size = (value - order * self.epsilon - np.log(order) - np.log1p(order)).real - peak
            if np.all((size < 2.0 - digits) | (rounding > 0.1)):  # beyond it there is but rounding
                joined = [np.concatenate(column) for column in zip(*columns)]
                return joined[0], joined[1], joined[2]
        return None

    def _gaussian(self, order: Complexes) -> Complexes:
        return self.parts.gaussians.cumulant(order) if self.parts.gaussians.energy.size else np.zeros(BLOCK) * 1j


class Spacing(NamedTuple):
    """Distance of nodes, distance of the lines beside the line, and K on both of them."""

    between: float
    shift: float
    below: float
    above: float


class LineMoments:
    """One step's moments at equally spaced nodes of a line, up to a height."""

    def __init__(self, band: Band, index: int, c: float, spacing: float, height: float) -> None:
        (step, count), cap = band.parts.steps[index], band.caps[index]
        low, high = band.coarse[index].range(c)
        apart = band.coarse[index].spacing(c, height, count)
        self.fits = (high - low) < MOST_POINTS * apart
        if not self.fits:
            return
        self.points = points = Points(step, cap, (low, high), apart)
        self.exponent = points.base + c * points.loss
        self.whole, self.inside = np.exp(points.whole), np.exp(points.inside + self.exponent)
        self.turned = np.zeros((points.z.size, BLOCK), dtype=complex)  # e^{i angle} - 1, by doubling
        known = 1
        while known < BLOCK:
            turn = exp_less_one(1j * known * spacing * points.loss)[:, None]
            before = self.turned[:, :known]
            self.turned[:, known : 2 * known] = before + turn + before * turn
            known *= 2
        grown, far = np.exp(points.whole + np.maximum(self.exponent, 0.0)), np.abs(points.loss)
        self.errors = 8.0 * UNIT * np.array([grown @ np.abs(self.exponent), grown @ far]) + [UNIT, 0.0]
        self.inner = 8.0 * UNIT * np.array([self.inside @ (1.0 + np.abs(self.exponent)), self.inside @ far])

    def block(self, first: float, last: float) -> tuple[Complexes, Complexes, Floats, Floats]:
        """log M up to the cap, the log of the share of M that is below the band, and errors of both."""
        points, phase = self.points, 1j * first * self.points.loss
        grown = self.whole * exp_less_one(self.exponent + phase)
        inside = self.inside * np.exp(phase)
        turned = np.stack([grown, inside, self.whole]) @ self.turned
        above = turned[0] + grown.sum() + turned[2] - points.missing
        part = turned[1] + inside.sum()
        size, share = np.abs(1.0 + above), part / (1.0 + above)
        rounding = (self.errors[0] + last * self.errors[1]) / size
        moved = ((self.inner[0] + last * self.inner[1]) / size + np.abs(share) * rounding) / np.abs(1.0 - share)
        kept = log_one_plus(-share)
        return log_one_plus(above), np.where(np.isfinite(kept), kept, -1e3), rounding, moved


class Line(NamedTuple):
    """Nodes of a line with equal spacing, K there and its rounding error, and K on two lines beside it."""

    order: Complexes
    cumulant: Complexes
    rounding: Floats
    spacing: float
    shift: float
    below: float
    above: float

    def log_terms(self, epsilon: float) -> Complexes:
        """log of the integrand."""
        return self.cumulant - self.order * epsilon - np.log(self.order) - np.log1p(self.order)

    def missed(self, epsilon: float, peak: float, wider: float = 1.0) -> float:
        """How far a sum with wider spacing is from the integral, over e^peak: by those of |F| on lines beside it."""
        c = float(self.order[0].real)
        beside = ((self.below, c - self.shift), (self.above, c + self.shift))
        sizes = sum(math.exp(min(value - order * epsilon - peak, 700.0)) / order for value, order in beside)
        return 0.5 * sizes / math.expm1(min(2.0 * math.pi * self.shift / self.spacing / wider, 700.0))


class Lines(NamedTuple):
    """The lines of all bands; what is left out is charged."""

    lines: list[Line]
    left_out: float

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta, its slope in epsilon, and a bound on its error (infinite where nothing settled)."""
        terms = [
            line.cumulant - line.order * epsilon - np.log(line.order) - np.log1p(line.order) for line in self.lines
        ]
        peak = max((float(term[0].real) for term in terms), default=-math.inf)
        total = slope = error = 0.0
        if not math.isfinite(peak):
            return math.nan, math.nan, math.inf
        for line, term in zip(self.lines, terms):
            values = np.exp(term - peak) * (line.spacing / math.pi)
            values[0] *= 0.5
            fine, size = float(values.real.sum()), np.abs(values)
            apart, whole = abs(fine - 2.0 * float(values[::2].real.sum())), float(size.sum())
            exact = UNIT * (16.0 + 4.0 * np.abs(term))
            error += float(size @ (line.rounding + exact)) + 8.0 * float(size[-BLOCK:].max())
            error += line.missed(epsilon, peak)
            if apart > 2.0 * line.missed(epsilon, peak, 2.0) + 1e-12 * whole:
                error = math.inf  # half the nodes should not be worse than was foreseen
            total += fine
            slope -= float((values * line.order).real.sum())
        if not total > 0.0:
            return math.nan, math.nan, math.inf
        value = peak + math.log(total)
        relative = error / total + self.left_out * math.exp(min(-value, 700.0))
        return value, slope / total, relative if relative < SETTLED else math.inf


class Chosen(NamedTuple):
    """Bands that count with their tilts, those that do not with log bounds, and the same of all that is below."""

    bands: list[tuple[Band, float]]
    negligible: list[tuple[Band, float, float]]
    below: tuple[Band, float, float]
    log_delta: float


def chosen_bands(parts: Parts, epsilon: float) -> Chosen | None:
    """The bands of windowed parts; None where they would be too many."""
    found: list[tuple[Band, float, float]] = []
    most, c, limit = -math.inf, 1.0, parts.gaussians.highest_order
    caps = [parts.cap(step) for step, _ in parts.steps]
    if any(not cap <= FARTHEST for cap in caps):
        return None
    for depth in range(MOST_BANDS):
        band = Band(parts, caps, epsilon, max(parts.log_delta, most - WITHIN))
        if depth:
            rest, tilt = min((band.chernoff(tilt, whole=True), tilt) for tilt in (c, 2.0 * c) if tilt < limit)
            if rest < most - WITHIN - NEGLIGIBLE:
                level = most - WITHIN
                counts = [(one, tilt) for one, tilt, bound in found if bound >= level - NEGLIGIBLE]
                return Chosen(counts, [one for one in found if one[2] < level - NEGLIGIBLE], (band, tilt, rest), level)
        c = band.saddle(1.5 * c)
        found.append((band, c, band.chernoff(c)))
        most = max(most, found[-1][2])
        caps = [lower_cap(step, cap) for (step, _), cap in zip(parts.steps, caps)]
    return None


def band_lines(parts: Parts, epsilon: float) -> Lines:
    """Lines for delta at epsilon and nearby, of windowed parts; none where a band takes too many nodes."""
    chosen = chosen_bands(parts, epsilon)
    if chosen is None:
        return Lines([], math.inf)
    lines = [band.line(c, chosen.log_delta) for band, c in chosen.bands]
    left_out = parts.left_out + sum(math.exp(bound) for _, _, bound in [*chosen.negligible, chosen.below])
    found = [line for line in lines if line is not None]
    return Lines(found, left_out) if len(found) == len(lines) else Lines([], math.inf)


def nodes_for(parts: Parts, epsilon: float, log_delta: float) -> Nodes | Lines:
    """Nodes that settle delta, which is about e^log_delta, at epsilon and nearby: one line, or one for each band."""
    windowed = parts.windowed(log_delta)
    contour = Contour(windowed, saddle(windowed, epsilon))
    extent = contour.extent(epsilon)
    if math.isfinite(extent):
        found = contour.settle(epsilon, extent)
        _, slope, error = found.log_delta(epsilon)
        if error <= ACCURATE * (1.0 + abs(slope) * epsilon):
            return found
    return band_lines(windowed, epsilon)
