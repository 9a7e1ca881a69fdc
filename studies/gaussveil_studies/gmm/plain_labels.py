"""The two label releases of corrections F3 and F4 as they are worded, nothing of ours added: what ours is held against.

Both are private under label adjacency (pure epsilon): only what is done with the noisy table or the noisy labels
afterwards is plain. They are yardsticks of the study, not mechanisms to use.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from gaussveil.noise import (
    SeededGenerator,
    discrete_laplace,
    randomised_response,
    response_probabilities,
)
from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.typing import Floats, Integers
from gaussveil_studies.gmm.settings import Setting

EM_ROUNDS = 100
RIDGE = 1e-6  # of the features' mean variance: a class of few records keeps a density
LEAST_SHARE = 1e-6  # of all records in every class: both divergences stay finite


def counted_by_cluster(
    setting: Setting, epsilon: float, seed: int, cells_per_class: int = 1
) -> MixtureModel:
    """F3: counts of class x K-means cluster with Laplace(2 / epsilon) noise; a cluster's records share its classes."""
    cells = _cells(setting, cells_per_class)
    table = np.zeros((setting.classes, int(cells.max()) + 1), dtype=np.int64)
    np.add.at(table, (setting.codes, cells), 1)
    noisy = np.maximum(
        table + discrete_laplace(2 / epsilon, table.shape, SeededGenerator(seed)), 0
    ).astype(np.float64)
    noisy[:, noisy.sum(axis=0) == 0] = 1.0
    return _moments(setting, (noisy / noisy.sum(axis=0))[:, cells].T)


@lru_cache(maxsize=64)
def _cells(setting: Setting, cells_per_class: int) -> Integers:
    """Clusters of the features, which are public: one search serves all draws."""
    standard = setting.rows / setting.rows.std(axis=0)
    found = KMeans(
        cells_per_class * setting.classes, n_init=3, random_state=0
    ).fit_predict(standard)
    return np.asarray(found, dtype=np.int64)


def counted_finely(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """F3 with four clusters per class."""
    return counted_by_cluster(setting, epsilon, seed, cells_per_class=4)


def answered(setting: Setting, epsilon: float, seed: int) -> MixtureModel:
    """F4: K-ary randomised response on the labels, then EM from the classes as they were answered."""
    answers = randomised_response(
        setting.codes, setting.classes, epsilon, SeededGenerator(seed)
    )
    keep, other = (
        float(value) for value in response_probabilities(setting.classes, epsilon)
    )
    given = answers[:, None] == np.arange(setting.classes)
    model = _moments(setting, given.astype(np.float64))
    reached = -np.inf
    for _ in range(EM_ROUNDS):
        joint = model.log_joint(setting.rows) + np.log(np.where(given, keep, other))
        each = logsumexp(joint, axis=1, keepdims=True)
        if each.sum() - reached < 1e-3:
            break
        model = _moments(setting, np.exp(joint - each))
        reached = float(each.sum())
    return model


def _moments(setting: Setting, shares: Floats) -> MixtureModel:
    """The Gaussians of records that are shared out among the classes."""
    rows = setting.rows
    shares = shares + LEAST_SHARE
    counts = shares.sum(axis=0)
    means = (shares.T @ rows) / counts[:, None]
    ridge = RIDGE * float(rows.var(axis=0).mean()) * np.eye(rows.shape[1])
    covariances = np.stack(
        [
            (rows - mean).T @ ((rows - mean) * part[:, None]) / part.sum() + ridge
            for mean, part in zip(means, shares.T)
        ]
    )
    columns = tuple(f"x{j}" for j in range(rows.shape[1]))
    return MixtureModel(
        counts / counts.sum(),
        means,
        covariances,
        tuple(range(setting.classes)),
        columns,
    )
