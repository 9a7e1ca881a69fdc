"""Slopes from noisy second moments, in public units: priors of many widths, weighted by how likely they make the data.

With C, c the centred sums of products of features and of features with the target, c - C b has the variance D +
sigma^2 C: D the known noise of c and of C b, sigma^2 C the sampling error. Under priors N(0, g I) on b, weighted by the
likelihood of c, the posterior mean is what predicts: least squares where the noise is small, and shrunk along the
directions where it is not, negative eigenvalues of C included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from gaussveil.mechanisms.regression.moments import NoisyMoments
from gaussveil.typing import Floats, Integers

SHARES = np.geomspace(
    1e-4, 1e4, 17
)  # of the target's variance that a prior expects features to explain
TARGET_VARIANCE = (
    1 / 16
)  # of targets in public units: nominal, for sharing out the budget
ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Solved:
    """A first solution from noisy moments, in public units: slopes drawn towards 0, and what their errors come from."""

    slopes: Floats
    spread: Floats
    residual: float
    sampling: Floats
    """Covariance of the sampling error of `cross`, rows all by themselves."""
    solid: Floats
    """The matrix, less noise, no eigenvalue of it near zero."""
    prior: Floats

    @classmethod
    def of(cls, moments: NoisyMoments, chosen: Integers, place: int) -> Solved:
        """Some of the features, and the target at this place."""
        sums, noise = moments.centred()
        count = moments.count
        nominal = count * moments.look.square / len(moments.feature_names)
        matrix = sums[np.ix_(chosen, chosen)]
        matrix_noise = noise[np.ix_(chosen, chosen)]
        cross = sums[chosen, place]
        cross_noise = noise[chosen, place]
        inner, error = denoised(matrix, matrix_noise, nominal)
        values, vectors = np.linalg.eigh(inner)
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        told = TARGET_VARIANCE**2 / (
            TARGET_VARIANCE**2 + float(noise[place, place]) / count**2
        )
        drawn = told * float(sums[place, place]) / count + (1 - told) * TARGET_VARIANCE
        variance = min(
            above_zero(drawn, told * math.sqrt(float(noise[place, place])) / count),
            1.0,
        )
        freedom = max(count - len(chosen) - 1, 1.0) / count
        most = variance * count / max(float(np.trace(positive)), 0.01 * nominal)
        # rows that are weighted down weigh twice in sums of squares: their mean weight corrects the sampling error
        weight = min(count / moments.look.rows, 1.0)
        residual = variance
        for _ in range(ROUNDS):
            slopes, spread = posterior(
                inner,
                cross,
                error,
                cross_noise,
                positive * residual * weight,
                SHARES * most,
            )
            explained = (2 * slopes @ cross - slopes @ positive @ slopes) / count
            residual = min(
                max((variance - explained) / freedom, (1 - told) / 2 * variance, 1e-12),
                1.0,
            )
        solid = (vectors * np.maximum(values, 0.01 * nominal)) @ vectors.T
        prior = variance * count / np.maximum(np.diag(inner), 0.01 * nominal)
        sampling = positive * residual * weight
        return cls(slopes, spread, residual, sampling, solid, prior)

    def unit_parts(self, count: float, means: Floats) -> Floats:
        """A of `unit_sums`: level and slopes from sums of z e, by which rows by themselves give `count` squares."""
        inverse = np.linalg.inv(self.solid)
        variance = np.maximum(np.diag(inverse @ self.sampling @ inverse), 1e-300)
        part = np.zeros((1 + len(means), 1 + len(means)))
        part[0, 0] = 1 / math.sqrt(self.residual)
        part[1:] = (
            np.column_stack((-inverse @ means, inverse))
            * np.sqrt(count / variance)[:, None]
        )
        return part

    def sampled(self, effects: Floats) -> Floats:
        """The sampling error's covariance where slopes have these design effects."""
        turn = self.solid * np.sqrt(effects) @ np.linalg.inv(self.solid)
        return np.asarray(turn @ self.sampling @ turn.T)


def above_zero(estimate: float, deviation: float) -> float:
    """Mean of what is above zero and was measured with normal noise."""
    if deviation <= 0:
        return max(estimate, 1e-12)
    score = estimate / deviation
    hazard = math.exp(
        -0.5 * score**2 - float(scipy.special.log_ndtr(score))
    ) / math.sqrt(2 * math.pi)
    return max(estimate + deviation * hazard, 1e-12)


def denoised(inner: Floats, noise: Floats, nominal: float) -> tuple[Floats, Floats]:
    """Entries and their variances given the noise: each drawn to a mean, as far as the entries do not vary.

    The mean of the diagonal is drawn to what was known of it before, as if that were known to its own size; off the
    diagonal it is zero.
    """
    diagonal = np.eye(len(inner), dtype=bool)
    told = nominal**2 / (nominal**2 + float(np.mean(noise[diagonal])) / len(inner))
    middle = max(
        told * float(np.mean(inner[diagonal])) + (1 - told) * nominal, 0.01 * nominal
    )
    target = np.where(diagonal, middle, 0.0)
    shrunk = inner.copy()
    left = noise.copy()
    for place in (diagonal, ~diagonal)[: len(inner)]:
        # no product of two columns is larger than their squares
        spread = min(
            max(
                float(np.mean((inner[place] - target[place]) ** 2 - noise[place])), 0.0
            ),
            middle**2,
        )
        gain = spread / (spread + noise[place])
        shrunk[place] = target[place] + gain * (inner - target)[place]
        left[place] *= gain
    left[diagonal] += told * noise[diagonal] / len(inner)
    return (shrunk + shrunk.T) / 2, left


def conditioned(
    matrix: Floats, cross: Floats, noise: Floats, prior: Floats
) -> tuple[Floats, Floats, Floats]:
    """Mean and covariance of slopes N(0, prior) given `cross`, their matrix times them with this noise; likelihood.

    Stacks of `noise` and `prior` give stacks.
    """
    spread = prior[..., None] * matrix
    values, vectors = np.linalg.eigh(noise + matrix @ spread)
    values = np.maximum(values, 1e-15 * np.maximum(values[..., -1:], 1e-300))
    gain = spread @ vectors / np.sqrt(values)[..., None, :]
    scores = cross @ vectors / np.sqrt(values)
    covariance = prior[..., None] * np.eye(len(cross)) - gain @ np.swapaxes(
        gain, -1, -2
    )
    return (
        (gain @ scores[..., None])[..., 0],
        covariance,
        -0.5 * np.sum(scores**2 + np.log(values), axis=-1),
    )


def posterior(
    inner: Floats,
    cross: Floats,
    error: Floats,
    cross_error: Floats,
    sampling: Floats,
    priors: Floats,
) -> tuple[Floats, Floats]:
    """Mean and variances of the slopes over all priors; the noise is that of `inner` times the prior's slopes."""
    each = priors[:, None] * np.ones(len(cross))
    noise = (cross_error + each * error.sum(axis=1))[..., None] * np.eye(
        len(cross)
    ) + sampling
    means, covariances, chance = conditioned(inner, cross, noise, each)
    # SHARES are odds u/(1 - u), the share u that features explain uniform
    chance = chance + np.log(SHARES / (1 + SHARES) ** 2)
    chance = np.exp(chance - np.max(chance))
    chance /= np.sum(chance)
    slopes = chance @ means
    return slopes, chance @ (
        means**2 + np.diagonal(covariances, axis1=1, axis2=2)
    ) - slopes**2
