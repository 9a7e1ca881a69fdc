"""exp in integers: bounds that hold, whatever the machine's floating point does."""

from __future__ import annotations

from fractions import Fraction

GUARD_BITS = 64


def exp_minus(x: Fraction, bits: int) -> int:
    """An integer n with n <= 2^bits exp(-x) <= n + 3, for 0 <= x < 2^16. Derived: docs/math/noise.md, "Table"."""
    # halve the argument until the Taylor series converges fast, then square back
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 1)
    work = bits + GUARD_BITS
    denominator = x.denominator << halvings
    total = term = 1 << work
    order = 0
    while term:
        order += 1
        term = term * x.numerator // (denominator * order)
        total += term if order % 2 == 0 else -term
    for _ in range(halvings):
        total = total * total >> work
    return max(0, (total >> GUARD_BITS) - 1)  # the last unit covers all errors above


def exp_lower(x: Fraction, bits: int) -> Fraction:
    """A rational at most exp(x), and within a relative 2^(1-bits) of it, for 0 <= x < 2^15."""
    scaled = bits + 2 * int(x) + 4  # exp(-x) has about 1.5 x leading zeros
    return Fraction(1 << scaled, exp_minus(x, scaled) + 3)
