"""What clipping does to the moments of a Gaussian, and how it is undone.

Let x ~ N(m + C^(1/2) h, t C^(1/2) (I + D) C^(1/2)) with h and the traceless D small, and z = C^(-1/2) (x - m) / rho
clipped to the unit ball. With q ~ chi^2_d, a = rho^2 / t and w = min(1, a/q) / rho^2, to first order in h and D

    E|z|^2 = E[w t q],     E[z] = b h,  b = E[sqrt(w) q] / d,     traceless E[zz'] = t A D,  A = E[w q^2] / (d (d + 2)).

The expectations are incomplete gamma functions (derived: docs/mechanisms/mixture.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import chi2

Float = NDArray[np.float64]

SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE = -4.0, 4.0


def mean_square(rho: Float, scale: Float, dimension: int) -> Float:
    """E|z|^2, increasing in the scale t."""
    edge = rho**2 / scale
    return np.asarray(dimension * chi2.cdf(edge, dimension + 2) / edge + chi2.sf(edge, dimension))


def mean_square_slope(rho: Float, scale: Float, dimension: int) -> Float:
    """Derivative of E|z|^2 in log t: only the records inside the ball move."""
    edge = rho**2 / scale
    return np.asarray(dimension * chi2.cdf(edge, dimension + 2) / edge)


def scale_from_mean_square(rho: Float, square: Float, dimension: int) -> Float:
    """The scale t at which E|z|^2 takes the given value, by bisection between public limits."""
    low = np.full(np.shape(rho), SMALLEST_LOG_SCALE)
    high = np.full(np.shape(rho), LARGEST_LOG_SCALE)
    for _ in range(50):
        middle = (low + high) / 2
        below = mean_square(rho, np.exp(middle), dimension) < square
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.exp((low + high) / 2))


def mean_gain(rho: Float, scale: Float, dimension: int) -> Float:
    """b: how much of a small shift of the mean is left in E[z]."""
    d, edge = dimension, rho**2 / scale
    root_mean = np.exp(0.5 * np.log(2.0) + gammaln((d + 1) / 2) - gammaln(d / 2))
    outside = root_mean * chi2.sf(edge, d + 1) / np.sqrt(scale)
    return np.asarray((d * chi2.cdf(edge, d + 2) / rho + outside) / d)


def shape_gain(rho: Float, scale: Float, dimension: int) -> Float:
    """A: how much of a small traceless change of the covariance is left in E[zz'], in units of t."""
    d, edge = dimension, rho**2 / scale
    inside = chi2.cdf(edge, d + 4) / rho**2
    return np.asarray(inside + chi2.sf(edge, d + 2) / (scale * (d + 2)))


def radius_from_quantile(quantile: Float | float, dimension: int) -> Float:
    """Radius of the ball that holds this share of N(0, I)."""
    return np.asarray(np.sqrt(chi2.ppf(quantile, dimension)))


def gaussian_divergence(mean: Float, covariance: Float, other_mean: Float, other: Float) -> Float:
    """KL(N(mean, covariance) || N(other_mean, other)) along leading axes, in closed form."""
    factor = np.linalg.cholesky(other)
    whitened = np.linalg.solve(factor, covariance)
    trace = np.trace(np.linalg.solve(np.swapaxes(factor, -1, -2), whitened), axis1=-2, axis2=-1)
    gap = np.linalg.solve(factor, (other_mean - mean)[..., None])[..., 0]
    logs = np.linalg.slogdet(other)[1] - np.linalg.slogdet(covariance)[1]
    return np.asarray((trace + (gap**2).sum(-1) - mean.shape[-1] + logs) / 2)


def weights_divergence(weights: Float, other: Float) -> float:
    """KL between two probability vectors."""
    return float(np.sum(xlogy(weights, weights) - xlogy(weights, other)))
