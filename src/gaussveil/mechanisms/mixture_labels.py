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
from scipy.optimize import linear_sum_assignment
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
LARGE_CLASSES = 300
ENOUGH_NAMED, SURELY_NAMED = 0.5, 4.0  # of the squared columns, of the columns
SEPARATED = 0.3  # share of the features' scatter that lies within K clusters
PRIOR_RECORDS = 0.1  # worth of the pooled covariance in every class
MOST_CELLS = 200
RECORDS_PER_NOISE = 20  # cells are so large that an even share of one exceeds its noise
TRIAL_ROUNDS, EM_ROUNDS, TABLE_ROUNDS = 15, 200, 30
START_DOUBT = 0.02  # share of every record that a start leaves to the classes evenly
SURE = 3.0  # noise scales above which an entry of the table is believed


def choose_method(size: int, classes: int, dimension: int, epsilon: float, mean_shift: float) -> str:
    """The rule for `method="auto"`: N, K, d, epsilon and delta (through its mean shift), nothing else.

    The noise of class sums vanishes as classes grow, whatever their shape: large classes are summed. Otherwise EM on
    randomised labels, where the labels of a class that agree by more than chance are as many as its covariance has
    entries; below, counts by cell, which have less noise than answers.
    """
    strength = records_per_class(size, mean_shift / math.sqrt(2), classes)
    if size >= LARGE_CLASSES * classes and 2 * strength / (dimension * (dimension + 1)) >= ENOUGH:
        return "sums"
    return "response" if _named(size, classes, epsilon) >= ENOUGH_NAMED * dimension**2 else "clusters"


def _named(size: int, classes: int, epsilon: float) -> float:
    """How many records of a class of even size its randomised labels are worth."""
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    return size / classes * (keep - other) ** 2


def from_response(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """Randomised labels, then EM in which a label is one more noisy observation of the class.

    The likelihood has several maxima. Where the labels are many they show the right one; where they are few, the most
    likely of several starts is followed to its end.
    """
    answers = randomised_response(codes, classes, epsilon, generator)
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    unbiased = (np.eye(classes)[answers] - other) / (keep - other)
    log_label = np.where(answers[:, None] == np.arange(classes), math.log(keep), math.log(other))
    counts = positive(unbiased.sum(axis=0), math.sqrt(len(rows) * other * (1 - other)) / (keep - other))
    middle = rows.mean(axis=0)
    means = middle + (unbiased.T @ (rows - middle)) / counts[:, None]
    _, _, covariances = _moments(rows, np.full((len(rows), classes), 1 / classes))
    starts = [(counts / counts.sum(), means, covariances)]
    if _named(len(rows), classes, epsilon) >= SURELY_NAMED * rows.shape[1]:
        return _expectation_maximisation(rows, log_label, starts[0], EM_ROUNDS)[1]
    for cells in (_clusters(rows, classes), _clusters(rows, 2 * classes)):
        told = _on_simplex(_summed(cells, unbiased).T, np.bincount(cells))
        starts.append(_from_cells(rows, cells, told))
        evidence = _summed(cells, log_label)
        pairs = np.stack(linear_sum_assignment(-evidence))
        named = np.zeros(evidence.T.shape)
        named[np.argmax(evidence, axis=1), np.arange(len(evidence))] = 1.0
        named[:, pairs[0]] = 0.0
        named[pairs[1], pairs[0]] = 1.0
        starts.append(_from_cells(rows, cells, named))
    trials = [_expectation_maximisation(rows, log_label, start, TRIAL_ROUNDS) for start in starts]
    best = max(trials, key=lambda trial: trial[0])[1]
    return _expectation_maximisation(rows, log_label, best, EM_ROUNDS)[1]


def from_clusters(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """A noisy table of classes by cells of the features; the records of a cell share its classes.

    Where the features fall into clusters, only entries well above the noise count, and EM then shares cells out by the
    classes' densities.
    """
    separated = _scatter_within(rows, classes) < SEPARATED
    cells = _cells(rows, classes, epsilon, separated)
    sizes = np.bincount(cells)  # the features are known, so the cells' sizes are
    table = np.zeros((classes, len(sizes)), dtype=np.int64)
    np.add.at(table, (codes, cells), 1)
    noisy = (table + discrete_laplace(2 / epsilon, table.shape, generator)).astype(np.float64)
    told = _on_simplex(noisy, sizes)
    if not separated:
        return _moments(rows, told[:, cells].T / sizes[cells][:, None])
    told = _believed(noisy, told, SURE * 2 / epsilon)
    told = told / np.maximum(told.sum(axis=0), 1e-9)
    parameters = _from_cells(rows, cells, told, doubt=0.0)
    offsets = np.log(told + START_DOUBT / classes)[:, cells].T
    return _expectation_maximisation(rows, offsets, parameters, TABLE_ROUNDS, weighted=False)[1]


def _believed(noisy: Float, told: Float, least: float) -> Float:
    """Entries above the noise, and every class's best claim (one cell each, as far as there are cells)."""
    kept = np.where(noisy >= least, told, 0.0)
    rows, columns = linear_sum_assignment(-noisy)
    for k, cell in zip(rows, columns):
        if not kept[k].any():
            kept[k, cell] = max(told[k, cell], 1.0)
    for cell in np.flatnonzero(kept.sum(axis=0) == 0):
        kept[np.argmax(noisy[:, cell]), cell] = 1.0
    return np.asarray(kept)


def _expectation_maximisation(
    rows: Float, offsets: Float, start: Parameters, rounds: int, weighted: bool = True
) -> tuple[float, Parameters]:
    """Log-likelihood and parameters; `offsets` is what is known of every record's class beside its features."""
    parameters, reached = start, -math.inf
    even = np.ones(offsets.shape[1])
    for _ in range(rounds):
        joint = offsets + _log_joint(rows, parameters[0] if weighted else even, *parameters[1:])
        likelihood = float(np.sum(logsumexp(joint, axis=1)))
        if abs(likelihood - reached) < 1e-3:
            break
        parameters, reached = _moments(rows, _shares(joint)), likelihood
    return reached, parameters


def _from_cells(rows: Float, cells: Codes, shares: Float, doubt: float = START_DOUBT) -> Parameters:
    """Moments where every record is shared out as its cell is (classes x cells)."""
    part = (shares / np.maximum(shares.sum(axis=0), 1e-9))[:, cells].T
    return _moments(rows, (1 - doubt) * part + doubt / len(shares))


def _summed(cells: Codes, values: Float) -> Float:
    total = np.zeros((int(cells.max()) + 1, values.shape[1]))
    np.add.at(total, cells, values)
    return total


def _clusters(rows: Float, count: int) -> Codes:
    """So many K-means cells of the standardised features, none of them empty."""
    standard = rows / (rows.std(axis=0) + 1e-300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(max(1, min(count, len(rows) // 4)), n_init=3, random_state=0).fit_predict(standard)
    return np.asarray(np.unique(found, return_inverse=True)[1], dtype=np.int64)


def _cells(rows: Float, classes: int, epsilon: float, separated: bool) -> Codes:
    """Cells of the features alone, none of them empty."""
    if not separated:
        return _clusters(
            rows, int(np.clip(len(rows) * epsilon / (RECORDS_PER_NOISE * classes), 2 * classes, MOST_CELLS))
        )
    standard = rows / (rows.std(axis=0) + 1e-300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        count = max(1, min(classes, len(rows) // 4))
        found = GaussianMixture(count, n_init=5, reg_covar=1e-3, random_state=0).fit_predict(standard)
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
