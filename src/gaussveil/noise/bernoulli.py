"""Exact coins, exact uniform integers and K-ary randomised response: rational probabilities, compared bit by bit."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import Shape, checked_shape

GUARD_BITS = 64
RATIO_BITS = 96


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


def bernoulli(
    probability: float | Fraction, shape: Shape, generator: Generator | None = None
) -> NDArray[np.bool_]:
    """Independent coins that are true with exactly this probability (a float stands for the dyadic number it is).

    The binary digits of a uniform number are compared with those of the probability, 64 at a time, until they differ.
    """
    if isinstance(probability, float) and not isfinite(probability):
        raise ParameterError(f"probability must lie in [0, 1]. Got {probability}.")
    rest = Fraction(probability)
    if not 0 <= rest <= 1:
        raise ParameterError(f"probability must lie in [0, 1]. Got {float(rest):.6g}.")
    source = default_generator() if generator is None else generator
    sizes = checked_shape(shape)
    result = np.full(prod(sizes), rest == 1)
    undecided = np.arange(result.size)
    while 0 < rest < 1 and undecided.size:
        digits, rest = divmod(rest * 2**64, 1)
        words = source.uint64(undecided.size)
        threshold = np.uint64(int(digits))
        result[undecided] = words < threshold
        undecided = undecided[
            words == threshold
        ]  # so far equal: false if no digit is left
    return result.reshape(sizes)


def uniform_below(limit: int, count: int, generator: Generator) -> NDArray[np.int64]:
    """Independent exact uniform integers in 0..limit-1, by rejection; 1 <= limit <= 2^62."""
    if (
        type(limit) is not int or not 1 <= limit <= 2**62
    ):  # called for every trial of a draw
        checks.whole("limit", limit, f"[1, {2**62}]")
    if limit == 1:
        return np.zeros(count, dtype=np.int64)
    shift = np.uint64(64 - (limit - 1).bit_length())
    result = (generator.uint64(count) >> shift).astype(np.int64)
    rejected = np.flatnonzero(result >= limit)
    while rejected.size:
        result[rejected] = (generator.uint64(rejected.size) >> shift).astype(np.int64)
        rejected = rejected[result[rejected] >= limit]
    return result


def response_probabilities(
    categories: int, epsilon: float | Fraction
) -> tuple[Fraction, Fraction]:
    """Probability of keeping a category and of each other one; their ratio is rational and at most e^epsilon."""
    checks.whole("categories", categories, "[2, inf)")
    if isinstance(epsilon, float) and not isfinite(epsilon):
        raise ParameterError(f"epsilon must lie in (0, 700]. Got {epsilon}.")
    exact = Fraction(epsilon)
    if not 0 < exact <= 700:
        raise ParameterError(f"epsilon must lie in (0, 700]. Got {float(exact):.6g}.")
    ratio = exp_lower(exact, RATIO_BITS)
    return ratio / (ratio + categories - 1), 1 / (ratio + categories - 1)


def randomised_response(
    labels: ArrayLike,
    categories: int,
    epsilon: float | Fraction,
    generator: Generator | None = None,
) -> NDArray[np.int64]:
    """Each label of 0..categories-1 kept or replaced by a uniform other one: exactly epsilon-private per label.

    Warner 1965, K-ary as in Kairouz, Oh and Viswanath 2014. The same coins are thrown whatever the label.
    """
    source = default_generator() if generator is None else generator
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise SchemaError(
            f"labels must be integers. Got {array.dtype}. Encode the categories by a public list."
        )
    if np.any((array < 0) | (array >= categories)):
        raise SchemaError(
            f"labels must lie in 0..{categories - 1}. Map unknown labels to a category by a public rule."
        )
    keep, _ = response_probabilities(categories, epsilon)
    kept = bernoulli(keep, array.shape, source)
    step = 1 + uniform_below(categories - 1, array.size, source).reshape(array.shape)
    return (array.astype(np.int64) + np.where(kept, 0, step)) % categories
