"""One orientation of a pessimistic privacy loss: masses on a grid, and the chords that they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gaussveil.spectrum.constants import ULP
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Upper ends `height` of delta at the losses `(first + k) * interval`; above them delta is at most `infinity`."""

    interval: float
    first: int
    height: Floats
    infinity: float

    @property
    def last(self) -> int:
        """Index of the highest node."""
        return self.first + self.height.size - 1

    def delta(self, epsilon: Floats) -> Floats:
        """Upper end of delta: delta is convex in e^epsilon and at most 1, so chords between the nodes lie above it."""
        epsilon = epsilon * (1.0 - 8.0 * ULP)  # rounding may have moved the nodes
        position = np.floor(epsilon / self.interval)
        inside = np.clip(position - self.first, 0, self.height.size - 1).astype(
            np.int64
        )
        remainder = epsilon - position * self.interval
        share = (
            np.exp(remainder)
            * np.expm1(self.interval - remainder)
            / math.expm1(self.interval)
        )
        upper = np.append(self.height, self.infinity)[inside + 1]
        value = upper + (self.height[inside] - upper) * share
        below = self.height[0] + (1.0 - self.height[0]) * -np.expm1(
            np.minimum(epsilon - self.first * self.interval, 0.0)
        )
        value = np.where(
            position < self.first,
            below,
            np.where(position > self.last, self.infinity, value),
        )
        return np.asarray(np.minimum(value * (1.0 + 64.0 * ULP), 1.0))


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Upper ends of the probabilities of the losses `(first + k) * interval`, and of an infinite loss."""

    interval: float
    first: int
    mass: Floats
    infinity: float

    @property
    def last(self) -> int:
        """Index of the highest bin."""
        return self.first + self.mass.size - 1

    @cached_property
    def slope_and_height(self) -> tuple[Floats, Floats]:
        """-a H'(a+) and H(a) at a = e^loss, as sums of nonnegative terms: relative error at most 8 size units."""
        from scipy import (
            signal,
        )  # which loads scipy.stats: 36 MB and a second that few callers need

        decay = math.exp(-self.interval)
        slope = signal.lfilter([0.0, decay], [1.0, -decay], self.mass[::-1])[::-1]
        return slope, self.infinity + math.expm1(self.interval) * np.cumsum(
            slope[::-1]
        )[::-1]

    @property
    def curve(self) -> LossCurve:
        """Delta at the bins, rounded up."""
        height = np.minimum(
            self.slope_and_height[1] * (1.0 + 8.0 * self.mass.size * ULP), 1.0
        )
        return LossCurve(self.interval, self.first, height, self.infinity)


def chord_masses(
    up: Floats, down: Floats, interval: float, stride: int = 1
) -> LossMasses:
    """Masses that dominate a pair of which H is at most `up[k]` at loss k*step and 1 - a + a `down[k]` at -k*step.

    Here step = stride * interval, a = e^{-k step}, and both arrays are nonincreasing with the same first value. The
    masses are checked against these values and scaled up by the worst ratio found: rounding cannot undo the dominance.
    """
    step = stride * interval
    above = step * np.arange(up.size)
    below = step * np.arange(down.size)
    # -a H' above zero; convexity (H' nondecreasing) is restored upwards where rounding broke it.
    slope = np.append((up[:-1] - up[1:]) / math.expm1(step), 0.0)
    with np.errstate(divide="ignore"):
        log_slope = np.log(slope) - above
    highest = np.maximum.accumulate(log_slope[::-1])[::-1]
    slope = np.where(highest > log_slope, np.exp(highest + above), slope)
    positive = np.maximum(math.exp(step) * slope[:-1] - slope[1:], 0.0)
    # Below zero 1 + H' is the small number to keep; it must not increase away from zero.
    gap = np.append((down[:-1] - down[1:]) / -math.expm1(-step) + down[1:], down[-1])
    gap = np.minimum.accumulate(np.minimum(gap, 1.0 - slope[0]))
    negative = (gap[:-1] - gap[1:]) * np.exp(-below[1:])
    mass = np.concatenate(
        [negative[::-1], [max(1.0 - gap[0] - slope[0], 0.0)], positive]
    )
    head, height = LossMasses(step, 1 - down.size, mass, float(up[-1])).slope_and_height
    promised = np.concatenate([(-np.expm1(-below) + np.exp(-below) * down)[:0:-1], up])
    ratio = np.max(promised / np.where(promised > 0.0, height, 1.0))
    at_zero = height[0] + head[0] + mass[0]  # H(0), which must be 1
    factor = max(1.0 / at_zero, float(ratio), 1.0) * (1.0 + 16.0 * mass.size * ULP)
    spread = np.zeros((mass.size - 1) * stride + 1)
    spread[::stride] = mass * factor
    return LossMasses(
        interval, (1 - down.size) * stride, spread, min(float(up[-1]) * factor, 1.0)
    )
