"""Outputs of a step below a window's end, in doubles: what both of a band's moments are summed from."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.subsampled.step import SUM_REACH, Step
from gaussveil.typing import Floats

END_DIGITS = 36.0  # the same for what is not charged: sums over outputs, and outputs beyond a window's end
POINT_STRIPS = np.array([0.06, 0.15, 0.3, 0.5, 0.75, 0.98])


def windows(z: Floats, cap: float, low: float, step: Step) -> tuple[Floats, Floats]:
    """The window below the cap, and the part of it that is not in the one below the lower cap."""
    top = (cap - z) / step.edge
    bottom = (low - z) / step.edge
    normal = scipy.special.ndtr
    return normal(top), np.where(
        top + bottom > 0.0, normal(-bottom) - normal(-top), normal(top) - normal(bottom)
    )


class Means(NamedTuple):
    """At each order: log moment up to the cap, the band's share, mean losses, logs of the band's end and top."""

    log_moment: Floats
    share: Floats
    mean: Floats
    inside: Floats
    last: Floats
    largest: Floats


class Points:
    """Outputs of a step between two ends: losses, and weights up to the cap and in the band."""

    def __init__(
        self,
        step: Step,
        cap: float,
        low: float,
        ends: tuple[float, float],
        spacing: float,
    ) -> None:
        self.step, self.z = step, np.arange(ends[0], ends[1], spacing)
        columns = step.compiled(
            "points", self.z[None], self.z.size, 4, cap, low_cap=low
        )
        if columns is None:
            first, second = step.logs(self.z)
            columns = np.array(
                [first, first - second, *np.log(windows(self.z, cap, low, step))]
            )
        self.base, self.loss = columns[:2]
        self.whole, self.inside = columns[2:] + (
            math.log(spacing / math.sqrt(2.0 * math.pi)) - 0.5 * self.z**2
        )
        self.missing = float(
            scipy.special.ndtr(-cap / math.hypot(1.0, step.edge))
        )  # 1 - E W: what the sum lacks

    def means(self, orders: Floats) -> Means:
        """What is known of both moments at real orders."""
        native = compiled_steps()
        if native is not None:
            return Means(
                *native.step_sums("means", self.columns, orders.size, 6, orders=orders)
            )
        size = self.base + self.whole + np.multiply.outer(orders, self.loss)
        top = size.max(axis=1)
        whole = np.exp(size - top[:, None])
        inside = whole * self._share[1]
        size += self._share[0]
        total = whole.sum(axis=1)
        part = inside.sum(axis=1)
        mean = whole @ self.loss / total
        within = np.where(part > 0.0, inside @ self.loss / part, mean)
        return Means(
            top + np.log(total),
            part / total,
            mean,
            within,
            size[:, -1],
            size.max(axis=1),
        )

    @cached_property
    def columns(self) -> Floats:
        """Log weights, losses, the band's shares and their logs."""
        return np.array(
            [self.base + self.whole, self.loss, self._share[1], self._share[0]]
        )

    @cached_property
    def _share(self) -> tuple[Floats, Floats]:
        """log of the band's share of the weight, and the share."""
        logs = self.inside - self.whole
        return logs, np.exp(logs)

    def spacing(self, order: float, height: float, count: int) -> float:
        """Distance of points that resolves both moments up to a height, from terms on paths beside the real outputs.

        At z + i d a term grows by e^(d^2/2) of the density, as much of the window, e^(height |Im L|), and by what a
        negative power of a density shrinks by, |1 - p + p e^(i d/sigma)|^-order.
        """
        excess, first, last = self._counting(order)
        strips, turned, window = self._turned
        grown = excess + height * turned + order * self._shrunk
        cost = np.max(grown[:, first : last + 1], axis=1) + window
        return float(
            np.max(2.0 * math.pi * strips / (END_DIGITS + math.log(count) + cost))
        )

    @cached_property
    def _turned(self) -> tuple[Floats, Floats, Floats]:
        """Distances from the real outputs, |Im L| there, and the log of what density and window grow by."""
        strips = POINT_STRIPS * min(
            0.5 * math.pi * self.step.noise_multiplier, 4.0
        )  # |Im L| grows up to there
        turn = strips[:, None] / self.step.noise_multiplier
        step = self.step
        turned = 0.0
        for z in (self.z, -self.z) if step.replace else (self.z,):
            share = scipy.special.expit((z - step.knee) / step.noise_multiplier)
            turned = turned + np.arctan2(
                share * np.sin(turn), 1.0 - share + share * np.cos(turn)
            )
        return strips, np.asarray(turned), 0.5 * strips**2 * (1.0 + self.step.edge**-2)

    @cached_property
    def _shrunk(self) -> Any:
        """-log |1 - p + p e^(i d/sigma)| on each strip, p the record's share of the density that stands below."""
        step = self.step
        if not (step.replace or step.backward):
            return 0.0
        place = -self.z if step.replace else self.z
        share = scipy.special.expit((place - step.knee) / step.noise_multiplier)
        turn = self._turned[0][:, None] / step.noise_multiplier
        return -0.5 * np.log1p(-2.0 * share * (1.0 - share) * (1.0 - np.cos(turn)))

    def height(self, order: float, digits: float) -> float:
        """About where the band's moment has fallen by so many e-foldings, by the best of the paths."""
        size = self.base + order * self.loss + self.inside
        counts = size > size.max() - digits - 3.0
        terms = np.exp(size[counts] - size.max())
        loss = np.abs(self.loss[counts])
        heights = np.geomspace(1.0, 1e6, 20) / max(
            float(terms @ loss) / float(terms.sum()), 1e-300
        )
        fallen = np.zeros(heights.size)
        for turned, window in zip(self._turned[1][1::2, counts], self._turned[2][1::2]):
            sums = np.exp(-np.multiply.outer(heights, turned)) @ terms / terms.sum()
            fallen = np.minimum(fallen, np.log(sums + 1e-300) + window)
        return float(
            heights[int(np.argmax(fallen < -digits)) if fallen.min() < -digits else 19]
        )

    def range(self, order: float) -> tuple[float, float]:
        """Where terms of either moment at a real order count."""
        _, first, last = self._counting(order)
        return float(self.z[first]), float(self.z[last])

    def _counting(self, order: float) -> tuple[Floats, int, int]:
        """By how much the larger term of each point is below its top, and the first and last one that count."""
        sizes = [
            self.base + order * self.loss + part for part in (self.whole, self.inside)
        ]
        excess = np.maximum(*(size - size.max() for size in sizes))
        places = np.flatnonzero(excess >= -0.5 * SUM_REACH * SUM_REACH)
        return (
            excess,
            max(int(places[0]) - 1, 0),
            min(int(places[-1]) + 1, self.z.size - 1),
        )
