"""Cases of lifted Gaussian outputs: a two-point algorithm that attains its envelope, and the two posteriors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import (
    LiftedGaussian,
    PrivateBayesianLogisticRegression,
    PrivateGaussianProcessRegressor,
)
from gaussveil.mechanisms.gaussian_output import symmetric_factor
from gaussveil.mechanisms.gp import RBF, predictive
from gaussveil.mechanisms.logistic import bohning_factor, minimiser

Matrix = NDArray[np.float64]

GAP = 3.0


def two_points(data: Any) -> tuple[Matrix, Matrix]:
    """Without the record N(0, I), with it N((3, 0), diag(1, 0.98)): the worst mean lies across the moving variance."""
    record = float(np.asarray(data, dtype=np.float64).sum())
    return np.array([GAP * record, 0.0]), np.diag([1.0, 1.0 - record / 50])


def mean_gap(variance: float, along: float = 1.0) -> float:
    return GAP / math.sqrt(1 + along * variance)


def log_ratio(variance: float) -> float:
    return math.log((1 + variance) / (0.98 + variance))


def lifted(name: str, along: float = 1.0) -> dict[str, Any]:
    """`LiftedGaussian` of `two_points`; noise of shape diag(along, 1), more of it along the mean's step."""
    roots = np.array([math.sqrt(along), 1.0])
    gap = partial(mean_gap, along=along)
    value, neighbour = np.array([0.0]), np.array([1.0])

    def build(**changes: Any) -> LiftedGaussian:
        design = {"mean_gap": gap, "log_ratio": log_ratio, "mean_bound": GAP, "largest_variance": 1.0}
        if along != 1.0:
            design["noise_shape"] = np.diag([along, 1.0])
        return LiftedGaussian(two_points, dimension=2, smallest_variance=0.98, **{**design, **changes})

    def draws(mechanism: LiftedGaussian, data: Any, count: int) -> Matrix:
        plan = mechanism.plan()
        mean, covariance = two_points(data)
        rest = covariance / np.outer(roots, roots) - plan.covered_variance * np.eye(2)
        factor = symmetric_factor(rest, 1.0)
        return np.stack([roots * plan.draw(mean / roots, factor, mechanism.generator) for _ in range(count)])

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        # the first coordinate has the same law on both neighbours
        added = float(certificate.parameters["added_variance"])  # type: ignore[arg-type]
        return noise[:, 0] / math.sqrt(1 + along * added)

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "draws": draws,
        "residuals": residuals,
        "centre": lambda data: two_points(data)[0],
        "score": lambda certificate, noise: noise[:, 0],
        "malformed": (),
        "bad_records": (np.array([np.nan]), np.array([np.inf])),
    }


POINT, LABEL, NOISE = np.zeros((1, 1)), 3000.0, 1000.0


def process(name: str) -> dict[str, Any]:
    """`PrivateGaussianProcessRegressor` at one point; the neighbour has a record there, the other one is far away."""
    far = np.array([[1e3]])
    value, neighbour = (far, np.zeros(1)), (np.concatenate((far, POINT)), np.array([0.0, LABEL]))

    def build(**changes: Any) -> PrivateGaussianProcessRegressor:
        design = {"query_points": POINT, "observation_variance": NOISE, "label_bound": LABEL, "n_max": 2}
        return PrivateGaussianProcessRegressor(**{**design, **changes})

    def moments(data: Any) -> tuple[Matrix, Matrix]:
        return predictive(RBF(), *data, POINT, NOISE)

    def release(mechanism: PrivateGaussianProcessRegressor, data: Any) -> Release[Any]:
        mechanism.fit(*data)
        return Release(mechanism.values_, mechanism.certificate_)

    def draws(mechanism: PrivateGaussianProcessRegressor, data: Any, count: int) -> Matrix:
        plan = mechanism.plan()
        mean, variance = moments(data)
        factor = np.diag(np.sqrt(variance - plan.covered_variance))
        return np.stack([plan.draw(mean, factor, mechanism.generator) for _ in range(count)])

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        # one record moves this posterior's variance by less than the test could see
        spread = moments(value)[1] + float(certificate.parameters["added_variance"])  # type: ignore[arg-type]
        return noise / np.sqrt(spread)

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "draws": draws,
        "residuals": residuals,
        "centre": lambda data: moments(data)[0],
        "score": lambda certificate, noise: noise[:, 0],
        "release": release,
        "malformed": ((far, None),),
        "bad_records": ((np.array([[np.nan], [0.0]]), np.array([1.0, np.inf])), (far[:0], np.zeros(0))),
    }


PRIOR = 0.03


def logistic(name: str) -> dict[str, Any]:
    """`PrivateBayesianLogisticRegression` of one column: many small rows leave the neighbour's long one all wrong.

    Its gradient is then nearly its length, and the small rows have next to no curvature: it moves the coefficient by
    nearly row_norm/regularization, the most there is.
    """
    small, long = np.full((923, 1), -2.6e-3), np.ones((1, 1))
    value, neighbour = (small, np.ones(923)), (np.concatenate((small, long)), np.ones(924))

    def build(**changes: Any) -> PrivateBayesianLogisticRegression:
        return PrivateBayesianLogisticRegression(**{"regularization": PRIOR, "classes": [0, 1], **changes})

    def release(mechanism: PrivateBayesianLogisticRegression, data: Any) -> Release[Any]:
        mechanism.fit(*data)
        return Release(mechanism.coef_[0], mechanism.certificate_)

    def draws(mechanism: PrivateBayesianLogisticRegression, data: Any, count: int) -> Matrix:
        plan, factor = mechanism.plan(), bohning_factor(data[0], PRIOR)
        return np.stack([plan.draw(centre(data), factor, mechanism.generator) for _ in range(count)])

    def centre(data: Any) -> Matrix:
        return minimiser(data[0], PRIOR, 1e-9)

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        # one record moves this posterior's variance by less than the test could see
        return noise / math.sqrt(1 / PRIOR + float(certificate.parameters["added_variance"]))  # type: ignore[arg-type]

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "draws": draws,
        "residuals": residuals,
        "centre": centre,
        "score": lambda certificate, noise: noise[:, 0],
        "release": release,
        "malformed": ((small, None), (small * 1j, np.ones(923)), (small, np.ones(9))),
        "bad_records": ((np.array([[np.nan], [0.0], [1.0]]), np.array([1.0, np.nan, 7.0])), (small[:0], np.ones(0))),
    }
