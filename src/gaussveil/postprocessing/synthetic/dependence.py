"""Latent correlations of normal scores from the covariances of cells' scores; rows of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.spectrum.turns import turns
from gaussveil.typing import Floats

LEAST_SIGNAL = (
    0.02  # variance of its cells' scores below which a column depends on nothing
)
LARGEST = 0.999
LEAST_EIGENVALUE = 1e-4
HALVINGS = 40


def latent_correlations(covariances: Floats, marginals: Sequence[Marginal]) -> Floats:
    """Correlations of the latent scores, per class, that explain the covariances of the cells' mean scores.

    For latent correlation r, cells' scores have the covariance sum over k of r^k c_k c'_k with their coefficients in
    Hermite polynomials (Mehler 1866), which rises with r: solved by halving. A missing cell counts as a score of 0.
    """
    coefficients = np.stack(
        [one.hermite for one in marginals], axis=1
    )  # K x d x degree
    present = np.stack([1 - one.missing for one in marginals], axis=1)
    variances = coefficients[:, :, 0]
    seen = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 1e-12))
    expected = np.sqrt(np.maximum(variances, 1e-12) / np.maximum(present, 1e-6))
    wanted = (
        covariances
        / (seen[:, :, None] * seen[:, None, :])
        * expected[:, :, None]
        * expected[:, None, :]
    )
    products = np.einsum("kid,kjd->kijd", coefficients, coefficients)
    low = np.full(wanted.shape, -LARGEST)
    high = np.full(wanted.shape, LARGEST)
    powers = np.arange(1, coefficients.shape[2] + 1)
    low, high = turns(
        lambda r: ~(np.sum(products * r[..., None] ** powers, axis=3) < wanted),
        low,
        high,
        HALVINGS,
    )
    found = (low + high) / 2
    told = variances > LEAST_SIGNAL
    found = np.where(told[:, :, None] & told[:, None, :], found, 0.0)
    found[:, np.arange(len(marginals)), np.arange(len(marginals))] = 1.0
    return correlations(found)


def correlations(matrices: Floats) -> Floats:
    """The matrices with eigenvalues kept positive and a diagonal of ones."""
    values, vectors = np.linalg.eigh((matrices + np.swapaxes(matrices, 1, 2)) / 2)
    lifted = (vectors * np.maximum(values, LEAST_EIGENVALUE)[:, None, :]) @ np.swapaxes(
        vectors, 1, 2
    )
    scale = np.sqrt(np.diagonal(lifted, axis1=1, axis2=2))
    return np.asarray(lifted / (scale[:, :, None] * scale[:, None, :]))
