"""Mixtures under label adjacency: one record's class label is replaced by another; the features are NOT protected.

Four releases, functions of the labels through noise only and of the features as they are:

* ``response``: K-ary randomised response on every label, then EM on the features (corrections F4). The dominating pair
  is that of one answer: pure epsilon, exact coins.
* ``clusters``: the features alone are cut into cells, and the table class x cell is released with discrete Laplace
  noise of scale 2/epsilon (corrections F3): a label moves two counts by one each.
* ``both``: such a table of few cells with a part of epsilon, and answers with the rest, which add up.
* ``sums``: noisy class sums in stages, as under record adjacency (corrections F1, with clipped ellipsoids in place of
  covering ones): a label moves the sums of two classes, so the squared loss is twice that of one record.

derived: docs/mechanisms/mixture.md.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussveil.mechanisms.mixture.budget import ENOUGH, records_per_class
from gaussveil.mechanisms.mixture.shrinkage import positive
from gaussveil.noise import Generator, discrete_laplace, randomised_response, response_probabilities

Float = NDArray[np.float64]
Codes = NDArray[np.int64]
Parameters = tuple[Float, Float, Float]
"""Weights, means, covariances."""

METHODS = ("response", "clusters", "sums", "both")
LARGE_CLASSES = 300
WELL_SHAPED = 2.0  # records of a class per squared column
ENOUGH_NAMED = 0.5  # of the squared columns
SURELY_NAMED = 20.0  # records a class's answers are worth, above which they need no table beside them
TABLE_EPSILON = 0.2  # of `both`, at most half of epsilon
SEPARATED = 0.3  # share of the features' scatter that lies within K clusters
PRIOR_RECORDS = 0.1  # worth of the pooled covariance in every class
MOST_CELLS = 200
RECORDS_PER_NOISE = 20  # cells are so large that an even share of one exceeds its noise
TRIAL_ROUNDS, EM_ROUNDS, TABLE_ROUNDS, NAMING_ROUNDS = 25, 200, 30, 100
FOLLOWED = 3  # starts that are followed to their ends
FEATURE_STARTS, MOST_FITTED = 5, 20_000  # starts, and records, of a mixture of the features alone
START_DOUBT = 0.02  # share of every record that a start leaves to the classes evenly
SURE = 3.0  # noise scales above which an entry of the table is believed


def choose_method(size: int, classes: int, dimension: int, epsilon: float, mean_shift: float) -> str:
    """The rule for `method="auto"`: N, K, d, epsilon and delta (through its mean shift), nothing else.

    The noise of class sums vanishes as classes grow, whatever their shape: large classes are summed. Otherwise EM on
    randomised labels, where those of a class are worth enough records to find it; below, helped by a table. Where
    columns are too many for the features to show classes, counts by cell stand in for the helped labels.
    """
    strength = records_per_class(size, mean_shift / math.sqrt(2), classes)
    if size >= LARGE_CLASSES * classes and 2 * strength / (dimension * (dimension + 1)) >= ENOUGH:
        return "sums"
    named = _named(size, classes, epsilon)
    if not _well_shaped(size, classes, dimension):
        return "response" if named >= ENOUGH_NAMED * dimension**2 else "clusters"
    return "response" if named >= SURELY_NAMED else "both"


def _well_shaped(size: int, classes: int, dimension: int) -> bool:
    """Whether records are so many that the components of the features alone may be taken for classes."""
    return size >= WELL_SHAPED * classes * dimension**2


def _named(size: int, classes: int, epsilon: float) -> float:
    """How many records of a class of even size its randomised labels are worth."""
    keep, other = (float(value) for value in response_probabilities(classes, epsilon))
    return size / classes * (keep - other) ** 2


def from_response(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """Randomised labels, then EM in which a label is one more noisy observation of the class."""
    answers = _Answers.drawn(codes, classes, epsilon, generator)
    return _most_likely(rows, answers, _starts(rows, answers))


def from_both(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """A coarse table of classes by clusters, then randomised labels: the two epsilons add up.

    The table has little noise where there are few clusters, so it tells which cluster is which class; the labels
    divide clusters that classes share.
    """
    for_table, for_answers = split_epsilon(epsilon)
    cells = _hardened(_components(rows, classes))
    table = _NoisyTable.drawn(codes, cells, classes, for_table, generator)
    answers = _Answers.drawn(codes, classes, for_answers, generator)
    told = _believed(table.noisy, _on_simplex(table.noisy, np.bincount(cells)), SURE * 2 / for_table)
    starts = [_from_cells(rows, cells, told), _from_cells(rows, cells, _named_each(table.noisy.T).T)]
    return _most_likely(rows, answers, [*_starts(rows, answers), *starts], table)


def split_epsilon(epsilon: float) -> tuple[float, float]:
    """What `both` spends on the table and on the answers; never more than epsilon together."""
    for_table = min(TABLE_EPSILON, epsilon / 2)
    for_answers = epsilon - for_table
    while Fraction(for_table) + Fraction(for_answers) > Fraction(epsilon):
        for_answers = math.nextafter(for_answers, 0.0)
    return for_table, for_answers


@dataclass(frozen=True)
class _NoisyTable:
    """Counts of classes x cells with discrete Laplace noise; a label moves two of them by one each."""

    noisy: Float
    cells: Codes
    epsilon: float

    @classmethod
    def drawn(
        cls, codes: Codes, cells: Codes, classes: int, epsilon: float, generator: Generator | None
    ) -> _NoisyTable:
        table = np.zeros((classes, int(cells.max()) + 1), dtype=np.int64)
        np.add.at(table, (codes, cells), 1)
        noise = discrete_laplace(2 / epsilon, table.shape, generator)
        return cls((table + noise).astype(np.float64), cells, epsilon)

    def log_likelihood(self, shares: Float) -> float:
        """Of the noisy counts where the records are shared out so, up to a constant."""
        return -float(np.abs(self.noisy - _summed(self.cells, shares).T).sum()) * self.epsilon / 2


@dataclass(frozen=True)
class _Answers:
    """Randomised labels: unbiased indicators of the classes, and log-probabilities of the answer given each class."""

    unbiased: Float
    log_label: Float
    count_noise: float
    """Deviation of a class's unbiased count."""

    @classmethod
    def drawn(cls, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> _Answers:
        answers = randomised_response(codes, classes, epsilon, generator)
        keep, other = (float(value) for value in response_probabilities(classes, epsilon))
        return cls(
            (np.eye(classes)[answers] - other) / (keep - other),
            np.where(answers[:, None] == np.arange(classes), math.log(keep), math.log(other)),
            math.sqrt(len(codes) * other * (1 - other)) / (keep - other),
        )


def _starts(rows: Float, answers: _Answers) -> list[Parameters]:
    """Where EM begins: unbiased class means, and mixtures fitted to the features whose components get classes' names.

    The likelihood has several maxima, and a start from the labels alone often ends in a wrong one; components of the
    features are near the right one as soon as their names are.
    """
    classes = answers.unbiased.shape[1]
    middle = rows.mean(axis=0)
    counts = positive(answers.unbiased.sum(axis=0), answers.count_noise)
    means = middle + (answers.unbiased.T @ (rows - middle)) / counts[:, None]
    _, _, covariances = _moments(rows, np.full((len(rows), classes), 1 / classes))
    starts = [(counts / counts.sum(), means, covariances)]
    if not _well_shaped(len(rows), classes, rows.shape[1]):
        return starts
    for count in (classes, 2 * classes):
        parts = _components(rows, count)
        cells = _hardened(parts)
        for evidence in (answers.log_label, answers.unbiased):
            starts.append(_from_cells(rows, cells, _named_each(_summed(cells, evidence)).T))
        starts.append(_moments(rows, _doubted(parts @ _named_softly(parts, answers.log_label))))
    return starts


def _most_likely(
    rows: Float, answers: _Answers, starts: list[Parameters], table: _NoisyTable | None = None
) -> Parameters:
    """Every start is followed for some rounds, under its own names and the best ones; the best to their ends."""

    def followed(begun: list[Parameters], rounds: int) -> list[tuple[float, Parameters]]:
        ends = []
        for start in begun:
            likelihood, end = _expectation_maximisation(rows, answers.log_label, start, rounds)
            if table is not None:
                likelihood += table.log_likelihood(_shares(answers.log_label + _log_joint(rows, *end)))
            ends.append((likelihood, end))
        return sorted(ends, key=lambda pair: -pair[0])

    if len(starts) == 1:
        return followed(starts, EM_ROUNDS)[0][1]
    tried = [end for _, end in followed(starts, TRIAL_ROUNDS)]
    renamed = [_renamed(rows, answers, end, table) for end in tried]
    best = followed(tried[:FOLLOWED] + renamed, TRIAL_ROUNDS)[:FOLLOWED]
    return followed([end for _, end in best], EM_ROUNDS)[0][1]


def _renamed(rows: Float, answers: _Answers, found: Parameters, table: _NoisyTable | None) -> Parameters:
    """The same Gaussians under the names that fit answers and table best: one name each, so evidence adds up."""
    shares = _shares(_log_joint(rows, *found))  # of the features alone
    evidence = shares.T @ answers.log_label
    if table is not None:
        counts = _summed(table.cells, shares).T
        evidence -= np.abs(counts[:, None] - table.noisy[None]).sum(axis=2) * table.epsilon / 2
    order = linear_sum_assignment(-evidence.T)[1]
    return found[0][order], found[1][order], found[2][order]


def _named_each(evidence: Float) -> Float:
    """Cells x classes, 0 or 1: every class has a cell as far as there are cells; the others go to their likeliest."""
    named = np.zeros(evidence.shape)
    named[np.arange(len(evidence)), np.argmax(evidence, axis=1)] = 1.0
    cells, classes = linear_sum_assignment(-evidence)
    named[cells] = 0.0
    named[cells, classes] = 1.0
    return named


def _named_softly(parts: Float, log_label: Float) -> Float:
    """The likeliest classes of every component, the components as they are: a concave problem, so one maximum."""
    classes = log_label.shape[1]
    names = np.full((parts.shape[1], classes), 1 / classes)
    label = np.exp(log_label)
    for _ in range(NAMING_ROUNDS):
        joint = (parts @ names) * label
        # each record's doubt is shared among its components as their names explain its answer
        names = names * (parts.T @ (label / joint.sum(axis=1, keepdims=True)))
        names /= names.sum(axis=1, keepdims=True)
    return np.asarray(names)


def from_clusters(rows: Float, codes: Codes, classes: int, epsilon: float, generator: Generator | None) -> Parameters:
    """A noisy table of classes by cells of the features; the records of a cell share its classes.

    Where the features fall into clusters, only entries well above the noise count, and EM then shares cells out by the
    classes' densities.
    """
    separated = _scatter_within(rows, classes) < SEPARATED
    cells = _cells(rows, classes, epsilon, separated)
    sizes = np.bincount(cells)  # the features are known, so the cells' sizes are
    noisy = _NoisyTable.drawn(codes, cells, classes, epsilon, generator).noisy
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
    return _moments(rows, _doubted((shares / np.maximum(shares.sum(axis=0), 1e-9))[:, cells].T, doubt))


def _doubted(shares: Float, doubt: float = START_DOUBT) -> Float:
    """A little of every record goes to the classes evenly, so that no class starts empty."""
    return np.asarray((1 - doubt) * shares + doubt / shares.shape[1])


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
    return _hardened(_components(rows, classes))


def _components(rows: Float, count: int) -> Float:
    """Shares of every record in the components of the likeliest mixture found for the features alone (N x count)."""
    standard = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-300)
    fitted = standard[:: max(1, len(rows) // MOST_FITTED)]
    count = max(1, min(count, len(rows) // 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [
            GaussianMixture(
                count, n_init=FEATURE_STARTS, init_params=way, max_iter=EM_ROUNDS, reg_covar=1e-4, random_state=0
            ).fit(fitted)
            for way in ("kmeans", "k-means++")
        ]
    best = max(found, key=lambda mixture: mixture.lower_bound_)
    return np.asarray(best.predict_proba(standard), dtype=np.float64)


def _hardened(parts: Float) -> Codes:
    """Every record in its likeliest component, components without records left out."""
    return np.asarray(np.unique(np.argmax(parts, axis=1), return_inverse=True)[1], dtype=np.int64)


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
