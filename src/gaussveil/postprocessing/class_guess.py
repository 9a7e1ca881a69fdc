"""What the noisy sums of a private mixture tell of its classes: centres, radii, refinements, each the next guess.

Sums come in as they were released, with the deviations of their noise; nothing else is known of the records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammainc

from gaussveil.postprocessing import shrinkage
from gaussveil.postprocessing.clipped_moments import (
    mean_gain,
    mean_square,
    radius_from_quantile,
    shape_gain,
)
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.typing import Floats

# logarithms of scales that are weighed against each other
SCALE_RANGE = 3.0
SCALE_POINTS = 121
SCALE_DOUBT = 0.4  # how far the logarithm of a scale is thought to be off
PRIOR_RECORDS = (
    4.0  # worth of the pooled histogram, in noise deviations of half its bins
)
LEAST_LEFT = 0.8  # of a variance, where the mean's own move is taken out of it
LEAST_RADIUS = 0.4  # square of a radius, of the variance of its centre's noise
TAIL_DEVIATIONS = (
    4.0  # of its noise by which a histogram must exceed a Gaussian's to count
)
WEIGHT_CAUTION = 0.5  # noise deviations of its count that lift the weight of a class which seems empty


@dataclass(frozen=True)
class NoiseScales:
    """Noise of one refinement: counts, sums of z, traceless second moments (per svec coordinate), sums of 1 - |z|^2."""

    count: float
    total: float
    shape: float
    slack: float


@dataclass(frozen=True)
class RefinedSums:
    """Noisy sums of one refinement per class, how noisy they are, and the coordinates z = maps (x - means)."""

    count: Floats
    total: Floats
    shape: Floats
    slack: Floats
    scales: NoiseScales
    means: Floats
    maps: Floats
    joint_noise: Floats
    """Covariance of the noise in the count and the diagonal of sum zz', which are drawn together."""


@dataclass(frozen=True)
class SeenDistances:
    """Noisy histograms of the distances to the first centres, as they were released."""

    counts: Floats
    scale: float
    edges: Floats
    centres: Floats


@dataclass(frozen=True)
class Guess:
    """What is known of the classes so far, all of it released: counts, means, covariances and their noise."""

    counts: Floats
    count_variances: Floats
    means: Floats
    mean_noise: Floats
    covariances: Floats
    seen: RefinedSums | None = None
    """The sums last released, of which the rest was made."""
    distances: SeenDistances | None = None

    @property
    def records(self) -> Floats:
        """Counts kept positive."""
        return shrinkage.positive(self.counts, np.sqrt(self.count_variances))

    @property
    def weights(self) -> Floats:
        """Class weights, lifted less than the counts that sums are divided by: a class hardly seen stays small."""
        kept = shrinkage.positive(
            self.counts, WEIGHT_CAUTION * np.sqrt(self.count_variances)
        )
        return np.asarray(kept / kept.sum())

    @property
    def parameters(self) -> Parameters:
        """Weights, means, covariances: what is published."""
        return self.weights, self.means, self.covariances

    @cached_property
    def factors(self) -> tuple[Floats, Floats]:
        """Triangular roots of the covariances, half the work in a pass, and their inverses."""
        root: Floats = np.linalg.cholesky(self.covariances).astype(np.float64)
        return root, np.tril(np.linalg.inv(root))

    def with_counts(self, counts: Floats, variance: float) -> tuple[Floats, Floats]:
        """Counts averaged with another noisy count, each weighted by its exactness."""
        precision = 1 / self.count_variances + 1 / variance
        return (
            self.counts / self.count_variances + counts / variance
        ) / precision, 1 / precision


