"""Epsilons of a curve whose delta costs little more at many places than at one: all are searched for at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.spectrum.constants import LARGEST_EPSILON
from gaussveil.typing import Floats

# of the search for an epsilon: 32^12 is beyond the digits of doubles
SECTIONS = 32
ROUNDS = 12


def private_ends(upper: Callable[[Floats], Floats], target: Floats) -> Floats:
    """For each target the least epsilon found at which `upper`, which falls, is at most the target."""
    low = np.full(target.shape, -1.0)
    high = np.ones(target.shape)
    while not np.all(private := upper(high) <= target):
        if np.max(high) > LARGEST_EPSILON:
            raise NumericalError(
                f"epsilon at delta = {np.min(target)} exceeds {LARGEST_EPSILON}; ask for a larger delta"
            )
        high = np.where(private, high, 2.0 * high)
    # Many sections at a time: one call of delta costs little more for many points than for one.
    shares = np.linspace(0.0, 1.0, SECTIONS + 1)
    for _ in range(ROUNDS):
        points = low[..., None] + (high - low)[..., None] * shares
        points[..., -1] = high
        index = np.argmax(upper(np.maximum(points, 0.0)) <= target[..., None], axis=-1)[
            ..., None
        ]
        low = np.take_along_axis(points, np.maximum(index - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(points, index, axis=-1)[..., 0]
    return high
