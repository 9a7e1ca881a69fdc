"""What clipping does to the moments of a Gaussian, and how it is undone.

Let x ~ N(m + C^(1/2) h, t C^(1/2) (I + D) C^(1/2)) with h and the traceless D small, and z = C^(-1/2) (x - m) / rho
clipped to the unit ball. To first order |z|^2, z and the traceless zz' have expectations that are incomplete gamma
functions of rho^2 / t, linear in h and D (derived: docs/mechanisms/mixture.md).
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri, gammaln, xlogy

from gaussveil.typing import Floats


def mean_square(rho: Floats, scale: Floats, dimension: int) -> Floats:
    """E|z|^2, increasing in the scale t."""
    edge = rho**2 / scale
    return np.asarray(
        dimension * chdtr(dimension + 2, edge) / edge + chdtrc(dimension, edge)
    )


def mean_gain(rho: Floats, scale: Floats, dimension: int) -> Floats:
    """b: how much of a small shift of the mean is left in E[z]."""
    d = dimension
    edge = rho**2 / scale
    root_mean = np.exp(0.5 * np.log(2.0) + gammaln((d + 1) / 2) - gammaln(d / 2))
    outside = root_mean * chdtrc(d + 1, edge) / np.sqrt(scale)
    return np.asarray((d * chdtr(d + 2, edge) / rho + outside) / d)


def shape_gain(rho: Floats, scale: Floats, dimension: int) -> Floats:
    """A: how much of a small traceless change of the covariance is left in E[zz'], in units of t."""
    d = dimension
    edge = rho**2 / scale
    inside = chdtr(d + 4, edge) / rho**2
    return np.asarray(inside + chdtrc(d + 2, edge) / (scale * (d + 2)))


def radius_from_quantile(quantile: Floats | float, dimension: int) -> Floats:
    """Radius of the ball that holds this share of N(0, I)."""
    return np.asarray(np.sqrt(chdtri(dimension, 1 - np.asarray(quantile))))


def gaussian_divergence(
    mean: Floats, covariance: Floats, other_mean: Floats, other: Floats
) -> Floats:
    """KL(N(mean, covariance) || N(other_mean, other)) along leading axes, in closed form."""
    factor = np.linalg.cholesky(other)
    whitened = np.linalg.solve(factor, covariance)
    trace = np.trace(
        np.linalg.solve(np.swapaxes(factor, -1, -2), whitened), axis1=-2, axis2=-1
    )
    gap = np.linalg.solve(factor, (other_mean - mean)[..., None])[..., 0]
    logs = np.linalg.slogdet(other)[1] - np.linalg.slogdet(covariance)[1]
    return np.asarray((trace + (gap**2).sum(-1) - mean.shape[-1] + logs) / 2)


def weights_divergence(weights: Floats, other: Floats) -> float:
    """KL between two probability vectors."""
    return float(np.sum(xlogy(weights, weights) - xlogy(weights, other)))
