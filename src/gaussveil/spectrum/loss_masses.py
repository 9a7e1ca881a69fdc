"""One orientation of a pessimistic privacy loss: masses on a grid, and the chords that they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import signal

from gaussveil.spectrum.curve import UNIT, Floats


@dataclass(frozen=True)
class LossMasses:
    """Upper ends of the probabilities of the losses ``(first + k) * interval``, and of an infinite loss."""

    interval: float
    first: int
    mass: Floats
    infinity: float

    @property
    def last(self) -> int:
        """Index of the highest bin."""
        return self.first + self.mass.size - 1

    @cached_property
    def curve(self) -> tuple[Floats, Floats]:
        """H(a_k) and -a_k H'(a_k+) at the bins a_k = e^{loss k}, as sums of nonnegative terms only."""
        decay = math.exp(-self.interval)
        slope = signal.lfilter([0.0, decay], [1.0, -decay], self.mass[::-1])[::-1]
        height = self.infinity + math.expm1(self.interval) * np.cumsum(slope[::-1])[::-1]
        return height, slope

    def delta(self, epsilon: Floats) -> Floats:
        """Hockey-stick divergence, rounded up."""
        height, slope = self.curve
        position = np.floor(epsilon / self.interval)
        inside = np.clip(position - self.first, 0, self.mass.size - 1).astype(np.int64)
        remainder = epsilon - position * self.interval
        upper = np.append(height, self.infinity)[inside + 1]
        value = upper + slope[inside] * np.exp(remainder) * np.expm1(self.interval - remainder)
        start = self.first * self.interval
        below = height[0] + (slope[0] + self.mass[0]) * -np.expm1(np.minimum(epsilon - start, 0.0))
        value = np.where(position < self.first, below, np.where(position > self.last, self.infinity, value))
        return np.asarray(np.minimum(value * (1.0 + 8.0 * self.mass.size * UNIT), 1.0))


def chord_masses(up: Floats, down: Floats, interval: float, stride: int = 1) -> LossMasses:
    """Masses that dominate a pair of which H is at most `up[k]` at loss k*step and 1 - a + a `down[k]` at -k*step.

    Here step = stride * interval, a = e^{-k step}, and both arrays are nonincreasing with the same first value. The
    masses are checked against these values and scaled up by the worst ratio found: rounding cannot undo the dominance.
    """
    step = stride * interval
    above, below = step * np.arange(up.size), step * np.arange(down.size)
    # -a H' above zero; convexity (H' nondecreasing) is restored upwards where rounding broke it.
    slope = np.append(-np.diff(up) / math.expm1(step), 0.0)
    with np.errstate(divide="ignore"):
        log_slope = np.log(slope) - above
    highest = np.maximum.accumulate(log_slope[::-1])[::-1]
    slope = np.where(highest > log_slope, np.exp(highest + above), slope)
    positive = np.maximum(math.exp(step) * slope[:-1] - slope[1:], 0.0)
    # Below zero 1 + H' is the small number to keep; it must not increase away from zero.
    gap = np.append(-np.diff(down) / -math.expm1(-step) + down[1:], down[-1])
    gap = np.minimum.accumulate(np.minimum(gap, 1.0 - slope[0]))
    negative = -np.diff(gap) * np.exp(-below[1:])
    mass = np.concatenate([negative[::-1], [max(1.0 - gap[0] - slope[0], 0.0)], positive])
    height, head = LossMasses(step, 1 - down.size, mass, float(up[-1])).curve
    wanted = np.concatenate([(-np.expm1(-below) + np.exp(-below) * down)[:0:-1], up])
    ratio = np.max(wanted / np.where(wanted > 0.0, height, 1.0))
    at_zero = height[0] + head[0] + mass[0]  # H(0), which must be 1
    factor = max(1.0 / at_zero, float(ratio), 1.0) * (1.0 + 16.0 * mass.size * UNIT)
    spread = np.zeros((mass.size - 1) * stride + 1)
    spread[::stride] = mass * factor
    return LossMasses(interval, (1 - down.size) * stride, spread, min(float(up[-1]) * factor, 1.0))
