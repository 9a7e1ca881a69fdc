"""Shrinkage of noisy estimates: everything here is post-processing of released values.

The variance of the noise is known exactly, so only the spread of the truth across classes has to be estimated.
"""

from __future__ import annotations

import numpy as np

from gaussveil.typing import Floats

PRIOR_WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
EMPIRICAL_BAYES_PART = 0.7  # the rest is James-Stein, class by class


def positive(value: Floats, deviation: Floats | float) -> Floats:
    """Root of l^2 - value l - deviation^2: positive, near the value where it is many deviations above zero."""
    return np.asarray((value + np.sqrt(value**2 + 4 * np.square(deviation))) / 2)


def spread(squares: Floats, noise_variances: Floats, rounds: int = 20) -> float:
    """Variance of the truth, from squared deviations per coordinate and their noise variances (weighted moments)."""
    truth = max(float(np.mean(squares)), 0.0)
    for _ in range(rounds):
        weights = 1 / np.square(truth + noise_variances)
        truth = max(
            float(np.sum(weights * (squares - noise_variances)) / np.sum(weights)), 0.0
        )
    return truth


def towards_pool(values: Floats, noise_variances: Floats) -> tuple[Floats, Floats]:
    """Vectors per class shrunk to their pooled mean, and the noise variance left: hierarchical Bayes.

    Values are N(truth, v_k I), truths N(middle, T I). T is summed out on a grid, with the prior under which the factor
    kept at a typical v is uniform, so that a spread that looks like zero by chance does not feign certainty.
    """
    classes, d = values.shape
    if classes == 1:
        return values, noise_variances
    kept_typical = (np.arange(40) + 0.5) / 40
    truth = (
        np.exp(np.mean(np.log(noise_variances))) * kept_typical / (1 - kept_typical)
    )[:, None]
    precisions = 1 / (truth + noise_variances)  # grid, class
    total = precisions.sum(axis=1, keepdims=True)
    middles = (precisions / total) @ values  # grid, column
    squares = np.sum((values - middles[:, None]) ** 2, axis=2)
    logs = (
        d / 2 * (np.log(precisions).sum(axis=1) - np.log(total[:, 0]))
        - np.sum(precisions * squares, axis=1) / 2
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kept = truth * precisions
    estimates = middles[:, None] + kept[..., None] * (values - middles[:, None])
    mean = np.tensordot(weights, estimates, axes=1)
    between = np.mean((estimates - mean) ** 2, axis=2)
    return np.asarray(mean), weights @ (
        kept * noise_variances + (1 - kept) ** 2 / total + between
    )


def shared_prior_means(points: Floats, log_likelihoods: Floats) -> Floats:
    """Posterior mean per class on a grid of points, for a normal prior whose mean and width the classes share.

    The prior's own mean is standard normal and its width is one of `PRIOR_WIDTHS`; both are summed out.
    """
    centres = points[::4]
    widths = np.array(PRIOR_WIDTHS)
    likelihoods = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
    priors = np.exp(-np.square((points - centres[:, None, None]) / widths[:, None]) / 2)
    priors /= priors.sum(axis=2, keepdims=True)
    evidence = priors @ likelihoods.T  # centre, width, class
    first = (priors * points) @ likelihoods.T
    logs = np.log(np.maximum(evidence, 1e-300)).sum(axis=2) - centres[:, None] ** 2 / 2
    weights = np.exp(logs - logs.max())
    means = first / np.maximum(evidence, 1e-300)
    return np.asarray(np.tensordot(weights / weights.sum(), means, axes=2))


def james_stein(
    squares: Floats | float, noise_variance: Floats | float, coordinates: int
) -> Floats:
    """Positive-part James-Stein factor of a vector of so many coordinates with this squared length."""
    excess = max(coordinates - 2, 0) * np.asarray(noise_variance)
    return np.asarray(np.maximum(0.0, 1 - excess / np.maximum(squares, 1e-300)))


def denoised(shape: Floats, noise_variance: float) -> tuple[Floats, float]:
    """A traceless shape without most of its noise, and the share of the noise that is left in it.

    Noise alone has eigenvalues up to r = sqrt(2 d v). One above r is a direction in which the data stretch, and stands
    for sqrt(l^2 - r^2) (Gavish and Donoho 2017); below zero there is room for noise alone. The others are shrunk alike.
    """
    values, vectors = np.linalg.eigh(shape)
    edge = 2 * len(shape) * noise_variance
    stretched = (values > 0) & (values**2 > edge)
    left = int(np.sum(~stretched))
    kept = float(
        james_stein(
            float(np.sum(values[~stretched] ** 2)),
            noise_variance,
            max(left * (left + 1) // 2 - 1, 1),
        )
    )
    cleaned = np.where(
        stretched,
        np.maximum(np.sqrt(np.maximum(values**2 - edge, 0.0)), kept * values),
        kept * values,
    )
    return np.asarray((vectors * cleaned) @ vectors.T), kept


def shape_factors(shapes: Floats, noise_variances: Floats) -> Floats:
    """How much of each class's traceless shape is kept: mostly empirical Bayes, partly James-Stein."""
    d = shapes.shape[-1]
    coordinates = max(d * (d + 1) // 2 - 1, 1)
    squares = np.sum(shapes**2, axis=(1, 2))
    truth = spread(squares / coordinates, noise_variances)
    bayes = truth / (truth + noise_variances)
    stein = james_stein(squares, noise_variances, coordinates)
    return np.asarray(EMPIRICAL_BAYES_PART * bayes + (1 - EMPIRICAL_BAYES_PART) * stein)


def lifted(matrices: Floats, variances: Floats) -> Floats:
    """Symmetric matrices whose eigenvalues are kept away from zero by the noise they carry; traces stay.

    The more columns, the farther the noise's extreme eigenvalues are from one entry's deviation: more is needed. What
    narrow directions gain the others lose, since the trace was measured and the scale goes by it.
    """
    values, vectors = np.linalg.eigh(matrices)
    part = min((matrices.shape[-1] + 1) / 2, 4.0)
    floors = positive(values, np.sqrt(part * variances)[:, None])
    floors *= (values.sum(axis=1) / floors.sum(axis=1))[:, None]
    return np.asarray((vectors * floors[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def symmetric_root(matrices: Floats, power: float) -> Floats:
    """Power of positive definite matrices, symmetric."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(
        (vectors * values[:, None, :] ** power) @ np.swapaxes(vectors, 1, 2)
    )
