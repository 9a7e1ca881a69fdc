"""The rules of the reduction, one number or one array of them at a time: what is symmetric, definite, noise.

As in `formulas`, each function acts elementwise through the namespace that it is given, so that the array libraries and
the kernel in C follow the same rules.
"""

from __future__ import annotations

from typing import Any

Number = Any
Namespace = Any

SYMMETRY_TOLERANCE = 1e-10
UNIT_ROUNDOFF = 2.0**-53  # as in `constants`: the formulas in C take it from here
WIDE_RATIO = 1e-4  # variance ratios below this (against the largest) are taken from singular values


def scale_of(xp: Namespace, variance: Number) -> Number:
    """Exact scaling that brings a variance near one, so that graded matrices keep their digits."""
    return 2.0 ** -xp.round(xp.log2(variance) / 2)


def agree(
    xp: Namespace,
    entry: Number,
    mirrored: Number,
    variance: Number,
    other_variance: Number,
) -> Number:
    """Whether an entry of a covariance and its mirror image are the same but for rounding."""
    allowed = (
        SYMMETRY_TOLERANCE * xp.sqrt(xp.abs(variance)) * xp.sqrt(xp.abs(other_variance))
    )
    return xp.abs(entry - mirrored) <= allowed


def definite(pivot: Number, dimension: int) -> Number:
    """Whether what is left of a variance, as a share, is more than rounding."""
    return pivot > 4 * dimension * UNIT_ROUNDOFF


def is_noise(xp: Namespace, value: Number, largest: Number, dimension: int) -> Number:
    """Whether a value is rounding noise beside the largest: a gap of 1e-17 would pretend an unbounded loss."""
    return (
        xp.abs(value) < 4 * dimension * UNIT_ROUNDOFF * largest
    )  # an overflow is not noise beside itself


def log_ratio_of(xp: Namespace, gap: Number) -> Number:
    """log(1 - gap), finite also where rounding brought the gap to one."""
    return xp.log1p(-xp.where(gap < 1 - UNIT_ROUNDOFF, gap, 1 - UNIT_ROUNDOFF))


def spans_decades(xp: Namespace, lowest_gap: Number, highest_gap: Number) -> Number:
    """Whether the variance ratios span so many decades that the small ones are lost in the difference."""
    ratio = 1 - lowest_gap
    return 1 - highest_gap < WIDE_RATIO * xp.where(ratio > 1, ratio, 1.0)
