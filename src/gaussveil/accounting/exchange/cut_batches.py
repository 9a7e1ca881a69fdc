"""Batches cut at a size, and records that move a sum by random amounts, as proven bounds."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from gaussveil import checks
from gaussveil.accounting.exchange.noise_scales import checked_scale, over
from gaussveil.spectrum import GaussianPair, PrivacyCurve
from gaussveil.spectrum.mixtures import (
    LARGEST_SHIFT,
    GaussianMixture,
    PublicChoice,
)
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    PoissonSubsampled,
    PrivacyProfile,
)
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch

MOST_MOVES = 40  # of one record, drawn more than once into a batch
RARE = 1e-8  # probability of more moves than are told apart
CUTS = 32  # how finely batches cut at a size are told apart


def truncated_batch(event: Any, replace: bool) -> PrivacyProfile:
    """Batches cut at a size, given how many others were drawn (derived: docs/math/profiles); several as the fewest."""
    most = checks.whole("truncated_batch_size", event.truncated_batch_size, "[0, inf)")
    size = checks.whole("dataset_size", event.dataset_size, "[0, inf)")
    noise = checked_scale(event.noise_multiplier)
    rate = checks.real("sampling_probability", event.sampling_probability, "(0, 1]")
    # a record may join a table of that size
    if replace:
        others = size - 1
        whole: PrivacyProfile = ReplacedInBatch(noise, rate)
    else:
        others = size
        whole = PoissonSubsampled(GaussianPair.mean_shift(over(1.0, noise)), rate)
    if most > others:
        return whole
    firsts = _told_apart(most, others, rate)
    tails = [float(scipy.special.bdtrc(first - 1, others, rate)) for first in firsts]
    weights = [1.0 - tails[0]]
    profiles = [whole]
    swapped = GaussianPair.mean_shift(over(2.0, noise))
    for first, (above, below) in zip(firsts, pairwise([*tails, 0.0])):
        stays = max(rate * most / (first + 1) * (1.0 + 1e-12), 1e-9)
        weights.append((above - below) * (1.0 + 1e-10))
        if replace:
            profiles.append(FixedSizeBatch(noise, stays))
        else:
            profiles.append(PoissonSubsampled(swapped, stays))
    return PublicChoice(tuple(weights), tuple(profiles))


def _told_apart(most: int, others: int, rate: float) -> list[int]:
    """Numbers of others from which on batches of different sizes are told apart."""
    spread = math.sqrt(others * rate) + 1.0
    shares = np.linspace(0.0, 8.0, CUTS)
    return sorted({min(most + int(share * spread), others) for share in shares})


def repeatedly_drawn(
    noise: float, draws: int, size: int, replace: bool
) -> PrivacyCurve:
    """Batches of `draws` places, each drawn from all records by itself, Gaussian noise on their sum."""
    if replace:
        largest = 200.0
    else:
        largest = LARGEST_SHIFT
    moves = [
        count
        for count in range(1, min(draws, MOST_MOVES) + 1)
        if 1e-4 <= 2.0 * count / noise < largest
    ]
    tails = [
        float(scipy.special.bdtrc(count, draws, 1.0 / size)) * (1.0 + 1e-12)
        for count in (0, *moves)
    ]
    if not moves or tails[-1] > RARE:
        # as if it held them all
        return GaussianPair.mean_shift(over(2.0 * draws, noise))
    step = 1.0 if replace else 2.0
    shares = [(0.0, max(1.0 - tails[0], 0.0))]
    for count, (above, below) in zip(moves, pairwise(tails)):
        shares.append((step * count, above - below))
    return randomly_moved(noise, shares, replace, tails[-1])


def randomly_moved(
    noise: float, moves: list[tuple[float, float]], replace: bool, left: float = 0.0
) -> PrivacyProfile:
    """Noise on a sum that a record moves by random amounts, increasing; amounts `left` out have an infinite loss.

    `moves` holds every amount with its probability.
    """
    if len(moves) == 2 and moves[0][0] == 0.0 and not (replace or left):
        amount, rate = moves[1]
        return PoissonSubsampled(
            GaussianPair.mean_shift(over(amount, noise)), float(rate)
        )
    possible = _possible(moves, replace)
    rate = min(math.fsum(share for _, share in possible) + left, 1.0)
    if replace:
        parts = _replaced(noise, possible, rate)
    else:
        parts = [(1.0 - left, _mixture(noise, possible, 1.0 - left))]
    if left > 0.0:
        parts.append((left / rate, ApproximatePoint(0.0, 1.0)))
    if len(parts) > 1:
        return PublicChoice(*zip(*parts))
    return parts[0][1]


def _possible(
    moves: list[tuple[float, float]], replace: bool
) -> list[tuple[float, float]]:
    """The amounts that occur; another record in the place of one moves something."""
    occurring = [(move, share) for move, share in moves if share]
    if replace:
        return [(move, share) for move, share in occurring if move]
    return occurring


def _mixture(
    noise: float, moves: list[tuple[float, float]], whole: float
) -> PrivacyProfile:
    """All amounts, whose chances are parts of the whole."""
    shifts = tuple(over(move, noise) for move, _ in moves)
    return GaussianMixture(shifts, tuple(share / whole for _, share in moves))


def _replaced(
    noise: float, moves: list[tuple[float, float]], rate: float
) -> list[tuple[float, PrivacyProfile]]:
    """A batch of a fixed size for each amount, with its share of all."""
    joined = max(rate, 1e-9)
    return [
        (share / rate, FixedSizeBatch(noise / move * (1.0 - 1e-15), joined))
        for move, share in moves
    ]
