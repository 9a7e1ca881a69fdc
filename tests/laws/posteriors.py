"""Cases of lifted Gaussian outputs: a two-point algorithm that attains its envelope, and a Gaussian process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import LiftedGaussian, PrivateGaussianProcessRegressor
from gaussveil.mechanisms.gaussian_output import symmetric_factor
from gaussveil.mechanisms.gp import RBF, predictive

Matrix = NDArray[np.float64]

GAP = 3.0


def two_points(data: Any) -> tuple[Matrix, Matrix]:
    """Without the record N(0, I), with it N((3, 0), diag(1, 0.98)): the worst mean lies across the moving variance."""
    record = float(np.asarray(data, dtype=np.float64).sum())
    return np.array([GAP * record, 0.0]), np.diag([1.0, 1.0 - record / 50])


def mean_gap(variance: float) -> float:
    return GAP / math.sqrt(1 + variance)


def log_ratio(variance: float) -> float:
    return math.log((1 + variance) / (0.98 + variance))


def lifted(name: str) -> dict[str, Any]:
    """`LiftedGaussian` of `two_points`."""
    value, neighbour = np.array([0.0]), np.array([1.0])

    def build(**changes: Any) -> LiftedGaussian:
        design = {"mean_gap": mean_gap, "log_ratio": log_ratio, "mean_bound": GAP, "largest_variance": 1.0}
        return LiftedGaussian(two_points, dimension=2, smallest_variance=0.98, **{**design, **changes})

    def draws(mechanism: LiftedGaussian, data: Any, count: int) -> Matrix:
        plan = mechanism.plan()
        mean, covariance = two_points(data)
        factor = symmetric_factor(covariance - plan.covered_variance * np.eye(2), 1.0)
        return np.stack([plan.draw(mean, factor, mechanism.generator) for _ in range(count)])

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        # the first coordinate has the same law on both neighbours
        return noise[:, 0] / math.sqrt(1 + float(certificate.parameters["added_variance"]))  # type: ignore[arg-type]

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "draws": draws,
        "residuals": residuals,
        "centre": lambda data: two_points(data)[0],
        "score": lambda certificate, noise: noise[:, 0],
        "malformed": (np.array([np.nan]), np.array([np.inf])),
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
        "bad_records": ((np.array([[np.nan], [0.0]]), np.array([1.0, np.inf])),),
    }
