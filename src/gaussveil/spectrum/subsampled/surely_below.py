"""Whether delta of losses that end surely stays below a level: Chernoff's bound at one order, proven in a millisecond.

Of X and Y exchanged a step's loss is -A(z), z ~ N(0, 1), which falls with z. So E e^{-cA} is at most the sum, over
cells of outputs, of their probability times e^{-cA} at their left ends; as the probabilities sum to 1, E e^{-cA} - 1 is
the same sum with e^{-cA} - 1, which keeps the digits that many steps need (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from flint import acb, arb, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.roots import lowest
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.typing import Floats

CELLS_REACH = 12.0  # outputs that cells reach to
TAIL_CELLS = 4096
SUM_ROUNDING = (
    2.0**-40
)  # relative rounding of the sum over cells, of exponents of size 1
LOG_ORDERS = (-16.0, 24.0)


class FallingLosses(NamedTuple):
    """Cells of outputs of a step: probabilities, and the largest losses there."""

    probability: Floats
    largest_loss: Floats

    def log_moment(self, order: float) -> float:
        """An upper end of log E e^{order L}."""
        exponent = order * self.largest_loss
        grown = np.expm1(exponent)
        rounding = SUM_ROUNDING * float(
            self.probability @ (np.abs(grown) * (1.0 + np.abs(exponent)))
        )
        excess = (
            float(self.probability @ grown)
            + rounding
            + 2.0**-50 * float(np.abs(grown).sum())
        )
        if excess < math.inf:
            log = math.log1p(excess)
        else:
            log = math.inf
        return log + 2.0**-51 * abs(log)


@lru_cache(maxsize=64)
def falling(step: Step) -> FallingLosses:
    """The cells of a step with X and Y exchanged."""
    edges = np.linspace(-CELLS_REACH, CELLS_REACH, TAIL_CELLS + 1)
    below = scipy.special.ndtr(-np.abs(edges))
    within = np.where(edges[1:] <= 0.0, below[1:] - below[:-1], below[:-1] - below[1:])
    middle = edges[:-1] * edges[1:] < 0.0
    within = np.where(middle, 1.0 - below[:-1] - below[1:], within)
    losses = -np.append(step.floor, step.log_density(edges))
    losses += 2.0**-48 * np.abs(losses)
    return FallingLosses(np.concatenate([below[:1], within, below[-1:]]), losses)


@np.errstate(all="ignore")
def surely_below(
    steps: Sequence[tuple[Step, int]],
    companions: BallCompanions,
    epsilon: float,
    log_delta: float,
) -> bool:
    """Whether that bound proves that delta is at most e^log_delta; of steps with X and Y exchanged alone."""
    if not steps or not all(step.backward for step, _ in steps):
        return False
    cells = [(falling(step), count) for step, count in steps]

    def bound(log_order: float) -> float:
        order = math.exp(log_order)
        log_size = (
            sum(count * tail.log_moment(order) for tail, count in cells)
            - order * epsilon
        )
        log_size += float(companions.exponent(acb(order)).real.mid())
        log_size += order * math.log(order) - (1.0 + order) * math.log1p(order)
        if math.isfinite(log_size):
            return log_size
        return 1e300

    with precision_lock(), ctx.workprec(120):
        order = math.exp(
            lowest(
                bound,
                LOG_ORDERS[0],
                min(LOG_ORDERS[1], _highest(companions)),
                xtol=0.01,
            )
        )
        c = arb(order)
        log_bound = c * c.log() - (1 + c) * (1 + c).log() - c * epsilon
        for tail, count in cells:
            log_bound += count * arb(tail.log_moment(order))
        log_bound += companions.exponent(acb(order)).real
        return bool(log_bound < arb(log_delta))


def _highest(companions: BallCompanions) -> float:
    """log of where K of the pairs ends, a little before it."""
    gaps = [float(term.gap) for term in companions.terms]
    if min(gaps, default=0.0) < 0.0:
        return math.log(-1.0 / min(gaps)) - 0.05
    return math.inf
