"""Upper ends of a step's moments on paths beside the real outputs, cell by cell, in doubles that are rounded up.

    z + i d      -------------------------------   how far a trapezoid sum at spacing h is from its integral:
                 |     |     |     |     |     |   e^{-2 pi d/h} times |f| on both lines, and the upright pieces
    z real  --.--low---+-----+-----+-----+----cut--> z
                 |     |     |     |     |     |
    z - i d      -------------------------------

In a cell each factor of |f| is bounded by its largest value: density and window grow by at most e^{d^2/2 (1 + 1/w^2)},
and e^{sL} by e^{Im s |Im L|}, with |Im L| <= p th for a share p <= 1/2 of the record's density, th = d/sigma
(docs/math/subsampled, "Modulus and argument" and "M by sums").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr

from gaussveil.spectrum.subsampled.cell_exponents import UP, Exponents
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

PATH_CELLS = 1500
LOG_NORMAL = 0.5 * math.log(2.0 * math.pi)  # minus log phi(0)
STEEPEST = 2.331122  # where (1 - cos th)/th is largest
PATHS = 0.49 * math.pi * np.geomspace(1e-3, 1.0, 16)  # Im z over sigma


def _log_sum(logs: Floats) -> float:
    top = float(np.max(logs))
    if math.isfinite(top):
        return top + math.log(float(np.exp(logs - top).sum())) + UP
    return top


def _damping(turns: float) -> float:
    """log of 1/(e^turns - 1)."""
    return -turns - math.log1p(-math.exp(-turns)) + UP


class OutputWindow(NamedTuple):
    """Outputs below a cap, with an edge of the given width; `low` is the cap of what is not in the band."""

    cap: float
    low: float
    edge: float

    def log_at(self, z: Floats) -> Floats:
        """log of it, where it has no lower cap."""
        return np.asarray(log_ndtr((self.cap - z) / self.edge))

    def most(self, edges: Floats) -> Floats:
        """log of the largest value between neighbouring edges."""
        above = log_ndtr((self.cap - edges[:-1]) / self.edge)
        below = log_ndtr((edges[1:] - self.low) / self.edge)
        return np.asarray(np.minimum(above, below)) + UP

    def least(self, edges: Floats) -> Floats:
        """log of a lower bound between neighbouring edges; none is known of a band."""
        if self.low > -math.inf:
            return np.full(edges.size - 1, -np.inf)
        return np.asarray(log_ndtr((self.cap - edges[1:]) / self.edge)) - UP

    def steepness(self, edges: Floats) -> Floats:
        """log of how fast it falls, over itself, at most, between neighbouring edges; infinite of a band."""
        if self.low > -math.inf:
            return np.full(edges.size - 1, np.inf)
        u = (self.cap - edges[1:]) / self.edge
        return np.asarray(-0.5 * u * u - log_ndtr(u) + (UP - LOG_NORMAL))

    def beside(self, steepness: Floats, strip: float) -> Any:
        """log of how much larger it may be at a distance from the real outputs, between neighbouring edges.

        |W(z + id)| <= e^(d^2/(2 w^2)) W(z), and below a cap alone <= W(z) + (d/w) phi((cap - z)/w) e^(d^2/(2 w^2)).
        """
        over = 0.5 * (strip / self.edge) ** 2 * (1.0 + UP)
        if self.low > -math.inf:
            return over
        steep = over + steepness
        ratio = np.exp(np.minimum(steep, 700.0))
        grown = np.minimum(over, np.log1p(strip / self.edge * ratio) + UP)
        return np.where(steep < 700.0, grown, over)


class LineCells:
    """Upper ends of |e^{base + s L} phi| beside outputs in [low, cut], times a window, at orders of real part c."""

    def __init__(
        self,
        step: Step,
        c: float,
        low: float,
        cut: float,
        window: OutputWindow | None = None,
        cells: int = PATH_CELLS,
    ) -> None:
        self.step = step
        self.cut = cut
        noise = step.noise_multiplier
        edges = np.linspace(low, cut, cells + 1)
        here = step.log_density(edges)
        share = expit((edges - step.knee) / noise)  # of the record's density in X's
        exponents = Exponents.of(step, c, here, step.log_density(-edges))
        self.window = window
        self.edges = np.append(edges[0], edges)
        self.bend = 1.0  # of the log of density and window: how fast they grow with d
        most = np.zeros(cells)  # logs of the window's ends in each cell
        smallest = most
        top = 0.0
        bottom = 0.0
        if window is not None:
            self.bend += window.edge**-2 * (1.0 + UP)
            most = window.most(edges)
            smallest = window.least(edges)
            top = float(window.most(edges[-1:].repeat(2))[0])
            bottom = float(window.most(edges[:1].repeat(2))[0])
        far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
        width = (cut - low) / cells
        upper = exponents.with_density(step, c, edges) + math.log(width) + most
        lower = exponents.least - 0.5 * far * far
        lower = lower + math.log(width / math.sqrt(2.0 * math.pi)) + smallest
        steep = float(c * share[0] / noise)
        if c < 0.0:
            steep = -c / noise
        left = exponents.beyond(low, steep) + bottom
        self.under = np.append(-np.inf, lower)
        self.mass = np.append(left, upper) - LOG_NORMAL
        self.left = left - LOG_NORMAL
        self.top = exponents.at_cut - 0.5 * cut * cut - LOG_NORMAL + top
        self.bottom = exponents.at_low - 0.5 * low * low - LOG_NORMAL + bottom
        self._take_shares(share, expit((-edges - step.knee) / noise))
        self.negative = 0.0
        if step.backward or step.replace:
            self.negative = max(c, 0.0)
        losses = np.abs(exponents.losses)
        largest = max(-step.floor, abs(float(here[0])))  # to the left of all cells
        if step.replace:
            largest = -low / noise - step.floor
        self.ends = np.append(largest, np.maximum(losses[:-1], losses[1:]))

    def _take_shares(self, share: Floats, mirrored: Floats) -> None:
        """Ends of the shares p of the record's density in X's, and in Y's if it is replaced: they bound Im L."""
        self.high = [np.append(share[0], share[1:])]
        self.least = [np.append(0.0, share[:-1])]
        self.at_cut = [share[-1]]
        self.at_low = [share[0]]
        if self.step.replace:
            self.high.append(np.append(1.0, mirrored[:-1]))
            self.least.append(np.append(mirrored[0], mirrored[1:]))
            self.at_cut.append(mirrored[-1])
            self.at_low.append(mirrored[0])
        self.shares = [
            _spread(smallest, high) for smallest, high in zip(self.least, self.high)
        ]

    def _grown(self, strip: float) -> Any:
        """log of what density and window grow by at a distance from the real outputs."""
        grown = 0.5 * strip * strip * (1.0 + UP)
        if self.window is not None:
            grown = grown + self.window.beside(self._steepness, strip)
        return grown

    @cached_property
    def _steepness(self) -> Floats:
        """Of the window, in each cell."""
        assert self.window is not None
        return self.window.steepness(self.edges)

    def _shrunk(self, turn: float, shares: Sequence[Any]) -> Any:
        """-log |1 - p + p e^{i turn}|, at most, summed over what the shares p (1-p) are of."""
        return sum(
            -0.5 * np.log1p(-2.0 * share * (1.0 - math.cos(turn))) for share in shares
        )

    def _turned(self, turn: float) -> Any:
        """|Im L| at most: arg(1 - p + p e^{i turn}) <= p turn for p <= 1/2, <= turn - (1-p) sin(turn) else."""
        return sum(
            np.where(p <= 0.5, p * turn, turn - (1.0 - p) * math.sin(turn))
            for p in self.high
        )

    def beside(
        self, strip: float, height: float, power: int = 0, mean: float = 0.0
    ) -> float:
        """log of the integral of |f| |L - mean|^power at a distance from [low, cut], for |Im s| <= height."""
        turn = strip / self.step.noise_multiplier
        logs = self.mass + self._grown(strip)
        if self.negative:
            logs += self.negative * self._shrunk(turn, self.shares[-1:])
        if height:
            logs += height * self._turned(turn)
        if power:
            away = (
                self.ends
                + abs(mean)
                + self._shrunk(turn, self.shares)
                + self._turned(turn)
            )
            logs = logs + power * np.log(away)
        return _log_sum(logs[1:])

    def error(
        self,
        spacing: float,
        strip: float,
        height: float,
        power: int = 0,
        mean: float = 0.0,
    ) -> float:
        """log of how far the sum is from the integral over z < cut."""
        turn = strip / self.step.noise_multiplier
        ends = [self.left]
        if power:
            ends[0] += power * math.log(self.ends[0] + abs(mean)) + math.log(2.0)
        steep, rate = (
            2.0 * math.pi / spacing - self.growth(strip, height, share)
            for share in (1.0, 0.0)
        )
        if not rate > 0.0:
            return math.inf
        for top, away, most in (
            (self.top, self.ends[-1], self.at_cut),
            (self.bottom, self.ends[0], self.at_low),
        ):
            shares = [p * (1.0 - p) for p in most]
            apart = math.log(2.0 / rate) + self.negative * float(
                self._shrunk(turn, shares[-1:])
            )
            ends.append(
                top + min(apart, math.log(2.0 / steep) if steep > 0.0 else math.inf)
            )
            if power:
                ends[-1] += power * math.log(
                    away
                    + abs(mean)
                    + float(self._shrunk(turn, shares))
                    + len(most) * turn
                )
        damping = _damping(2.0 * math.pi * strip / spacing) + math.log(2.0)
        return _log_sum(
            np.array([self.beside(strip, height, power, mean) + damping, *ends])
        )

    def error_aside(self, spacing: float, reach: float) -> float:
        """The same at all heights, for outputs moved by half the reach, to where |e^{sL}| falls with Im s."""
        turn = reach / self.step.noise_multiplier
        grown = np.broadcast_to(self._grown(reach), self.mass.shape)
        damping = _damping(math.pi * reach / spacing)
        ends = [self.left]
        for top, most, over in (
            (self.top, self.at_cut, grown[-1]),
            (self.bottom, self.at_low, grown[1]),
        ):
            shrunk = self.negative * float(
                self._shrunk(turn, [most[-1] * (1.0 - most[-1])])
            )
            ends.append(
                math.log(spacing / math.pi + 0.5 * reach) + top + float(over) + shrunk
            )
        return _log_sum(
            np.array(
                [*(self.beside(strip, 0.0) + damping for strip in (0.0, reach)), *ends]
            )
        )

    def growth(self, strip: float, height: float, share: float = 1.0) -> float:
        """How fast |f| grows beside its ends at most, up to a distance, with a share of what |B| shrinks by."""
        rates: list[float] = []
        place = min(turn := strip / (noise := self.step.noise_multiplier), STEEPEST)
        steepest = (1.0 - math.cos(place)) / place / (1.0 - math.cos(turn)) * (1.0 + UP)
        for most in (self.at_cut, self.at_low):
            shrunk = (
                self.negative
                * float(self._shrunk(turn, [most[-1] * (1.0 - most[-1])]))
                * steepest
                * share
            )
            turned = sum(
                p if p <= 0.5 else 1.0 - (1.0 - p) * math.sin(turn) / turn for p in most
            )
            rates.append((height * turned * (1.0 + UP) + shrunk) / noise)
        return 0.5 * self.bend * strip * (1.0 + UP) + max(rates)

    @cached_property
    def _paths(self) -> tuple[Floats, Floats, Floats]:
        """For each of some paths: density's growth, the rest of what a cell may change by, and the side at the cut."""
        shares = [p * (1.0 - p) for p in self.at_cut[-1:]]
        noise = self.step.noise_multiplier
        strips = PATHS * noise
        grown = []
        side = []
        for turn, strip in zip(PATHS, strips):
            changed = np.zeros(self.mass.shape)
            if self.negative:
                changed += self.negative * self._shrunk(turn, self.shares[-1:])
            if self.window is not None:
                changed += self.window.beside(self._steepness, strip)
            grown.append(changed)
            ending = (
                self.negative * float(self._shrunk(turn, shares))
                + 0.5 * (self.bend - 1.0) * strip * strip
            )
            side.append(ending + self.top + math.log(strip))
        return 0.5 * strips * strips * (1.0 + UP), np.array(grown), np.array(side)

    def falls(self, height: float, log_moment: float) -> float:
        """log of a bound on |M| at all greater heights, over M(c): the best of some paths beside the real outputs."""
        density, grown, side = self._paths
        falling = grown - np.multiply.outer(height * np.sin(PATHS), sum(self.least))
        logs = np.column_stack([self.mass + falling, side]) - log_moment
        top = logs.max(axis=1)
        direct = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) + UP
        change = np.expm1(np.minimum(falling, 700.0))
        sure, most = (
            np.exp(np.minimum(part - log_moment, 700.0))
            for part in (self.under, self.mass)
        )
        total = np.minimum(change, 0.0) @ sure * (1.0 - UP) + np.maximum(
            change, 0.0
        ) @ most * (1.0 + UP)
        total += np.exp(np.minimum(side - log_moment, 700.0)) * (1.0 + UP)
        kept = (total > -0.9) & (
            total < 0.0
        )  # M(c) less what falls, which keeps its digits where little does
        direct = np.where(
            kept, np.minimum(direct, np.log1p(np.where(kept, total, 0.0))), direct
        )
        return min(
            0.0, float(np.min(np.where(np.isfinite(direct), density + direct, 0.0)))
        )


def _spread(low: Floats, high: Floats) -> Floats:
    """Largest p (1-p) for p between the ends."""
    most = np.maximum(low * (1.0 - low), high * (1.0 - high))
    return np.where((low < 0.5) & (high > 0.5), 0.25, most) * (1.0 + UP)
