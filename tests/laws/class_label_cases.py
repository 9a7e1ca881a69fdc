"""Class-label noise under the laws: the data is the secret label of a constant query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import ClassLabelNoise

Matrix = NDArray[np.float64]

MEANS = np.array([[0.1, -7.3], [1.4, -6.0], [0.8, -6.1]])


def class_label(name: str) -> dict[str, Any]:
    """Three labels, one covariance; labels 0 and 1 lie farthest apart."""

    def build(**changes: Any) -> ClassLabelNoise:
        return ClassLabelNoise(**changes, noise_means=False, common_covariance=True)

    def designed(mechanism: ClassLabelNoise) -> ClassLabelNoise:
        return mechanism if hasattr(mechanism, "plan_") else mechanism.design(MEANS)

    def draws(mechanism: ClassLabelNoise, label: int, count: int) -> Matrix:
        plan = designed(mechanism).plan_
        return np.stack([plan.draw(label, MEANS[label], mechanism.generator) for _ in range(count)])

    def release(mechanism: ClassLabelNoise, label: int) -> Release[Any]:
        return designed(mechanism).release(label)

    def covariance(certificate: Certificate) -> Matrix:
        return np.asarray(certificate.parameters["noise_covariances"])[0]

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(noise @ np.linalg.solve(covariance(certificate), MEANS[1] - MEANS[0]))

    return {
        "name": name,
        "build": build,
        "value": 0,
        "neighbour": 1,
        "centre": lambda label: MEANS[label],
        "draws": draws,
        "residuals": residuals,
        "score": score,
        "release": release,
        "malformed": (3, -1, None, "0", (0, 1)),
    }