def centres_guess(
    counts: Floats,
    sums: Floats,
    scales: tuple[float, float],
    inner: float,
    middle: Floats,
    radius: float,
) -> Guess:
    """Centres shrunk to the pooled one, from noisy counts and sums in the inner ball about the middle."""
    classes, d = sums.shape
    records = shrinkage.positive(counts, scales[0])
    raw = sums / records[:, None]
    noise = (
        scales[1] ** 2
        + np.minimum(np.sum(raw**2, axis=1), inner**2) * scales[0] ** 2 / d
    ) / records**2
    centres, noise = shrinkage.towards_pool(raw, noise)
    # No clipped record lies outside the inner ball, so no centre does.
    lengths = np.linalg.norm(centres, axis=1, keepdims=True)
    centres = centres * np.minimum(1.0, inner / np.maximum(lengths, inner))
    left = np.minimum(noise, inner**2 / d)
    # A centre near the inner ball's surface may stand for records between the two balls: doubt along its direction.
    doubt = (radius - inner) / inner * centres * np.minimum(1.0, lengths / inner) ** 3
    eye = np.eye(d)
    return Guess(
        counts,
        np.full(classes, scales[0] ** 2),
        middle + centres,
        left[:, None, None] * eye + doubt[:, :, None] * doubt[:, None, :],
        np.broadcast_to(radius**2 / d * eye, (classes, d, d)),
    )


def with_radii(guess: Guess, seen: SeenDistances, quantile: float) -> Guess:
    """A quantile of each class's distances, the pooled histogram as a prior; the histograms count records, too."""
    d, (histogram, scale, edges) = (
        guess.means.shape[1],
        (seen.counts, seen.scale, seen.edges),
    )
    bins = len(edges)
    together = np.maximum(histogram.sum(axis=0), 0.0)
    if together.sum() > 0:
        together = together / together.sum()
    else:
        together = np.full(bins, 1 / bins)
    prior = PRIOR_RECORDS * scale * math.sqrt(bins / 2)
    masses = np.maximum(histogram + prior * together, 0.0) + 1e-9 * prior
    shares = np.cumsum(masses, axis=1) / masses.sum(axis=1, keepdims=True)
    logs = np.log(np.concatenate([[edges[0] / math.sqrt(2)], edges]))
    radii = np.exp(
        [np.interp(quantile, np.concatenate([[0.0], row]), logs) for row in shares]
    )
    # Distances are to centres that are off by their noise: no radius is much smaller than that.
    doubt = LEAST_RADIUS * np.trace(guess.mean_noise, axis1=1, axis2=2) / d
    variances = np.maximum(np.square(radii / radius_from_quantile(quantile, d)), doubt)
    counts, count_variances = guess.with_counts(histogram.sum(axis=1), bins * scale**2)
    return replace(
        guess,
        counts=counts,
        count_variances=count_variances,
        covariances=variances[:, None, None] * np.eye(d),
        distances=seen,
    )


def heavy_tails(guess: Guess, radius: float) -> Floats:
    """Factors on the covariances of classes whose distances reach farther than a Gaussian's, beyond all noise.

    Refinements see what lies inside their ellipsoids and take the rest for Gaussian. Squared distances of a Gaussian
    are nearly gamma distributed; what the histogram has above that law, each record moved to the ball, was missed.
    """
    assert guess.distances is not None
    seen = guess.distances
    gaps = guess.means - guess.distances.centres
    moved = np.einsum("ki,kij,kj->k", gaps, guess.covariances, gaps)
    traces = np.trace(guess.covariances, axis1=1, axis2=2)
    mean = traces + np.sum(gaps**2, axis=1)
    spread = 2 * np.sum(guess.covariances**2, axis=(1, 2)) + 4 * moved
    below = gammainc(
        (mean**2 / spread)[:, None], seen.edges**2 * (mean / spread)[:, None]
    )
    expected = np.diff(below, axis=1, prepend=0.0)
    expected[:, -1] += 1 - below[:, -1]
    lengths = np.minimum(
        seen.edges**2 * (0.5 / math.log(2)), radius**2
    )  # mean square of a bin's logarithmic middle
    excess = (seen.counts / guess.records[:, None] - expected) @ lengths
    doubt = (
        TAIL_DEVIATIONS * seen.scale / guess.records * float(np.linalg.norm(lengths))
    )
    believed = 1 - np.square(doubt / np.maximum(excess, doubt))
    return np.asarray(1 + believed * excess / traces)


