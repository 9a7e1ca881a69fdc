"""Who takes part when: `BallsInBins` and `CyclicPoisson`, the random batches of a `MatrixMechanism`.

Bins of a strategy C: a record of bin i is in the steps i, i + bins, i + 2 bins, ..., and moves outputs by at most the
sum of those columns of |C|, row by row. The inner products of these sums bound delta from above, those of the sums of
columns of C, which equal gradients attain, from below (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gaussveil.checks import real, whole
from gaussveil.spectrum.subsampled.bins import (
    LEAST_NOISE,
    MOST_NOISE,
    CommonAndOwn,
    RingAllocation,
)
from gaussveil.spectrum.subsampled.ring import chained
from gaussveil.typing import Floats

MOST_BINS = 8192
SLACK = 1e-11  # relatively; more than roundings of inner products of 8192 positive numbers are
WELL_CONDITIONED = (
    1e-4  # smallest eigenvalue, over the largest, of inner products that are inverted
)

FEWEST_ON_RING = (
    24  # bins: a ring takes seconds, what else bounds them takes tenths of these
)
DECAYS = 1.0 - np.geomspace(0.004, 0.6, 48)
LEAST_SHARE = 0.03  # of the largest inner product, that falls around a ring, and that is each bin's own
LENGTHS = (2.0, 12.0, 1e9)  # distances up to which raised inner products count

PROJECTED = 1e-8  # of the largest; more than roundings of a projection with such eigenvalues are


@dataclass(frozen=True)
class BallsInBins:
    """Each record draws one of so many bins, uniformly and for itself, and is in every step of that bin.

    Step t belongs to bin t modulo `bins`: an epoch is as many steps as there are bins.

    Args:
        bins: how many there are, at most 8,192.

    Raises:
        ParameterError: bins is not a whole number within that range.

    >>> from gaussveil import BallsInBins, BandMF, MatrixMechanism
    >>> drawn = MatrixMechanism(BandMF(4, 2), noise_multiplier=2.0, allocation=BallsInBins(2))
    >>> fixed = MatrixMechanism(BandMF(4, 2), noise_multiplier=2.0, takes=2, separation=2)
    >>> bool(drawn.delta(1.0) < fixed.delta(1.0))
    True
    """

    bins: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", whole("bins", self.bins, f"[1, {MOST_BINS}]"))


@dataclass(frozen=True)
class CyclicPoisson:
    """Records are divided into parts without regard to their values; step t draws from part t modulo their number.

    Arguments:
        sampling_rate: at which each record of the part is drawn, in each of its steps.
        parts: at least as many as the strategy has bands, and as many where it is not given.

    Raises:
        ParameterError: a number is out of range.

    >>> from gaussveil import BandMF, CyclicPoisson, MatrixMechanism
    >>> run = MatrixMechanism(BandMF(32, 4), noise_multiplier=2.0, allocation=CyclicPoisson(0.1))
    >>> bool(run.epsilon(1e-5) < 2.0)
    True
    """

    sampling_rate: float
    parts: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "sampling_rate", real("sampling_rate", self.sampling_rate, "(0, 1]")
        )
        if self.parts is not None:
            object.__setattr__(
                self, "parts", whole("parts", self.parts, f"[1, {MOST_BINS}]")
            )


def binned(strategy: Floats, bins: int, noise: float) -> RingAllocation:
    """The profile of balls in bins."""
    bins = min(bins, len(strategy))
    largest = _inner_products(np.abs(strategy), bins) / noise**2
    together = largest * (1.0 + SLACK)
    attained = _inner_products(strategy, bins) / noise**2 - SLACK * largest
    certain = math.sqrt(float(np.max(np.diag(together)))) * (1.0 + SLACK)
    return RingAllocation.of(
        certain,
        _above(together),
        _below(attained),
        rings=_rings(together),
        ring_bins=bins,
    )


def _inner_products(strategy: Floats, bins: int) -> Floats:
    """Of the sums of each bin's columns."""
    padded = np.zeros((len(strategy), -(-len(strategy) // bins) * bins))
    padded[:, : len(strategy)] = strategy
    sums = padded.reshape(len(strategy), -1, bins).sum(axis=1)
    return np.asarray(sums.T @ sums)


def _above(together: Floats) -> list[CommonAndOwn]:
    """Bounds of every number of classes: bin i is of class i modulo their number, and the class is revealed."""
    bins = len(together)
    largest = float(np.max(np.diag(together)))
    distant = [
        float(np.max(np.diag(together, lag), initial=0.0)) for lag in range(bins)
    ]
    bounds = []
    for classes in _spacings(distant):
        common = max(distant[classes::classes], default=0.0)
        own = largest - common
        if own > 0.0:
            bounds.append(
                CommonAndOwn(math.sqrt(common), 1.0 / math.sqrt(own), bins // classes)
            )
    return bounds


def _spacings(distant: list[float]) -> list[int]:
    """Powers of two that leave several bins of a class, and the first spacing at which bins share no output."""
    bins = len(distant)
    spacings = {
        2**power for power in range(bins.bit_length()) if 2 ** (power + 1) <= bins
    }
    apart = next((lag for lag in range(1, bins) if max(distant[lag::lag]) == 0.0), bins)
    if 2 * apart <= bins:
        spacings.add(apart)
    return sorted(spacings)


def _rings(together: Floats) -> tuple[tuple[float, ...], ...]:
    """Bounds with covariances that fall around a ring: the least raised where near bins count, and where all do."""
    bins = len(together)
    if bins < FEWEST_ON_RING:
        return ()
    own_bin = np.arange(bins)
    each = np.array(
        [together[own_bin, (own_bin + lag) % bins].max() for lag in own_bin]
    )
    wanted = np.maximum(each, each[-own_bin])  # at each distance around the ring
    shares = wanted[0] * np.linspace(LEAST_SHARE, 1.0, 80)
    found = []
    for decay in DECAYS:
        falling = chained(decay, bins)
        common = np.maximum(
            (wanted[1:] - np.multiply.outer(shares, falling[1:])).max(axis=1), 0.0
        )
        raised = common[:, None] + np.multiply.outer(shares, falling[1:])
        owns = wanted[0] - common - shares
        for share, base, own, row in zip(shares, common, owns, raised):
            if own >= LEAST_SHARE * wanted[0]:
                found.append(((math.sqrt(base), share, decay, float(own)), row))
    if not found:
        return ()
    rows = np.stack([row for _, row in found])
    away = np.minimum(own_bin[1:], bins - own_bin[1:])
    kinds = {int(np.argmin(rows @ np.exp(-away / length))) for length in LENGTHS}
    more = 1.0 + SLACK
    rings = []
    for kind in sorted(kinds):
        shift, share, decay, own = found[kind][0]
        rings.append((shift * more, float(share * more), float(decay), own * more))
    return tuple(rings)


def _below(attained: Floats) -> list[CommonAndOwn]:
    """Bounds from bins as they are, and from runs of bins whose ratios are replaced by conditional means."""
    bins = len(attained)
    bounds = []
    for run in [2**power for power in range(bins.bit_length()) if 2**power < bins] + [
        bins
    ]:
        if run > 1:
            means = _projected(attained, run)
        else:
            means = attained
        if means is None:
            continue
        groups = np.arange(bins) // run
        inside = groups[:, None] == groups
        if run > 1:
            own = float(np.min(means[inside])) * (1.0 - SLACK)
        else:
            own = float(np.min(np.diag(means)))
        common = float(np.min(means[~inside], initial=own)) * (1.0 - SLACK)
        if common < 0.0 or own <= 0.0:
            continue
        count = int(groups[-1]) + 1
        if count > 1:
            alone = own - common
        else:
            alone = 0.0
        if alone > MOST_NOISE**-2:
            noise = 1.0 / math.sqrt(alone)
        else:
            noise = MOST_NOISE
        bounds.append(CommonAndOwn(math.sqrt(common), max(noise, LEAST_NOISE), count))
    return bounds


def _projected(attained: Floats, run: int) -> Floats | None:
    """Inner products of the bins' vectors, projected onto the span of the means of so many neighbours each."""
    bins = len(attained)
    weights = np.zeros((-(-bins // run), bins))
    weights[np.arange(bins) // run, np.arange(bins)] = 1.0 / run
    crossed = weights @ attained
    inner = crossed @ weights.T
    values, vectors = np.linalg.eigh(inner)
    if values[0] <= WELL_CONDITIONED * values[-1]:
        return None
    turned = vectors.T @ crossed
    return np.asarray((turned.T / values) @ turned) - PROJECTED * float(
        np.max(np.abs(attained))
    )
