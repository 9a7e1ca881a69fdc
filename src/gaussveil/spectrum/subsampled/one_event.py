"""A lower end of delta from one event, in ball arithmetic: where nothing else answers, this does, in milliseconds.

Delta is at least X(A) - e^eps Y(A) for every event A. Here A is that some output lies above a place, of X and Y
exchanged that all lie below it: what a single output tells, which is nearly all where few outputs count. What stands
beside the steps is left out, which only lowers delta (docs/math/subsampled, "A last resort").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, ctx

from gaussveil.spectrum.constants import BALL_BITS
from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import UNKNOWN, Enclosure, from_scaled
from gaussveil.spectrum.subsampled.balls import normal_tail
from gaussveil.spectrum.subsampled.cell_probabilities import place
from gaussveil.spectrum.subsampled.step import Step

SHARES = np.geomspace(0.02, 4.0, 48)  # of epsilon: losses whose outputs are tried
LEAST_LOSSES = np.geomspace(1e-12, 10.0, 40)  # others, for an epsilon next to 0
PLACES = np.linspace(-6.0, 6.0, 49)  # of outputs of X and Y exchanged


def at_least(steps: Sequence[tuple[Step, int]], epsilon: float) -> Enclosure:
    """From the best of some events up to 1; nothing of steps of several directions."""
    directions = {(step.backward, step.replace) for step, _ in steps}
    if len(directions) != 1 or not math.isfinite(epsilon):
        return UNKNOWN
    with precision_lock(), ctx.workprec(4 * BALL_BITS):
        grown = arb(epsilon).exp()
        best = arb(0)
        for places in _places(steps, epsilon):
            under_x, under_y = _event(steps, places)
            gain = arb((under_x - grown * under_y).lower())
            if gain > best:
                best = gain
        if not best > 0:
            return UNKNOWN
        return from_scaled(best.union(arb(1)), arb(0))


def _places(steps: Sequence[tuple[Step, int]], epsilon: float) -> list[list[float]]:
    """Places of outputs that are tried, one for each step."""
    if steps[0][0].backward:
        return [[output] * len(steps) for output in PLACES.tolist()]
    losses = np.concatenate([SHARES * epsilon, LEAST_LOSSES])
    columns = [place(step, losses) for step, _ in steps]
    rows = np.array(columns).T
    return [row.tolist() for row in rows if np.isfinite(row).all()]


def _event(
    steps: Sequence[tuple[Step, int]], places: Sequence[float]
) -> tuple[arb, arb]:
    """Its probabilities under X and under Y."""
    logs = [arb(0), arb(0)]
    for (step, count), output in zip(steps, places):
        plain = normal_tail(arb(output))
        shift = 1 / arb(step.noise_multiplier)
        rate = arb(step.sampling_rate)
        with_record = (1 - rate) * plain + rate * normal_tail(arb(output) - shift)
        without = plain
        if step.replace:
            without = (1 - rate) * plain + rate * normal_tail(arb(output) + shift)
        if step.backward:
            with_record, without = without, with_record
        for side, tail in enumerate((with_record, without)):
            logs[side] += count * (-tail).log1p()
    if steps[0][0].backward:
        return logs[0].exp(), logs[1].exp()
    return -logs[0].expm1(), -logs[1].expm1()