def refined(guess: Guess, sums: RefinedSums, rho: Floats, pool: bool) -> Guess:
    """Moments inside each class's own ellipsoid, debiased, shrunk, and put together with what was known."""
    d = guess.means.shape[1]
    root, inverse = guess.factors
    counts, count_variances = guess.with_counts(sums.count, sums.scales.count**2)
    updated = replace(guess, counts=counts, count_variances=count_variances)
    records = updated.records
    scale = _scales(sums, rho, updated, d)
    means, mean_noise = _means(
        sums, guess, records * mean_gain(rho, scale, d), root, inverse
    )
    shapes = _shapes(sums, records * scale * shape_gain(rho, scale, d), pool)
    covariances = _about(
        means - guess.means,
        _symmetric(scale[:, None, None] * (root @ shapes @ root.mT)),
    )
    return replace(
        updated, means=means, mean_noise=mean_noise, covariances=covariances, seen=sums
    )


def _scales(sums: RefinedSums, rho: Floats, updated: Guess, d: int) -> Floats:
    """Scale of every class relative to its ellipsoid: posterior means.

    A class is about as large as it was thought to be, and the classes share a prior on how large they are.
    """
    volumes = np.linalg.slogdet(updated.covariances)[1] / d
    volumes = (volumes - volumes.mean())[:, None]
    reach = SCALE_RANGE + float(np.abs(volumes).max())
    logs = np.linspace(-reach, reach, math.ceil(SCALE_POINTS * reach / SCALE_RANGE))
    expected = 1 - mean_square(rho[:, None], np.exp(logs - volumes), d)
    variances = sums.scales.slack**2 + expected**2 * updated.count_variances[:, None]
    gaps = sums.slack[:, None] - updated.records[:, None] * expected
    beliefs = (
        -(gaps**2) / (2 * variances)
        - np.log(variances) / 2
        - np.square((logs - volumes) / SCALE_DOUBT) / 2
    )
    return np.asarray(
        np.exp(shrinkage.shared_prior_means(logs, beliefs) - volumes[:, 0])
    )


def _means(
    sums: RefinedSums, guess: Guess, gained: Floats, root: Floats, inverse: Floats
) -> tuple[Floats, Floats]:
    """Means put together with the earlier ones by inverse variances (a Kalman step in whitened coordinates).

    A shift larger than both noises explain means that the earlier mean was worse than it was thought to be.
    """
    shift = sums.total / gained[:, None]
    noise = np.square(sums.scales.total / gained)[:, None, None] * np.eye(
        root.shape[-1]
    )
    before = inverse @ guess.mean_noise @ inverse.mT
    surprise = np.einsum(
        "ki,kij,kj->k", shift, np.linalg.inv(before + noise), shift
    ) / (shift.shape[1] + 1)
    before = np.maximum(surprise, 1.0)[:, None, None] * before
    gain = before @ np.linalg.inv(before + noise)
    means = guess.means + (root @ gain @ shift[..., None])[..., 0]
    return means, _symmetric(root @ gain @ noise @ root.mT)


def _about(moved: Floats, second: Floats) -> Floats:
    """Second moments about means that have since moved so far, as ones about where they are now."""
    part = np.einsum(
        "ki,ki->k", moved, np.linalg.solve(second, moved[..., None])[..., 0]
    )
    removed = np.minimum(1.0, (1 - LEAST_LEFT) / np.maximum(part, 1e-300))
    return np.asarray(
        second - removed[:, None, None] * moved[:, :, None] * moved[:, None, :]
    )


def _symmetric(matrices: Floats) -> Floats:
    return np.asarray((matrices + matrices.mT) / 2)


def _shapes(sums: RefinedSums, gained: Floats, pool: bool) -> Floats:
    """Identity plus traceless shapes: the pooled one shrunk as a whole, the classes' departures by their noise."""
    raw = sums.shape / gained[:, None, None]
    d = raw.shape[-1]
    variances = np.square(sums.scales.shape / gained)
    shared = np.zeros((d, d))
    shared_variance = 0.0
    if pool or len(raw) == 1:
        weights = 1 / variances
        together = np.tensordot(weights / weights.sum(), raw, axes=1)
        shared, left = shrinkage.denoised(together, float(1 / weights.sum()))
        shared_variance = left / float(weights.sum())
    if len(raw) > 1:
        kept = shrinkage.shape_factors(raw - shared, variances)
    else:
        kept = np.zeros(1)
    estimate = np.eye(d) + shared + kept[:, None, None] * (raw - shared)
    return shrinkage.lifted(estimate, kept * variances + shared_variance + 1e-4)
