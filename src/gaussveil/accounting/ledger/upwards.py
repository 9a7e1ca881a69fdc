"""Sums and products of doubles rounded up, and not at all where they are exact (Knuth's sum, Dekker's product)."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.typing import Floats

SPLIT = 2.0**27 + 1


def sum_up(one: Floats, other: Floats) -> Floats:
    """The sum, or the next larger double where it is not exact."""
    total = one + other
    with np.errstate(invalid="ignore"):  # of infinities nothing is left over
        part = total - one
        left = (one - (total - part)) + (other - part)
    return np.where(left > 0, np.nextafter(total, math.inf), total)


def product_up(one: float, other: Floats) -> Floats:
    """The product with a whole number of at most 2^53, rounded in the same way; what underflows is rounded up."""
    total = one * other
    with np.errstate(invalid="ignore", over="ignore"):
        high, low = _halves(np.asarray(one))
        upper, lower = _halves(other)
        left = ((high * upper - total) + high * lower + low * upper) + low * lower
        exact = (left <= 0) & (np.abs(total) > 2.0**-960) | (total == 0) & (other == 0)
    return np.where(exact, total, np.nextafter(total, math.inf))


def _halves(value: Floats) -> tuple[Floats, Floats]:
    """A double as a sum of two with half the digits each."""
    spread = SPLIT * value
    high = spread - (spread - value)
    return high, value - high
