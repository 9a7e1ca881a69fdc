"""Numbers that mean the same wherever they stand, each with its unit and where it comes from.

What one file alone decides (how many nodes, how far a search goes) stands at the head of that file. None of those can
make a bound wrong: they choose routes, and what a route leaves open is charged by one of the numbers below or in balls.
"""

from __future__ import annotations

import math

UNIT_ROUNDOFF = 2.0**-53
"""Largest relative error of one rounded operation on doubles (IEEE 754, to nearest)."""

ULP = 2.0**-52
"""Distance from 1 to the next double, two roundoffs: what a result is off that was rounded once and then moved."""

SMALLEST_DELTA = math.ulp(0.0)
"""What a delta counts as that is above 0 and left the range of doubles."""

ROUNDED_UP = 1.0 + 1e-12
"""Factor that raises a closed form above its roundings: 9,007 roundoffs, of formulas with fewer than 100 operations of
which none cancels."""

LARGEST_EPSILON = 1e6
"""Largest epsilon that curves are asked for: e^-epsilon is far below all doubles, epsilon itself keeps ten decimals."""

BALL_BITS = 256
"""Bits with which closed forms are evaluated in balls: 203 more than a double has, for sums that cancel."""

LAW_BITS = 128
"""The same for moments of laws by atoms and pieces, whose sums of positive numbers lose nothing."""

MOST_ATOMS = 2000
"""Atoms of a law of losses that the contour takes: its sum at each node costs so many exponentials."""

NOISE_ROUNDING = 2.0**-50
"""Half of what a noise multiplier is rounded by at most, relatively: a root, a quotient and the steps to the safe side
are off by at most 2^-49 together."""
