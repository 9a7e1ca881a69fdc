"""Lower ends of random allocations: of the best test of a sum over steps, whose law is known in both worlds.

A record in k of T steps, drawn uniformly: whatever number g(x) is made of each step's output, its sum over all steps
has the law of k steps with the record and T - k without, whichever they are. So an event of that sum has probabilities
by one convolution each, and X(A) - a Y(A) is a lower end of delta. With w a step's likelihood ratio,

    g = log(1 + l (w - 1)) / l,    l = (k - 1) / (T - 1),

is w for k = 1, of which all depends, and log w for k = T, likewise; g is told to a cell, which is a test as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.discrete.masses import LossMasses
from gaussveil.spectrum.discrete.tilted_convolution import tilted_convolution
from gaussveil.spectrum.subsampled.cell_probabilities import normal_between
from gaussveil.typing import Floats

CELLS = 2**16
SPREADS = 9.0  # standard deviations of the sum that have cells of their own, the rest is told modulo these
FARTHEST = 10.0  # outputs beyond which g is not told apart
CELL_ERROR = 5e-13  # relative error of a cell's probability
NOISE = 4.0  # times the error of a probability from which on cells belong to the event


class SumLaws(NamedTuple):
    """Probabilities of the sum's cells with the record and without, and what these may miss in all cells (l2)."""

    ahead: Floats
    behind: Floats
    ahead_error: float
    behind_error: float
    relative: float

    def lower(self, epsilon: float, *, backward: bool) -> float:
        """A lower end of delta of X from Y, or backwards."""
        grown = math.exp(min(epsilon, 690.0)) * (1.0 + 1e-15)
        first = self.behind if backward else self.ahead
        other = self.ahead if backward else self.behind
        missing = self.ahead_error + self.behind_error * grown
        if backward:
            missing = self.behind_error + self.ahead_error * grown
        gain = first - grown * other
        event = gain > NOISE * missing / math.sqrt(first.size)
        found = float(first[event].sum()) * (1.0 - self.relative)
        found -= grown * float(other[event].sum()) * (1.0 + self.relative)
        return max(found - math.sqrt(float(event.sum())) * missing, 0.0)


class Told(NamedTuple):
    """How sums are told: modulo a window, of outputs up to a top one, with l = share."""

    low: float
    high: float
    top: float
    share: float
    cells: int


@lru_cache(maxsize=64)
@np.errstate(all="ignore")
def sum_laws(
    noise_multiplier: float,
    steps: int,
    takes: int,
    passes: int,
    told: Told | None = None,
) -> SumLaws:
    """Of one allocation, or of several passes with a draw each."""
    shift = 1.0 / noise_multiplier
    share = (takes - 1) / max(steps - 1, 1)
    if told is not None:
        share = told.share

    def number(output: Floats) -> Floats:
        log_ratio = np.minimum(output * shift - 0.5 * shift * shift, 600.0)
        if share == 0.0:
            return np.asarray(np.expm1(log_ratio))
        return np.asarray(np.log1p(share * np.expm1(log_ratio)) / share)

    def output_of(value: Floats) -> Floats:
        ratio = 1.0 + value
        if share > 0.0:
            ratio = 1.0 + np.expm1(np.minimum(share * value, 690.0)) / share
        return np.asarray(
            np.log(np.maximum(ratio, 1e-300)) / shift + 0.5 * shift, dtype=np.float64
        )

    without = passes * (steps - takes)
    with_record = passes * takes
    if told is None:
        low, high = _window(number, shift, without, with_record)
        told = Told(low, high, FARTHEST + shift, share, CELLS)
        apart = 2.0 * (told.high - told.low)
    else:
        apart = math.inf
    spread = told.high - told.low
    least = max(float(number(np.array(-40.0))), -4.0 * spread)
    most = min(float(number(np.array(told.top))), least + apart)
    width = (
        max(spread + (most - least if apart < math.inf else 0.0), most - least)
        / told.cells
    )
    count = max(math.floor((most - least) / width), 1)
    places: Floats = least + width * np.arange(1.0, count + 1.0)
    edges = output_of(places)
    edges = np.concatenate([[-math.inf], np.maximum.accumulate(edges), [math.inf]])
    plain = LossMasses(width, 0, normal_between(edges), 0.0)
    moved = LossMasses(width, 0, normal_between(edges - shift), 0.0)
    uses = without + with_record
    ahead = [(masses, n) for masses, n in ((plain, without), (moved, with_record)) if n]
    laws = []
    for parts in (ahead, [(plain, uses)]):
        composed, error, log_scale, slack = tilted_convolution(parts, 0.0, told.cells)
        laws.append((composed * math.exp(log_scale), 1.001 * error, slack))
    relative = uses * CELL_ERROR + laws[0][2] + laws[1][2] + told.cells * 2.0**-52
    return SumLaws(laws[0][0], laws[1][0], laws[0][1], laws[1][1], relative)


def _window(
    number: Callable[[Floats], Floats], shift: float, without: int, with_record: int
) -> tuple[float, float]:
    """Where sums mostly lie in either world."""
    outputs = np.linspace(-FARTHEST, FARTHEST + shift, 4001)
    values = number(outputs)
    means = []
    variances = []
    for centre in (0.0, shift):
        weight = np.exp(-0.5 * (outputs - centre) ** 2)
        weight /= weight.sum()
        means.append(float(weight @ values))
        variances.append(float(weight @ (values - means[-1]) ** 2))
    uses = without + with_record
    spread = math.sqrt(uses * variances[0])
    centres = (uses * means[0], without * means[0] + with_record * means[1])
    low = min(centres) - SPREADS * spread
    high = max(centres) + SPREADS * spread
    return low, max(high, low + 1e-6)
