"""Ratios of moves to scales of noise, rounded to the private side."""

from __future__ import annotations

import math
from fractions import Fraction

from gaussveil import checks


def over(moved: float, noise_scale: float) -> float:
    """moved / scale, rounded up."""
    ratio = moved / checked_scale(noise_scale)
    exact = Fraction(moved) / Fraction(float(noise_scale))
    if ratio >= exact:
        return ratio
    return math.nextafter(ratio, math.inf)


def checked_scale(noise_multiplier: float) -> float:
    """A scale of noise, refused unless it is positive."""
    return checks.positive("noise_multiplier", noise_multiplier)
