"""Shrinkage of noisy estimates: everything here is post-processing of released values.

The variance of the noise is known exactly, so only the spread of the truth across classes has to be estimated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

EMPIRICAL_BAYES_PART = 0.7  # the rest is James-Stein, class by class


def positive(value: Float, deviation: Float | float) -> Float:
    """Root of l^2 - value l - deviation^2: positive, near the value where it is many deviations above zero."""
    return np.asarray((value + np.sqrt(value**2 + 4 * np.square(deviation))) / 2)


def spread(squares: Float, noise_variances: Float, rounds: int = 20) -> float:
    """Variance of the truth, from squared deviations per coordinate and their noise variances (weighted moments)."""
    truth = max(float(np.mean(squares)), 0.0)
    for _ in range(rounds):
        weights = 1 / np.square(truth + noise_variances)
        truth = max(float(np.sum(weights * (squares - noise_variances)) / np.sum(weights)), 0.0)
    return truth


def pooled(values: Float, noise_variances: Float, truth: float) -> Float:
    """Mean over classes (axis 0), weighted by how exactly each is known."""
    weights = 1 / (truth + noise_variances)
    return np.asarray(np.tensordot(weights / weights.sum(), values, axes=1))


def towards_pool(values: Float, noise_variances: Float) -> tuple[Float, Float, Float]:
    """Vectors per class shrunk to their pooled mean; also the mean and the factors kept (empirical Bayes)."""
    classes = len(values)
    flat = values.reshape(classes, -1)
    middle, truth = pooled(flat, noise_variances, 0.0), 0.0
    if classes > 1:
        for _ in range(5):
            # A deviation from a mean that was estimated from the same classes is a little short.
            squares = np.mean((flat - middle) ** 2, axis=1) * classes / (classes - 1)
            truth = spread(squares, noise_variances)
            middle = pooled(flat, noise_variances, truth)
    kept = truth / (truth + noise_variances) if classes > 1 else np.ones(1)
    return (middle + kept[:, None] * (flat - middle)).reshape(values.shape), middle.reshape(values.shape[1:]), kept


def james_stein(squares: Float | float, noise_variance: Float | float, coordinates: int) -> Float:
    """Positive-part James-Stein factor of a vector of so many coordinates with this squared length."""
    excess = max(coordinates - 2, 0) * np.asarray(noise_variance)
    return np.asarray(np.maximum(0.0, 1 - excess / np.maximum(squares, 1e-300)))


def shape_factors(shapes: Float, noise_variances: Float) -> Float:
    """How much of each class's traceless shape is kept: mostly empirical Bayes, partly James-Stein."""
    d = shapes.shape[-1]
    coordinates = max(d * (d + 1) // 2 - 1, 1)
    squares = np.sum(shapes**2, axis=(1, 2))
    truth = spread(squares / coordinates, noise_variances)
    bayes = truth / (truth + noise_variances)
    stein = james_stein(squares, noise_variances, coordinates)
    return np.asarray(EMPIRICAL_BAYES_PART * bayes + (1 - EMPIRICAL_BAYES_PART) * stein)


def lifted(matrices: Float, variances: Float) -> Float:
    """Symmetric matrices whose eigenvalues are kept away from zero by the noise they carry."""
    values, vectors = np.linalg.eigh(matrices)
    floors = positive(values, np.sqrt(variances)[:, None])
    return np.asarray((vectors * floors[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def symmetric_root(matrices: Float, power: float) -> Float:
    """Power of positive definite matrices, symmetric."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * values[:, None, :] ** power) @ np.swapaxes(vectors, 1, 2))
