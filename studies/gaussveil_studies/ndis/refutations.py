"""Statements of NDIS that do not hold, each with its number (docs/corrections N2 to N7)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gaussveil.audit import audit
from gaussveil.calibration.envelope import variance_for_pair
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import PrivateSketch
from gaussveil.mechanisms.gp import ProcessSensitivity
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil_studies.published.ndis_calibrated import published_process_sensitivity, published_variance
from gaussveil_studies.published.ptr import PublishedTestedSketch
from gaussveil_studies.study import Row

CLAIMED = 1e-6
OBSERVATION_VARIANCE, LABEL_BOUND = 1e-4, 1e-6
TESTED = {"delta_release": 1e-3, "delta_test": 1e-3, "delta_failure": 1e-3, "row_norm": 1.0, "n_components": 4}


def posterior_pair(added: float) -> PrivacyLoss:
    """The queried point observed once (narrow, with the record) against never (wide), both widened by `added`."""
    narrow = OBSERVATION_VARIANCE / (1.0 + OBSERVATION_VARIANCE)
    return GaussianPair([0.0], [[narrow + added]], [0.0], [[1.0 + added]])


def figure_5(epsilon: float) -> Row:
    """N2: one Gaussian-process record, claimed delta 1e-6. What Figure 5 adds, what that spends, what is needed."""
    sensitivity = partial(
        published_process_sensitivity,
        kernel_deviation=1.0,
        label_bound=LABEL_BOUND,
        observation_deviation=math.sqrt(OBSERVATION_VARIANCE),
        count=1,
    )
    process = ProcessSensitivity(
        point_variance=1.0,
        kernel_bound=1.0,
        observation_variance=OBSERVATION_VARIANCE,
        label_bound=LABEL_BOUND,
        n_max=1,
    )
    printed = published_variance(sensitivity, epsilon, CLAIMED, 1)
    found = audit(posterior_pair(printed), claim=(epsilon, CLAIMED))
    return {
        "epsilon": epsilon,
        "printed": printed,
        "claimed": CLAIMED,
        "exact": found.findings[0].lower,
        "other_direction": float(posterior_pair(printed).delta(epsilon)),
        "needed": variance_for_pair(process.pair, epsilon, CLAIMED)[0],
        "refuted": float(found.refuted),
    }


def figure_4(epsilon: float = 0.5, test_noise: float = 0.5) -> Row:
    """N3: propose-test-release whose test alone needs more than the whole epsilon."""
    over = PublishedTestedSketch(epsilon=epsilon, test_noise=test_noise, **TESTED)  # type: ignore[arg-type]
    found = audit(over.test_pair(), claim=over.claim)
    return {
        "epsilon": epsilon,
        "test_epsilon": over.test_epsilon,
        "claimed": over.claim[1],
        "exact": found.findings[0].lower,
        "refuted": float(found.refuted),
    }


def ours_refuses_figure_4(epsilon: float = 0.5, test_noise: float = 0.5) -> bool:
    """Whether our tested sketch refuses the same public parameters before any data are seen."""
    sketch = PrivateSketch(
        epsilon=epsilon, delta=3e-3, row_norm=1.0, n_components=4, variant="tested", test_noise=test_noise
    )
    try:
        sketch.plan(2)
    except ParameterError:
        return True
    return False


def moved_eigenvalues(records: int, size: int, regularization: float, added: float, seed: int) -> int:
    """N5: how many eigenvalues of the logistic posterior's covariance a single record moves (Proposition 7: all)."""
    rows = np.random.default_rng(seed).normal(size=(records, size))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    covariances = [
        np.linalg.inv(regularization * np.eye(size) + part.T @ part / 4) + added * np.eye(size)
        for part in (rows, rows[:-1])
    ]
    ratios = np.linalg.eigvals(np.linalg.solve(covariances[0], covariances[1])).real
    return int(np.sum(np.abs(ratios - 1.0) > 1e-9))


def auditor_that_accuses_wrongly(epsilon: float = 1.0, accuracy: float = 1e-6) -> Row:
    """N7: Theorem 7.1's answer may lie half of its accuracy above the truth; a true claim then looks refuted."""
    pair = GaussianPair.mean_shift(0.25)
    exact = float(pair.dp_delta(epsilon))
    estimate = exact + accuracy / 2
    return {"claimed": exact, "estimate": estimate, "lower_end": max(0.0, estimate - accuracy / 2)}


def subsampled_gram(rate: float, draws: int, seed: int, rows: int = 400, size: int = 4) -> tuple[float, float]:
    """Figure 3: trace of the Gram matrix of a Poisson sample over the whole one's, and its standard error."""
    generator = np.random.default_rng(seed)
    squares = np.sum(generator.normal(size=(rows, size)) ** 2, axis=1)
    shares = (generator.random((draws, rows)) < rate) @ squares / squares.sum()
    return float(shares.mean()), float(shares.std(ddof=1) / math.sqrt(draws))
