"""Mixtures under label adjacency: one record's class label is replaced by another; the features are NOT protected.

Three releases, functions of the labels through noise only and of the features as they are:

* ``response``: K-ary randomised response on every label, then EM on the features (corrections F4). The dominating pair
  is that of one answer: pure epsilon, exact coins.
* ``clusters``: the features alone are cut into cells, and the table class x cell is released with discrete Laplace
  noise of scale 2/epsilon (corrections F3): a label moves two counts by one each.
* ``sums``: noisy class sums in stages, as under record adjacency (corrections F1, with clipped ellipsoids in place of
  covering ones): a label moves the sums of two classes, so the squared loss is twice that of one record.

derived: docs/mechanisms/mixture.md.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussveil.mechanisms.mixture_budget import ENOUGH, records_per_class
from gaussveil.mechanisms.mixture_shrinkage import positive
from gaussveil.noise import Generator, discrete_laplace, randomised_response, response_probabilities

Float = NDArray[np.float64]
Codes = NDArray[np.int64]
Parameters = tuple[Float, Float, Float]
"""Weights, means, covariances."""

METHODS = ("response", "clusters", "sums")
SEPARATED = 0.3  # share of the features' scatter that lies within K clusters
PRIOR_RECORDS = 1.0  # worth of the pooled covariance in every class
MOST_CELLS = 200
RECORDS_PER_NOISE = 20  # cells are so large that an even share of one exceeds its noise
EM_ROUNDS = 200
TABLE_ROUNDS = 15


def choose_method(rows: Float, classes: int, epsilon: float, mean_shift: float) -> str:
    """The rule for `method="auto"`, from N, K, d, epsilon and the features, none of which this adjacency protects.

    Where the features fall into clusters, the labels have only to name them; elsewhere class sums are better, unless
    there are too few records for the number of columns.
    """
    size, d = rows.shape
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    named = size / classes * (keep - other) ** 2 / d
    if _scatter_within(rows, classes) < SEPARATED:
        cell = size * epsilon / (classes * 4 * math.sqrt(2))
        return "clusters" if named < 1 and cell >= 10 else "response"
    if 2 * records_per_class(size, mean_shift / math.sqrt(2), classes) / (d * (d + 1)) >= ENOUGH:
        return "sums"
    return "response" if named >= 10 else "clusters"


def from_response(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """Randomised labels, then EM in which a label is one more noisy observation of the class."""
    answers = randomised_response(codes, classes, epsilon, generator)
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    unbiased = (np.eye(classes)[answers] - other) / (keep - other)
    counts = positive(unbiased.sum(axis=0), math.sqrt(len(rows) * other * (1 - other)) / (keep - other))
    middle = rows.mean(axis=0)
    means = middle + (unbiased.T @ (rows - middle)) / counts[:, None]
    _, _, covariances = _moments(rows, np.full((len(rows), classes), 1 / classes))
    parameters = counts / counts.sum(), means, covariances
    log_label = np.where(answers[:, None] == np.arange(classes), math.log(keep), math.log(other))
    before = np.zeros(log_label.shape)
    for _ in range(EM_ROUNDS):
        shares = _shares(log_label + _log_joint(rows, *parameters))
        if np.abs(shares - before).max() < 1e-4:
            break
        parameters, before = _moments(rows, shares), shares
    return parameters


def from_clusters(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """A noisy table of classes by cells of the features; the records of a cell share its classes.

    Where the features fall into clusters, EM then shares a cell out by the classes' densities, its totals kept.
    """
    separated = _scatter_within(rows, classes) < SEPARATED
    cells = _cells(rows, classes, epsilon, separated)
    sizes = np.bincount(cells)  # the features are known, so the cells' sizes are
    table = np.zeros((classes, len(sizes)), dtype=np.int64)
    np.add.at(table, (codes, cells), 1)
    noisy = (table + discrete_laplace(2 / epsilon, table.shape, generator)).astype(np.float64)
    told = _on_simplex(noisy, sizes)
    parameters = _moments(rows, told[:, cells].T / sizes[cells][:, None])
    offsets = np.log(told / np.maximum(sizes, 1) + 1e-6)
    for _ in range(TABLE_ROUNDS if separated else 0):
        joint = _log_joint(rows, np.ones(classes), *parameters[1:])
        for _ in range(3):
            shares = _shares(offsets[:, cells].T + joint)
            found = np.zeros((len(sizes), classes))
            np.add.at(found, cells, shares)
            offsets = offsets + np.log((told + 0.5) / (found.T + 0.5))
        parameters = _moments(rows, _shares(offsets[:, cells].T + joint))
    return parameters


def _cells(rows: Float, classes: int, epsilon: float, separated: bool) -> Codes:
    """Cells of the features alone, none of them empty."""
    standard = rows / (rows.std(axis=0) + 1e-300)
    if separated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            count = max(1, min(2 * classes, len(rows) // 4))
            found = GaussianMixture(count, n_init=2, reg_covar=1e-3, random_state=0).fit_predict(standard)
    else:
        wanted = int(np.clip(len(rows) * epsilon / (RECORDS_PER_NOISE * classes), 2 * classes, MOST_CELLS))
        found = KMeans(max(1, min(wanted, len(rows) // 4)), n_init=3, random_state=0).fit_predict(standard)
    return np.asarray(np.unique(found, return_inverse=True)[1], dtype=np.int64)


def _scatter_within(rows: Float, classes: int) -> float:
    standard = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-300)
    total = float(np.sum(standard**2))
    if total == 0:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(KMeans(min(classes, len(rows)), n_init=3, random_state=0).fit(standard).inertia_) / total


def _shares(joint: Float) -> Float:
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _log_joint(rows: Float, weights: Float, means: Float, covariances: Float) -> Float:
    result = np.empty((len(rows), len(weights)))
    for k, factor in enumerate(np.linalg.cholesky(covariances)):
        standard = np.linalg.solve(factor, (rows - means[k]).T)
        logs = math.log(max(weights[k], 1e-300)) - np.sum(np.log(np.diagonal(factor)))
        result[:, k] = logs - np.sum(standard**2, axis=0) / 2
    return result


def _moments(rows: Float, shares: Float) -> Parameters:
    """Weighted moments; every class borrows a little of the pooled covariance."""
    counts = shares.sum(axis=0) + 1e-9
    means = (shares.T @ rows) / counts[:, None]
    scatter = np.stack([(rows - mean).T @ ((rows - mean) * part[:, None]) for mean, part in zip(means, shares.T)])
    pool = scatter.sum(axis=0) / len(rows)
    pool = pool + 1e-9 * (np.trace(pool) / len(pool) + 1e-12) * np.eye(len(pool))
    covariances = (scatter + PRIOR_RECORDS * pool) / (counts + PRIOR_RECORDS)[:, None, None]
    return counts / counts.sum(), means, covariances


def _on_simplex(noisy: Float, sizes: NDArray[np.int64]) -> Float:
    """Nearest table without negative entries whose columns have the known sums (projection on a simplex)."""
    ordered = -np.sort(-noisy, axis=0)
    excess = (np.cumsum(ordered, axis=0) - sizes) / np.arange(1, len(noisy) + 1)[:, None]
    count = np.sum(ordered > excess, axis=0)
    return np.asarray(np.maximum(noisy - excess[count - 1, np.arange(noisy.shape[1])], 0.0))
