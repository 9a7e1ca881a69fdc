"""Where contours cross the real axis, which way they may bend, and how many nodes they get."""

from __future__ import annotations

import math
from typing import NamedTuple

from gaussveil.typing import Array


class Region(NamedTuple):
    """Where the contour crosses the real axis: from `base` (a pole) in `direction` up to the next singularity.

    `limit` is the distance to another pole on that side.
    """

    poles: tuple[float, ...]
    base: float
    direction: float
    limit: float = math.inf


class Integral(NamedTuple):
    """log |integral|, its slope in the threshold, and a bound on the error of the log.

    Where no rule settled, the error is infinite and the value is an upper bound.
    """

    log_value: Array
    slope: Array
    log_error: Array


HOCKEY_STICK = Region((0.0, -1.0), 0.0, 1.0)  # delta
HOCKEY_STICK_COMPLEMENT = Region((0.0, -1.0), 0.0, -1.0, 1.0)  # delta - 1
TAIL_X = Region((0.0,), 0.0, 1.0)  # Pr_X[L > eps]
TAIL_X_COMPLEMENT = Region((0.0,), 0.0, -1.0)  # Pr_X[L > eps] - 1
TAIL_Y = Region((-1.0,), -1.0, 1.0)  # exp(eps) Pr_Y[L > eps]
TAIL_Y_COMPLEMENT = Region((-1.0,), -1.0, -1.0)  # exp(eps) (Pr_Y[L > eps] - 1)

NEWTON_STEPS = 60
BENDS = (
    -0.3,
    0.3,
    -0.9,
    0.9,
)  # below 1, since a mean shift acts as exp(b^2 s^2 / 2); mild ones first
PENALTY = (
    1.0,
    1.0,
    1.25,
    1.25,
)  # a strong bend, good for exponential falls, must be worth it
PROBES = (3.0, 4.0, 5.2, 7.0, 9.5, 13.0, 18.0, 26.0, 40.0, 60.0, 90.0)
# Nodes of each rule, and the largest u that they may have to cover; with the one at 0 they fill blocks of eight.
TRAPEZOID_RULES = (
    (47, 7.0),
    (94, 7.0),
    (87, 13.0),
    (160, 26.0),
    (640, 90.0),
    (4096, 90.0),
)
MANY = 1000  # multiplicity up to which log |1 + s g| may carry the rounding of a plain logarithm
GRADIENT_HALF_RULE = (
    1e-5  # a gradient's rule is accepted when every second node agrees to this
)
GRADIENT_TAIL = 1e-8  # and when the gradient's integrand has fallen this far
