"""Largest losses of pairs side by side: the epsilon of delta 0, added up exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from gaussveil.spectrum import PrivacyCurve

Uses = Sequence[tuple[PrivacyCurve, int]]


def largest_loss(parts: Uses) -> Fraction | float:
    """Sum of the largest losses of all parts, exactly: rounded down it would promise delta 0 too early."""
    if any(
        curve.infinity > 0.0 or math.isinf(curve.largest_loss) for curve, _ in parts
    ):
        return math.inf
    return sum(
        (Fraction(curve.largest_loss) * count for curve, count in parts), Fraction(0)
    )


def pure_epsilon(parts: Uses, *, symmetric: bool) -> float:
    """What all parts can lose together in the worse direction, rounded up; of each part's own where symmetric."""
    ahead = list(parts)
    back = [(curve.reversed(), count) for curve, count in parts]
    if symmetric:
        total = largest_loss([max(pair, key=_loss) for pair in zip(ahead, back)])
    else:
        total = max(largest_loss(ahead), largest_loss(back))
    rounded = float(total)
    if total > rounded:
        return math.nextafter(rounded, math.inf)
    return rounded


def _loss(part: tuple[PrivacyCurve, int]) -> Fraction | float:
    return largest_loss([part])
