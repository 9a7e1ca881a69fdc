"""EM for classes of which something is known beside the features, and the Gaussians of records shared out."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.typing import Floats, Integers

PRIOR_RECORDS = 0.1  # worth of the pooled covariance in every class while EM searches: no class collapses
DEPENDENT = 1e-12  # of every variance, so that covariances of dependent columns are positive definite
START_DOUBT = 0.02  # share of every record that a start leaves to the classes evenly


def expectation_maximisation(
    rows: Floats, offsets: Floats, start: Parameters, rounds: int, weighted: bool = True
) -> tuple[float, Parameters]:
    """Log-likelihood and parameters; `offsets` is what is known of every record's class beside its features."""
    parameters = start
    reached = -math.inf
    even = np.ones(offsets.shape[1])
    for _ in range(rounds):
        joint = offsets + log_joint(
            rows, parameters[0] if weighted else even, *parameters[1:]
        )
        top = joint.max(axis=1, keepdims=True)
        shares = np.exp(joint - top)
        total = shares.sum(axis=1, keepdims=True)
        likelihood = float(np.sum(np.log(total) + top))
        if abs(likelihood - reached) < 1e-3:
            break
        parameters = moments(rows, shares / total)
        reached = likelihood
    return reached, parameters


def from_cells(
    rows: Floats, cells: Integers, shares: Floats, doubt: float = START_DOUBT
) -> Parameters:
    """Moments where every record is shared out as its cell is (classes x cells)."""
    return moments(
        rows,
        doubted((shares / np.maximum(shares.sum(axis=0), 1e-9))[:, cells].T, doubt),
    )


def doubted(shares: Floats, doubt: float = START_DOUBT) -> Floats:
    """A little of every record goes to the classes evenly, so that no class starts empty."""
    return np.asarray((1 - doubt) * shares + doubt / shares.shape[1])


def posterior_shares(joint: Floats) -> Floats:
    """Every record shared out among the classes as its log densities with them say."""
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def log_joint(
    rows: Floats, weights: Floats, means: Floats, covariances: Floats
) -> Floats:
    """Log density of every row with each class, up to a constant: N x K."""
    factors = np.linalg.cholesky(covariances)
    logs = np.log(np.maximum(weights, 1e-300)) - np.sum(
        np.log(np.einsum("kii->ki", factors)), axis=1
    )
    result = np.empty((len(rows), len(weights)))
    for k, inverse in enumerate(np.linalg.inv(factors)):
        standard = (rows - means[k]) @ inverse.T
        result[:, k] = logs[k] - np.einsum("nd,nd->n", standard, standard) / 2
    return result


def moments(
    rows: Floats, shares: Floats, borrowed: float = PRIOR_RECORDS
) -> Parameters:
    """Weighted moments; every class borrows the pooled covariance, worth so many records."""
    counts = shares.sum(axis=0) + 1e-9
    means = (shares.T @ rows) / counts[:, None]
    scatter = np.stack(
        [
            (rows - mean).T @ ((rows - mean) * part[:, None])
            for mean, part in zip(means, shares.T)
        ]
    )
    pool = scatter.sum(axis=0) / len(rows)
    pool = pool + 1e-9 * (np.trace(pool) / len(pool) + 1e-12) * np.eye(len(pool))
    covariances = (scatter + borrowed * pool) / (counts + borrowed)[:, None, None]
    # Of dependent columns many records leave no more than rounding; this much of each variance keeps a factor.
    covariances *= 1 + DEPENDENT * np.eye(len(pool))
    return counts / counts.sum(), means, covariances
