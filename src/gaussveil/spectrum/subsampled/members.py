"""Ends of delta where a record stands so far out of the noise that no grid holds its loss: by how often it is drawn.

X of n steps is a mixture over the sets S of steps that draw the record; given S it is Y moved by a vector of length
sqrt|S| shifts. The hockey-stick divergence is convex in both laws together, so delta is at most the mean over |S| of
that of a plain shift. From below, what one S of weight w adds to X is a part of it: delta at epsilon is at least w
times that of its shift at epsilon - log w. Where shifts are many standard deviations long little is lost: an epsilon
exceeds the smallest one by at most -log w (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from gaussveil.spectrum.curve import mean_shift_delta
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.companions import NO_SHIFT, Shift
from gaussveil.spectrum.subsampled.contour import Parts

LOUD_LOSS = 200.0  # half the square of a shift from which on no grid holds the loss
BLOCKS = 2048  # of numbers of draws, each counted as its largest
SPREADS = 40.0  # standard deviations, and draws, that blocks reach beyond the mean
ROUNDED_UP = 1.0 + 1e-9  # more than closed forms in doubles lose


class Members:
    """Equal steps, `uses` of them, each of which draws the record with probability `rate`, beside a mean shift."""

    def __init__(self, parts: Parts, beside: Shift = NO_SHIFT) -> None:
        ((step, self.uses),) = parts.steps
        self.beside = beside
        self.rate = step.sampling_rate
        self.shift = (2.0 if step.replace else 1.0) / step.noise_multiplier
        self.one_sided = not (step.replace or step.backward)
        mean = self.uses * self.rate
        reach = SPREADS * (1.0 + math.sqrt(mean))
        ends = (max(mean - reach, 0.0), min(mean + reach, float(self.uses)))
        edges = np.unique(np.ceil(np.linspace(*ends, BLOCKS + 1)))
        edges[-1] = self.uses  # whatever is drawn more often
        above = scipy.special.betainc(edges + 1.0, self.uses - edges, self.rate)
        above = np.where(edges < self.uses, above, 0.0)
        self.draws = edges
        self.probability = np.append(1.0, above[:-1]) - above

    @staticmethod
    def loud(parts: Parts) -> bool:
        """Whether no grid holds them: equal steps, each far above its noise."""
        if len(parts.steps) != 1:
            return False
        ((step, count),) = parts.steps
        return count > 1 and 0.5 / step.noise_multiplier**2 > LOUD_LOSS

    @np.errstate(all="ignore")
    def upper(self, epsilon: float) -> float:
        """At least delta, in either direction."""
        lengths = np.hypot(self.shift * np.sqrt(self.draws), self.beside.upper)
        some = lengths > 0.0
        lengths = lengths[some]
        deltas = mean_shift_delta(lengths, np.full_like(lengths, epsilon))
        total = float(np.maximum(self.probability[some], 0.0) @ deltas) * ROUNDED_UP
        return min(total + math.ulp(0.0), 1.0)

    @np.errstate(all="ignore")
    def lower(self, epsilon: float) -> float:
        """At most delta of X against Y."""
        if not self.one_sided:
            return 0.0
        draws = self.draws[self.draws <= self.uses]
        lengths = np.hypot(self.shift * np.sqrt(draws), self.beside.lower)
        draws = draws[lengths > 0.0]
        lengths = lengths[lengths > 0.0]
        log_weight = draws * math.log(self.rate)
        log_weight += (self.uses - draws) * math.log1p(-self.rate)
        deltas = np.exp(log_weight) * mean_shift_delta(lengths, epsilon - log_weight)
        return max(float(np.max(deltas)) / ROUNDED_UP, 0.0)

    def enclose(self, epsilon: float) -> Enclosure:
        """Both ends, of doubles whose roundings are charged; wide, as nothing better is known."""
        upper = self.upper(epsilon)
        lower = min(self.lower(epsilon), upper)
        log_lower = math.log(lower) if lower > 0.0 else -math.inf
        return Enclosure(lower, upper, log_lower, math.log(upper), proven=False)

    def epsilon(self, delta: float, largest: float) -> float:
        """The smallest epsilon found whose upper end is at most delta."""

        def look(epsilon: float) -> Trial:
            return Trial(math.log(self.upper(epsilon)) - math.log(delta))

        guess = 0.5 * self.shift**2 * max(self.uses * self.rate, 1.0)
        guess += 0.5 * self.beside.upper**2
        return private_end(look, min(guess, largest), 0.0, largest, rtol=1e-12)


def draws_alone(parts: Parts, beside: Shift | None = NO_SHIFT) -> Members | None:
    """What decides of steps and a mean shift where no grid would; None for all others."""
    if beside is not None and Members.loud(parts):
        return Members(parts, beside)
    return None
