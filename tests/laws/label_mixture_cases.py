"""The label mixture under the laws: everything that the passes of its method "sums" hand out for two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from gaussveil.accounting import Certificate
from gaussveil.mechanisms import PrivateLabelMixture
from gaussveil.mechanisms.mixture.budget import RADIUS_BINS
from gaussveil.mechanisms.mixture.records import read_records
from gaussveil.mechanisms.mixture.stages import Surroundings, for_stages, run_stages

from .mixture_cases import Data, Matrix, RecordedPasses, blocks, grid, release

# Only the first record has a label. It is so far away that it is clipped in every pass, whatever came out before.
FEATURES = np.concatenate([[1e9, -1e9], np.linspace(-1.0, 1.0, 299)])[:, None]
RADIUS = float(np.quantile(np.abs(FEATURES), 0.99))


def labelled(label: int) -> Data:
    labels: NDArray[np.int64] = np.full(len(FEATURES), -1)
    labels[0] = label
    return FEATURES, labels


def build(**changes: Any) -> PrivateLabelMixture:
    return PrivateLabelMixture(**{"classes": [0, 1], "method": "sums", **changes})


def draws(mechanism: PrivateLabelMixture, data: Data, count: int) -> Matrix:
    """One fit of many pairs of classes, each with a copy of the labelled record: what is handed out for a pair."""
    classes = list(range(2 * count))
    rows, labels = np.repeat(data[0][:1], count, axis=0), data[1][0] + 2 * np.arange(count)
    records = read_records(rows, labels, classes=classes, columns=None)
    shift = float(mechanism.plan(*data).parameters["mean_shift"]) / np.sqrt(2)  # type: ignore[arg-type]
    passes = RecordedPasses(records.source, records.columns, records.group, 2 * count, 1, 2, shift, mechanism.generator)
    size = len(FEATURES) * count
    run_stages(passes, Surroundings(RADIUS, np.zeros(1), size), for_stages(shift))
    return np.concatenate(passes.__dict__["outputs"], axis=1).reshape(count, -1)


def centre(data: Data) -> Matrix:
    """What the labelled record adds to the sums of its class."""
    inner = build(epsilon=1.0, delta=0.2).plan(*data).parameters["noise"]["radius of the first sums"]  # type: ignore[index]
    one = [1.0, inner, *[0.0] * (RADIUS_BINS - 1), 1.0, *[1.0, 1.0, 1.0] * 4]
    return np.outer(np.arange(2) == data[1][0], one).ravel()


def covariance(certificate: Certificate) -> Matrix:
    return np.asarray(block_diag(*blocks(certificate), *blocks(certificate)))


def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
    return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)


def score(certificate: Certificate, noise: Matrix) -> Matrix:
    return np.asarray(noise @ np.linalg.solve(covariance(certificate), centre(labelled(1)) - centre(labelled(0))))


def label_mixture(name: str) -> dict[str, Any]:
    """`PrivateLabelMixture` of two classes in one column; the neighbour has another label."""
    labels = np.zeros(8, dtype=np.int64)
    return {
        "name": name,
        "build": build,
        "value": labelled(0),
        "neighbour": labelled(1),
        "centre": centre,
        "draws": draws,
        "residuals": residuals,
        "score": score,
        "grid": lambda certificate: grid(certificate, 2),
        "release": release,
        "malformed": (
            (None, labels),
            (np.zeros((8, 1)), None),
            (np.zeros(8), labels),
            (np.array([["a"]] * 8), labels),
            (np.zeros((3, 1)), labels[:3]),
            (np.zeros((8, 0)), labels),
            (np.full((8, 1), 1e300), labels),
        ),
        "bad_records": ((np.array([[np.nan], [np.inf], *[[0.5]] * 6]), np.array([0, 0, 7, 7, 7, 7, 7, 7])),),
    }
